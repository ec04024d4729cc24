"""Calendars that exclude days of the week."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date
from enum import IntEnum
from typing import Any, ClassVar, Self

from quartzpy.calendars.base import WholeDayCalendar
from quartzpy.errors import InvalidCalendarError, InvalidValueError
from quartzpy.instants import Converted
from quartzpy.texts import quoted


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


def days_of_week(given: object, subject: str, error: type[InvalidValueError]) -> frozenset[DayOfWeek]:
    """Return the days in `given`, which are members or numbers. The error message begins with `subject`.

    Raises:
        InvalidValueError (or `error`): `given` is not a collection, or contains something other than days.
    """
    if isinstance(given, (str, bytes)) or not isinstance(given, Collection):
        raise error(f"{subject}: must be a set of DayOfWeek (got {quoted(given)})")
    try:
        return frozenset(DayOfWeek(day) for day in given)
    except ValueError:
        raise error(f"{subject}: days are 1 (Sunday) to 7 (Saturday) (got {quoted(given)})") from None


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
