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

_FIELDS = ("minutes", "hours", "day-of-month", "month", "day-of-week")
_SECOND = timedelta(seconds=1)
_RHYTHM = re.compile(r"[*/-]")
_MOST_REPEATS = 8_000
"""Fires in the hour that comes again, at one a second and a bit more."""


@dataclass(frozen=True, slots=True)
class CrontabExpression:
    """A crontab expression in a time zone: five fields, or `@daily` and its kin; with `seconds` a sixth in front.

    A fixed time fires once on the autumn day, on its first pass, and at the end of the gap in spring; a rhythm (a
    wildcard, step or range in minutes or hours) goes through both passes.

    Raises:
        InvalidCronError: the text is wrong.
        UnknownTimeZoneError: no such zone.
    """

    text: str
    time_zone: str = "UTC"
    seconds: bool = False

    def __post_init__(self) -> None:
        zone(self.time_zone)
        if not isinstance(self.text, str):
            raise InvalidCronError(f"crontab: must be str (got {type(self.text).__name__})", expression="")
        text = " ".join(self.text.split())
        object.__setattr__(self, "text", text)
        count = len(text.split())
        wanted = 6 if self.seconds else 5
        if not text.startswith("@") and count != wanted:
            raise InvalidCronError(
                f"crontab: expected {wanted} fields ({', '.join(_FIELDS)}) (got {count});"
                " for Quartz's dialect use CronTrigger(...)",
                expression=self.text,
            )
        try:
            croniter.expand(text, second_at_beginning=self.seconds, strict=True)
        except (CroniterError, ValueError, KeyError) as error:
            raise InvalidCronError(f"crontab: {error}", expression=text) from error

    @property
    def _fires_twice(self) -> bool:
        """Whether it is a rhythm, which goes on through an hour that comes again."""
        if self.text.startswith("@"):
            return self.text == "@hourly"
        fields = self.text.split()
        return any(_RHYTHM.search(field) for field in (fields[:3] if self.seconds else fields[:2]))

    def _iterator(self, start: datetime) -> Any:
        return croniter(
            self.text,
            start.astimezone(zone(self.time_zone)),
            ret_type=datetime,
            second_at_beginning=self.seconds,
        )

    def _repeats(self, found: datetime) -> bool:
        """Whether a fixed time was there already, an hour ago by the sun and now by the clock."""
        return found.fold == 1 and not self._fires_twice

    def next_after(self, instant: datetime) -> datetime | None:
        """The first instant strictly after `instant`, in UTC; None where there is none within 50 years."""
        iterator = self._iterator(as_instant(instant, "instant"))
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
        iterator = self._iterator(as_instant(instant, "instant"))
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
        """The first whole second after that of `instant` which does not match."""
        second = as_instant(instant, "instant").replace(microsecond=0) + _SECOND
        while self.is_satisfied_by(second):
            second += _SECOND
        return second

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
def crontab_expression(text: str, time_zone: str) -> CrontabExpression:
    """The same as `CrontabExpression(...)`, made once for all who ask for equal values."""
    return CrontabExpression(text, time_zone)
