"""The parser of cron fields that both dialects share: values, ranges, steps, hashed values, and errors."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from hashlib import sha256
from typing import ClassVar, NoReturn

from quartzpy.cron_expressions.fields import (
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    MAX_DAYS_BEFORE_LAST,
    FieldKind,
    FieldPart,
)
from quartzpy.cron_expressions.timetable import DayRule, LastDay
from quartzpy.errors import InvalidCronError
from quartzpy.text_files import look_alike

VALUE = r"(?:[0-9]{1,9}|[A-Z]{3,9})"
_ITEM = re.compile(rf"(?:(?P<all>\*)|(?P<first>{VALUE})(?:-(?P<last>{VALUE}))?)?(?:/(?P<step>[0-9]{{1,9}}))?")
_HASHED = re.compile(r"H(?:\((?P<first>[0-9]{1,9})-(?P<last>[0-9]{1,9})\))?(?:/(?P<step>[0-9]{1,9}))?")
_LAST_DAY = re.compile(r"L(?:-(?P<before>[0-9]{1,9}))?(?P<workday>W)?")
_NEAREST = re.compile(r"(?P<day>[0-9]{1,9})W|W(?P<after>[0-9]{1,9})")
_TOKEN = re.compile(r"[^ \t]+")
# Other cron programs read the time zone from the line.
_TIME_ZONE = re.compile(r"(?:CRON_)?TZ=(?P<zone>[^ \t]*)", re.IGNORECASE)
BLANKS = " \t\r\n"
"""The characters that may stand before and after an expression."""
_KNOWN_CHARACTERS = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ*?,-/#()")
_MAX_QUOTED = 40
_HASH_FORMS = "H, H/15, H(0-29) or H(0-29)/10"


def uses_hash(expression: str) -> bool:
    """Return True if the expression contains an `H`, whose value is derived from a seed."""
    return re.search(r"(?:^|[\s,])[hH](?:$|[\s,/(])", expression) is not None


def hashed(seed: str, field: str) -> int:
    """Return a hash of the seed and the field, which is the same in every process, release and platform."""
    return int.from_bytes(sha256(f"{field}\n{seed}".encode()).digest()[:8], "big")


class FieldParser(ABC):
    """Reads the fields of one expression; each dialect's parser is a subclass.

    `subject` begins messages about the whole expression. `strict_names` refuses what Quartz refuses: a step after a
    name, and a range of a name and a number. `accepts_bare_step` accepts "/5" for "*/5", as Quartz does;
    `accepts_leading_letters` accepts "W15" for "15W", as croniter does.
    """

    subject: ClassVar[str]
    strict_names: ClassVar[bool]
    accepts_bare_step: ClassVar[bool]
    accepts_leading_letters: ClassVar[bool]

    def __init__(self, expression: str, seed: str | None, longest: int) -> None:
        if not isinstance(expression, str):
            raise InvalidCronError(f"{self.subject}: must be str (got {type(expression).__name__})", expression="")
        self._expression = expression
        self._seed = seed
        if len(expression) > longest:
            self._fail(
                f"{self.subject}: {len(expression)} characters, at most {longest}",
                longest,
                allowed=f"{longest} characters",
            )
        # Only ASCII letters are turned into capitals: others ("ſ") would turn into letters that nobody wrote.
        self._text = "".join(c.upper() if c.isascii() else c for c in expression)

    def _tokens(self) -> list[tuple[str, int]]:
        # A line of a file may end with its line break.
        begin = len(self._text) - len(self._text.lstrip(BLANKS))
        tokens = [
            (match.group(), match.start())
            for match in _TOKEN.finditer(self._text, begin, len(self._text.rstrip(BLANKS)))
        ]
        if tokens and (zone_match := _TIME_ZONE.match(self._expression, tokens[0][1])):
            rest = self._expression[zone_match.end() :].strip(BLANKS)
            self._fail(
                f"{self.subject}: the time zone is an argument and no part of the text; write"
                f" {rest[:_MAX_QUOTED]!r} with time_zone={zone_match['zone'][:_MAX_QUOTED]!r}",
                tokens[0][1],
                allowed="the fields alone",
            )
        return tokens

    def _read_fields(
        self, kinds: Sequence[FieldKind], tokens: Sequence[tuple[str, int]]
    ) -> tuple[list[tuple[FieldPart, ...]], list[DayRule]]:
        """Return the plain parts of each field, and the rules of their special forms; a day of "?" has neither."""
        parts: list[tuple[FieldPart, ...]] = []
        rules: list[DayRule] = []
        for kind, (token, start) in zip(kinds, tokens, strict=True):
            is_any_day = token == "?" and kind.name in (DAY_OF_MONTH.name, DAY_OF_WEEK.name)
            plain, rule = ((), DayRule()) if is_any_day else self._field(kind, token, start)
            parts.append(plain)
            rules.append(rule)
        return parts, rules

    def _field(self, kind: FieldKind, token: str, start: int) -> tuple[tuple[FieldPart, ...], DayRule]:
        """Return the plain parts of a field, and the rule of its special forms."""
        plain: list[FieldPart] = []
        rule = DayRule()
        items = token.split(",")
        at = start
        for item in items:
            special = self._special(kind, item, at, alone=len(items) == 1)
            if special is None:
                plain.append(self._part(kind, item, at))
            else:
                rule = rule.joined(special)
            at += len(item) + 1
        return tuple(plain), rule

    def _special(self, kind: FieldKind, item: str, at: int, *, alone: bool) -> DayRule | None:
        """Return the rule of a special form of a day field; None if the item is an ordinary one."""
        if kind.name == DAY_OF_MONTH.name:
            return self._special_month_day(kind, item, at)
        if kind.name == DAY_OF_WEEK.name:
            return self._special_weekday(kind, item, at, alone=alone)
        return None

    def _special_month_day(self, kind: FieldKind, item: str, at: int) -> DayRule | None:
        if match := _LAST_DAY.fullmatch(item):
            before = int(match["before"] or 0)
            if before > MAX_DAYS_BEFORE_LAST:
                self._wrong(kind, item, at + 2, f"at most L-{MAX_DAYS_BEFORE_LAST}")
            return DayRule(last_days=(LastDay(before, match["workday"] is not None),))
        match = _NEAREST.fullmatch(item)
        if match and (match["day"] or self.accepts_leading_letters):
            return DayRule(nearest_workdays=(self._value(kind, match["day"] or match["after"], at, item),))
        return None

    @abstractmethod
    def _special_weekday(self, kind: FieldKind, item: str, at: int, *, alone: bool) -> DayRule | None: ...

    def _nth(self, kind: FieldKind, text: str, item: str, at: int) -> int:
        nth = int(text)
        if not 1 <= nth <= 5:
            self._wrong(kind, item, at + item.index("#") + 1, "after '#' allowed 1-5", allowed="1-5")
        return nth

    def _part(self, kind: FieldKind, item: str, at: int) -> FieldPart:
        if match := _HASHED.fullmatch(item):
            return self._hashed_part(kind, item, at, match)
        match = _ITEM.fullmatch(item)
        if match is None or not item or (item.startswith("/") and not self.accepts_bare_step):
            self._malformed(kind, item, at)
        step = self._step(kind, item, at, match)
        if match["first"] is None:
            return FieldPart(kind.low, kind.high, step, is_all=True)
        first = self._value(kind, match["first"], at, item)
        named = match["first"].isalpha()
        if named and match["step"] and self.strict_names:
            self._wrong(kind, item, at + match.start("step") - 1, "a step is counted from a number, not from a name")
        if match["last"] is None:
            return FieldPart(first, kind.high, step, is_open=True) if match["step"] else FieldPart(first, first)
        last = self._value(kind, match["last"], at + match.start("last"), item)
        if named != match["last"].isalpha() and self.strict_names:
            self._wrong(kind, item, at + match.start("last"), "a range is of two numbers or of two names")
        if last < first and not kind.wraps:
            self._wrong(kind, item, at, f"the range ends before it begins; allowed {kind.allowed}")
        return FieldPart(first, last, step)

    def _step(self, kind: FieldKind, item: str, at: int, match: re.Match[str]) -> int:
        if not match["step"]:
            return 1
        step = int(match["step"])
        if step < 1:
            self._wrong(kind, item, at + match.start("step"), "step must be 1 or more")
        if step > kind.max_step:
            self._wrong(kind, item, at + match.start("step"), f"step must be at most {kind.max_step}")
        return step

    def _hashed_part(self, kind: FieldKind, item: str, at: int, match: re.Match[str]) -> FieldPart:
        if kind.highest_hashed is None:
            self._wrong(kind, item, at, "'H' is not possible here")
        if self._seed is None:
            self._wrong(
                kind,
                item,
                at,
                "'H' is a value that is derived from a seed; a CronTrigger uses its key as the seed, otherwise give"
                " seed='...'",
            )
        low, high = kind.low, kind.highest_hashed
        if match["first"]:
            low = self._value(kind, match["first"], at + match.start("first"), item)
            high = self._value(kind, match["last"], at + match.start("last"), item)
            if high < low:
                self._wrong(kind, item, at + match.start("last"), "the range ends before it begins")
        step = self._step(kind, item, at, match)
        span = high - low + 1
        number = hashed(self._seed, kind.name)
        if not match["step"]:
            value = low + number % span
            return FieldPart(value, value)
        return FieldPart(low + number % min(step, span), high, step)

    def _value(self, kind: FieldKind, text: str, at: int, item: str) -> int:
        if text.isalpha():
            if text not in kind.names:
                self._wrong(kind, item, at, f"{_not_a_name(kind, text)}; allowed {kind.allowed}")
            return kind.names[text]
        value = int(text)
        if not kind.low <= value <= kind.high:
            self._wrong(kind, item, at, f"allowed {kind.allowed}")
        return value

    def _malformed(self, kind: FieldKind, item: str, at: int) -> NoReturn:
        """Raise the error that explains best why `item` has none of the accepted forms."""
        if not item:
            self._wrong(kind, item, at, "an item of the list is empty")
        for offset, character in enumerate(item):
            if character not in _KNOWN_CHARACTERS:
                self._wrong(kind, item, at + offset, f"unexpected character {character!r}")
        if "?" in item:
            is_day = kind.name in (DAY_OF_MONTH.name, DAY_OF_WEEK.name)
            reason = "'?' must stand alone" if is_day else "'?' is only for day-of-month and day-of-week"
            self._wrong(kind, item, at + item.index("?"), reason)
        if item.startswith("H(") or "(" in item or ")" in item:
            place = item.index("(") if "(" in item else item.index(")")
            self._wrong(kind, item, at + place, f"parentheses follow an 'H': {_HASH_FORMS}")
        if item.endswith("/"):
            self._wrong(kind, item, at + len(item), "a number must follow '/'")
        if item.startswith("/"):
            self._wrong(kind, item, at, f"write *{item}")
        if item.endswith("-"):
            self._wrong(kind, item, at + len(item), "a value must follow '-'")
        if "#" in item:
            reason = "'#' is only for day-of-week"
            if kind.name == DAY_OF_WEEK.name:
                reason = "one day stands before '#', and a number from 1 to 5 after it"
            self._wrong(kind, item, at + item.index("#"), reason)
        for word in re.finditer(r"[A-Z]+", item):
            if word.group() not in kind.names:
                reason = f"{_not_a_name(kind, word.group())}; allowed {kind.allowed}"
                self._wrong(kind, item, at + word.start(), reason)
        good = re.match(rf"(?:\*|{VALUE}(?:-{VALUE})?)?(?:/[0-9]+)?", item)
        offset = good.end() if good else 0
        reason = f"cannot be read from {item[offset : offset + 10]!r} on; allowed {kind.allowed}"
        self._wrong(kind, item, at + offset, reason)

    def _wrong(self, kind: FieldKind, item: str, position: int, reason: str, *, allowed: str | None = None) -> NoReturn:
        quoted = item if len(item) <= _MAX_QUOTED else item[:_MAX_QUOTED] + "…"
        self._fail(f"{kind.name} field {quoted!r}: {reason}", position, kind, allowed=allowed or kind.allowed)

    def _fail(
        self, message: str, position: int, kind: FieldKind | None = None, *, allowed: str | None = None
    ) -> NoReturn:
        if (alike := look_alike(self._expression)) is not None:
            # It splits a field in two, or joins two, whatever the parser took for the fault.
            position, message = alike[0], f"{message}; {alike[1]}"
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
        if kind.name not in (DAY_OF_MONTH.name, DAY_OF_WEEK.name) or (kind.name == DAY_OF_WEEK.name and "W" in word):
            return f"{word!r} is only for {where}"
        return f"{word!r} is not possible here"
    return f"{word!r} is not a name here"
