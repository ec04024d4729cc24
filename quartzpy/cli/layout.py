"""The layout of a table: which columns fit the terminal, and where long cells are cut. Pure functions."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from quartzpy.cli.cells import EMPTY, Cells, cut, faint, heading, padded, styled, width_of

READABLE = 18
"""The width to which the cells of a column may be cut and stay readable, unless the column says otherwise."""
SHORTEST = 6
"""The smallest width to which a cell is cut."""
_GAP = 2
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Column(Generic[_T]):
    """One column of a table: its value of a record, and how it behaves where the terminal is narrow."""

    name: str
    value: Callable[[_T], Any]
    drop: int = 0
    """The order in which columns are omitted: 1 first; those with 0 never are."""
    extra: bool = False
    """True for a column that is shown only where `--columns` names it."""
    middle: bool = False
    """True to cut long cells in the middle, because keys differ in their ends."""
    right: bool = False
    rigid: bool = False
    """True for cells that are useless when they are cut: instants, states, numbers."""
    readable: int = READABLE
    """The width to which its cells may be cut and stay readable."""
    is_state: bool = False
    """True for the name of a state, which has its colour."""

    @property
    def option(self) -> str:
        """The name for `--columns`."""
        return self.name.replace(" ", "_")


def draw(
    columns: Sequence[Column[_T]],
    records: Sequence[_T],
    cells: Cells,
    *,
    width: int | None = None,
    zoned: Sequence[str] = (),
    omit: bool = True,
    note: bool = True,
) -> str:
    """Return records as a table, not wider than `width`.

    If `omit` is true, columns that may be omitted and have no value at all are, and where the width does not suffice,
    others are in the order of their `drop`. Then long cells are cut. The last line names the omitted columns (unless
    `note` is False). The heading of the first column among `zoned` names the time zone.
    """
    rows = [[cells.text(column.value(record)) for column in columns] for record in records]
    first_zoned = next((column.name for column in columns if column.name in zoned), None)
    heads = [
        f"{column.name.upper()} ({cells.zone_name})" if column.name == first_zoned else column.name.upper()
        for column in columns
    ]
    widths = [max([width_of(head), *(width_of(row[n]) for row in rows)]) for n, head in enumerate(heads)]
    filled = [n for n, column in enumerate(columns) if not column.drop or any(row[n] != EMPTY for row in rows)]
    kept = list(range(len(columns)))
    if width is not None and omit:
        kept = _fitting(columns, widths, width, filled)
    if width is not None:
        _narrow(columns, widths, kept, width)
    lines = [heading(_line([padded(cut(heads[n], widths[n]), widths[n], right=columns[n].right) for n in kept]))]
    for row in rows:
        lines.append(_line([_cell(columns[n], row[n], widths[n], last=n == kept[-1]) for n in kept]))
    omitted = [columns[n].name for n in filled if n not in kept]
    if omitted and note:
        text = f"(omitted: {', '.join(omitted)}; use a wider terminal, --columns or --json)"
        lines += [faint(line) for line in textwrap.wrap(text, width or 80)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return (" " * _GAP).join(cells).rstrip()


def _cell(column: Column[Any], text: str, width: int, *, last: bool) -> str:
    short = cut(text, width, middle=column.middle)
    filled = short if last and not column.right else padded(short, width, right=column.right)
    return styled(text, filled) if column.is_state else filled


def _fitting(columns: Sequence[Column[Any]], widths: Sequence[int], width: int, filled: Sequence[int]) -> list[int]:
    """Return those of the `filled` columns that stay, so that the table fits with its cells still readable."""
    kept = list(filled)
    for n in sorted((n for n in kept if columns[n].drop), key=lambda n: columns[n].drop):
        least = [widths[m] if columns[m].rigid else min(widths[m], columns[m].readable) for m in kept]
        if sum(least) + _GAP * (len(kept) - 1) <= width:
            break
        kept.remove(n)
    return kept


def _narrow(columns: Sequence[Column[Any]], widths: list[int], kept: Sequence[int], width: int) -> None:
    """Narrow the widest columns until the table fits: first to what is readable, rigid ones only at last."""
    flexible = [n for n in kept if not columns[n].rigid]
    for among, least in ((flexible, None), (flexible, SHORTEST), (kept, SHORTEST)):
        while sum(widths[n] for n in kept) + _GAP * (len(kept) - 1) > width:
            wide = [n for n in among if widths[n] > (columns[n].readable if least is None else least)]
            if not wide:
                break
            widths[max(wide, key=lambda n: widths[n])] -= 1
