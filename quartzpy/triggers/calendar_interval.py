"""Fires at intervals as people count them: every 2 days, every month, every year."""

from __future__ import annotations

import calendar as gregorian
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from itertools import count
from typing import Any, ClassVar, Self

from quartzpy.errors import InvalidTriggerError
from quartzpy.instants import as_instant, zone
from quartzpy.keys import DEFAULT_GROUP
from quartzpy.triggers.recurring import LOOK_AHEAD, RecurringTrigger

MAX_INTERVAL = 2**31 - 1
# In so many months the Gregorian calendar comes round: who is not cut short by then never is.
_GREGORIAN_CYCLE = 4800


class IntervalUnit(StrEnum):
    """What the interval of a trigger counts."""

    SECOND = "second"
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    YEAR = "year"


_ELAPSED = {
    IntervalUnit.SECOND: timedelta(seconds=1),
    IntervalUnit.MINUTE: timedelta(minutes=1),
    IntervalUnit.HOUR: timedelta(hours=1),
}
_DAYS = {IntervalUnit.DAY: 1, IntervalUnit.WEEK: 7}
_MONTHS = {IntervalUnit.MONTH: 1, IntervalUnit.YEAR: 12}


@dataclass(frozen=True)
class CalendarIntervalTrigger(RecurringTrigger):
    """Fires at its start and then every `interval` units, until before its end.

    Seconds, minutes and hours count elapsed time. Days and longer units keep the start's time of day on the
    wall clock of `time_zone`: of a time that comes twice that day the first counts, and where the clock
    is put forward over it the fire comes as much later (`skip_day_if_hour_does_not_exist`: not at all).
    Months count from one fire to the next, so that one from January 31 fires on February 28, March 28, ...

    `preserve_hour_of_day` is kept for the sake of Quartz: the time of day is preserved in any case.
    """

    kind: ClassVar[str] = "calendar_interval"

    name: str = ""
    group: str = DEFAULT_GROUP
    _: KW_ONLY
    interval: int
    unit: IntervalUnit
    time_zone: str = "UTC"
    preserve_hour_of_day: bool = False
    skip_day_if_hour_does_not_exist: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.interval) is not int or not 1 <= self.interval <= MAX_INTERVAL:
            raise InvalidTriggerError(f"interval: a whole number from 1 to {MAX_INTERVAL} (got {self.interval!r})")
        try:
            object.__setattr__(self, "unit", IntervalUnit(self.unit))
        except ValueError:
            raise InvalidTriggerError(f"unit: one of {', '.join(IntervalUnit)} (got {self.unit!r})") from None
        zone(self.time_zone)
        for flag in ("preserve_hour_of_day", "skip_day_if_hour_does_not_exist"):
            if not isinstance(getattr(self, flag), bool):
                raise InvalidTriggerError(f"{flag}: must be bool (got {getattr(self, flag)!r})")

    def next_after(self, instant: datetime) -> datetime | None:
        instant = as_instant(instant, "instant")
        start = self.anchor
        if instant < start:
            found: datetime | None = start
        elif self.unit in _ELAPSED:
            found = self._next_elapsed(instant)
        else:
            found = self._next_on_wall_clock(instant)
        if found is None or (self.end_time is not None and found >= self.end_time):
            return None
        return found if found - max(instant, start) <= LOOK_AHEAD else None

    @property
    def final_fire_time(self) -> datetime | None:
        """The last fire time before the end; None without end."""
        if self.end_time is None or self.end_time <= self.anchor:
            return None
        if self.unit in _ELAPSED:
            step = self.interval * _ELAPSED[self.unit]
            before_end = self.end_time - self.anchor - timedelta.resolution
            return self.anchor + before_end // step * step
        latest = self._number_before(self.end_time) + 2
        fire_times = (self._fire_time(number) for number in range(latest, 0, -1))
        return next((at for at in fire_times if at is not None and at < self.end_time), self.anchor)

    def schedule(self) -> dict[str, Any]:
        return {
            "interval": self.interval,
            "unit": str(self.unit),
            "time_zone": self.time_zone,
            "preserve_hour_of_day": self.preserve_hour_of_day,
            "skip_day_if_hour_does_not_exist": self.skip_day_if_hour_does_not_exist,
        }

    @classmethod
    def from_schedule(cls, schedule: Mapping[str, Any], **common: Any) -> Self:
        return cls(**schedule, **common)

    def _next_elapsed(self, instant: datetime) -> datetime | None:
        try:
            step = self.interval * _ELAPSED[self.unit]
            return self.anchor + ((instant - self.anchor) // step + 1) * step
        except OverflowError:
            return None

    def _next_on_wall_clock(self, instant: datetime) -> datetime | None:
        latest = instant.date() + LOOK_AHEAD if instant.year + 100 < date.max.year else date.max
        for number in count(self._number_before(instant)):
            day = self._day(number)
            if day is None or day > latest:
                return None
            fire_time = self._fire_time(number)
            if fire_time is not None and fire_time > instant:
                return fire_time
        return None

    def _number_before(self, instant: datetime) -> int:
        """A number, from 1, that is at most one or two below that of the first fire after `instant`."""
        start, now = self._start_day, instant.astimezone(zone(self.time_zone)).date()
        if self.unit in _DAYS:
            intervals = (now - start).days // (self.interval * _DAYS[self.unit])
        else:
            months = (now.year - start.year) * 12 + now.month - start.month
            intervals = months // (self.interval * _MONTHS[self.unit])
        return max(1, intervals - 1)

    @property
    def _start_day(self) -> date:
        return self.anchor.astimezone(zone(self.time_zone)).date()

    def _day(self, number: int) -> date | None:
        """The date that is `number` intervals after the start's; None where dates end, with the year 9999."""
        start = self._start_day
        try:
            if self.unit in _DAYS:
                return start + timedelta(days=number * self.interval * _DAYS[self.unit])
            step = self.interval * _MONTHS[self.unit]
            year, month = _months_later(start.year, start.month, number * step)
            if year > date.max.year:
                return None
            cuts = _cut_short(start.year, start.month, start.day, step)
            return date(year, month, next((day for since, day in cuts if number >= since), start.day))
        except OverflowError:
            return None

    def _fire_time(self, number: int) -> datetime | None:
        """The instant of that fire; None where there is none that day, or no such day."""
        day = self._day(number)
        if day is None:
            return None
        time_zone = zone(self.time_zone)
        wall = datetime.combine(day, self.anchor.astimezone(time_zone).time())
        try:
            # A time that was skipped is read with the offset from before, and so comes later by the gap.
            fire_time = wall.replace(tzinfo=time_zone).astimezone(UTC)
        except OverflowError:
            return None
        if self.skip_day_if_hour_does_not_exist and fire_time.astimezone(time_zone).replace(tzinfo=None) != wall:
            return None
        return fire_time


def _months_later(year: int, month: int, months: int) -> tuple[int, int]:
    years, month_index = divmod(month - 1 + months, 12)
    return year + years, month_index + 1


@lru_cache(maxsize=1024)
def _cut_short(year: int, month: int, day: int, step: int) -> tuple[tuple[int, int], ...]:
    """Since which interval of `step` months the day of the month is which lower one, the last first.

    Empty for a day that every month on the way has.
    """
    cuts: list[tuple[int, int]] = []
    for number in range(1, _GREGORIAN_CYCLE // step + 2):
        if day <= 28:
            break
        there, then = _months_later(year, month, number * step)
        # The length of a month of the year 10000 is that of the year 2000's.
        length = gregorian.monthrange(2000 + there % 400, then)[1]
        if length < day:
            day = length
            cuts.append((number, day))
    return tuple(reversed(cuts))
