"""A trigger that fires at intervals of the calendar: every 2 days, every month, every year."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from itertools import count
from typing import Any, ClassVar, Self

from quartzpy.checks import Check, whole_number
from quartzpy.errors import InvalidTriggerError
from quartzpy.instants import Converted, as_instant, checked_zone, zone
from quartzpy.keys import DEFAULT_GROUP
from quartzpy.name_hints import TRIGGER_ARGUMENTS, constructor_hints
from quartzpy.texts import quoted
from quartzpy.triggers.date_series import DateSeries
from quartzpy.triggers.recurring import LOOK_AHEAD, RecurringTrigger

MAX_INTERVAL = 2**31 - 1


class IntervalUnit(StrEnum):
    """The unit of a trigger's interval."""

    SECOND = "second"
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    YEAR = "year"

    def every(self, interval: int) -> str:
        """Return an interval in words: "every 2 days"."""
        return f"every {self}" if interval == 1 else f"every {interval} {self}s"


_ELAPSED = {
    IntervalUnit.SECOND: timedelta(seconds=1),
    IntervalUnit.MINUTE: timedelta(minutes=1),
    IntervalUnit.HOUR: timedelta(hours=1),
}
_DAYS = {IntervalUnit.DAY: 1, IntervalUnit.WEEK: 7}
_MONTHS = {IntervalUnit.MONTH: 1, IntervalUnit.YEAR: 12}


@constructor_hints(TRIGGER_ARGUMENTS)
@dataclass(frozen=True)
class CalendarIntervalTrigger(RecurringTrigger):
    """Fires at its start and then every `interval` units. `end_time` is exclusive.

    Seconds, minutes and hours count elapsed time. Days and longer units keep the start's time of day on the wall clock
    of `time_zone`. If that time occurs twice on a day, the trigger fires the first time. If the clock skips it, the
    trigger fires later by the length of the gap, or not at all on that day with `skip_day_if_hour_does_not_exist`.
    Months count from one fire to the next, so a trigger that starts on January 31 fires on February 28, March 28, ...

    `preserve_hour_of_day` exists for compatibility with Quartz and has no effect: the time of day is always preserved.
    """

    kind: ClassVar[str] = "calendar_interval"
    derives_nothing: ClassVar[bool] = True

    name: str | None = None
    group: str = DEFAULT_GROUP
    _: KW_ONLY
    interval: int
    unit: Converted[IntervalUnit | str, IntervalUnit] = Converted()
    time_zone: str = "UTC"
    preserve_hour_of_day: bool = False
    skip_day_if_hour_does_not_exist: bool = False

    _checks: ClassVar[Mapping[str, Check]] = {
        "interval": whole_number(
            1, MAX_INTERVAL, f"interval: must be a whole number from 1 to {MAX_INTERVAL}", InvalidTriggerError
        ),
        "unit": lambda unit: _unit(unit),
        "time_zone": checked_zone,
        "preserve_hour_of_day": lambda flag: _flag(flag, "preserve_hour_of_day"),
        "skip_day_if_hour_does_not_exist": lambda flag: _flag(flag, "skip_day_if_hour_does_not_exist"),
    }

    def next_after(self, instant: datetime) -> datetime | None:
        instant = as_instant(instant, "instant")
        start = self.anchor
        if instant < start:
            following: datetime | None = start
        elif self.unit in _ELAPSED:
            following = self._next_elapsed(instant)
        else:
            following = self._next_on_wall_clock(instant)
        if following is None or (self.end_time is not None and following >= self.end_time):
            return None
        return following if following - max(instant, start) <= LOOK_AHEAD else None

    @property
    def final_fire_time(self) -> datetime | None:
        """The last fire time before the end time; None without an end time."""
        if self.end_time is None or self.end_time <= self.anchor:
            return None
        if self.unit in _ELAPSED:
            step = self.interval * _ELAPSED[self.unit]
            return self.anchor + (self.end_time - self.anchor - timedelta.resolution) // step * step
        end_day = self._day_of(self.end_time)
        for series in reversed(self._series_until(end_day)):
            for number in range(series.number_before(end_day) + 2, -1, -1):
                fire_time = self._on(series.nth(number))
                if fire_time is not None and fire_time < self.end_time:
                    return max(fire_time, self.anchor)
        return self.anchor

    @property
    def text(self) -> str:
        return self.unit.every(self.interval)

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
        today = self._day_of(instant)
        series = self._series_until(today)[-1]
        latest = today + LOOK_AHEAD if today.year + 101 < date.max.year else date.max
        for number in count(series.number_before(today)):
            day = series.nth(number)
            if day is None or day > latest:
                return None
            fire_time = self._on(day)
            if fire_time is not None and fire_time > instant:
                return fire_time
        return None

    def _day_of(self, instant: datetime) -> date:
        return instant.astimezone(zone(self.time_zone)).date()

    def _series_until(self, day: date) -> tuple[DateSeries, ...]:
        days, months = _DAYS.get(self.unit, 0), _MONTHS.get(self.unit, 0)
        series = DateSeries(self._day_of(self.anchor), self.interval * days, self.interval * months)
        # If a missing day is skipped, there is no fire on it from which the series could continue.
        return (series,) if self.skip_day_if_hour_does_not_exist else series.within(self.time_zone, day)

    def _on(self, day: date | None) -> datetime | None:
        """Return the fire time on a day of the series; None if there is none."""
        if day is None:
            return None
        time_zone = zone(self.time_zone)
        wall = datetime.combine(day, self.anchor.astimezone(time_zone).time().replace(fold=0))
        try:
            # A skipped time is read with the offset from before the gap, and is later by the length of the gap.
            fire_time = wall.replace(tzinfo=time_zone).astimezone(UTC)
        except OverflowError:
            return None
        is_moved = fire_time.astimezone(time_zone).replace(tzinfo=None) != wall
        return None if is_moved and self.skip_day_if_hour_does_not_exist else fire_time


def _unit(value: str) -> IntervalUnit:
    try:
        return IntervalUnit(value)
    except ValueError:
        raise InvalidTriggerError(f"unit: must be one of {', '.join(IntervalUnit)} (got {quoted(value)})") from None


def _flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidTriggerError(f"{name}: must be bool (got {quoted(value)})")
    return value
