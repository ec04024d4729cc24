"""A trigger that fires at intervals between two times of day, on chosen days of the week."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from typing import Any, ClassVar, Self

from quartzpy.calendars.calendar import Calendar
from quartzpy.calendars.days import EVERY_DAY, DayOfWeek, days_of_week
from quartzpy.checks import Check, checking, optional, refuses, whole_number
from quartzpy.cron_expressions.schedule import DaylightSaving
from quartzpy.errors import InvalidTriggerError
from quartzpy.instants import Converted, as_instant, checked_zone, zone
from quartzpy.keys import DEFAULT_GROUP
from quartzpy.name_hints import TRIGGER_ARGUMENTS, constructor_hints
from quartzpy.texts import quoted
from quartzpy.triggers.calendar_interval import IntervalUnit
from quartzpy.triggers.date_series import missing_dates
from quartzpy.triggers.recurring import RecurringTrigger
from quartzpy.triggers.trigger import MAX_REPEAT_COUNT, TriggerProgress

_UNITS = {
    IntervalUnit.SECOND: timedelta(seconds=1),
    IntervalUnit.MINUTE: timedelta(minutes=1),
    IntervalUnit.HOUR: timedelta(hours=1),
}
_ONE_SECOND = timedelta(seconds=1)
_ONE_DAY = timedelta(days=1)
# No daylight saving moves the clock by more than that.
_MAX_GAP_HOURS = 3
# These days contain one of the days of the week with a fire, even if a change of the clock removes the first one's.
_DAYS_TO_LOOK_AT = 22


@constructor_hints(TRIGGER_ARGUMENTS)
@dataclass(frozen=True)
class DailyTimeIntervalTrigger(RecurringTrigger):
    """Fires every `interval` units from `start_time_of_day` to `end_time_of_day` on each of `days_of_week`.

    The times of day are read on the wall clock of `time_zone`, and both are included. The interval, at most 24 hours,
    counts elapsed time and restarts on each day; an interval of 24 hours fires once a day. `repeat_count` is the number
    of fires after the first, over all days together, as in Quartz; None means no limit.

    If the clock skips the start time of day, the first fire of that day is later by the length of the gap. A day that a
    place skipped by changing its side of the date line has no fires. If the start time occurs twice, the first
    occurrence counts. `dst="quartz"` does as Quartz does: the second occurrence counts, an
    interval of 24 hours fires twice on a day of 25 hours, and after a gap the trigger stays late by its length until
    the next fire time is computed from a later day.
    """

    kind: ClassVar[str] = "daily_time_interval"
    derives_nothing: ClassVar[bool] = True

    name: str | None = None
    group: str = DEFAULT_GROUP
    _: KW_ONLY
    interval: int
    unit: Converted[IntervalUnit | str, IntervalUnit] = Converted()
    repeat_count: int | None = None
    start_time_of_day: time = time(0, 0, 0)
    end_time_of_day: time = time(23, 59, 59)
    days_of_week: Converted[Collection[int], frozenset[DayOfWeek]] = Converted(EVERY_DAY)
    time_zone: str = "UTC"
    dst: DaylightSaving | str = DaylightSaving.ONCE

    _checks: ClassVar[Mapping[str, Check]] = {
        "interval": lambda interval: _interval(interval),
        "unit": lambda unit: _unit(unit),
        "repeat_count": optional(
            whole_number(
                0, MAX_REPEAT_COUNT, f"repeat_count: must be from 0 to {MAX_REPEAT_COUNT}, or None", InvalidTriggerError
            )
        ),
        "start_time_of_day": checking(lambda at: _check_time(at, "start_time_of_day")),
        "end_time_of_day": checking(lambda at: _check_time(at, "end_time_of_day")),
        "days_of_week": lambda days: _days(days),
        "time_zone": checked_zone,
        "dst": lambda dst: _policy(dst),
    }

    @refuses("interval", "unit")
    def _check_interval(self) -> None:
        if self.interval > _ONE_DAY // _UNITS[self.unit]:
            raise InvalidTriggerError(f"interval: must be at most 24 hours (got {quoted(self.interval)} {self.unit}s)")

    @refuses("end_time_of_day", "start_time_of_day")
    def _check_times(self) -> None:
        if self.end_time_of_day < self.start_time_of_day:
            raise InvalidTriggerError(
                f"end_time_of_day {self.end_time_of_day} is before start_time_of_day {self.start_time_of_day}"
            )

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first fire time strictly after `instant`, without regard to `repeat_count`.

        With `dst="quartz"`, as in Quartz, a fire at `end_time_of_day` or `end_time` itself is not found from an instant
        less than a second before it.
        """
        # Fires are on whole seconds. Quartz searches from one second later on, and keeps the fraction.
        instant = as_instant(instant, "instant")
        whole = instant if self.dst == DaylightSaving.QUARTZ else instant.replace(microsecond=0)
        return self._first_from(whole + _ONE_SECOND)

    def first_from(self, instant: datetime) -> datetime | None:
        """Return the first fire time at or after `instant`, without regard to `repeat_count`."""
        instant = as_instant(instant, "instant")
        return self._first_from(instant + timedelta(microseconds=-instant.microsecond % 1_000_000))

    def triggered(self, progress: TriggerProgress, calendar: Calendar | None = None) -> TriggerProgress:
        done = super().triggered(progress, calendar)
        if self.repeat_count is not None and done.times_triggered > self.repeat_count:
            return TriggerProgress(None, done.previous_fire_time, done.times_triggered)
        return done

    def following(self, progress: TriggerProgress, calendar: Calendar | None, count: int) -> list[datetime]:
        remaining = count if self.repeat_count is None else max(0, self.repeat_count - progress.times_triggered)
        return super().following(progress, calendar, min(count, remaining))

    @property
    def final_fire_time(self) -> datetime | None:
        """The last fire time up to the end time; None without an end time, and with a repeat count."""
        if self.end_time is None or self.repeat_count is not None:
            return None
        latest = self.end_time
        day = self._day_of(latest)
        for _ in range(_DAYS_TO_LOOK_AT):
            first, last = self._hours_of(day)
            final = first + (min(last, latest) - first) // self._step * self._step
            if self._fires_on(day) and final >= first:
                return final if final >= self.anchor else None
            day -= _ONE_DAY
        return None

    @property
    def text(self) -> str:
        hours = f"{self.start_time_of_day:%H:%M}-{self.end_time_of_day:%H:%M}"
        days = "" if self.days_of_week == EVERY_DAY else ", some days"
        return f"{self.unit.every(self.interval)}, {hours}{days}"

    @property
    def words(self) -> str:
        hours = f"from {self.start_time_of_day:%H:%M} to {self.end_time_of_day:%H:%M}"
        names = ", ".join(day.name.capitalize() for day in sorted(self.days_of_week))
        days = "" if self.days_of_week == EVERY_DAY else f", on {names}"
        return f"{self.unit.every(self.interval)} {hours}{days}"

    def schedule(self) -> dict[str, Any]:
        return {
            "interval": self.interval,
            "unit": str(self.unit),
            "repeat_count": self.repeat_count,
            "start_time_of_day": self.start_time_of_day.isoformat(),
            "end_time_of_day": self.end_time_of_day.isoformat(),
            "days_of_week": sorted(int(day) for day in self.days_of_week),
            "time_zone": self.time_zone,
            "dst": str(self.dst),
        }

    @classmethod
    def from_schedule(cls, schedule: Mapping[str, Any], **common: Any) -> Self:
        times = {
            name: time.fromisoformat(schedule[name])
            for name in ("start_time_of_day", "end_time_of_day")
            if name in schedule
        }
        return cls(**{**schedule, **times}, **common)

    def _first_from(self, instant: datetime) -> datetime | None:
        instant = max(instant, self.anchor)
        if self.end_time is not None and instant > self.end_time:
            return None
        try:
            day = self._first_day_from(instant)
            earliest = instant.replace(microsecond=0)
            if not self._fires_on(day) or instant > self._hours_of(day)[1]:
                came_from, day = day, self._next_day(day)
                if self.dst == DaylightSaving.QUARTZ:
                    earliest = self._start_on(day, came_from)
            for _ in range(_DAYS_TO_LOOK_AT):
                first, last = self._hours_of(day)
                early = first - max(earliest, first)
                candidate = first - early // self._step * self._step
                if candidate < self.anchor:  # the fraction that was cut off
                    candidate += self._step
                if self._step >= _ONE_DAY and candidate > first and self.dst == DaylightSaving.ONCE:
                    # It fires once a day, even on a day of 25 hours.
                    candidate = last + _ONE_DAY
                if candidate <= last:
                    return None if self.end_time is not None and candidate > self.end_time else candidate
                day = self._next_day(day)
        except OverflowError:  # after the year 9999
            pass
        return None

    def _start_on(self, day: date, came_from: date) -> datetime:
        """Return the start time of day on `day` as Quartz computes it, day by day from `came_from`.

        If the clock skipped that time of day in between, Quartz stays late by the length of the gap.
        """
        wall = datetime.combine(came_from, self.start_time_of_day)
        while True:
            there = wall.replace(tzinfo=zone(self.time_zone)).astimezone(UTC)
            wall = there.astimezone(zone(self.time_zone)).replace(tzinfo=None)
            if wall.date() >= day:
                return there
            wall += _ONE_DAY

    def _next_day(self, day: date) -> date:
        """Return the next day after `day` on which the trigger fires."""
        day += _ONE_DAY
        while not self._fires_on(day):
            day += _ONE_DAY
        return day

    def _fires_on(self, day: date) -> bool:
        return day.isoweekday() in self._iso_days and day not in self._missing_dates

    def _first_day_from(self, instant: datetime) -> date:
        """Return the first day that may have fires at or after `instant`."""
        wall = instant.astimezone(zone(self.time_zone))
        day = wall.date()
        if wall.hour < _MAX_GAP_HOURS and self.dst == DaylightSaving.ONCE:
            # A gap at the end of a day moves the fires of its last hours into the next day, as in Greenland.
            before = day - _ONE_DAY
            if self._fires_on(before) and instant <= self._hours_of(before)[1]:
                return before
        return day

    def _day_of(self, instant: datetime) -> date:
        return instant.astimezone(zone(self.time_zone)).date()

    def _hours_of(self, day: date) -> tuple[datetime, datetime]:
        """Return the instants of the start and the end time of day on `day`.

        A time that the clock skips is later by the length of the gap. If the start occurs twice, the first occurrence
        counts, or the second one with `dst="quartz"`.
        """
        place = zone(self.time_zone)
        start = datetime.combine(day, self.start_time_of_day, place).replace(
            fold=int(self.dst == DaylightSaving.QUARTZ)
        )
        if self.dst == DaylightSaving.QUARTZ and _is_skipped(start):
            start = start.replace(fold=0)
        return start.astimezone(UTC), datetime.combine(day, self.end_time_of_day, place).astimezone(UTC)

    @property
    def _step(self) -> timedelta:
        return self.interval * _UNITS[self.unit]

    @cached_property
    def _missing_dates(self) -> tuple[date, ...]:
        return missing_dates(self.time_zone) if self.dst == DaylightSaving.ONCE else ()

    @cached_property
    def _iso_days(self) -> frozenset[int]:
        return frozenset((day + 5) % 7 + 1 for day in self.days_of_week)


def _is_skipped(wall: datetime) -> bool:
    return wall.astimezone(UTC).astimezone(wall.tzinfo).replace(tzinfo=None) != wall.replace(tzinfo=None)


def _interval(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise InvalidTriggerError(f"interval: must be a whole number >= 1 (got {quoted(value)})")
    return value


def _unit(value: Any) -> IntervalUnit:
    if value not in _UNITS:
        raise InvalidTriggerError(f"unit: must be one of {', '.join(_UNITS)} (got {quoted(value)})")
    return IntervalUnit(value)


def _days(value: Collection[int]) -> frozenset[DayOfWeek]:
    days = days_of_week(value, "days_of_week", InvalidTriggerError)
    if not days:
        raise InvalidTriggerError("days_of_week: must have at least one day")
    return days


def _policy(value: str) -> DaylightSaving:
    try:
        return DaylightSaving(value)
    except ValueError:
        raise InvalidTriggerError(f"dst: must be one of {', '.join(DaylightSaving)} (got {quoted(value)})") from None


def _check_time(value: object, subject: str) -> None:
    if not isinstance(value, time) or value.tzinfo is not None:
        raise InvalidTriggerError(f"{subject}: must be a datetime.time without a time zone (got {quoted(value)})")
    if value.microsecond:
        raise InvalidTriggerError(f"{subject}: must be in whole seconds (got {value})")
