"""The days and the wall-clock seconds that match an expression, and a fast search for the next and the previous one.

A wall-clock time is an integer here: the seconds since 1970-01-01 00:00:00 on a clock that is never changed. Time zones
are handled by other modules. A month's shape is its length and the weekday of its first day; there are 28. A rule of
days is laid out once for all of them, so that finding the days of any month is one look-up.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

ALL_MONTH_DAYS = (1 << 32) - 2
"""Bits 1 to 31."""
_ALL_SECONDS = (1 << 60) - 1
ALL_WEEKDAYS = (1 << 7) - 1
"""Bits 0 (Sunday) to 6 (Saturday)."""
SHORTEST_MONTH = 28
_MAX_MONTH = 31
_SUNDAY, _SATURDAY = 0, 6
_SEVENTH_DAYS = sum(1 << 7 * week for week in range(5))
FIRST_YEAR, LAST_YEAR = 1970, 2199
"""The range of the year field; nothing matches outside of it."""
NEVER = 1 << 60
"""Later than every wall-clock time."""
LONG_AGO = -NEVER
_DAY = 86_400
_ALL_MONTHS = (1 << 13) - 2
_MONTHS_IN_ALL = (LAST_YEAR - FIRST_YEAR + 1) * 12
_MONTH_STARTS = [
    date(FIRST_YEAR + month // 12, month % 12 + 1, 1).toordinal() - date(FIRST_YEAR, 1, 1).toordinal()
    for month in range(_MONTHS_IN_ALL + 1)
]
"""The day, from 1970-01-01, on which each month begins; one more for the end."""
_LAST_DAY = _MONTH_STARTS[-1] - 1
_THURSDAY = 4  # the first day of 1970
_MINUTES = tuple(range(1440))  # shared by all timetables: they hold references only


@dataclass(frozen=True, slots=True)
class LastDay:
    """`days_before` days before the last day of the month; `or_nearest_workday`: Monday to Friday nearest to it."""

    days_before: int = 0
    or_nearest_workday: bool = False


@dataclass(frozen=True, slots=True)
class NthWeekday:
    """The `nth` (from 1) such weekday of the month, None for the last one. Sunday is 0."""

    weekday: int
    nth: int | None


@dataclass(frozen=True, slots=True)
class DayRule:
    """A union of days: a day matches if it is in any of the parts.

    `month_days` has bit n for day n, `weekdays` has bit 0 for Sunday. Each day of the month in `nearest_workdays`
    matches the weekday (Monday to Friday) nearest to it within the month, or none if the month lacks the day.
    """

    month_days: int = 0
    weekdays: int = 0
    nearest_workdays: tuple[int, ...] = ()
    last_days: tuple[LastDay, ...] = ()
    nth_weekdays: tuple[NthWeekday, ...] = ()

    @property
    def restricts(self) -> bool:
        """True if some days match and others do not."""
        return self != DayRule() and self.weekly != ALL_WEEKDAYS

    def joined(self, other: DayRule) -> DayRule:
        """Return the rule of the days that match either rule."""
        return DayRule(
            month_days=self.month_days | other.month_days,
            weekdays=self.weekdays | other.weekdays,
            nearest_workdays=self.nearest_workdays + other.nearest_workdays,
            last_days=self.last_days + other.last_days,
            nth_weekdays=self.nth_weekdays + other.nth_weekdays,
        )

    @property
    def weekly(self) -> int | None:
        """Return the weekdays that match, if the rule does not depend on the day of the month; otherwise None."""
        if self.month_days == ALL_MONTH_DAYS or self.weekdays == ALL_WEEKDAYS:
            return ALL_WEEKDAYS
        has_others = self.month_days or self.nearest_workdays or self.last_days or self.nth_weekdays
        return None if has_others else self.weekdays

    def in_month(self, length: int, first_weekday: int) -> int:
        """Return the days that match in a month of that shape; bit 0 is the first day."""
        days = self.month_days >> 1
        for weekday in range(7):
            if self.weekdays >> weekday & 1:
                days |= _SEVENTH_DAYS << (weekday - first_weekday) % 7
        for day in self.nearest_workdays:
            if day <= length:
                days |= 1 << nearest_workday(day, length, first_weekday) - 1
        for last in self.last_days:
            day = length - last.days_before
            if day >= 1:
                day = nearest_workday(day, length, first_weekday) if last.or_nearest_workday else day
                days |= 1 << day - 1
        for chosen in self.nth_weekdays:
            first = (chosen.weekday - first_weekday) % 7
            weeks = (length - 1 - first) // 7 if chosen.nth is None else chosen.nth - 1
            days |= 1 << first + 7 * weeks
        return days & (1 << length) - 1

    def by_shape(self) -> tuple[int, ...]:
        """`in_month` for all shapes, in the order of `month_shape`."""
        return tuple(
            self.in_month(length, first_weekday)
            for length in range(SHORTEST_MONTH, _MAX_MONTH + 1)
            for first_weekday in range(7)
        )


@dataclass(frozen=True, slots=True)
class CommonDays:
    """The days that match both rules: "Friday the 13th"."""

    day_of_month: DayRule
    day_of_week: DayRule

    @property
    def weekly(self) -> None:
        """Always None: which weekdays are meant differs from week to week."""
        return None

    def by_shape(self) -> tuple[int, ...]:
        """The days of each shape of a month, as `DayRule.by_shape` returns them."""
        shapes = zip(self.day_of_month.by_shape(), self.day_of_week.by_shape(), strict=True)
        return tuple(month_days & weekdays for month_days, weekdays in shapes)


def month_shape(length: int, first_weekday: int) -> int:
    """Return the number of a month's shape, from 0."""
    return (length - SHORTEST_MONTH) * 7 + first_weekday


def nearest_workday(day: int, length: int, first_weekday: int) -> int:
    """Return the weekday from Monday to Friday that is nearest to `day` within the month."""
    weekday = (first_weekday + day - 1) % 7
    if weekday == _SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == _SUNDAY:
        return day + 1 if day < length else day - 2
    return day


_MONTH_SHAPES = [
    month_shape(_MONTH_STARTS[month + 1] - start, (start + _THURSDAY) % 7)
    for month, start in enumerate(_MONTH_STARTS[:-1])
]


def _bits(mask: int) -> tuple[int, ...]:
    bits = []
    while mask:
        bits.append((mask & -mask).bit_length() - 1)
        mask &= mask - 1
    return tuple(bits)


@lru_cache(maxsize=1024)
def _minutes_of_day(hours: int, minutes: int) -> tuple[int, ...]:
    within_hour = _bits(minutes)
    return tuple(_MINUTES[hour * 60 + minute] for hour in _bits(hours) for minute in within_hour)


@lru_cache(maxsize=1024)
def _days_by_shape(days: DayRule | CommonDays) -> tuple[int, ...]:
    return days.by_shape()


@lru_cache(maxsize=1024)
def _last_day(days: DayRule | CommonDays, months: int, years: frozenset[int] | None) -> int:
    """The last day that matches; -1 if none does."""
    last_year = LAST_YEAR if years is None else max(years)
    masks = _days_by_shape(days)
    for month in range(_MONTHS_IN_ALL - 1, _MONTHS_IN_ALL - 12 * 28 - 1, -1):
        # In 28 years that have no 1900 among them every month comes in all its shapes.
        if months >> month % 12 + 1 & 1 and masks[_MONTH_SHAPES[month]]:
            return _MONTH_STARTS[(last_year - FIRST_YEAR + 1) * 12] - 1
    return -1


@lru_cache(maxsize=1024)
def _distances(mask: int, size: int) -> tuple[int, ...]:
    """Return the distance from each number below `size` to the next set bit, wrapping around; `mask` is not empty."""
    doubled = mask | mask << size
    return tuple(((doubled >> n) & -(doubled >> n)).bit_length() - 1 for n in range(size))


class Timetable:
    """The wall-clock seconds whose hour, minute, second, day, month and year all match.

    `seconds`, `minutes`, `hours` and `months` have bit n for the value n. `years` None means all.
    """

    __slots__ = (
        "_first_second", "_first_time", "_last_day", "_last_second", "_last_time", "_masks", "_minutes", "_months",
        "_second_distances", "_second_mask", "_seconds", "_weekday_distances", "_weekdays", "_years", "is_frequent",
    )  # fmt: skip

    def __init__(
        self,
        seconds: int,
        minutes: int,
        hours: int,
        days: DayRule | CommonDays,
        months: int,
        years: frozenset[int] | None,
    ) -> None:
        self._minutes = _minutes_of_day(hours, minutes)
        self._second_mask = seconds
        self._second_distances = _distances(seconds, 60)
        self._seconds = _bits(seconds)
        self._first_second, self._last_second = self._seconds[0], self._seconds[-1]
        self._first_time = self._minutes[0] * 60 + self._first_second
        self._last_time = self._minutes[-1] * 60 + self._last_second
        self._masks = _days_by_shape(days)
        self._last_day = _last_day(days, months, years)
        self._months = months
        self._years = years
        weekly = days.weekly if months == _ALL_MONTHS and years is None else None
        self._weekdays = weekly
        self.is_frequent = weekly is not None
        """True if some day matches in every week."""
        self._weekday_distances = _distances(weekly, 7) if weekly else None

    @property
    def matches_never(self) -> bool:
        """True if no day of any year matches."""
        return self._last_day < 0

    @property
    def matches_always(self) -> bool:
        """True if every second of all years matches."""
        return self._weekdays == ALL_WEEKDAYS and self._fills_its_days

    @property
    def _fills_its_days(self) -> bool:
        """True if every second of each matching day matches."""
        return len(self._minutes) == len(_MINUTES) and self._second_mask == _ALL_SECONDS

    def matches(self, wall: int) -> bool:
        return self.next_from(wall) == wall

    def next_from(self, wall: int) -> int:
        """Return the first matching time at or after `wall`; NEVER if there is none."""
        day, second = divmod(wall, _DAY)
        next_day = self._day_from(day)
        if next_day == day:
            minute, second = divmod(second, 60)
            minutes = self._minutes
            index = bisect_left(minutes, minute)
            if index < len(minutes):
                if minutes[index] != minute:
                    return day * _DAY + minutes[index] * 60 + self._first_second
                second += self._second_distances[second]
                if second < 60:
                    return day * _DAY + minute * 60 + second
                if index + 1 < len(minutes):
                    return day * _DAY + minutes[index + 1] * 60 + self._first_second
            next_day = self._day_from(day + 1)
        return NEVER if next_day == NEVER else next_day * _DAY + self._first_time

    def last_until(self, wall: int) -> int:
        """Return the last matching time at or before `wall`; LONG_AGO if there is none."""
        day, second = divmod(wall, _DAY)
        last_day = self._day_until(day)
        if last_day == day:
            minute, second = divmod(second, 60)
            minutes = self._minutes
            index = bisect_right(minutes, minute) - 1
            if index >= 0:
                if minutes[index] != minute:
                    return day * _DAY + minutes[index] * 60 + self._last_second
                below = self._second_mask & (2 << second) - 1
                if below:
                    return day * _DAY + minute * 60 + below.bit_length() - 1
                if index > 0:
                    return day * _DAY + minutes[index - 1] * 60 + self._last_second
            last_day = self._day_until(day - 1)
        return LONG_AGO if last_day == LONG_AGO else last_day * _DAY + self._last_time

    def next_unmatched_from(self, wall: int) -> int:
        """Return the first time at or after `wall` that does not match; NEVER if all match up to the last year."""
        while wall <= _LAST_DAY * _DAY + _DAY - 1:
            day, second = divmod(wall, _DAY)
            if self._day_from(day) != day:
                return wall
            minute, second = divmod(second, 60)
            minutes = self._minutes
            index = bisect_left(minutes, minute)
            while index < len(minutes) and minutes[index] == minute:
                others = ~self._second_mask >> second & (1 << 60 - second) - 1
                if others:
                    return day * _DAY + minute * 60 + second + (others & -others).bit_length() - 1
                index = self._end_of_run(index) if self._second_mask == _ALL_SECONDS else index + 1
                minute, second = minutes[index - 1] + 1, 0
            if minute < len(_MINUTES):
                return day * _DAY + minute * 60 + second
            wall = (self._day_without_from(day + 1) if self._fills_its_days else day + 1) * _DAY
        return NEVER

    def _end_of_run(self, index: int) -> int:
        """Return the index after the last of the minutes that follow each other from this one on."""
        minutes = self._minutes
        return bisect_right(
            range(len(minutes)), minutes[index] - index, lo=index, key=lambda place: minutes[place] - place
        )

    def times_from(self, wall: int, until: int, count: int) -> list[int]:
        """Return the first `count` matching times at or after `wall` and before `until`, in order."""
        times: list[int] = []
        wall = self.next_from(wall)
        if wall == NEVER:
            return times
        day, second = divmod(wall, _DAY)
        minutes = self._minutes
        seconds = self._seconds
        index = bisect_left(minutes, second // 60)
        later = seconds[bisect_left(seconds, second % 60) :]
        while day != NEVER:
            midnight = day * _DAY
            while index < len(minutes):
                start = midnight + minutes[index] * 60
                for at in later:
                    if start + at >= until or len(times) == count:
                        return times
                    times.append(start + at)
                later = seconds
                index += 1
            index = 0
            day = self._day_from(day + 1)
        return times

    def _day_from(self, day: int) -> int:
        """Return the first matching day at or after `day`; NEVER if there is none."""
        if day < 0:
            day = 0
        if day > self._last_day:
            return NEVER
        if self._weekday_distances is not None:
            day += self._weekday_distances[(day + _THURSDAY) % 7]
            return day if day <= _LAST_DAY else NEVER
        month = bisect_right(_MONTH_STARTS, day) - 1
        days = self._days_of(month) >> day - _MONTH_STARTS[month]
        if days:
            return day + (days & -days).bit_length() - 1
        while (month := self._month_from(month + 1)) < _MONTHS_IN_ALL:
            days = self._masks[_MONTH_SHAPES[month]]
            if days:
                return _MONTH_STARTS[month] + (days & -days).bit_length() - 1
        return NEVER

    def _day_until(self, day: int) -> int:
        """Return the last matching day at or before `day`; LONG_AGO if there is none."""
        day = min(day, self._last_day)
        if day < 0:
            return LONG_AGO
        month = bisect_right(_MONTH_STARTS, day) - 1
        days = self._days_of(month) & (2 << day - _MONTH_STARTS[month]) - 1
        while not days:
            month = self._month_until(month - 1)
            if month < 0:
                return LONG_AGO
            days = self._masks[_MONTH_SHAPES[month]]
        return _MONTH_STARTS[month] + days.bit_length() - 1

    def _day_without_from(self, day: int) -> int:
        """Return the first day at or after `day` that does not match; NEVER if all match."""
        if self._weekdays == ALL_WEEKDAYS:
            return NEVER
        while day <= _LAST_DAY:
            month = bisect_right(_MONTH_STARTS, day) - 1
            length = _MONTH_STARTS[month + 1] - day
            others = ~(self._days_of(month) >> day - _MONTH_STARTS[month]) & (1 << length) - 1
            if others:
                return day + (others & -others).bit_length() - 1
            day += length
        return NEVER

    def _days_of(self, month: int) -> int:
        """Return the matching days of a month, counted from January 1970; bit 0 is its first day."""
        if not self._months >> month % 12 + 1 & 1:
            return 0
        if self._years is not None and month // 12 + FIRST_YEAR not in self._years:
            return 0
        return self._masks[_MONTH_SHAPES[month]]

    def _month_from(self, month: int) -> int:
        """Return the first matching month at or after `month`; a month beyond the last one if there is none."""
        while month < _MONTHS_IN_ALL:
            if self._years is not None and month // 12 + FIRST_YEAR not in self._years:
                month = (month // 12 + 1) * 12
                continue
            rest = self._months >> month % 12 + 1
            if rest:
                return month + (rest & -rest).bit_length() - 1
            month = (month // 12 + 1) * 12
        return month

    def _month_until(self, month: int) -> int:
        """Return the last matching month at or before `month`; a negative number if there is none."""
        while month >= 0:
            if self._years is not None and month // 12 + FIRST_YEAR not in self._years:
                month = month // 12 * 12 - 1
                continue
            rest = self._months & (2 << month % 12 + 1) - 1
            if rest:
                return month // 12 * 12 + rest.bit_length() - 2
            month = month // 12 * 12 - 1
        return month
