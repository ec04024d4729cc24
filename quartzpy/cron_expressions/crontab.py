"""Crontab lines in a time zone, and their parser.

The rules are those of Debian's cron (crontab(5)), with the extensions that its peers share: a field for seconds in
front, `L`, `W` and `#` in the day fields, ranges that wrap around, and `H`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NoReturn

from quartzpy.cron_expressions import fields
from quartzpy.cron_expressions.describe import description
from quartzpy.cron_expressions.field_parser import BLANKS, VALUE, FieldParser
from quartzpy.cron_expressions.fields import CronFields, FieldKind, FieldPart, day_rule
from quartzpy.cron_expressions.schedule import ScheduleExpression
from quartzpy.cron_expressions.timetable import DayRule, NthWeekday
from quartzpy.errors import InvalidCronError
from quartzpy.texts import quoted

MAX_LENGTH = 250
FIELDS = 5
"""The fields of a crontab line. Only who says that it is one may write a sixth, for seconds, in front of them."""
ALIASES = {
    "@EVERY_SECOND": "* * * * * *",
    "@EVERY_MINUTE": "* * * * *",
    "@HOURLY": "0 * * * *",
    "@DAILY": "0 0 * * *",
    "@MIDNIGHT": "0 0 * * *",
    "@WEEKLY": "0 0 * * 0",
    "@MONTHLY": "0 0 1 * *",
    "@YEARLY": "0 0 1 1 *",
    "@ANNUALLY": "0 0 1 1 *",
}
_FULL_MONTHS = (
    *("JANUARY", "FEBRUARY", "MARCH", "APRIL", "MAY", "JUNE", "JULY"),
    *("AUGUST", "SEPTEMBER", "OCTOBER", "NOVEMBER", "DECEMBER"),
)
_FULL_WEEKDAYS = ("SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY")
_MONTH = replace(
    fields.MONTH,
    names=MappingProxyType({**fields.MONTH.names, **{name: n for n, name in enumerate(_FULL_MONTHS, 1)}}),
)
_SUNDAY_AGAIN = 7
_DAY_OF_WEEK = FieldKind(
    "day-of-week",
    0,
    _SUNDAY_AGAIN,
    MappingProxyType({name: n for names in (fields.WEEKDAY_NAMES, _FULL_WEEKDAYS) for n, name in enumerate(names)}),
    highest_hashed=6,
)
_KINDS = (fields.SECONDS, fields.MINUTES, fields.HOURS, fields.DAY_OF_MONTH, _MONTH, _DAY_OF_WEEK)
_DAY_FIELDS = (3, 5)
_EVERY_YEAR = FieldPart(fields.YEAR.low, fields.YEAR.high, is_all=True)
_NTH = re.compile(rf"(?P<day>{VALUE})(?:L|#(?P<nth>[0-9]{{1,9}}))|L(?P<last>[0-7])")
_RANDOM = re.compile(r"(?:^|,)R(?:$|[,(/])")


def is_crontab(text: str) -> bool:
    """Return whether a cron text is a line of crontab: five fields, or a word such as `@daily`. Others are Quartz's."""
    return text.lstrip().startswith("@") or len(text.split()) == FIELDS


@lru_cache(maxsize=4096)
def parse_crontab(line: str, seed: str | None = None, day_or: bool = True) -> CronFields:
    """Parse a crontab line of five fields, of six with seconds in front, or an alias such as `@daily`.

    Where both day fields restrict the days, a day matches if either field does, unless one of them begins with "*" or
    `day_or` is False: then it matches only if both fields do.

    Raises:
        InvalidCronError: The line is wrong. The message names the field, the fault and the accepted values.
    """
    return _CrontabParser(line, seed, MAX_LENGTH).fields(day_or=day_or)


class _CrontabParser(FieldParser):
    subject = "crontab"
    strict_names = False
    accepts_bare_step = False
    accepts_leading_letters = True

    def fields(self, *, day_or: bool) -> CronFields:
        tokens = self._tokens()
        if not tokens or not tokens[0][0].startswith("@"):
            return self._fields(tokens, day_or=day_or)
        alias = " ".join(token for token, _ in tokens)
        if alias not in ALIASES:
            self._unknown_alias(alias)
        parser = _CrontabParser(ALIASES[alias], self._seed, MAX_LENGTH)
        return replace(parser.fields(day_or=day_or), text=alias.lower())

    def _fields(self, tokens: list[tuple[str, int]], *, day_or: bool) -> CronFields:
        if len(tokens) not in (5, 6):
            self._fail(
                "crontab: expected 5 fields (minutes, hours, day-of-month, month, day-of-week), or 6 with seconds in"
                f" front (got {len(tokens)}); CronTrigger(...) accepts Quartz's dialect",
                tokens[6][1] if len(tokens) > 6 else len(self._expression.rstrip(BLANKS)),
                allowed="5 or 6 fields",
            )
        text = " ".join(token for token, _ in tokens)
        if len(tokens) == 5:
            tokens = [("0", 0), *tokens]
        for place in _DAY_FIELDS:
            token, start = tokens[place]
            tokens[place] = ("*" if token == "?" else token, start)
        parts, rules = self._read_fields(_KINDS, tokens)
        parts[5] = tuple(_with_sunday_as_one(part) for part in parts[5])
        result = CronFields(
            text=text,
            parts=(*parts, (_EVERY_YEAR,)),
            month_days=day_rule(fields.DAY_OF_MONTH, parts[3], rules[3]),
            weekdays=day_rule(fields.DAY_OF_WEEK, parts[5], rules[5]),
            # crontab(5) of Debian: a day field that begins with "*" counts as one that does not restrict the days.
            either_day=day_or and not any(tokens[place][0].startswith("*") for place in _DAY_FIELDS),
        )
        if result.timetable().matches_never:
            token, start = tokens[3]
            self._wrong(fields.DAY_OF_MONTH, token, start, "no day of any of these months matches", allowed="1-31, L")
        return result

    def _special_weekday(self, kind: FieldKind, item: str, at: int, *, alone: bool) -> DayRule | None:
        if item == "L":
            self._wrong(kind, item, at, "which day? 5L is the last Friday of the month; Saturday is SAT")
        match = _NTH.fullmatch(item)
        if match is None:
            return None
        day = self._value(kind, match["day"] or match["last"], at, item)
        nth = self._nth(kind, match["nth"], item, at) if match["nth"] else None
        return DayRule(nth_weekdays=(NthWeekday(day % 7, nth),))

    def _part(self, kind: FieldKind, item: str, at: int) -> FieldPart:
        if _RANDOM.match(item):
            self._wrong(
                kind,
                item,
                at,
                "a random value ('R') would differ from node to node; use 'H', a value that is derived from the"
                " trigger's key",
            )
        return super()._part(kind, item, at)

    def _unknown_alias(self, alias: str) -> NoReturn:
        if alias == "@REBOOT":
            reason = "a cluster has no reboot; trigger the job where your program starts"
        elif alias.startswith("@EVERY"):
            reason = "an interval is another kind of trigger; write every('5m') instead of a crontab line"
        else:
            reason = f"allowed {', '.join(ALIASES).lower()}"
        self._fail(f"crontab: {alias[:40].lower()!r}: {reason}", 0, allowed=", ".join(ALIASES).lower())


def _with_sunday_as_one(part: FieldPart) -> FieldPart:
    """Convert a part of crontab's weekdays (Sunday is 0 and 7) to Quartz's numbering (Sunday is 1)."""
    if part.is_all:
        return replace(part, first=1, last=_SUNDAY_AGAIN)
    first, last = part.first % 7, part.last
    if last == _SUNDAY_AGAIN:
        last = 6 if first == 0 and part.first == 0 else 0
    return replace(part, first=first + 1, last=last + 1)


@dataclass(frozen=True, slots=True)
class CrontabExpression(ScheduleExpression):
    """A crontab line in a time zone: `CrontabExpression("30 2 * * mon-fri", "Europe/Berlin")`.

    A line has five fields: minutes, hours, day of month, month, day of week (Sunday is 0 or 7). Six fields begin with
    seconds. The aliases are `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly`, `@annually`,
    `@every_minute` and `@every_second`. `text` is stored in upper case with single spaces, an alias in lower case.

    Where both day fields restrict the days, a day matches if either does; if one of them begins with "*", or with
    `day_or=False`, both must match (Debian's crontab(5); Celery and APScheduler always require both). The value of
    `H` is derived from `seed`. `dst` has the same meaning as in `CronExpression`.

    Raises:
        InvalidCronError: The line is wrong, or no day of any year matches.
        UnknownTimeZoneError: There is no such time zone.
    """

    day_or: bool = True
    seed: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InvalidCronError(f"crontab: must be str (got {type(self.text).__name__})", expression="")
        if not isinstance(self.day_or, bool):
            raise InvalidCronError(f"day_or: must be True or False (got {quoted(self.day_or)})", expression=self.text)
        self._set_values(parse_crontab(self.text, self.seed, self.day_or))

    def __reduce__(self) -> tuple[Any, ...]:
        return CrontabExpression, (self.text, self.time_zone, str(self.dst), self.day_or, self.seed)

    def describe(self) -> str:
        """The line in plain English, with its zone."""
        return f"{description(parse_crontab(self.text, self.seed, self.day_or))} ({self.time_zone})"


@lru_cache(maxsize=4096)
def crontab_expression(
    text: str, time_zone: str, dst: str, day_or: bool | None = None, seed: str | None = None
) -> CrontabExpression:
    """Return `CrontabExpression(...)` of these values; equal values get the same object.

    Raises:
        InvalidCronError, UnknownTimeZoneError: As `CrontabExpression` does.
    """
    return CrontabExpression(text, time_zone, dst, True if day_or is None else day_or, seed)
