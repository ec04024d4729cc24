"""Calendars that exclude a range of times of day."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any, ClassVar, Self

from quartzpy.calendars.base import BaseCalendar
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
