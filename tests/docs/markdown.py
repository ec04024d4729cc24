"""Small helpers for pages that are rendered from the code."""

from __future__ import annotations

from datetime import timedelta


def cell(text: str) -> str:
    """A text that fits into one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def duration(value: timedelta) -> str:
    """A span as the settings take it: `5s`, `2m`, `500ms`."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(value, timedelta(seconds=length))
        if count and not rest:
            return f"{count}{unit}"
    return f"{value // timedelta(milliseconds=1)}ms"
