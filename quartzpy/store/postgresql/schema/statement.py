"""Statements in the wire format, from texts as they stand in the `.sql` files.

A text has values as `:'name'`, the store's time as `:now`, and the tables under their default names. Values are sent in
PostgreSQL's text format, so each value is cast at its first use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from quartzpy.config.config import DEFAULT_TABLE_PREFIX
from quartzpy.store.postgresql.schema.naming import DEFAULT_NAMES, Names

_VALUE = re.compile(r":'(\w+)'")
# Each alternative begins with its own letter and looks behind afterwards, which makes the search many times faster.
_PLACE = re.compile(rf"{_VALUE.pattern}|:now(?<!::now)\b|{DEFAULT_TABLE_PREFIX}(?<!\w{DEFAULT_TABLE_PREFIX})(?=\w)")
_PARAMETER = re.compile(r"\$(\d+)(?:::(\w+(?:\[\])?))?")
_NEEDS_QUOTES = re.compile(r'[\s{}",\\]')
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL in the wire format, with `$1` in place of the first named value, and so on."""

    name: str
    sql: bytes
    values: tuple[str, ...]

    def encode(self, values: Mapping[str, Any]) -> list[bytes | None]:
        return [as_text(values[name]) for name in self.values]


def literal(value: str) -> str:
    """Return a text as a literal, whatever standard_conforming_strings is."""
    escaped = value.replace("\\", "\\\\").replace("'", "''")
    return f" E'{escaped}'"


def prepare(name: str, text: str, names: Names = DEFAULT_NAMES) -> Statement:
    """Return the statement of a text for the database with these names."""
    numbers: dict[str, int] = {}

    def substitute(match: re.Match[str]) -> str:
        if match[1]:
            return f"${numbers.setdefault(match[1], len(numbers) + 1)}"
        return names.now if match[0] == ":now" else names.before_each

    sql = _PLACE.sub(substitute, text)
    return Statement(name, sql.encode(), tuple(numbers))


def as_query(text: str) -> bytes:
    """Return a text, whose names it keeps, as psycopg executes it with a mapping of values."""
    return _VALUE.sub(r"%(\1)s", text.replace("%", "%%")).encode()


def with_texts(sql: str) -> str:
    """Return the statement with parameters of type text, each cast to the type that the statement names."""
    return with_values_as(sql, {int(number): f"${number}::text" for number, _ in _PARAMETER.findall(sql)})


def with_values_as(sql: str, expressions: Mapping[int, str]) -> str:
    """Return the statement with these expressions, which are texts, in place of the parameters of these numbers.

    Each is cast to the type that the statement names at one of the parameter's uses.
    """
    types: dict[str, str] = {}
    for number, kind in _PARAMETER.findall(sql):
        if kind:
            types.setdefault(number, kind)

    def cast(match: re.Match[str]) -> str:
        expression = expressions.get(int(match[1]))
        if expression is None:
            return match[0]
        kind = match[2] or types.get(match[1], "text")
        return f"({expression})" if kind == "text" else f"({expression})::{kind}"

    return _PARAMETER.sub(cast, sql)


def _quoted(value: str) -> str:
    if value and not _NEEDS_QUOTES.search(value) and value.upper() != "NULL":
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _span(value: timedelta) -> str:
    # Days would depend on the time zone.
    return f"{value // _MICROSECOND} microseconds"


def _boolean(value: bool) -> str:
    return "t" if value else "f"


_SCALARS: dict[type, Callable[[Any], str]] = {
    bool: _boolean,
    int: str,
    datetime: datetime.isoformat,
    timedelta: _span,
}
_ITEMS: dict[type, Callable[[Any], str]] = {
    **_SCALARS,
    type(None): lambda _: "NULL",
    str: _quoted,
    list: lambda value: _quoted(array(value)),
    tuple: lambda value: _quoted(array(value)),
}


def _item(value: Any) -> str:
    convert = _ITEMS.get(value.__class__)
    return _quoted(str(value)) if convert is None else convert(value)


def array(values: list[Any] | tuple[Any, ...]) -> str:
    """Return a PostgreSQL array literal. A nested list becomes a quoted literal: cast it where it is used."""
    kinds = set(map(type, values))
    if len(kinds) != 1:
        return "{" + ",".join(map(_item, values)) + "}"
    kind = kinds.pop()
    # Most columns of a batch have one type, and most texts need no escapes: both are found out for all values at once.
    if kind is str and "\\" not in (joined := '","'.join(values)) and joined.count('"') == 2 * (len(values) - 1):
        return f'{{"{joined}"}}'
    # The same for lists of instants, whose text has nothing to escape.
    if (kind is tuple or kind is list) and set(map(type, chain.from_iterable(values))) == {datetime}:
        return "{" + ",".join(['"{' + ",".join(map(datetime.isoformat, value)) + '}"' for value in values]) + "}"
    return "{" + ",".join(map(_ITEMS.get(kind, _item), values)) + "}"


def as_text(value: Any) -> bytes | None:
    """Return the text format of a value: None, str, bool, int, datetime, timedelta, or a list of these."""
    match value:
        case None:
            return None
        case str():
            return value.encode()
        case list() | tuple():
            return array(value).encode()
    return _SCALARS.get(value.__class__, str)(value).encode()
