"""Quartz cron text to fields. What is refused is refused with its place and what would be allowed.

Six fields and an optional seventh: seconds, minutes, hours, day-of-month, month, day-of-week, year. One of
the two day fields must be "?". Quartz's own parser lets much pass that its documentation does not know
("5x", "MON/2", "1-5W", steps of 0, years without bounds) and then means something else by it than the
writer did; here all of that is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import NoReturn

from quartzpy.cron_expressions.days import DayRule, LastDay, NthWeekday
from quartzpy.cron_expressions.timetable import FIRST_YEAR, LAST_YEAR, Timetable
from quartzpy.errors import InvalidCronError

MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MAX_DAYS_BEFORE_LAST = 30
MAX_LENGTH = 20_000
"""Characters in an expression: more than any list needs."""

_TOKEN = re.compile(r"[^ \t]+")
_VALUE = r"(?:[0-9]{1,9}|[A-Z]{3})"
_ITEM = re.compile(rf"(?:(?P<all>\*)|(?P<first>{_VALUE})(?:-(?P<last>{_VALUE}))?)?(?:/(?P<step>[0-9]{{1,9}}))?")
_LAST_DAY = re.compile(r"L(?:-(?P<before>[0-9]{1,9}))?(?P<workday>W)?")
_NEAREST = re.compile(r"(?P<day>[0-9]{1,9})W")
_NTH = re.compile(rf"(?P<day>{_VALUE})(?:(?P<last>L)|#(?P<nth>[0-9]{{1,9}}))")
_KNOWN_CHARACTERS = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ*?,-/#")
_LONGEST_QUOTED = 40


@dataclass(frozen=True, slots=True)
class FieldKind:
    """What a field's values are. `names` are other spellings; a range may wrap around where `wraps`."""

    name: str
    low: int
    high: int
    names: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    wraps: bool = True

    @property
    def allowed(self) -> str:
        named = f" or {next(iter(self.names))}-{list(self.names)[-1]}" if self.names else ""
        return f"{self.low}-{self.high}{named}"

    @property
    def max_step(self) -> int:
        """A longer step would never be taken."""
        return self.high

    @property
    def size(self) -> int:
        return self.high - self.low + 1


SECONDS = FieldKind("seconds", 0, 59)
MINUTES = FieldKind("minutes", 0, 59)
HOURS = FieldKind("hours", 0, 23)
DAY_OF_MONTH = FieldKind("day-of-month", 1, 31)
MONTH = FieldKind("month", 1, 12, MappingProxyType({name: n for n, name in enumerate(MONTH_NAMES, 1)}))
DAY_OF_WEEK = FieldKind("day-of-week", 1, 7, MappingProxyType({name: n for n, name in enumerate(WEEKDAY_NAMES, 1)}))
YEAR = FieldKind("year", FIRST_YEAR, LAST_YEAR, wraps=False)
FIELD_KINDS = (SECONDS, MINUTES, HOURS, DAY_OF_MONTH, MONTH, DAY_OF_WEEK, YEAR)


@dataclass(frozen=True, slots=True)
class Part:
    """One of the parts that commas separate: every `step`-th value from `first` to `last`.

    `last` below `first` wraps around. `is_all` for "*" and "*/step", `is_open` where only the first value
    and the step were given. A single value has `first` equal to `last`.
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
    """A cron expression, read. `text` is it in capitals with single spaces.

    `parts` has the seven fields' lists; the special forms of the day fields are in `days` alone, and a
    field of "?" has no part.
    """

    text: str
    parts: tuple[tuple[Part, ...], ...]
    days: DayRule
    is_interval: bool
    """Whether seconds, minutes or hours have a wildcard, a step or a range: a rhythm, not times of day."""

    def timetable(self) -> Timetable:
        seconds, minutes, hours = (_mask(parts, kind) for parts, kind in zip(self.parts, FIELD_KINDS[:3], strict=False))
        months = _mask(self.parts[4], MONTH)
        years = None
        if not any(part.is_all and part.step == 1 for part in self.parts[6]):
            years = frozenset(value for part in self.parts[6] for value in part.values(YEAR))
        return Timetable(seconds, minutes, hours, self.days, months, years)


def _mask(parts: tuple[Part, ...], kind: FieldKind) -> int:
    mask = 0
    for part in parts:
        for value in part.values(kind):
            mask |= 1 << value
    return mask


@lru_cache(maxsize=4096)
def parse(expression: str) -> CronFields:
    """Read a Quartz cron expression.

    Raises:
        InvalidCronError: it is wrong; the message names the field, what is wrong in it and what is allowed.
    """
    return _Parser(expression).fields()


class _Parser:
    def __init__(self, expression: str) -> None:
        if not isinstance(expression, str):
            raise InvalidCronError(f"cron expression: must be str (got {type(expression).__name__})", expression="")
        self._expression = expression
        if len(expression) > MAX_LENGTH:
            self._fail(f"cron expression: {len(expression)} characters, at most {MAX_LENGTH}", 0)

    def fields(self) -> CronFields:
        # Only ASCII has capitals here: others ("ſ") would turn into letters that the writer did not write.
        text = "".join(c.upper() if c.isascii() else c for c in self._expression)
        tokens = [(match.group(), match.start()) for match in _TOKEN.finditer(text)]
        if len(tokens) not in (6, 7):
            hint = "; crontab lines of five fields are read by CronTrigger.from_crontab" if len(tokens) == 5 else ""
            position = tokens[7][1] if len(tokens) > 7 else len(self._expression.rstrip(" \t"))
            self._fail(f"expected 6 or 7 fields (got {len(tokens)}){hint}", position, allowed="6 or 7 fields")
        if len(tokens) == 6:
            tokens.append(("*", len(text)))
        parts: list[tuple[Part, ...]] = []
        rule = DayRule()
        for kind, (token, start) in zip(FIELD_KINDS, tokens, strict=True):
            plain: list[Part] = []
            if token == "?" and kind in (DAY_OF_MONTH, DAY_OF_WEEK):
                parts.append(())
                continue
            items = token.split(",")
            at = start
            for item in items:
                special = self._special(kind, item, at, alone=len(items) == 1)
                if special is not None:
                    rule = _joined(rule, special)
                else:
                    plain.append(self._part(kind, item, at))
                at += len(item) + 1
            parts.append(tuple(plain))
        self._check_day_fields(tokens)
        weekdays = _mask(parts[5], DAY_OF_WEEK) >> 1
        rule = _joined(rule, DayRule(month_days=_mask(parts[3], DAY_OF_MONTH), weekdays=weekdays))
        return CronFields(
            text=" ".join(token for token, start in tokens if start < len(text)),
            parts=tuple(parts),
            days=rule,
            is_interval=any(sign in token for token, _ in tokens[:3] for sign in "*/-"),
        )

    def _check_day_fields(self, tokens: list[tuple[str, int]]) -> None:
        (day, _), (weekday, position) = tokens[3], tokens[5]
        if day == "?" and weekday == "?":
            self._fail("day-of-month and day-of-week cannot both be '?'", position, DAY_OF_WEEK)
        if day != "?" and weekday != "?":
            self._fail("one of day-of-month and day-of-week must be '?'", position, DAY_OF_WEEK, allowed="?")

    def _special(self, kind: FieldKind, item: str, at: int, *, alone: bool) -> DayRule | None:
        """The rule that a special form of a day field means; None for what is not special."""
        if kind is DAY_OF_MONTH:
            if match := _LAST_DAY.fullmatch(item):
                before = int(match["before"] or 0)
                if before > MAX_DAYS_BEFORE_LAST:
                    self._wrong(kind, item, at + 2, f"at most L-{MAX_DAYS_BEFORE_LAST}")
                return DayRule(last_days=(LastDay(before, match["workday"] is not None),))
            if match := _NEAREST.fullmatch(item):
                if not alone:
                    self._wrong(kind, item, at + len(item) - 1, "'W' is not possible in a list")
                return DayRule(nearest_workdays=(self._value(kind, match["day"], at, item),))
        if kind is DAY_OF_WEEK:
            match = _NTH.fullmatch(item)
            if not alone and (match or item == "L"):
                sign = "#" if "#" in item else "L"
                hint = "; write SAT" if item == "L" else ""
                self._wrong(kind, item, at + item.index(sign), f"'{sign}' is not possible in a list{hint}")
            if item == "L":
                return DayRule(weekdays=1 << 6)
            if match:
                day = self._value(kind, match["day"], at, item)
                nth = None if match["last"] else int(match["nth"])
                if nth is not None and not 1 <= nth <= 5:
                    self._wrong(kind, item, at + item.index("#") + 1, "after '#' allowed 1-5", allowed="1-5")
                return DayRule(nth_weekdays=(NthWeekday(day - 1, nth),))
        return None

    def _part(self, kind: FieldKind, item: str, at: int) -> Part:
        match = _ITEM.fullmatch(item)
        if match is None or not item:
            self._malformed(kind, item, at)
        step = 1
        if match["step"]:
            step = int(match["step"])
            if step < 1:
                self._wrong(kind, item, at + match.start("step"), "step must be 1 or more")
            if step > kind.max_step:
                self._wrong(kind, item, at + match.start("step"), f"step must be at most {kind.max_step}")
        if match["first"] is None:
            return Part(kind.low, kind.high, step, is_all=True)
        first = self._value(kind, match["first"], at, item)
        named = match["first"].isalpha()
        if named and match["step"]:
            self._wrong(kind, item, at + match.start("step") - 1, "a step is counted from a number, not from a name")
        if match["last"] is None:
            return Part(first, kind.high, step, is_open=True) if match["step"] else Part(first, first)
        last = self._value(kind, match["last"], at + match.start("last"), item)
        if named != match["last"].isalpha():
            self._wrong(kind, item, at + match.start("last"), "a range is of two numbers or of two names")
        if last < first and not kind.wraps:
            self._wrong(kind, item, at, f"the range ends before it begins; allowed {kind.allowed}")
        return Part(first, last, step)

    def _value(self, kind: FieldKind, text: str, at: int, item: str) -> int:
        if text.isalpha():
            if text not in kind.names:
                self._wrong(kind, item, at, f"{text!r} is not a name here; allowed {kind.allowed}")
            return kind.names[text]
        value = int(text)
        if not kind.low <= value <= kind.high:
            self._wrong(kind, item, at, f"allowed {kind.allowed}")
        return value

    def _malformed(self, kind: FieldKind, item: str, at: int) -> NoReturn:
        """Say as well as possible why `item` is none of the forms."""
        if not item:
            self._wrong(kind, item, at, "empty place in the list")
        for offset, character in enumerate(item):
            if character not in _KNOWN_CHARACTERS:
                self._wrong(kind, item, at + offset, f"unexpected character {character!r}")
        if "?" in item:
            reason = (
                "'?' must stand alone"
                if kind in (DAY_OF_MONTH, DAY_OF_WEEK)
                else ("'?' is only for day-of-month and day-of-week")
            )
            self._wrong(kind, item, at + item.index("?"), reason)
        if item.endswith("/"):
            self._wrong(kind, item, at + len(item), "a number must follow '/'")
        if item.endswith("-"):
            self._wrong(kind, item, at + len(item), "a value must follow '-'")
        if "#" in item:
            reason = "after '#' allowed 1-5" if kind is DAY_OF_WEEK else "'#' is only for day-of-week"
            self._wrong(kind, item, at + item.index("#"), reason)
        for word in re.finditer(r"[A-Z]+", item):
            if word.group() not in kind.names:
                self._wrong(
                    kind,
                    item,
                    at + word.start(),
                    f"{_not_a_name(kind, word.group())}; allowed {kind.allowed}",
                )
        good = re.match(rf"(?:\*|{_VALUE}(?:-{_VALUE})?)?(?:/[0-9]+)?", item)
        offset = good.end() if good else 0
        self._wrong(
            kind,
            item,
            at + offset,
            f"cannot be read from {item[offset : offset + 10]!r} on; allowed {kind.allowed}",
        )

    def _wrong(self, kind: FieldKind, item: str, position: int, reason: str, *, allowed: str | None = None) -> NoReturn:
        quoted = item if len(item) <= _LONGEST_QUOTED else item[:_LONGEST_QUOTED] + "…"
        self._fail(f"{kind.name} field {quoted!r}: {reason}", position, kind, allowed=allowed or kind.allowed)

    def _fail(
        self, message: str, position: int, kind: FieldKind | None = None, *, allowed: str | None = None
    ) -> NoReturn:
        raise InvalidCronError(
            message,
            expression=self._expression,
            position=position,
            field=None if kind is None else kind.name,
            allowed=allowed,
        )


def _not_a_name(kind: FieldKind, word: str) -> str:
    if word in ("L", "W", "LW"):
        where = "day-of-month" if "W" in word else "day-of-month and day-of-week"
        if kind not in (DAY_OF_MONTH, DAY_OF_WEEK) or (kind is DAY_OF_WEEK and "W" in word):
            return f"{word!r} is only for {where}"
        return f"{word!r} is not possible here"
    return f"{word!r} is not a name here"


def _joined(one: DayRule, other: DayRule) -> DayRule:
    return DayRule(
        month_days=one.month_days | other.month_days,
        weekdays=one.weekdays | other.weekdays,
        nearest_workdays=one.nearest_workdays + other.nearest_workdays,
        last_days=one.last_days + other.last_days,
        nth_weekdays=one.nth_weekdays + other.nth_weekdays,
    )
