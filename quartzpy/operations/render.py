"""Formatting of rows as a table or as JSON. Control characters from the database are escaped."""

from __future__ import annotations

import json
import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from quartzpy.keys import Key
from quartzpy.scheduler.querying import Page
from quartzpy.texts import visible

READABLE = 20
"""The width to which a cell may be cut and stay readable: that of an instant."""
SHORTEST = 8
"""The smallest width to which a cell is cut."""


def plain(value: Any) -> str:
    """Format a value as one line of text, with escapes for control characters."""
    match value:
        case None:
            return "-"
        case datetime():
            return value.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        case timedelta():
            return f"{value.total_seconds():.1f}s"
        case bool():
            return "yes" if value else "no"
    return visible(str(value))


def table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, width: int | None = None, droppable: Sequence[str] = ()
) -> str:
    """Format rows as a table, each column as wide as its widest cell.

    If the table is wider than `width`, the columns in `droppable` are omitted in that order, and then the widest cells
    are cut. The last line names the omitted columns.
    """
    cells = [[plain(value) for value in row] for row in rows]
    heads = [head.upper() for head in columns]
    widths = [max([len(head), *(len(row[n]) for row in cells)]) for n, head in enumerate(heads)]
    shown = list(range(len(columns)))
    left_out = []
    for name in droppable:
        # Cutting cells is better than omitting a column, as long as the cells stay readable.
        if width is None or _least(widths, shown) <= width:
            break
        left_out.append(name)
        shown.remove(list(columns).index(name))
    if width is not None:
        _cut(widths, shown, width)
    lines = ["  ".join(_cell(line[n], widths[n]) for n in shown).rstrip() for line in [heads, *cells]]
    if left_out:
        lines += textwrap.wrap(f"(omitted: {', '.join(left_out)}; use a wider terminal or --json)", width or 80)
    return "\n".join(lines)


def _cell(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"


def _least(widths: Sequence[int], shown: Sequence[int]) -> int:
    """Return the width of the table when each cell is cut as far as it stays readable."""
    return sum(min(widths[n], READABLE) for n in shown) + 2 * (len(shown) - 1)


def _cut(widths: list[int], shown: Sequence[int], width: int) -> None:
    """Narrow the widest columns until the table fits, but none below `SHORTEST`."""
    while sum(widths[n] for n in shown) + 2 * (len(shown) - 1) > width:
        widest = max(shown, key=lambda n: widths[n])
        if widths[widest] <= SHORTEST:
            return
        widths[widest] -= 1


def local_zone() -> str:
    """Return the name of this machine's time zone, in which `plain` formats instants: "UTC" or "CET/CEST"."""
    return "/".join(dict.fromkeys(time.tzname))


def as_json(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Format rows as a JSON array of objects."""
    return json.dumps([dict(zip(columns, row, strict=True)) for row in rows], default=json_value, indent=2)


def json_line(event: Mapping[str, Any]) -> str:
    return json.dumps(event, default=json_value)


def to_json(model: Any) -> Any:
    """Convert a read model to values that JSON supports: the form of `--json` and of the JSON API.

    Instants become ISO 8601 text in UTC, spans become seconds, keys become {"group": ..., "name": ...}, and pages
    become {"items": [...], "next_cursor": ..., "examined": ...}.
    """
    match model:
        case None | bool() | int() | float():
            return model
        case str():
            return str(model)
        case Key():
            return {"group": model.group, "name": model.name}
        case datetime():
            return model.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case timedelta():
            return model.total_seconds()
        case Page():
            items = [to_json(item) for item in model]
            return {"items": items, "next_cursor": model.next_cursor, "examined": model.examined}
        case Mapping():
            return {str(key): to_json(value) for key, value in model.items()}
        case list() | tuple() | set() | frozenset():
            return [to_json(item) for item in model]
    if is_dataclass(model) and not isinstance(model, type):
        return {item.name: to_json(getattr(model, item.name)) for item in fields(model)}
    return str(model)


def json_text(value: Any, *, indent: int | None = 2) -> str:
    """Format a JSON value for people and programs: only characters that a terminal may act on are escaped."""
    text = json.dumps(value, default=json_value, ensure_ascii=False, indent=indent)
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def json_value(value: Any) -> Any:
    """Convert a value that JSON does not support: instants to ISO 8601, spans to seconds, all else to text."""
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
    return str(value)
