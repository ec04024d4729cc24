"""Calendars that exclude whole days: of every year, of every month, of every week, and public holidays."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import IntEnum
from typing import Any, ClassVar, Self, cast

from quartzpy.calendars.calendar import BaseCalendar, WholeDayCalendar
from quartzpy.errors import InvalidCalendarError, InvalidValueError
from quartzpy.installing import install_line
from quartzpy.instants import Converted
from quartzpy.name_hints import constructor_hints
from quartzpy.texts import quoted

_LEAP_YEAR = 2000
MAX_EXCLUDED_DATES = 100_000
"""The maximum number of dates, as many as 270 years have. They are read with each trigger that names the calendar."""


@dataclass(frozen=True)
class AnnualCalendar(WholeDayCalendar):
    """A calendar that excludes dates, given as (month, day), in every year.

    (2, 29) excludes February 29 in leap years, and nothing in other years.
    """

    kind: ClassVar[str] = "annual"

    excluded_days: Converted[Collection[tuple[int, int]], frozenset[tuple[int, int]]] = Converted(frozenset())

    def __post_init__(self) -> None:
        super().__post_init__()
        days = self.excluded_days
        if not isinstance(days, Collection) or isinstance(days, (str, bytes)):
            raise InvalidCalendarError(f"excluded_days: a set of (month, day) (got {quoted(days)})")
        object.__setattr__(self, "excluded_days", frozenset(_month_and_day(entry) for entry in days))

    def excludes_day(self, day: date) -> bool:
        return (day.month, day.day) in self.excluded_days

    @property
    def longest_exclusion(self) -> int:
        return 8 * 366  # only February 29 is included: from 2096 to 2104

    def rules(self) -> dict[str, Any]:
        return {"excluded_days": sorted(list(entry) for entry in self.excluded_days)}

    @classmethod
    def from_rules(cls, rules: Mapping[str, Any], **common: Any) -> Self:
        return cls(excluded_days=rules["excluded_days"], **common)


def _month_and_day(entry: object) -> tuple[int, int]:
    """Return `entry` if it is the month and day of some date, and raise InvalidCalendarError otherwise."""
    try:
        month, day = cast("tuple[int, int]", entry)
        date(_LEAP_YEAR, month, day)
    except (TypeError, ValueError, OverflowError):
        raise InvalidCalendarError(f"excluded_days: (month, day) of a date (got {quoted(entry)})") from None
    return month, day


@dataclass(frozen=True)
class MonthlyCalendar(WholeDayCalendar):
    """A calendar that excludes the given days, 1 to 31, of every month that has them."""

    kind: ClassVar[str] = "monthly"

    excluded_days: Converted[Collection[int], frozenset[int]] = Converted(frozenset())

    def __post_init__(self) -> None:
        super().__post_init__()
        days = self.excluded_days
        if not isinstance(days, Collection) or not all(type(day) is int and 1 <= day <= 31 for day in days):
            raise InvalidCalendarError(f"excluded_days: a set of days of the month, 1 to 31 (got {quoted(days)})")
        object.__setattr__(self, "excluded_days", frozenset(days))

    def excludes_day(self, day: date) -> bool:
        return day.day in self.excluded_days

    @property
    def longest_exclusion(self) -> int:
        return 61  # only the 31st is included: from the end of one long month to that of the next but one

    def rules(self) -> dict[str, Any]:
        return {"excluded_days": sorted(self.excluded_days)}

    @classmethod
    def from_rules(cls, rules: Mapping[str, Any], **common: Any) -> Self:
        return cls(excluded_days=rules["excluded_days"], **common)


class DayOfWeek(IntEnum):
    """The days of the week, numbered as in cron expressions."""

    SUNDAY = 1
    MONDAY = 2
    TUESDAY = 3
    WEDNESDAY = 4
    THURSDAY = 5
    FRIDAY = 6
    SATURDAY = 7

    @classmethod
    def of(cls, day: date) -> DayOfWeek:
        """Return the day of the week of a date."""
        return _BY_ISO_NUMBER[day.isoweekday()]


_BY_ISO_NUMBER = {number: DayOfWeek(number % 7 + 1) for number in range(1, 8)}

EVERY_DAY: frozenset[DayOfWeek] = frozenset(DayOfWeek)
WEEKEND: frozenset[DayOfWeek] = frozenset({DayOfWeek.SATURDAY, DayOfWeek.SUNDAY})
MONDAY_TO_FRIDAY: frozenset[DayOfWeek] = EVERY_DAY - WEEKEND


def days_of_week(days: object, subject: str, error: type[InvalidValueError]) -> frozenset[DayOfWeek]:
    """Return the days in `given`, which are members or numbers. The error message begins with `subject`.

    Raises:
        InvalidValueError (or `error`): `given` is not a collection, or contains something other than days.
    """
    if isinstance(days, (str, bytes)) or not isinstance(days, Collection):
        raise error(f"{subject}: must be a set of DayOfWeek (got {quoted(days)})")
    try:
        return frozenset(DayOfWeek(day) for day in days)
    except ValueError:
        raise error(f"{subject}: days are 1 (Sunday) to 7 (Saturday) (got {quoted(days)})") from None


@dataclass(frozen=True)
class WeeklyCalendar(WholeDayCalendar):
    """A calendar that excludes the given days of every week, by default Saturday and Sunday."""

    kind: ClassVar[str] = "weekly"

    excluded_days: Converted[Collection[int], frozenset[DayOfWeek]] = Converted(WEEKEND)

    def __post_init__(self) -> None:
        super().__post_init__()
        days = days_of_week(self.excluded_days, "excluded_days", InvalidCalendarError)
        object.__setattr__(self, "excluded_days", days)

    def excludes_day(self, day: date) -> bool:
        return DayOfWeek.of(day) in self.excluded_days

    @property
    def longest_exclusion(self) -> int:
        return 6

    def rules(self) -> dict[str, Any]:
        return {"excluded_days": sorted(int(day) for day in self.excluded_days)}

    @classmethod
    def from_rules(cls, rules: Mapping[str, Any], **common: Any) -> Self:
        return cls(excluded_days=rules["excluded_days"], **common)


@constructor_hints({})
@dataclass(frozen=True)
class HolidayCalendar(WholeDayCalendar):
    """A calendar that excludes the given dates."""

    kind: ClassVar[str] = "holiday"

    excluded_dates: Converted[Collection[date], frozenset[date]] = Converted(frozenset())

    def __post_init__(self) -> None:
        super().__post_init__()
        dates = self.excluded_dates
        if not isinstance(dates, Collection) or isinstance(dates, (str, bytes)):
            raise InvalidCalendarError(f"excluded_dates: a set of dates (got {quoted(dates)})")
        if len(dates) > MAX_EXCLUDED_DATES:
            raise InvalidCalendarError(f"excluded_dates: {len(dates)} dates, at most {MAX_EXCLUDED_DATES}")
        for day in dates:
            if not isinstance(day, date) or isinstance(day, datetime):
                raise InvalidCalendarError(f"excluded_dates: must be datetime.date (got {quoted(day)})")
        object.__setattr__(self, "excluded_dates", frozenset(dates))

    @classmethod
    def country(
        cls,
        country: str,
        *,
        years: int | Iterable[int],
        subdiv: str | None = None,
        time_zone: str = "UTC",
        base: BaseCalendar | None = None,
        description: str | None = None,
    ) -> Self:
        """Return the public holidays of `years` in a country (ISO code: "DE") or one of its subdivisions ("BY").

        The dates are looked up once and stored: a later release of the `holidays` library does not change
        a stored calendar, and years that are not listed exclude nothing.

        Raises:
            InvalidCalendarError: the `holidays` library is missing, or does not know the country or subdivision.
        """
        try:
            library = importlib.import_module("holidays")
        except ImportError:
            raise InvalidCalendarError(
                f"public holidays need the holidays library: {install_line('holidays')}"
            ) from None
        several = [years] if isinstance(years, int) else list(years)
        try:
            holidays = library.country_holidays(country, subdiv=subdiv, years=several)
        except (NotImplementedError, TypeError, ValueError) as error:
            raise InvalidCalendarError(f"public holidays of {country!r}, part {subdiv!r}: {error}") from error
        named = country if subdiv is None else f"{country}-{subdiv}"
        return cls(
            excluded_dates=frozenset(holidays),
            time_zone=time_zone,
            base=base,
            description=f"Public holidays of {named}" if description is None else description,
        )

    @classmethod
    def exchange(
        cls,
        exchange: str,
        *,
        years: int | Iterable[int],
        time_zone: str = "UTC",
        base: BaseCalendar | None = None,
        description: str | None = None,
    ) -> Self:
        """Return all days of `years` on which an exchange (its code: "XNYS") has no session, weekends included.

        The dates are looked up once and stored, as those of `country` are.

        Raises:
            InvalidCalendarError: the `exchange_calendars` library is missing, or does not know the exchange or a year.
        """
        try:
            library = importlib.import_module("exchange_calendars")
        except ImportError:
            raise InvalidCalendarError(
                f"the days of exchanges need the exchange-calendars library: {install_line('exchanges')}"
            ) from None
        several = sorted({years} if isinstance(years, int) else set(years))
        excluded: set[date] = set()
        try:
            for each in several:
                first, last = date(each, 1, 1), date(each, 12, 31)
                sessions = library.get_calendar(exchange, start=first, end=last).sessions
                excluded |= {first + timedelta(days=number) for number in range((last - first).days + 1)} - {
                    session.date() for session in sessions
                }
        except (library.errors.CalendarError, TypeError, ValueError) as error:
            raise InvalidCalendarError(f"sessions of {exchange!r} in {quoted(several)}: {error}") from error
        return cls(
            excluded_dates=frozenset(excluded),
            time_zone=time_zone,
            base=base,
            description=f"Days without a session at {exchange}" if description is None else description,
        )

    def excludes_day(self, day: date) -> bool:
        return day in self.excluded_dates

    @property
    def longest_exclusion(self) -> int:
        return len(self.excluded_dates)

    def rules(self) -> dict[str, Any]:
        return {"excluded_dates": [day.isoformat() for day in sorted(self.excluded_dates)]}

    @classmethod
    def from_rules(cls, rules: Mapping[str, Any], **common: Any) -> Self:
        dates = frozenset(date.fromisoformat(day) for day in rules["excluded_dates"])
        return cls(excluded_dates=dates, **common)
