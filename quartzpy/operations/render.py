"""Rows as a readable table, or as JSON. What comes from the database cannot move the terminal's cursor."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from quartzpy.texts import visible


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


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Columns as wide as what they hold; the last one is left as it is."""
    cells = [[plain(value) for value in row] for row in rows]
    widths = [max([len(head), *(len(row[n]) for row in cells)]) for n, head in enumerate(columns)]
    lines = [[head.upper() for head in columns], *cells]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


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
