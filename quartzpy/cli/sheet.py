"""The sheet of one object: its values line by line, and tables of what belongs to it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from quartzpy.cli.cells import Cells, faint, heading, styled, width_of
from quartzpy.cli.layout import Column, draw
from quartzpy.texts import visible

_T = TypeVar("_T")
_INDENT = "  "


class Sheet:
    """Collects the lines of a sheet for a terminal of `width` columns; None does not wrap or cut."""

    def __init__(self, cells: Cells, width: int | None) -> None:
        self._cells = cells
        self._width = width
        self._lines: list[str] = []

    def in_zone(self, zone: str) -> bool:
        """Return True if the instants of the sheet are printed in this zone."""
        return zone == self._cells.zone_name

    def title(self, text: str, state: str | None = None) -> None:
        words = heading(visible(text))
        self._lines.append(words if state is None else f"{words}  {styled(state)}")

    def values(self, values: Mapping[str, Any]) -> None:
        """Add a line for each value that is not empty, with the names in one column."""
        given = {name: value for name, value in values.items() if value not in (None, "", (), [], {})}
        if not given:
            return
        margin = max(map(width_of, given)) + 2
        for name, value in given.items():
            text = self._cells.text(value)
            first, *rest = self._wrapped(text, len(_INDENT) + margin)
            self._lines.append(f"{_INDENT}{faint(name.ljust(margin))}{first}")
            self._lines += [f"{_INDENT}{' ' * margin}{line}" for line in rest]

    def sentences(self, title: str, sentences: Iterable[str]) -> None:
        found = list(sentences)
        if found:
            self._section(title)
            for sentence in found:
                self._lines += [
                    f"{_INDENT}{line}" for line in self._wrapped(self._cells.sentence(sentence), len(_INDENT))
                ]

    def plain(self, sentences: Iterable[str], *, indent: int = 0) -> None:
        """Add sentences without a title, behind `indent` spaces."""
        for sentence in sentences:
            self._lines += [" " * indent + line for line in self._wrapped(self._cells.sentence(sentence), indent)]

    def lines(self, title: str, text: str | None) -> None:
        """Add a text of several lines as it is, except that control characters become escapes."""
        if text:
            self._section(title)
            self._lines += [f"{_INDENT}{visible(line)}" for line in text.rstrip("\n").split("\n")]

    def named(self, title: str, values: Mapping[str, Any]) -> None:
        """Add values under a title; nothing if there are none."""
        if values:
            self._section(title)
            self.values(
                {visible(str(name)): value if value not in (None, "") else "-" for name, value in values.items()}
            )

    def table(
        self, title: str, columns: Sequence[Column[_T]], records: Sequence[_T], zoned: Sequence[str] = ()
    ) -> None:
        """Add a table under a title; nothing if there are no records."""
        if not records:
            return
        self._section(title)
        width = None if self._width is None else self._width - len(_INDENT)
        drawn = draw(columns, records, self._cells, width=width, zoned=zoned, note=False)
        self._lines += [f"{_INDENT}{line}" for line in drawn.split("\n")]

    def __str__(self) -> str:
        return "\n".join(self._lines)

    def _section(self, title: str) -> None:
        self._lines += ["", heading(title)]

    def _wrapped(self, text: str, margin: int) -> list[str]:
        if self._width is None or width_of(text) <= self._width - margin:
            return [text]
        return textwrap.wrap(text, max(20, self._width - margin)) or [""]
