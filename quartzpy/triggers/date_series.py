"""Dates at intervals of days or months, each counted from the previous one, and computed without iterating."""

from __future__ import annotations

import calendar as gregorian
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise

from quartzpy.instants import zone

# The Gregorian calendar repeats after 4800 months: a day that was never shortened by then never will be.
_GREGORIAN_CYCLE = 4800
_ONE_DAY = timedelta(days=1)
# Offsets on one side of the date line differ by less, and no daylight saving shifts the clock by this much.
_DATE_LINE = timedelta(hours=18)
_FIRST_YEAR, _LAST_YEAR = 1900, 2100


@dataclass(frozen=True, slots=True)
class DateSeries:
    """The dates from `start` on, every `days` days or, where that is 0, every `months` months.

    In a month that lacks the day, the date is the last day of that month, and the series continues with that day:
    January 31, February 28, March 28.
    """

    start: date
    days: int
    months: int

    def nth(self, number: int) -> date | None:
        """Return the date with this number, counted from 0 at the start; None after the year 9999."""
        start = self.start
        if self.days:
            later = number * self.days
            return start + timedelta(later) if later <= (date.max - start).days else None
        year, month = _months_later(start.year, start.month, number * self.months)
        if year > date.max.year:
            return None
        cuts = _cut_short(start.year, start.month, start.day, self.months)
        return date(year, month, next((day for since, day in cuts if number >= since), start.day))

    def number_before(self, day: date) -> int:
        """Return the number of the last date before `day`, or a number up to two lower; at least 0."""
        start = self.start
        if self.days:
            intervals = (day - start).days // self.days
        else:
            intervals = ((day.year - start.year) * 12 + day.month - start.month) // self.months
        return max(0, intervals - 1)

    def __contains__(self, day: date) -> bool:
        first = self.number_before(day)
        return any(self.nth(number) == day for number in range(first, first + 3))

    def within(self, time_zone: str, until: date) -> tuple[DateSeries, ...]:
        """Split the series up to `until` at the dates that are missing in a time zone.

        A place that changed its side of the date line skipped a whole date. A series that reaches such a date has the
        next day instead, and continues from that.
        """
        stretches = [self]
        for missing in missing_dates(time_zone):
            if missing < until and missing > stretches[-1].start and missing in stretches[-1]:
                stretches.append(DateSeries(missing + _ONE_DAY, self.days, self.months))
        return tuple(stretches)


def _months_later(year: int, month: int, months: int) -> tuple[int, int]:
    years, month_index = divmod(month - 1 + months, 12)
    return year + years, month_index + 1


@lru_cache(maxsize=1024)
def _cut_short(year: int, month: int, day: int, step: int) -> tuple[tuple[int, int], ...]:
    """Return the intervals of `step` months from which on the day of the month is shortened, the last one first.

    Each item is the number of the interval and the new day. There is no item if all months of the series have the day.
    """
    cuts: list[tuple[int, int]] = []
    for number in range(1, _GREGORIAN_CYCLE // step + 2):
        if day <= 28:
            break
        there, then = _months_later(year, month, number * step)
        length = gregorian.monthrange(2000 + there % 400, then)[1]  # a year with the same months, below 9999
        if length < day:
            day = length
            cuts.append((number, day))
    return tuple(reversed(cuts))


@lru_cache(maxsize=1024)
def missing_dates(time_zone: str) -> tuple[date, ...]:
    """Return the dates since 1900 that a time zone skipped by changing its side of the date line: usually none."""
    place = zone(time_zone)
    missing = []
    years = [datetime(year, 1, 1, tzinfo=UTC) for year in range(_FIRST_YEAR, _LAST_YEAR)]
    for before, after in pairwise(years):
        offset = _offset(before, time_zone)
        if _offset(after, time_zone) - offset < _DATE_LINE:
            continue
        while after - before > timedelta(seconds=1):
            middle = before + (after - before) / 2
            if _offset(middle, time_zone) - offset < _DATE_LINE:
                before = middle
            else:
                after = middle
        missing.append(before.astimezone(place).date() + _ONE_DAY)
    return tuple(missing)


def _offset(instant: datetime, time_zone: str) -> timedelta:
    offset = instant.astimezone(zone(time_zone)).utcoffset()
    assert offset is not None
    return offset
