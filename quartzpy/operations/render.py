"""Rows as a readable table, or as JSON. What comes from the database cannot move the terminal's cursor."""

from __future__ import annotations

import json
import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from quartzpy.texts import visible

READABLE = 20
"""Columns of a cell that is cut and still readable: the length of an instant."""
SHORTEST = 8
"""No cell is cut to less."""


def plain(value: Any) -> str:
    """A value as one line of text, control characters shown as escapes."""
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
    """Return rows as a table, each column as wide as its cells.

    Where `width` is given and the table is wider, the columns in `droppable` are left out one after the other, and then
    the widest cells are cut. The last line says which columns were left out.
    """
    cells = [[plain(value) for value in row] for row in rows]
    heads = [head.upper() for head in columns]
    widths = [max([len(head), *(len(row[n]) for row in cells)]) for n, head in enumerate(heads)]
    shown = list(range(len(columns)))
    left_out = []
    for name in droppable:
        # Only where cutting would take too much of what remains.
        if width is None or _least(widths, shown) <= width:
            break
        left_out.append(name)
        shown.remove(list(columns).index(name))
    if width is not None:
        _cut(widths, shown, width)
    lines = ["  ".join(_cell(line[n], widths[n]) for n in shown).rstrip() for line in [heads, *cells]]
    if left_out:
        lines += textwrap.wrap(f"({', '.join(left_out)}: in a wider terminal, or by --json)", width or 80)
    return "\n".join(lines)


def _cell(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"


def _least(widths: Sequence[int], shown: Sequence[int]) -> int:
    """Return the width of a table whose cells are cut as far as they stay readable."""
    return sum(min(widths[n], READABLE) for n in shown) + 2 * (len(shown) - 1)


def _cut(widths: list[int], shown: Sequence[int], width: int) -> None:
    """Narrow the widest columns until the table fits, or nothing readable can be cut."""
    while sum(widths[n] for n in shown) + 2 * (len(shown) - 1) > width:
        widest = max(shown, key=lambda n: widths[n])
        if widths[widest] <= SHORTEST:
            return
        widths[widest] -= 1


def local_zone() -> str:
    """Return the names of this machine's time zone, in which `plain` writes instants: "UTC", or "CET/CEST"."""
    return "/".join(dict.fromkeys(time.tzname))


def as_json(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A JSON array of objects."""
    return json.dumps([dict(zip(columns, row, strict=True)) for row in rows], default=json_value, indent=2)


def json_line(event: Mapping[str, Any]) -> str:
    return json.dumps(event, default=json_value)


def json_value(value: Any) -> Any:
    """What JSON has no form for: instants in ISO 8601, spans in seconds, the rest as text."""
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
    return str(value)
