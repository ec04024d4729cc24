"""Calendars that exclude the same dates every year."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar, Self, cast

from quartzpy.calendars.base import WholeDayCalendar
from quartzpy.errors import InvalidCalendarError
from quartzpy.instants import Converted
from quartzpy.texts import quoted

_LEAP_YEAR = 2000


@dataclass(frozen=True)
class AnnualCalendar(WholeDayCalendar):
    """A calendar that excludes dates, given as (month, day), in every year.

    (2, 29) excludes February 29 in leap years, and nothing in other years.
    """

    kind: ClassVar[str] = "annual"

    excluded_days: Converted[Collection[tuple[int, int]], frozenset[tuple[int, int]]] = Converted(frozenset())

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.excluded_days
        if not isinstance(given, Collection) or isinstance(given, (str, bytes)):
            raise InvalidCalendarError(f"excluded_days: a set of (month, day) (got {quoted(given)})")
        object.__setattr__(self, "excluded_days", frozenset(_month_and_day(entry) for entry in given))

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
