"""The columns of the lists: which a reader sees, and by which a list can be sorted.

A list is sorted by what an index serves, or by any column if it is so short that all of it is read. An order that would
need a scan is not offered, and a link that asks for it shows the usual order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from quartzpy.keys import Key

MAX_SORTED = 200
"""The largest number of rows of a list that is read as a whole, so that it can be sorted by any column."""
COLUMNS = "columns"
"""The query parameter with the names of the chosen columns. One that is empty tells that the form was sent."""
_View = TypeVar("_View")
_BAD_FIRST = ("FAILED", "TERMINATED", "ERROR", "PAUSED", "PAUSED_BLOCKED", "BLOCKED", "DISABLED", "MANUAL")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a list."""

    name: str
    label: str
    title: str = ""
    """What its values are, more exactly."""
    classes: str = ""
    value: Callable[[Any], Any] | None = None
    """Returns the value by which rows are sorted; None if they cannot be."""
    largest_first: bool = False
    """True if the first click sorts the largest values to the top."""
    is_fixed: bool = False
    """True if it cannot be hidden."""


def _of_health(value: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda row: None if row.health is None else value(row.health)


def _rank(state: object) -> tuple[int, str]:
    return (_BAD_FIRST.index(str(state)) if str(state) in _BAD_FIRST else len(_BAD_FIRST)), str(state)


def _key(key: Key) -> tuple[str, str]:
    return key.group, key.name


_OF_RUNS = "of its last runs, at most 100"
_LAST_RUNS = Column(
    "runs", "Last runs", "The outcomes and durations of the last 20 runs, the latest at the right", "wide"
)
_LAST_RESULT = Column("result", "Last result", value=_of_health(lambda health: _rank(health.last_outcome)))
_FAILED = Column(
    "failed",
    "Failed, 24 h",
    f"How many {_OF_RUNS}, failed for good or were lost, among those that ended within 24 hours",
    "number wide",
    _of_health(lambda health: (health.failures, health.runs)),
    largest_first=True,
)
_TYPICAL = Column(
    "p50", "p50", f"The median duration {_OF_RUNS}", "number wide", _of_health(lambda health: health.typical), True
)
_SLOW = Column(
    "p99",
    "p99",
    f"The 99th percentile of the durations {_OF_RUNS}",
    "number wide least",
    _of_health(lambda health: health.slow),
    True,
)

JOBS: Sequence[Column] = (
    Column("job", "Job", value=lambda row: _key(row.key), is_fixed=True),
    Column("type", "Type", "The last part of the name of its class or function", "wide less", lambda row: row.job_type),
    _LAST_RESULT,
    _FAILED,
    _LAST_RUNS,
    _TYPICAL,
    _SLOW,
    Column("triggers", "Triggers", "", "number wide least", lambda row: row.triggers.number, True),
    Column("next", "Next fire", "", "", lambda row: row.next_fire_time),
    Column("last", "Last fire", "", "wide less", lambda row: row.previous_fire_time, True),
)
TRIGGERS: Sequence[Column] = (
    Column("trigger", "Trigger", value=lambda row: _key(row.key), is_fixed=True),
    Column("job", "Job", "", "wide", lambda row: _key(row.job)),
    Column("state", "State", "", "", lambda row: _rank(row.state)),
    Column("schedule", "Schedule", "", "schedule"),
    replace(_LAST_RESULT, classes="wide least"),
    _FAILED,
    _LAST_RUNS,
    _TYPICAL,
    _SLOW,
    Column("next", "Next fire", "", "", lambda row: row.next_fire_time),
    Column("last", "Last fire", "", "wide less", lambda row: row.previous_fire_time, True),
)
EXECUTIONS: Sequence[Column] = (
    Column("ended", "Ended", is_fixed=True),
    Column("job", "Job"),
    Column("outcome", "Outcome"),
    Column("ran", "Ran", "", "number", largest_first=True),
    Column(
        "late", "Late by", "The time from the scheduled instant until a node fired it", "number wide least", None, True
    ),
    Column("node", "Node", "", "wide least"),
    Column("error", "Error", "", "wide"),
)
HIDDEN: Mapping[str, frozenset[str]] = {
    "jobs": frozenset(),
    "triggers": frozenset({"failed", "runs", "p50", "p99"}),
    "executions": frozenset(),
}
"""The columns that a list leaves out until its reader chooses them."""


@dataclass(frozen=True, slots=True)
class ListHead:
    """The head of a list: its columns, those that are hidden, and its order."""

    columns: Sequence[Column]
    hidden: frozenset[str] = frozenset()
    sortable: frozenset[str] = frozenset()
    """The columns that offer an order now."""
    only_one_way: bool = False
    """True if each order has one direction."""
    sort: str = ""
    """The column by which the list is sorted, and a "-" before it if the largest value comes first."""
    usual: str = ""
    """The order of a list that is sorted by none, as `sort` has it."""
    by_name: Mapping[str, Column] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {column.name: column for column in self.columns})

    def shows(self, name: str) -> bool:
        return name not in self.hidden

    def without(self, *names: str) -> ListHead:
        """Return this head with further columns hidden."""
        return ListHead(self.columns, self.hidden | set(names), self.sortable, self.only_one_way, self.sort, self.usual)

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
        first = f"-{name}" if self.by_name[name].largest_first else name
        other = name if first.startswith("-") else f"-{name}"
        chosen = other if present == first and not self.only_one_way else first
        return "" if chosen == self.usual else chosen

    @property
    def orders(self) -> list[tuple[str, str]]:
        """The orders as choices of a form: the parameter and its text."""
        choices = [("", "Usual order")]
        for column in self.columns:
            if column.name in self.sortable:
                first = f"-{column.name}" if column.largest_first else column.name
                ways = [first] if self.only_one_way else [first, first[1:] if column.largest_first else f"-{first}"]
                choices += [
                    (way, f"{column.label}, {'descending' if way.startswith('-') else 'ascending'}")
                    for way in ways
                    if way != self.usual
                ]
        return choices


PLAIN_TRIGGERS = ListHead(TRIGGERS, HIDDEN["triggers"] | {"result"})
PLAIN_EXECUTIONS = ListHead(EXECUTIONS)
"""The heads of short lists on pages about something else."""


def hidden_columns(list_name: str, columns: Sequence[Column], chosen: Iterable[str] | None) -> frozenset[str]:
    """Return the hidden columns of a list, of which `chosen` are shown; None stands for the usual ones."""
    if chosen is None:
        return HIDDEN[list_name]
    shown = set(chosen)
    return frozenset(column.name for column in columns if not column.is_fixed and column.name not in shown)


def in_order(rows: Iterable[_View], columns: Sequence[Column], sort: str) -> list[_View]:
    """Return the rows of a whole list by a column. Rows without a value come last, whatever the direction."""
    value = next(column.value for column in columns if column.name == sort.lstrip("-"))
    assert value is not None, "only such columns are sortable"
    every = list(rows)
    valued = [row for row in every if value(row) is not None]
    valued.sort(key=value, reverse=sort.startswith("-"))
    return [*valued, *(row for row in every if value(row) is None)]
