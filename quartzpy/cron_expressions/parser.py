"""The parser of Quartz's dialect.

An expression has six fields and an optional seventh: seconds, minutes, hours, day-of-month, month, day-of-week, year.
Quartz's own parser accepts much that its documentation does not describe ("5x", "MON/2", "1-5W", steps of 0, years
without bounds) and gives it a meaning that its writer did not intend; this parser refuses all of that.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NoReturn

from quartzpy.cron_expressions.days import DayRule, NthWeekday
from quartzpy.cron_expressions.field_parser import BLANKS, VALUE, FieldParser
from quartzpy.cron_expressions.fields import (
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    FIELD_KINDS,
    CronFields,
    FieldKind,
    Part,
    day_rule,
)

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
        parts: list[tuple[Part, ...]] = []
        month_days = weekdays = DayRule()
        for kind, (token, start) in zip(FIELD_KINDS, tokens, strict=True):
            is_day = kind in (DAY_OF_MONTH, DAY_OF_WEEK)
            if token == "?" and is_day:
                parts.append(())
                continue
            plain, special = self._field(kind, token, start)
            parts.append(plain)
            if kind is DAY_OF_MONTH:
                month_days = day_rule(kind, plain, special)
            elif kind is DAY_OF_WEEK:
                weekdays = day_rule(kind, plain, special)
        both_given = self._check_day_fields(tokens, day_or)
        return CronFields(
            text=text,
            parts=tuple(parts),
            month_days=month_days,
            weekdays=weekdays,
            either_day=day_or is True or not both_given,
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
        both_given = day != "?" and weekday != "?"
        if both_given and day_or is None:
            texts = [token for token, _ in tokens]
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
        return both_given

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
