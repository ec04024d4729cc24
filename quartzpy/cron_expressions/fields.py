"""The fields of a cron expression, as both dialects' parsers return them.

Both parsers number weekdays as Quartz does (Sunday is 1), so that a description and a timetable need to know one
numbering only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from quartzpy.cron_expressions.timetable import (
    ALL_MONTH_DAYS,
    ALL_WEEKDAYS,
    FIRST_YEAR,
    LAST_YEAR,
    CommonDays,
    DayRule,
    Timetable,
)

MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
MAX_DAYS_BEFORE_LAST = 30
WEEKDAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True, slots=True)
class FieldKind:
    """The values of a field.

    `names` are other spellings of values. `wraps` allows ranges that continue from the highest to the lowest value.
    `highest_hashed` is the largest value of `H` (not every month has a day above 28); None refuses `H`.
    """

    name: str
    low: int
    high: int
    names: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    wraps: bool = True
    highest_hashed: int | None = None

    @property
    def allowed(self) -> str:
        three_letters = [name for name in self.names if len(name) == 3]
        named = f" or {three_letters[0]}-{three_letters[-1]}" if three_letters else ""
        return f"{self.low}-{self.high}{named}"

    @property
    def max_step(self) -> int:
        """The longest step that can lead from one value to another."""
        return self.high

    @property
    def size(self) -> int:
        return self.high - self.low + 1


def _numbered(names: tuple[str, ...], first: int) -> Mapping[str, int]:
    return MappingProxyType({name: n for n, name in enumerate(names, first)})


SECONDS = FieldKind("seconds", 0, 59, highest_hashed=59)
MINUTES = FieldKind("minutes", 0, 59, highest_hashed=59)
HOURS = FieldKind("hours", 0, 23, highest_hashed=23)
DAY_OF_MONTH = FieldKind("day-of-month", 1, 31, highest_hashed=28)
MONTH = FieldKind("month", 1, 12, _numbered(MONTH_NAMES, 1), highest_hashed=12)
DAY_OF_WEEK = FieldKind("day-of-week", 1, 7, _numbered(WEEKDAY_NAMES, 1), highest_hashed=7)
YEAR = FieldKind("year", FIRST_YEAR, LAST_YEAR, wraps=False)
FIELD_KINDS = (SECONDS, MINUTES, HOURS, DAY_OF_MONTH, MONTH, DAY_OF_WEEK, YEAR)


@dataclass(frozen=True, slots=True)
class FieldPart:
    """One item of a comma-separated list: every `step`-th value from `first` to `last`.

    A range whose `last` is below its `first` wraps around. `is_all` marks "*" and "*/step"; `is_open` marks
    "first/step". A single value has `first` equal to `last`.
    """

    first: int
    last: int
    step: int = 1
    is_all: bool = False
    is_open: bool = False

    @property
    def is_value(self) -> bool:
        return self.first == self.last and not self.is_all

    def values(self, kind: FieldKind) -> list[int]:
        last = self.last if self.last >= self.first else self.last + kind.size
        return [(value - kind.low) % kind.size + kind.low for value in range(self.first, last + 1, self.step)]


@dataclass(frozen=True, slots=True)
class CronFields:
    """A parsed cron expression. `text` is in capitals with single spaces.

    `parts` holds the lists of the seven fields (seconds first, year last); a field of "?" has an empty list, and the
    special forms of the day fields are in `month_days` and `weekdays` only. `either_day` says how the two day
    fields combine: a day matches where either of them does, or only where both do.
    """

    text: str
    parts: tuple[tuple[FieldPart, ...], ...]
    month_days: DayRule
    weekdays: DayRule
    either_day: bool = True

    @property
    def is_interval(self) -> bool:
        """True if seconds, minutes or hours contain a wildcard, a step or a range, rather than times of day only."""
        return any(not part.is_value for parts in self.parts[:3] for part in parts)

    @property
    def days(self) -> DayRule | CommonDays:
        if self.either_day:
            return self.month_days.joined(self.weekdays)
        if not self.weekdays.restricts:
            return self.month_days
        return CommonDays(self.month_days, self.weekdays) if self.month_days.restricts else self.weekdays

    def timetable(self) -> Timetable:
        seconds, minutes, hours = (mask(parts, kind) for parts, kind in zip(self.parts, FIELD_KINDS[:3], strict=False))
        months = mask(self.parts[4], MONTH)
        years = None
        if not any(part.is_all and part.step == 1 for part in self.parts[6]):
            years = frozenset(value for part in self.parts[6] for value in part.values(YEAR))
        return Timetable(seconds, minutes, hours, self.days, months, years)


def mask(parts: tuple[FieldPart, ...], kind: FieldKind) -> int:
    """Return the values of a field as a bit mask."""
    bits = 0
    for part in parts:
        for value in part.values(kind):
            bits |= 1 << value
    return bits


def day_rule(kind: FieldKind, plain: tuple[FieldPart, ...], special: DayRule) -> DayRule:
    """Return the rule of one day field, from its plain values in Quartz's numbering and its special forms."""
    if kind.name == DAY_OF_MONTH.name:
        return special.joined(DayRule(month_days=mask(plain, DAY_OF_MONTH) & ALL_MONTH_DAYS))
    return special.joined(DayRule(weekdays=mask(plain, DAY_OF_WEEK) >> 1 & ALL_WEEKDAYS))
