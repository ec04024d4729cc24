"""Dates at intervals of days or months, each counted from the one before, and found without a walk."""

from __future__ import annotations

import calendar as gregorian
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise

from quartzpy.instants import zone

# In so many months the Gregorian calendar comes round: a day not cut short by then never is.
_GREGORIAN_CYCLE = 4800
_ONE_DAY = timedelta(days=1)
# Between two zones on one side of the date line there is less; nobody moves a summer by that much.
_DATE_LINE = timedelta(hours=18)
_FIRST_YEAR, _LAST_YEAR = 1900, 2100


@dataclass(frozen=True, slots=True)
class DateSeries:
    """The dates from `start` on, every `days` days or, where that is 0, every `months` months.

    Months cut a date short where it does not exist and go on from there: January 31, February 28, March 28.
    """

    start: date
    days: int
    months: int

    def nth(self, number: int) -> date | None:
        """The date of this number, the start's being 0; None where dates end, with the year 9999."""
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
        """The number of the last date that lies before `day`, or of one or two before that; at least 0."""
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
        """The stretches of the series up to `until` for a zone in which dates are missing.

        Where the date line was moved over a place, a whole date was skipped there. A series that comes
        upon it has the day after instead, and goes on from that.
        """
        stretches = [self]
        for missing in _missing_dates(time_zone):
            if missing < until and missing > stretches[-1].start and missing in stretches[-1]:
                stretches.append(DateSeries(missing + _ONE_DAY, self.days, self.months))
        return tuple(stretches)


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
        length = gregorian.monthrange(2000 + there % 400, then)[1]  # a year with the same months, below 9999
        if length < day:
            day = length
            cuts.append((number, day))
    return tuple(reversed(cuts))


@lru_cache(maxsize=1024)
def _missing_dates(time_zone: str) -> tuple[date, ...]:
    """The dates that a zone never had since 1900, because the date line was moved: mostly none."""
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
