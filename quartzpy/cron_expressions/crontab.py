"""Standard crontab expressions: parsed by croniter, moved through the zones by our own timetable's rules.

croniter says which wall-clock times an expression means. It moves a fixed time into the hour that comes again in
autumn, and so fires it twice: the second is left out here. A croniter is not safe between threads, so each answer
makes its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from croniter import CroniterBadDateError, CroniterError, croniter

from quartzpy.errors import InvalidCronError
from quartzpy.instants import as_instant, zone

MAX_LENGTH = 250
_FIELDS = ("minutes", "hours", "day-of-month", "month", "day-of-week")
_SECOND = timedelta(seconds=1)
# Beyond these, looking 50 years on or back would leave the years that there are.
_EARLIEST, _LATEST = datetime(52, 1, 1, tzinfo=UTC), datetime(9_948, 1, 1, tzinfo=UTC)
_RHYTHM = re.compile(r"[*/-]")
# croniter draws such a field anew each time it is asked: no two nodes would agree.
_RANDOM = re.compile(r"(^|[\s,])[rR]([\s,(/]|$)")
_MOST_REPEATS = 8_000
"""Fires in the hour that comes again, at one a second and a bit more."""
_STEPS = (timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1))
_MOST_HOURS = 24 * 400


@dataclass(frozen=True, slots=True)
class CrontabExpression:
    """A crontab expression in a time zone: five fields, six with seconds, or `@daily` and its kin.

    Minutes, hours, day of month, month, day of week (Sunday is 0 or 7); a sixth field is seconds, as in croniter, or
    comes first with `seconds_first`. Where both day fields are given, either may match. A fixed time fires once on
    the autumn day, on its first pass, and at the end of the gap in spring; a rhythm (a wildcard, step or range in
    seconds, minutes or hours) goes through both passes.

    Raises:
        InvalidCronError: the text is wrong.
        UnknownTimeZoneError: no such zone.
    """

    text: str
    time_zone: str = "UTC"
    seconds_first: bool = False

    def __post_init__(self) -> None:
        zone(self.time_zone)
        if not isinstance(self.text, str):
            raise InvalidCronError(f"crontab: must be str (got {type(self.text).__name__})", expression="")
        if len(self.text) > MAX_LENGTH:
            raise InvalidCronError(
                f"crontab: {len(self.text)} characters, at most {MAX_LENGTH}",
                expression=self.text,
                position=MAX_LENGTH,
                allowed=f"{MAX_LENGTH} characters",
            )
        text = " ".join(self.text.split())
        object.__setattr__(self, "text", text.lower() if text.startswith("@") else text)
        count = len(text.split())
        if not text.startswith("@") and count not in (5, 6):
            raise InvalidCronError(
                f"crontab: expected 5 fields ({', '.join(_FIELDS)}) or 6 with seconds (got {count});"
                " for Quartz's dialect use CronTrigger(...)",
                expression=self.text,
                position=len(self.text),
                allowed="5 or 6 fields",
            )
        if found := _RANDOM.search(text):
            raise InvalidCronError(
                "crontab: a random field ('R') would differ from node to node; spread with Jitter instead",
                expression=text,
                position=found.start(),
                allowed="numbers, names, * , - / L #",
            )
        try:
            self._expanded()
        except (CroniterError, ValueError, KeyError) as error:
            raise InvalidCronError(
                f"crontab: {error}", expression=text, allowed="numbers, names, * , - / L #"
            ) from error

    def _expanded(self) -> list[list[Any]]:
        """The fields' values as croniter reads them, '*' for all: minutes, hours, days, months, weekdays, seconds."""
        fields: list[list[Any]] = croniter.expand(
            self.text, second_at_beginning=self._starts_with_seconds, strict=True
        )[0]
        return fields

    @property
    def _has_seconds(self) -> bool:
        return not self.text.startswith("@") and len(self.text.split()) == 6

    @property
    def _starts_with_seconds(self) -> bool:
        return self.seconds_first and self._has_seconds

    @property
    def _fires_twice(self) -> bool:
        """Whether it is a rhythm, which goes on through an hour that comes again."""
        if self.text.startswith("@"):
            return self.text == "@hourly"
        fields = self.text.split()
        if not self._has_seconds:
            told = fields[:2]
        else:
            told = fields[:3] if self.seconds_first else [*fields[:2], fields[5]]
        return any(_RHYTHM.search(field) for field in told)

    def _iterator(self, start: datetime) -> Any:
        return croniter(
            self.text,
            start.astimezone(zone(self.time_zone)),
            ret_type=datetime,
            second_at_beginning=self._starts_with_seconds,
        )

    def _repeats(self, found: datetime) -> bool:
        """Whether a fixed time was there already, an hour ago by the sun and now by the clock."""
        if found.fold == 0 or self._fires_twice:
            return False
        # croniter marks all that it finds backwards as second passes.
        return found.utcoffset() != found.replace(fold=0).utcoffset()

    def next_after(self, instant: datetime) -> datetime | None:
        """The first instant strictly after `instant`, in UTC; None where there is none within 50 years."""
        instant = as_instant(instant, "instant")
        if instant >= _LATEST:
            return None
        iterator = self._iterator(instant)
        try:
            for _ in range(_MOST_REPEATS):
                found: datetime = iterator.get_next()
                if not self._repeats(found):
                    return found.astimezone(UTC)
        except CroniterBadDateError:
            pass
        return None

    def previous_before(self, instant: datetime) -> datetime | None:
        """The last instant strictly before `instant`, in UTC; None where there is none within 50 years."""
        instant = as_instant(instant, "instant")
        if instant <= _EARLIEST:
            return None
        iterator = self._iterator(min(instant, _LATEST))
        try:
            for _ in range(_MOST_REPEATS):
                found: datetime = iterator.get_prev()
                if not self._repeats(found):
                    return found.astimezone(UTC)
        except CroniterBadDateError:
            pass
        return None

    def is_satisfied_by(self, instant: datetime) -> bool:
        """Whether the second that `instant` lies in matches."""
        second = as_instant(instant, "instant").replace(microsecond=0)
        return self.next_after(second - _SECOND) == second

    def next_invalid_after(self, instant: datetime) -> datetime | None:
        """The first whole second after that of `instant` which does not match; None where all do for a year."""
        fields = self._expanded() if self._has_seconds else [*self._expanded(), [0]]
        if all(values == ["*"] for values in fields):
            return None
        minutes, seconds = fields[0], fields[5]
        at = as_instant(instant, "instant").replace(microsecond=0) + _SECOND
        # What fills whole minutes or hours is gone through by minutes or hours.
        step = _STEPS[0 if seconds != ["*"] else 1 if minutes != ["*"] else 2]
        for _ in range(_MOST_HOURS):
            if not self.is_satisfied_by(at):
                return at
            since = timedelta(seconds=at.second, minutes=at.minute if step == _STEPS[2] else 0)
            at += step - (since if step > _SECOND else timedelta())
        return None

    def upcoming(self, instant: datetime, count: int) -> list[datetime]:
        """The first `count` instants strictly after `instant`, fewer where there are no more."""
        found: list[datetime] = []
        at: datetime | None = as_instant(instant, "instant")
        while len(found) < count and at is not None:
            at = self.next_after(at)
            if at is not None:
                found.append(at)
        return found


@lru_cache(maxsize=4096)
def crontab_expression(text: str, time_zone: str, seconds_first: bool) -> CrontabExpression:
    """The same as `CrontabExpression(...)`, made once for all who ask for equal values."""
    return CrontabExpression(text, time_zone, seconds_first)
