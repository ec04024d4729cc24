"""Tables and detail views: which columns fit the terminal, where long cells are cut, and values line by line."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from quartzpy.cli.formatter import EMPTY, Formatter, cut, faint, heading, padded, styled, width_of
from quartzpy.operations.lists.spec import Column, Look
from quartzpy.texts import visible

SHORTEST = 6
"""The smallest width to which a cell is cut."""
_GAP = 2
_T = TypeVar("_T")


def draw(
    columns: Sequence[Column[_T]],
    records: Sequence[_T],
    formatter: Formatter,
    *,
    width: int | None = None,
    omit: bool = True,
    note: bool = True,
) -> str:
    """Return records as a table, not wider than `width`.

    If `omit` is true, columns that may be omitted and have no value at all are, and where the width does not suffice,
    others are in the order of their `drop`. Then long cells are cut. The last line names the omitted columns (unless
    `note` is False). The heading of the first column of instants that is not omitted names the time zone.
    """
    rows = [[cell(column, record, formatter) for column in columns] for record in records]
    instants = [column for column in columns if column.look is Look.INSTANT]
    first_zoned = min(instants, key=lambda column: column.drop > 0).name if instants else None
    heads = [
        f"{column.name.upper()} ({formatter.zone_name})" if column.name == first_zoned else column.name.upper()
        for column in columns
    ]
    widths = [max([width_of(head), *(width_of(row[n]) for row in rows)]) for n, head in enumerate(heads)]
    filled = [n for n, column in enumerate(columns) if not column.drop or any(row[n] != EMPTY for row in rows)]
    shown = list(range(len(columns)))
    if width is not None and omit:
        shown = _fitting(columns, widths, width, filled)
    if width is not None:
        _narrow(columns, widths, shown, width)
    lines = [heading(_line([padded(cut(heads[n], widths[n]), widths[n], right=columns[n].is_right) for n in shown]))]
    for row in rows:
        lines.append(_line([_cell(columns[n], row[n], widths[n], last=n == shown[-1]) for n in shown]))
    omitted = [columns[n].name for n in filled if n not in shown]
    if omitted and note:
        text = f"(omitted: {', '.join(omitted)}; use a wider terminal, --columns or --json)"
        lines += [faint(line) for line in textwrap.wrap(text, width or 80)]
    return "\n".join(lines)


def cell(column: Column[_T], record: _T, formatter: Formatter) -> str:
    """Return the text of a cell."""
    value = column.value(record)
    return formatter.sentence(value) if column.look is Look.SENTENCE and value else formatter.text(value)


def _line(cells: Sequence[str]) -> str:
    return (" " * _GAP).join(cells).rstrip()


def _cell(column: Column[Any], text: str, width: int, *, last: bool) -> str:
    short = cut(text, width, middle=column.look is Look.NAME)
    filled = short if last and not column.is_right else padded(short, width, right=column.is_right)
    return styled(text, filled) if column.look is Look.STATE else filled


def _fitting(columns: Sequence[Column[Any]], widths: Sequence[int], width: int, filled: Sequence[int]) -> list[int]:
    """Return those of the `filled` columns that stay, so that the table fits with its cells still readable."""
    shown = list(filled)
    for n in sorted((n for n in shown if columns[n].drop), key=lambda n: columns[n].drop):
        least = [widths[m] if columns[m].is_rigid else min(widths[m], columns[m].readable) for m in shown]
        if sum(least) + _GAP * (len(shown) - 1) <= width:
            break
        shown.remove(n)
    return shown


def _narrow(columns: Sequence[Column[Any]], widths: list[int], shown: Sequence[int], width: int) -> None:
    """Narrow the widest columns until the table fits: first to what is readable, rigid ones only at last."""
    flexible = [n for n in shown if not columns[n].is_rigid]
    for among, least in ((flexible, None), (flexible, SHORTEST), (shown, SHORTEST)):
        while sum(widths[n] for n in shown) + _GAP * (len(shown) - 1) > width:
            wide = [n for n in among if widths[n] > (columns[n].readable if least is None else least)]
            if not wide:
                break
            widths[max(wide, key=lambda n: widths[n])] -= 1


_INDENT = "  "


class DetailView:
    """Collects the lines of a detail view for a terminal of `width` columns; None does not wrap or cut."""

    def __init__(self, formatter: Formatter, width: int | None) -> None:
        self._formatter = formatter
        self._width = width
        self._lines: list[str] = []

    def in_zone(self, zone: str) -> bool:
        """Return True if the instants of the view are printed in this zone."""
        return zone == self._formatter.zone_name

    def title(self, text: str, state: str | None = None) -> None:
        words = heading(visible(text))
        self._lines.append(words if state is None else f"{words}  {styled(state)}")

    def values(self, values: Mapping[str, Any]) -> None:
        """Add a line for each value that is not empty, with the names in one column."""
        filled_values = {name: value for name, value in values.items() if value not in (None, "", (), [], {})}
        if not filled_values:
            return
        margin = max(map(width_of, filled_values)) + 2
        for name, value in filled_values.items():
            text = self._formatter.text(value)
            first, *rest = self._wrapped(text, len(_INDENT) + margin)
            self._lines.append(f"{_INDENT}{faint(name.ljust(margin))}{first}")
            self._lines += [f"{_INDENT}{' ' * margin}{line}" for line in rest]

    def sentences(self, title: str, sentences: Iterable[str]) -> None:
        texts = list(sentences)
        if texts:
            self._section(title)
            for sentence in texts:
                self._lines += [
                    f"{_INDENT}{line}" for line in self._wrapped(self._formatter.sentence(sentence), len(_INDENT))
                ]

    def plain(self, sentences: Iterable[str], *, indent: int = 0) -> None:
        """Add sentences without a title, behind `indent` spaces."""
        for sentence in sentences:
            self._lines += [" " * indent + line for line in self._wrapped(self._formatter.sentence(sentence), indent)]

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

    def table(self, title: str, columns: Sequence[Column[_T]], records: Sequence[_T]) -> None:
        """Add a table under a title; nothing if there are no records."""
        if not records:
            return
        self._section(title)
        width = None if self._width is None else self._width - len(_INDENT)
        drawn = draw(columns, records, self._formatter, width=width, note=False)
        self._lines += [f"{_INDENT}{line}" for line in drawn.split("\n")]

    def __str__(self) -> str:
        return "\n".join(self._lines)

    def _section(self, title: str) -> None:
        self._lines += ["", heading(title)]

    def _wrapped(self, text: str, margin: int) -> list[str]:
        if self._width is None or width_of(text) <= self._width - margin:
            return [text]
        return textwrap.wrap(text, max(20, self._width - margin)) or [""]
