"""The head of a list on the page: which of its columns a reader sees, and by which it can be sorted.

A list is sorted by what an index serves, or by any column if it is so short that all of it is read. An order that would
need a scan is not offered, and a link that asks for it shows the usual order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from quartzpy.operations.lists.spec import Column, ListSpec

MAX_SORTED = 200
"""The largest number of rows of a list that is read as a whole, so that it can be sorted by any column."""
COLUMNS = "columns"
"""The query parameter with the names of the chosen columns. One that is empty tells that the form was sent."""


@dataclass(frozen=True, slots=True)
class ListHead:
    """The head of a list: its columns, those that are hidden, and its order."""

    name: str
    columns: Sequence[Column[Any]]
    hidden: frozenset[str] = frozenset()
    sortable: frozenset[str] = frozenset()
    """The columns that offer an order now."""
    only_one_way: bool = False
    """True if each order has one direction."""
    sort: str = ""
    """The column by which the list is sorted, and a "-" before it if the largest value comes first."""
    usual: str = ""
    """The order of a list that is sorted by none, as `sort` has it."""
    shown: Sequence[Column[Any]] = field(init=False)
    """The columns that are not hidden."""
    fixed: Column[Any] = field(init=False)
    """The column that is always shown."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "fixed", fixed_column(self.columns))
        object.__setattr__(self, "shown", [column for column in self.columns if column.option not in self.hidden])

    def aria_sort(self, name: str) -> str:
        """Return the value of `aria-sort`; "" if the list is not sorted by this column."""
        present = self.sort or self.usual
        if present.lstrip("-") != name:
            return ""
        return "descending" if present.startswith("-") else "ascending"

    def link(self, name: str) -> str | None:
        """Return the parameter `sort` of the order that a click on a head chooses; None if it offers none."""
        if name not in self.sortable:
            return None
        present = self.sort or self.usual
        first = _first(next(column for column in self.columns if column.option == name))
        other = name if first.startswith("-") else f"-{name}"
        chosen = other if present == first and not self.only_one_way else first
        return "" if chosen == self.usual else chosen

    @property
    def orders(self) -> list[tuple[str, str]]:
        """The orders as choices of a form: the parameter and its text."""
        choices = [("", "Usual order")]
        for column in self.columns:
            if column.option in self.sortable:
                first = _first(column)
                ways = [first] if self.only_one_way else [first, first[1:] if column.largest_first else f"-{first}"]
                choices += [
                    (way, f"{column.head}, {'descending' if way.startswith('-') else 'ascending'}")
                    for way in ways
                    if way != self.usual
                ]
        return choices


def _first(column: Column[Any]) -> str:
    """Return the order that the first click on the head of a column chooses."""
    return f"-{column.option}" if column.largest_first else column.option


def plain_head(spec: ListSpec[Any], *without: str) -> ListHead:
    """Return the head of a short list on a page about something else, without some of its usual columns."""
    return ListHead(spec.name, spec.columns, hidden_columns(spec) | set(without))


def short_head(spec: ListSpec[Any], *names: str) -> ListHead:
    """Return the head of a short list on a page about something else, with these columns."""
    return ListHead(spec.name, spec.chosen(*names))


def hidden_columns(spec: ListSpec[Any], chosen: Iterable[str] | None = None) -> frozenset[str]:
    """Return the hidden columns of a list, of which `chosen` are shown; None stands for the usual ones."""
    if chosen is None:
        return frozenset(column.option for column in spec.columns if column.aside)
    shown = set(chosen)
    fixed = fixed_column(spec.columns)
    return frozenset(column.option for column in spec.columns if column is not fixed and column.option not in shown)


def fixed_column(columns: Sequence[Column[Any]]) -> Column[Any]:
    """Return the column that is always shown: the first one that a list shows until its reader chooses others."""
    return next(column for column in columns if not column.aside)
