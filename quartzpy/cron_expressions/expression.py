"""Quartz cron expressions in a time zone, and the parser of Quartz's dialect.

An expression has six fields and an optional seventh: seconds, minutes, hours, day-of-month, month, day-of-week, year.
Quartz's own parser accepts much that its documentation does not describe ("5x", "MON/2", "1-5W", steps of 0, years
without bounds) and gives it a meaning that its writer did not intend; this parser refuses all of that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

from quartzpy.cron_expressions.describe import description
from quartzpy.cron_expressions.field_parser import BLANKS, VALUE, FieldParser
from quartzpy.cron_expressions.fields import (
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    FIELD_KINDS,
    CronFields,
    FieldKind,
    day_rule,
)
from quartzpy.cron_expressions.schedule import DaylightSaving as DaylightSaving
from quartzpy.cron_expressions.schedule import ScheduleExpression
from quartzpy.cron_expressions.timetable import DayRule, NthWeekday
from quartzpy.errors import InvalidCronError
from quartzpy.texts import quoted

MAX_LENGTH = 20_000
"""The number of characters that are parsed; no list of values needs more."""

_NTH = re.compile(rf"(?P<day>{VALUE})(?:(?P<last>L)|#(?P<nth>[0-9]{{1,9}}))")


@lru_cache(maxsize=4096)
def parse(expression: str, seed: str | None = None, day_or: bool | None = None) -> CronFields:
    """Parse an expression of Quartz's dialect.

    `seed` decides the values of `H`. `day_or` allows expressions that restrict both day fields: with True a day
    matches if either field does, with False if both do.

    Raises:
        InvalidCronError: The expression is wrong. The message names the field, the fault and the accepted values.
    """
    return _QuartzParser(expression, seed, MAX_LENGTH).fields(day_or)


class _QuartzParser(FieldParser):
    subject = "cron expression"
    strict_names = True
    accepts_bare_step = True
    accepts_leading_letters = False

    def fields(self, day_or: bool | None) -> CronFields:
        tokens = self._tokens()
        if len(tokens) not in (6, 7):
            self._wrong_count(tokens)
        text = " ".join(token for token, _ in tokens)
        if len(tokens) == 6:
            tokens.append(("*", len(self._text)))
        parts, rules = self._read_fields(FIELD_KINDS, tokens)
        restricts_both = self._check_day_fields(tokens, day_or)
        return CronFields(
            text=text,
            parts=tuple(parts),
            month_days=day_rule(DAY_OF_MONTH, parts[3], rules[3]),
            weekdays=day_rule(DAY_OF_WEEK, parts[5], rules[5]),
            either_day=day_or is True or not restricts_both,
        )

    def _wrong_count(self, tokens: list[tuple[str, int]]) -> NoReturn:
        hint = "; a crontab line has five"
        if len(tokens) == 5:
            hint = "; five fields are a crontab line, which CrontabExpression and CronTrigger.from_crontab read"
        position = tokens[7][1] if len(tokens) > 7 else len(self._expression.rstrip(BLANKS))
        self._fail(f"expected 6 or 7 fields (got {len(tokens)}){hint}", position, allowed="6 or 7 fields")

    def _check_day_fields(self, tokens: list[tuple[str, int]], day_or: bool | None) -> bool:
        """Return whether both day fields are given."""
        (day, _), (weekday, position) = tokens[3], tokens[5]
        if day == "?" and weekday == "?":
            self._fail(
                "day-of-month and day-of-week cannot both be '?'", position, DAY_OF_WEEK, allowed=DAY_OF_WEEK.allowed
            )
        restricts_both = day != "?" and weekday != "?"
        if restricts_both and day_or is None:
            # Without the year that was not written.
            texts = [token for token, _ in tokens][: len(self._expression.split())]
            texts[5 if weekday == "*" else 3] = "?"
            hint = f"write '?' for the one that does not restrict the days: '{' '.join(texts)}'"
            if "*" not in (day, weekday):
                hint = "or say how they combine: day_or=True (either matches) or day_or=False (both match)"
            self._fail(
                f"one of day-of-month and day-of-week must be '?'; {hint}",
                position,
                DAY_OF_WEEK,
                allowed="?",
            )
        return restricts_both

    def _special_weekday(self, kind: FieldKind, item: str, at: int, *, alone: bool) -> DayRule | None:
        match = _NTH.fullmatch(item)
        if not alone and (match or item == "L"):
            sign = "#" if "#" in item else "L"
            hint = "; write SAT" if item == "L" else ""
            self._wrong(kind, item, at + item.index(sign), f"'{sign}' is not possible in a list{hint}")
        if item == "L":
            return DayRule(weekdays=1 << 6)
        if match is None:
            return None
        day = self._value(kind, match["day"], at, item)
        nth = None if match["last"] else self._nth(kind, match["nth"], item, at)
        return DayRule(nth_weekdays=(NthWeekday(day - 1, nth),))


@dataclass(frozen=True, slots=True)
class CronExpression(ScheduleExpression):
    """A Quartz cron expression in a time zone: `CronExpression("0 0 2 ? * MON-FRI", "Europe/Berlin")`.

    `text` is stored in upper case with single spaces. As in Quartz, one of the two day fields must be "?". With
    `day_or` both may restrict the days: a day matches if either field does (True) or if both do (False). The value of
    `H` is derived from `seed`.

    Raises:
        InvalidCronError: The text is wrong. The message names the position and the accepted values.
        UnknownTimeZoneError: There is no such time zone.
    """

    day_or: bool | None = None
    seed: str | None = None

    def __post_init__(self) -> None:
        text = checked_text(self.text)
        if not (self.day_or is None or isinstance(self.day_or, bool)):
            raise InvalidCronError(f"day_or: must be True, False or None (got {quoted(self.day_or)})", expression=text)
        self._set_values(parse(text, self.seed, self.day_or))

    def __reduce__(self) -> tuple[Any, ...]:
        return CronExpression, (self.text, self.time_zone, str(self.dst), self.day_or, self.seed)

    def describe(self) -> str:
        """The expression in plain English, with its time zone."""
        return f"{description(parse(self.text, self.seed, self.day_or))} ({self.time_zone})"


@lru_cache(maxsize=4096)
def cron_expression(
    text: str, time_zone: str, dst: str, day_or: bool | None = None, seed: str | None = None
) -> CronExpression:
    """Return `CronExpression(...)` of these values; equal values get the same object.

    Raises:
        InvalidCronError, UnknownTimeZoneError: As `CronExpression` does.
    """
    return CronExpression(text, time_zone, dst, day_or, seed)


def checked_text(text: object) -> str:
    """Return `text` if it is a string.

    Raises:
        InvalidCronError: It is not.
    """
    if not isinstance(text, str):
        raise InvalidCronError(f"cron expression: must be str (got {type(text).__name__})", expression="")
    return text
