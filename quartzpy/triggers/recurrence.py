"""A trigger that fires by a recurrence rule of RFC 5545, such as every last Friday of the month."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Self

from quartzpy.budget import Budget
from quartzpy.checks import Check, refuses
from quartzpy.cron_expressions.transitions import Passes, zone_windows
from quartzpy.errors import InvalidTriggerError
from quartzpy.instants import as_instant, checked_zone, zone
from quartzpy.keys import DEFAULT_GROUP
from quartzpy.name_hints import TRIGGER_ARGUMENTS, constructor_hints
from quartzpy.triggers.recurrence_rule import RecurrenceSet, recurrence_set, split_start
from quartzpy.triggers.recurring import LOOK_AHEAD, RecurringTrigger
from quartzpy.triggers.trigger import check_order

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ONE_SECOND = timedelta(seconds=1)


@constructor_hints(TRIGGER_ARGUMENTS)
@dataclass(frozen=True)
class RecurrenceTrigger(RecurringTrigger):
    """Fires by a rule of RFC 5545: `RecurrenceTrigger("friday", rule="FREQ=MONTHLY;BYDAY=-1FR")`.

    `rule` is one RRULE, or several lines of RRULE, EXRULE, RDATE and EXDATE. The trigger's `start_time`, without its
    fraction of a second, is the rule's DTSTART on the wall clock of `time_zone`. A rule that begins with a DTSTART line
    sets `start_time`, and also `time_zone` if that line has a TZID. The trigger fires at its start only if the rule
    includes that time. The rule ends with its COUNT (at most 100000), its UNTIL or `end_time`, which is inclusive.

    A wall-clock time that occurs twice fires the first time. One that the clock skips fires at the end of the gap, as
    cron times do; RFC 5545 contradicts itself here (section 3.3.10 omits the time, section 3.3.5 applies the offset
    from before the gap).

    The computation of fire times needs the dateutil library (the extra `rrule`) on every node.

    Raises:
        InvalidTriggerError: The rule is wrong.
        UnknownTimeZoneError: There is no such time zone.
    """

    kind: ClassVar[str] = "recurrence"
    derives_nothing: ClassVar[bool] = True

    name: str | None = None
    group: str = DEFAULT_GROUP
    _: KW_ONLY
    rule: str
    time_zone: str = "UTC"

    _checks: ClassVar[Mapping[str, Check]] = {"rule": lambda text: _text_of(text), "time_zone": checked_zone}

    @refuses("start_time")
    def _take_whole_seconds(self) -> None:
        if self.start_time is not None:
            object.__setattr__(self, "start_time", self._start_at(self.start_time))

    @refuses("rule")
    def _take_rule(self) -> None:
        rule, start, time_zone = split_start(self.rule)
        if start is not None:
            self._take_start(start, time_zone)
        object.__setattr__(self, "rule", recurrence_set(rule).text)

    def _start_at(self, instant: datetime) -> datetime:
        return instant.replace(microsecond=0)

    def _take_start(self, start: datetime, time_zone: str | None) -> None:
        if time_zone is not None and self.time_zone not in ("UTC", time_zone):
            raise InvalidTriggerError(f"time_zone: {self.time_zone!r}, but DTSTART of the rule has {time_zone!r}")
        time_zone = time_zone or self.time_zone
        rule_start = start if start.tzinfo is not None else start.replace(tzinfo=zone(time_zone))
        instant = self._start_at(as_instant(rule_start, "DTSTART"))
        if self.start_time is not None and self.start_time != instant:
            raise InvalidTriggerError(
                f"start_time: {self.start_time}, but DTSTART of the rule is {rule_start}; give one of them"
            )
        check_order(instant, self.end_time)
        object.__setattr__(self, "start_time", instant)
        object.__setattr__(self, "time_zone", checked_zone(time_zone))

    def next_after(self, instant: datetime) -> datetime | None:
        with Budget():
            return self._next_after(as_instant(instant, "instant"))

    def _next_after(self, instant: datetime) -> datetime | None:
        start = self.anchor
        since = max(instant, start - timedelta.resolution)
        try:
            start_on_wall = self._wall_time(start)
            near = start_on_wall if since < start else self._wall_time(since)
            for wall in self._recurrence.wall_times(start_on_wall, near, zone(self.time_zone), self._instant_of):
                following = self._instant_of(wall)
                if following > since:
                    is_over = self.end_time is not None and following > self.end_time
                    return None if is_over or following - since > LOOK_AHEAD else following
        except OverflowError:
            pass  # the end of the year 9999
        return None

    @property
    def final_fire_time(self) -> datetime | None:
        """The last fire time before the trigger or its rule ends; None if neither ends."""
        with Budget():
            return self._final_fire_time()

    def _final_fire_time(self) -> datetime | None:
        ends = (self.end_time, self._recurrence.end(self._wall_time(self.anchor)))
        nothing_after = min((end for end in ends if end is not None), default=None)
        final = None if nothing_after is None else self.first_from(self.anchor)
        if final is None or nothing_after is None:
            return None
        while nothing_after - final > timedelta.resolution:
            middle = final + (nothing_after - final) / 2
            later = self.next_after(middle)
            if later is None:
                nothing_after = middle
            else:
                final = later
        return final

    @property
    def text(self) -> str:
        return " ".join(self.rule.split())

    def schedule(self) -> dict[str, Any]:
        return {"rule": self.rule, "time_zone": self.time_zone}

    @classmethod
    def from_schedule(cls, schedule: Mapping[str, Any], **common: Any) -> Self:
        return cls(rule=schedule["rule"], time_zone=schedule["time_zone"], **common)

    @property
    def _recurrence(self) -> RecurrenceSet:
        return recurrence_set(self.rule)

    def _wall_time(self, instant: datetime) -> datetime:
        return instant.astimezone(zone(self.time_zone)).replace(tzinfo=None, fold=0)

    def _instant_of(self, wall: datetime) -> datetime:
        at = wall.replace(tzinfo=zone(self.time_zone))
        instant = at.astimezone(UTC)
        if self._wall_time(instant) != wall:
            after_gap = zone_windows(self.time_zone, Passes.FIRST).at((instant - _EPOCH) // _ONE_SECOND)
            return _EPOCH + timedelta(seconds=after_gap.start)
        # If the trigger starts on the second pass of a repeated hour, the first pass was before its start.
        return instant if instant >= self.anchor else at.replace(fold=1).astimezone(UTC)


def _text_of(text: object) -> str:
    if not isinstance(text, str):
        raise InvalidTriggerError(f"rule: must be text such as 'FREQ=DAILY' (got {type(text).__name__})")
    return text
