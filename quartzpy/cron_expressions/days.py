"""The days of a month that match a cron expression, for every shape that a month can have.

A month's shape is its length and the weekday of its first day; there are 28. A rule is laid out once for
all of them, so that finding the days of any month is one look-up.
"""

from __future__ import annotations

from dataclasses import dataclass

ALL_MONTH_DAYS = (1 << 32) - 2
"""Bits 1 to 31."""
ALL_WEEKDAYS = (1 << 7) - 1
"""Bits 0 (Sunday) to 6 (Saturday)."""
SHORTEST_MONTH = 28
_LONGEST_MONTH = 31
_SUNDAY, _SATURDAY = 0, 6


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
            for length in range(SHORTEST_MONTH, _LONGEST_MONTH + 1)
            for first_weekday in range(7)
        )


@dataclass(frozen=True, slots=True)
class CommonDays:
    """The days that match both rules: "Friday the 13th"."""

    one: DayRule
    other: DayRule

    @property
    def weekly(self) -> None:
        """Always None: which weekdays are meant differs from week to week."""
        return None

    def by_shape(self) -> tuple[int, ...]:
        """The days of each shape of a month, as `DayRule.by_shape` returns them."""
        return tuple(days & others for days, others in zip(self.one.by_shape(), self.other.by_shape(), strict=True))


_SEVENTH_DAYS = sum(1 << 7 * week for week in range(5))


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
