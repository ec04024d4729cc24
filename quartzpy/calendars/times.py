"""Calendars that exclude times of day: a range of them, or the seconds that match a cron expression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from typing import Any, ClassVar, Self

from quartzpy.calendars.calendar import BaseCalendar
from quartzpy.cron_expressions.crontab import MAX_LENGTH
from quartzpy.cron_expressions.expression import CronExpression
from quartzpy.errors import InvalidCalendarError
from quartzpy.texts import quoted

_ONE_DAY = timedelta(days=1)
_ONE_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True)
class DailyCalendar(BaseCalendar):
    """A calendar that excludes the times from `start` to `end` on every day, including the millisecond of `end`.

    With `invert`, all other times are excluded instead. The range lies within one day: for a range across
    midnight, give the remaining range of the day and `invert`.
    """

    kind: ClassVar[str] = "daily"

    start: time
    end: time
    invert: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_time(self.start, "start")
        _check_time(self.end, "end")
        if not isinstance(self.invert, bool):
            raise InvalidCalendarError(f"invert: must be bool (got {quoted(self.invert)})")
        if self.end <= self.start:
            raise InvalidCalendarError(f"end {self.end} must be later in the day than start {self.start}")

    def next_wall_time(self, wall: datetime) -> datetime | None:
        midnight = wall.replace(hour=0, minute=0, second=0, microsecond=0)
        since_midnight = wall - midnight
        start = _since_midnight(self.start)
        stop = _since_midnight(self.end) + _ONE_MILLISECOND
        if self.invert:
            if since_midnight < start:
                return midnight + start
            return wall if since_midnight < stop else midnight + _ONE_DAY + start
        if not start <= since_midnight < stop:
            return wall
        if stop < _ONE_DAY:
            return midnight + stop
        return None if start == timedelta() else midnight + _ONE_DAY

    def rules(self) -> dict[str, Any]:
        return {"start": self.start.isoformat(), "end": self.end.isoformat(), "invert": self.invert}

    @classmethod
    def from_rules(cls, rules: Mapping[str, Any], **common: Any) -> Self:
        return cls(
            start=time.fromisoformat(rules["start"]),
            end=time.fromisoformat(rules["end"]),
            invert=rules["invert"],
            **common,
        )


def _check_time(value: object, subject: str) -> None:
    if not isinstance(value, time) or value.tzinfo is not None:
        raise InvalidCalendarError(f"{subject}: must be a datetime.time without time zone (got {quoted(value)})")
    if value.microsecond % 1000:
        raise InvalidCalendarError(f"{subject}: at most milliseconds (got {value})")


def _since_midnight(at: time) -> timedelta:
    return timedelta(hours=at.hour, minutes=at.minute, seconds=at.second, microseconds=at.microsecond)


@dataclass(frozen=True)
class CronCalendar(BaseCalendar):
    """A calendar that excludes every second whose wall-clock time matches `expression`.

    "* * 0-7,18-23 ? * *" includes only the hours from 8 to 18.

    Raises:
        InvalidCronError: `expression` is invalid.
    """

    kind: ClassVar[str] = "cron"

    expression: str
    # UTC neither skips nor repeats times, so in UTC the expression matches pure wall-clock times.
    _matcher: CronExpression = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.expression, str):
            raise InvalidCalendarError(f"expression: must be str (got {type(self.expression).__name__})")
        matcher = CronExpression(self.expression, "UTC")
        if len(matcher.text) > MAX_LENGTH:
            raise InvalidCalendarError(f"expression: {len(matcher.text)} characters, at most {MAX_LENGTH}")
        object.__setattr__(self, "_matcher", matcher)

    def includes_wall_time(self, wall: datetime) -> bool:
        return not self._matcher.is_satisfied_by(wall.replace(microsecond=0, tzinfo=UTC))

    def next_wall_time(self, wall: datetime) -> datetime | None:
        if self.includes_wall_time(wall):
            return wall
        included = self._matcher.next_invalid_after(wall.replace(microsecond=0, tzinfo=UTC))
        return None if included is None else included.replace(tzinfo=None)

    def rules(self) -> dict[str, Any]:
        return {"expression": self.expression}

    @classmethod
    def from_rules(cls, rules: Mapping[str, Any], **common: Any) -> Self:
        return cls(expression=rules["expression"], **common)
