"""Calendars that exclude single dates, such as public holidays."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, ClassVar, Self

from quartzpy.calendars.base import BaseCalendar, WholeDayCalendar
from quartzpy.errors import InvalidCalendarError
from quartzpy.instants import Converted
from quartzpy.name_hints import constructor_refuses
from quartzpy.texts import quoted

MAX_EXCLUDED_DATES = 100_000
"""The maximum number of dates, as many as 270 years have. They are read with each trigger that names the calendar."""


@constructor_refuses({})
@dataclass(frozen=True)
class HolidayCalendar(WholeDayCalendar):
    """A calendar that excludes the given dates."""

    kind: ClassVar[str] = "holiday"

    excluded_dates: Converted[Collection[date], frozenset[date]] = Converted(frozenset())

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.excluded_dates
        if not isinstance(given, Collection) or isinstance(given, (str, bytes)):
            raise InvalidCalendarError(f"excluded_dates: a set of dates (got {quoted(given)})")
        if len(given) > MAX_EXCLUDED_DATES:
            raise InvalidCalendarError(f"excluded_dates: {len(given)} dates, at most {MAX_EXCLUDED_DATES}")
        for day in given:
            if not isinstance(day, date) or isinstance(day, datetime):
                raise InvalidCalendarError(f"excluded_dates: must be datetime.date (got {quoted(day)})")
        object.__setattr__(self, "excluded_dates", frozenset(given))

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
                "public holidays need the holidays library: pip install 'quartzpy[holidays]'"
            ) from None
        several = [years] if isinstance(years, int) else list(years)
        try:
            known = library.country_holidays(country, subdiv=subdiv, years=several)
        except (NotImplementedError, TypeError, ValueError) as error:
            raise InvalidCalendarError(f"public holidays of {country!r}, part {subdiv!r}: {error}") from error
        named = country if subdiv is None else f"{country}-{subdiv}"
        return cls(
            excluded_dates=frozenset(known),
            time_zone=time_zone,
            base=base,
            description=f"Public holidays of {named}" if description is None else description,
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
