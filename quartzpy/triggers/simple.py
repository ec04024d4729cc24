"""Simple triggers, which fire once, or repeatedly at a fixed interval counted from their start.

`every` and `at` return the two simplest of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, time, timedelta
from enum import StrEnum
from functools import partial
from typing import Any, ClassVar, Self, Unpack, assert_never

from quartzpy.budget import Budget
from quartzpy.calendars.calendar import Calendar
from quartzpy.checks import Check, optional, refuses, whole_number
from quartzpy.errors import InvalidTriggerError
from quartzpy.instants import LATEST, MAX_SPAN, Converted, Span, as_instant, as_span, short
from quartzpy.keys import DEFAULT_GROUP, check_name
from quartzpy.name_hints import INTERVAL_NAMES, TRIGGER_ARGUMENTS, constructor_hints
from quartzpy.states import Missed
from quartzpy.texts import quoted
from quartzpy.triggers.misfire import caught_up_from
from quartzpy.triggers.trigger import (
    FIRE_ALL,
    MAX_REFUSALS,
    MAX_REPEAT_COUNT,
    Trigger,
    TriggerOptions,
    TriggerProgress,
)

SHORTEST_INTERVAL = timedelta(milliseconds=1)
_MICROSECOND = timedelta(microseconds=1)
# The default of repeat_count: 0 without an interval, unlimited with one.
_BY_INTERVAL: Any = object()
# If a calendar delays a fire time by more than this, the trigger is considered never to fire again.
_HORIZON = timedelta(days=36_525)
TIME_OF_DAY = "a time of day is written as cron.daily_at(2, 30)"


class SimpleMisfire(StrEnum):
    """The misfire instructions of simple triggers: those of Quartz, and FIRE_ALL.

    SMART is FIRE_NOW for a trigger that fires once, RESCHEDULE_NEXT_WITH_REMAINING_COUNT for one that repeats for ever,
    and RESCHEDULE_NOW_WITH_EXISTING_REPEAT_COUNT for the others. FIRE_NOW on a repeating trigger means
    RESCHEDULE_NOW_WITH_REMAINING_REPEAT_COUNT. FIRE_ALL catches up on the last missed fires, within the bounds
    `catch_up_max` and `catch_up_within` of the trigger; fires that it skips count as repeats.
    """

    SMART = "smart"
    IGNORE = "ignore"
    FIRE_NOW = "fire_now"
    RESCHEDULE_NOW_WITH_EXISTING_REPEAT_COUNT = "reschedule_now_with_existing_repeat_count"
    RESCHEDULE_NOW_WITH_REMAINING_REPEAT_COUNT = "reschedule_now_with_remaining_repeat_count"
    RESCHEDULE_NEXT_WITH_REMAINING_COUNT = "reschedule_next_with_remaining_count"
    RESCHEDULE_NEXT_WITH_EXISTING_COUNT = "reschedule_next_with_existing_count"
    FIRE_ALL = FIRE_ALL


@constructor_hints(TRIGGER_ARGUMENTS)
@dataclass(frozen=True)
class SimpleTrigger(Trigger):
    """A trigger that fires at its start, and then repeatedly after each `interval`.

    Without an `interval` it fires once. With one it repeats for ever, unless `repeat_count` gives the number of fires
    after the first. The end time is exclusive, as in Quartz.
    """

    _name_hints: ClassVar[Mapping[str, str]] = INTERVAL_NAMES
    kind: ClassVar[str] = "simple"
    misfire_type: ClassVar[type[StrEnum]] = SimpleMisfire
    derives_nothing: ClassVar[bool] = True
    instructions: ClassVar[Mapping[Missed, StrEnum]] = {
        Missed.SKIP: SimpleMisfire.RESCHEDULE_NEXT_WITH_REMAINING_COUNT,
        Missed.ONCE: SimpleMisfire.FIRE_NOW,
    }

    name: str | None = None
    group: str = DEFAULT_GROUP
    interval: Converted[Span, timedelta] = Converted(timedelta())
    repeat_count: int | None = _BY_INTERVAL
    rescheduled_from: tuple[datetime, int | None] | None = field(default=None, compare=False, repr=False, kw_only=True)
    """The original start time and repeat count, if a misfire instruction has changed them."""

    _checks: ClassVar[Mapping[str, Check]] = {
        "interval": partial(as_span, subject="interval", error=InvalidTriggerError),
        "repeat_count": optional(
            whole_number(
                0,
                MAX_REPEAT_COUNT,
                f"repeat_count: must be from 0 to {MAX_REPEAT_COUNT}, or None to repeat for ever",
                InvalidTriggerError,
            )
        ),
    }

    @refuses("repeat_count", "interval")
    def _take_repeat_count(self) -> None:
        if self.repeat_count is _BY_INTERVAL:
            object.__setattr__(self, "repeat_count", None if self.interval else 0)

    @refuses("interval", "repeat_count")
    def _check_interval(self) -> None:
        shortest = SHORTEST_INTERVAL if self.repeat_count != 0 else timedelta()
        if self.interval < shortest:
            raise InvalidTriggerError(f"interval: must be at least 1 ms (got {self.interval})")

    def next_after(self, instant: datetime) -> datetime | None:
        return self._fire_time_after(instant, self.anchor)

    def _fire_time_after(self, instant: datetime, start: datetime) -> datetime | None:
        if self.repeat_count == 0 and instant >= start:
            return None
        if self.end_time is not None and instant >= self.end_time:
            return None
        if instant < start:
            return start
        fires = (instant - start) // self.interval + 1
        if self.repeat_count is not None and fires > self.repeat_count:
            return None
        try:
            following = start + fires * self.interval
        except OverflowError:
            return None
        return following if self.end_time is None or following < self.end_time else None

    def _included_from(self, candidate: datetime | None, calendar: Calendar | None) -> datetime | None:
        """Return `candidate` if the calendar includes it, otherwise the next fire time that it includes."""
        if calendar is None or candidate is None or calendar.is_included(candidate):
            return candidate
        latest = candidate + _HORIZON
        with Budget():
            for _ in range(MAX_REFUSALS):
                if candidate is None or candidate > latest:
                    return None
                included = calendar.next_included(candidate)
                if included is None:
                    return None
                if included == candidate:
                    return candidate
                candidate = self._fire_time_after(included - _MICROSECOND, self.anchor)
        return None

    def included_from(self, instant: datetime, calendar: Calendar | None) -> datetime | None:
        return self._included_from(self.next_after(instant - _MICROSECOND), calendar)

    def started(self, calendar: Calendar | None = None) -> TriggerProgress:
        return TriggerProgress(self._included_from(self.anchor, calendar))

    def triggered(self, progress: TriggerProgress, calendar: Calendar | None = None) -> TriggerProgress:
        fired_at = progress.next_fire_time
        times = progress.times_triggered + 1
        if fired_at is None or (self.repeat_count is not None and times > self.repeat_count):
            return TriggerProgress(None, fired_at, times)
        following = self._included_from(self._fire_time_after(fired_at, self.anchor), calendar)
        return TriggerProgress(following, fired_at, times)

    def following(self, progress: TriggerProgress, calendar: Calendar | None, count: int) -> list[datetime]:
        # Without a calendar the instants are a sum each: many triggers are stored by one call.
        first = progress.next_fire_time
        if calendar is not None or first is None or first < self.anchor or self.repeat_count == 0:
            return super().following(progress, calendar, count)
        interval = self.interval
        # The next fire time may lie between two instants of the schedule, if a misfire instruction set it.
        passed, beyond = divmod(first - self.anchor, interval)
        if self.repeat_count is not None:
            count = min(count, self.repeat_count - progress.times_triggered, self.repeat_count - passed)
        last = first - beyond
        instants = []
        try:
            for _ in range(count):
                last += interval
                if self.end_time is not None and last >= self.end_time:
                    break
                instants.append(last)
        except OverflowError:
            pass
        return instants

    def skipping_to(self, progress: TriggerProgress, following: datetime | None) -> TriggerProgress:
        # Skipped fires are among those that the trigger was given: no later ones take their place.
        skipped = 0 if following is None else self._missed(progress, following)
        return TriggerProgress(following, progress.previous_fire_time, progress.times_triggered + skipped)

    def _instruction(self) -> SimpleMisfire:
        """Return the instruction, with SMART and the double meaning of FIRE_NOW resolved."""
        match SimpleMisfire(self.misfire):
            case SimpleMisfire.SMART:
                if self.repeat_count == 0:
                    return SimpleMisfire.FIRE_NOW
                if self.repeat_count is None:
                    return SimpleMisfire.RESCHEDULE_NEXT_WITH_REMAINING_COUNT
                return SimpleMisfire.RESCHEDULE_NOW_WITH_EXISTING_REPEAT_COUNT
            case SimpleMisfire.FIRE_NOW if self.repeat_count != 0:
                return SimpleMisfire.RESCHEDULE_NOW_WITH_REMAINING_REPEAT_COUNT
            case instruction:
                return instruction

    def after_misfire(
        self, progress: TriggerProgress, calendar: Calendar | None = None, *, now: datetime
    ) -> tuple[Self, TriggerProgress]:
        instruction = self._instruction()
        match instruction:
            case SimpleMisfire.IGNORE | SimpleMisfire.SMART:
                return self, progress
            case SimpleMisfire.FIRE_NOW:
                return self, replace(progress, next_fire_time=now)
            case SimpleMisfire.FIRE_ALL:
                return self, self._caught_up(progress, calendar, now)
            case SimpleMisfire.RESCHEDULE_NEXT_WITH_EXISTING_COUNT | SimpleMisfire.RESCHEDULE_NEXT_WITH_REMAINING_COUNT:
                return self, self._moved_to_next(progress, calendar, now, instruction)
            case (
                SimpleMisfire.RESCHEDULE_NOW_WITH_EXISTING_REPEAT_COUNT
                | SimpleMisfire.RESCHEDULE_NOW_WITH_REMAINING_REPEAT_COUNT
            ):
                return self._restarted(progress, now, instruction)
        assert_never(instruction)

    def _missed(self, progress: TriggerProgress, until: datetime) -> int:
        if progress.next_fire_time is None or self.interval < SHORTEST_INTERVAL:
            return 0
        return (until - progress.next_fire_time) // self.interval

    def _caught_up(self, progress: TriggerProgress, calendar: Calendar | None, now: datetime) -> TriggerProgress:
        if progress.next_fire_time is None:
            return progress
        following = caught_up_from(self, progress.next_fire_time, calendar, now)
        skipped = 0 if following is None else self._missed(progress, following)
        return replace(progress, next_fire_time=following, times_triggered=progress.times_triggered + skipped)

    def _moved_to_next(
        self, progress: TriggerProgress, calendar: Calendar | None, now: datetime, instruction: SimpleMisfire
    ) -> TriggerProgress:
        if self.repeat_count is not None and progress.times_triggered > self.repeat_count:
            return replace(progress, next_fire_time=None)
        following = self._included_from(self._fire_time_after(now, self.anchor), calendar)
        times = progress.times_triggered
        if instruction is SimpleMisfire.RESCHEDULE_NEXT_WITH_REMAINING_COUNT and following is not None:
            times += self._missed(progress, following)
        return TriggerProgress(following, progress.previous_fire_time, times)

    def _restarted(
        self, progress: TriggerProgress, now: datetime, instruction: SimpleMisfire
    ) -> tuple[Self, TriggerProgress]:
        """Restart the schedule at `now`, with the repeats that are left."""
        count, times = self.repeat_count, progress.times_triggered
        original = self.rescheduled_from or (self.anchor, count)
        if count:
            done = times
            if instruction is SimpleMisfire.RESCHEDULE_NOW_WITH_REMAINING_REPEAT_COUNT:
                done += self._missed(progress, now)
            count, times = max(0, count - done), 0
        if self.end_time is not None and self.end_time < now:
            ended = replace(self, repeat_count=count, rescheduled_from=original)
            return ended, replace(progress, next_fire_time=None, times_triggered=times)
        restarted = replace(self, repeat_count=count, start_time=now, rescheduled_from=original)
        return restarted, replace(progress, next_fire_time=now, times_triggered=times)

    @property
    def final_fire_time(self) -> datetime | None:
        if self.repeat_count == 0:
            return self.anchor
        if self.repeat_count is not None:
            try:
                last = self.anchor + self.repeat_count * self.interval
            except OverflowError:
                last = LATEST
            if self.end_time is None or last < self.end_time:
                return last
        if self.end_time is None or self.end_time < self.anchor:
            return None
        # The end is exclusive.
        return (
            self.anchor + max(timedelta(), self.end_time - self.anchor - _MICROSECOND) // self.interval * self.interval
        )

    @property
    def ignores_misfires(self) -> bool:
        return self.misfire == SimpleMisfire.IGNORE

    @property
    def text(self) -> str:
        if not self.interval or self.repeat_count == 0:
            return "once"
        times = "" if self.repeat_count is None else f", {self.repeat_count + 1} times"
        return f"every {short(self.interval)}{times}"

    @property
    def words(self) -> str:
        text = self.text
        return text if text != "once" or self.start_time is None else f"once, at {self.start_time.isoformat()}"

    def schedule(self) -> dict[str, Any]:
        written: dict[str, Any] = {"interval_us": self.interval // _MICROSECOND, "repeat_count": self.repeat_count}
        if self.rescheduled_from is not None:
            start, count = self.rescheduled_from
            written["rescheduled_from"] = [start.isoformat(), count]
        return written

    def _declared(self) -> tuple[datetime | None, object]:
        start, count = self.rescheduled_from or (self.start_time, self.repeat_count)
        return start, (self.interval, count)

    @classmethod
    def from_schedule(cls, schedule: Mapping[str, Any], **common: Any) -> Self:
        changed = schedule.get("rescheduled_from")
        return cls(
            interval=timedelta(microseconds=schedule["interval_us"]),
            repeat_count=schedule["repeat_count"],
            rescheduled_from=None if changed is None else (datetime.fromisoformat(changed[0]), changed[1]),
            **common,
        )


def similar(pattern: SimpleTrigger, name: str, start_time: datetime) -> SimpleTrigger:
    """Return a trigger without an end time that differs from `pattern` only in its name and its start time.

    The other values are not validated again, because very many similar triggers may be read at a time.

    Raises:
        InvalidKeyError, InvalidTriggerError: the name or the start time is wrong.
    """
    check_name(name, "trigger name")
    return pattern._with(name=name, start_time=as_instant(start_time, "start_time"))


def every(
    interval: Span | None = None,
    name: str | None = None,
    group: str = DEFAULT_GROUP,
    *,
    weeks: float = 0,
    days: float = 0,
    hours: float = 0,
    minutes: float = 0,
    seconds: float = 0,
    repeat_count: int | None = None,
    start_time: datetime | None = None,
    **options: Unpack[TriggerOptions],
) -> SimpleTrigger:
    """Return a trigger that fires immediately and then at an interval: `every("10s")`, `every(minutes=5)`.

    The interval is a length of time (a timedelta, a number of seconds, or a text such as "1h30m"), or the sum of
    `weeks`, `days`, `hours`, `minutes` and `seconds`. It counts elapsed time from `start_time`, which defaults to the
    moment of scheduling; an execution that takes long does not delay later fires. `repeat_count` is the number of
    fires after the first; without it the trigger repeats for ever. `options` are those of every trigger.
    `IntervalTrigger` is the same function under APScheduler's name.

    Raises:
        InvalidTriggerError: The interval is missing, given in both ways, negative or shorter than one millisecond; or
            another value is wrong.
    """
    units = {"weeks": weeks, "days": days, "hours": hours, "minutes": minutes, "seconds": seconds}
    for unit, number in units.items():
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise InvalidTriggerError(f"{unit}: must be a number (got {quoted(number)})")
    if options.keys() - TriggerOptions.__annotations__.keys():
        SimpleTrigger(name, group, **options)  # It raises the error that names the unknown argument.
    if (interval is not None) == any(units.values()):
        raise InvalidTriggerError(
            "interval: give it either as a length of time, every('5m'), or by units, every(minutes=5)"
        )
    if interval is None:
        try:
            interval = timedelta(**units)
        except (OverflowError, ValueError):
            raise InvalidTriggerError(f"interval: must be at most {MAX_SPAN.days} days") from None
    span = as_span(interval, "interval", InvalidTriggerError, above_zero=True)
    return SimpleTrigger(name, group, span, repeat_count, start_time=start_time, **options)


def at(
    run_date: datetime | str | None = None,
    name: str | None = None,
    group: str = DEFAULT_GROUP,
    **options: Unpack[TriggerOptions],
) -> SimpleTrigger:
    """Return a trigger that fires once at an instant: `at(datetime(2026, 12, 24, 18, tzinfo=UTC))`.

    The instant is a datetime with a time zone, or a text in ISO 8601 with an offset ("2026-12-24T18:00+01:00").
    Without an instant the trigger fires immediately. `options` are those of every trigger. `DateTrigger` is the same
    function under APScheduler's name.

    Raises:
        InvalidTriggerError: The instant is not a datetime or has no time zone, or another value is wrong.
    """
    instant: object = run_date
    if isinstance(run_date, time) or (isinstance(run_date, str) and is_time_of_day(run_date)):
        raise InvalidTriggerError(f"run_date: {TIME_OF_DAY}; at() needs a date too (got {quoted(run_date)})")
    if isinstance(run_date, str):
        try:
            instant = datetime.fromisoformat(run_date)
        except ValueError:
            raise InvalidTriggerError(
                f"run_date: must be a datetime, or a text such as '2026-12-24T18:00+01:00' (got {quoted(run_date)})"
            ) from None
    start = None if instant is None else as_instant(instant, "run_date")
    return SimpleTrigger(name, group, start_time=start, **options)


def is_time_of_day(text: str) -> bool:
    """Return whether a text is a time of day, such as "02:30"."""
    return re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", text.strip()) is not None


IntervalTrigger = every
DateTrigger = at
