"""The lines of the values of a file, for what is wrong in it. Pure functions."""

from __future__ import annotations

import tomllib
from typing import Any

from quartzpy.definitions.faults import Place
from quartzpy.definitions.yaml_text import yaml_line

_MAX_TEXT = 200_000
"""The largest text in which lines are looked up: a TOML text is parsed some times for each of them."""


def line_of(place: Place, text: str, *, is_yaml: bool) -> int | None:
    """Return the number of the line, from 1, in which a value begins, or the table that lacks it; None if unknown."""
    if len(text) > _MAX_TEXT:
        return None
    while place:
        number = yaml_line(place, text) if is_yaml else _toml_line(place, text)
        if number is not None:
            return number
        # The value is not there: the table that lacks it is.
        place = place[:-1]
    return None


def _toml_line(place: Place, text: str) -> int | None:
    """Return the line that the shortest beginning of a TOML text has more than the one without the value."""
    lines = text.splitlines()
    without, beyond = 0, len(lines) + 1
    while beyond - without > 1:
        middle = (without + beyond) // 2
        has_it, parsed = _beginning_has(place, lines, middle, beyond)
        if has_it:
            beyond = middle
        else:
            without = parsed
    return beyond if beyond <= len(lines) else None


def _beginning_has(place: Place, lines: list[str], number: int, beyond: int) -> tuple[bool, int]:
    """Return whether the first lines have a value, and how many of them were parsed: a value may take several."""
    for end in range(number, beyond):
        try:
            document: Any = tomllib.loads("\n".join(lines[:end]))
        except (ValueError, RecursionError):
            continue
        return _has(document, place), end
    return True, number


def _has(document: Any, place: Place) -> bool:
    for part in place:
        try:
            document = document[part]
        except (LookupError, TypeError):
            return False
    return True
