"""Calendars that exclude days of the month."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar, Self

from quartzpy.calendars.base import WholeDayCalendar
from quartzpy.errors import InvalidCalendarError
from quartzpy.instants import Converted
from quartzpy.texts import quoted


@dataclass(frozen=True)
class MonthlyCalendar(WholeDayCalendar):
    """A calendar that excludes the given days, 1 to 31, of every month that has them."""

    kind: ClassVar[str] = "monthly"

    excluded_days: Converted[Collection[int], frozenset[int]] = Converted(frozenset())

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.excluded_days
        if not isinstance(given, Collection) or not all(type(day) is int and 1 <= day <= 31 for day in given):
            raise InvalidCalendarError(f"excluded_days: a set of days of the month, 1 to 31 (got {quoted(given)})")
        object.__setattr__(self, "excluded_days", frozenset(given))

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
