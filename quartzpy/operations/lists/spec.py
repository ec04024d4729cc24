"""What a list is: its filters and its columns, for the command line, the JSON API and the web page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from quartzpy.keys import Key
from quartzpy.scheduler.querying import Page
from quartzpy.store.filters import Filter, filters_of
from quartzpy.store.queries import RecordQuery

if TYPE_CHECKING:
    from quartzpy.operations.operations import Operations

READABLE = 18
"""The width to which the cells of a column may be cut and stay readable, unless the column says otherwise."""
_BAD_FIRST = ("FAILED", "TERMINATED", "ERROR", "PAUSED", "PAUSED_BLOCKED", "BLOCKED", "DISABLED", "MANUAL")
_T = TypeVar("_T")


class Look(Enum):
    """What the values of a column are, from which follows how they are drawn and sorted."""

    TEXT = "text"
    NAME = "name"
    """A key, or a name whose end differs from that of others: a long one is cut in its middle."""
    WORD = "word"
    """A text that is useless when it is cut."""
    STATE = "state"
    NUMBER = "number"
    SPAN = "span"
    INSTANT = "instant"
    SENTENCE = "sentence"
    """A text with instants in ISO 8601, which are shown in the zone of the reader."""


@dataclass(frozen=True, slots=True)
class Column(Generic[_T]):
    """One column of a list."""

    name: str
    value: Callable[[_T], Any]
    look: Look = Look.TEXT
    label: str = ""
    """Its head on the page, if that is not its name."""
    title: str = ""
    """What its values are, more exactly."""
    order: Callable[[_T], Any] | None = None
    """Returns the value by which rows are sorted; None sorts them by `value`."""

    drop: int = 0
    """The order in which columns are omitted where the terminal is narrow: 1 first; those with 0 never are."""
    extra: bool = False
    """True for a column that the terminal shows only where `--columns` names it."""
    readable: int = READABLE
    """The width to which its cells may be cut and stay readable."""

    aside: bool = False
    """True for a column that the page shows only where its reader chooses it."""
    classes: str = "wide"
    """The CSS classes of its cells on the page; "wide" hides them on a small screen."""

    @property
    def option(self) -> str:
        """The name for `--columns` and for the links of the page."""
        return self.name.replace(" ", "_")

    @property
    def head(self) -> str:
        """The head on the page."""
        return self.label or self.name[0].upper() + self.name[1:]

    @property
    def is_rigid(self) -> bool:
        """True for cells that are useless when they are cut."""
        return self.look not in (Look.TEXT, Look.NAME, Look.SENTENCE)

    @property
    def is_right(self) -> bool:
        """True for cells that are aligned to the right."""
        return self.look in (Look.NUMBER, Look.SPAN)

    @property
    def largest_first(self) -> bool:
        """True if the first click on its head sorts the largest values to the top."""
        return self.is_right or self.name == "previous"

    @property
    def css(self) -> str:
        """All CSS classes of its cells."""
        return f"number {self.classes}".strip() if self.is_right else self.classes

    def sorted_by(self, row: _T) -> Any:
        """Return the value by which a row is sorted; None if the row has none."""
        if self.order is not None:
            return self.order(row)
        value = self.value(row)
        if isinstance(value, Key):
            return value.group, value.name
        if value is None or self.look in (Look.NUMBER, Look.SPAN, Look.INSTANT):
            return value
        return _rank(value) if self.look is Look.STATE else str(value)


def _rank(state: object) -> tuple[int, str]:
    """Return the place of a state in an order that begins with what needs attention."""
    return (_BAD_FIRST.index(str(state)) if str(state) in _BAD_FIRST else len(_BAD_FIRST)), str(state)


@dataclass(frozen=True, slots=True)
class ListSpec(Generic[_T]):
    """A list: what it is called, what selects its rows, and what it says of each."""

    name: str
    """Its command, its path on the page and in the API, and the method of `Operations` that reads it."""
    noun: str
    """One of its rows: "misfire"."""
    help: str
    """A sentence that says what it lists: "The misfires that the cluster has handled, the latest first."."""
    columns: tuple[Column[_T], ...]
    query: type | None = None
    """The type that declares its filters. That of a list which is read in pages is a `RecordQuery`."""
    rows: Callable[[Any], Sequence[_T]] | None = None
    """Returns its rows in what the method returns, where that says more than the rows."""
    is_bounded: bool = False
    """True if it is not read in pages, and its method takes the largest number of rows."""
    plural: str = ""
    """Several of its rows, if that is not the noun with an "s"."""
    empty: str = ""
    """The sentence for a list that is read whole and has no rows, if it is a special one."""
    more: str = ""
    """What the help of its command says besides."""
    reads: str = ""
    """The method of `Operations`, if it has another name. The API calls the list by it."""
    has_command: bool = True
    """False if no command, or one of its own, lists it."""
    title: str = ""
    """The title of its page; empty if it has none, or one of its own."""
    menu: str = ""
    """The heading of the menu under which its page is; empty if it is not in the menu."""
    key: str = ""
    """The key that goes to its page after `g`."""
    template: str = "list.html"
    """The template of its page, if that has more than the list."""
    intro: str = ""
    """A sentence that says what the page shows."""
    live: str = "schedule"
    """The topics at which the page is read anew."""
    is_steady: bool = False
    """True if the rows of the page stay where they are until its reader asks for the new ones."""
    is_stack: bool = False
    """True if the cells of a row stand below each other on a small screen."""

    @property
    def nouns(self) -> str:
        return self.plural or f"{self.noun}s"

    @property
    def method(self) -> str:
        """The method of `Operations` that reads it."""
        return self.reads or self.name

    @property
    def filters(self) -> tuple[Filter, ...]:
        """Its filters."""
        return tuple(declared for declared in self.declared if not declared.is_order)

    @property
    def declared(self) -> tuple[Filter, ...]:
        """Its filters, and its order if it has several."""
        return () if self.query is None else filters_of(self.query)

    @property
    def whole(self) -> tuple[Column[_T], ...]:
        """All its columns for a page about one row, where none is hidden on a small screen."""
        return tuple(replace(column, classes="") for column in self.columns)

    @property
    def is_paged(self) -> bool:
        """True if it is read in pages; another one is read whole."""
        return self.query is not None and issubclass(self.query, RecordQuery)

    def read(self, operations: Operations, limit: int, after: str | None = None, **filters: Any) -> Any:
        """Return what its method returns. A list that is not paged ignores `after`."""
        bounds: dict[str, Any] = {"limit": limit} if self.is_paged or self.is_bounded else {}
        if self.is_paged:
            bounds["after"] = after
        return getattr(operations, self.method)(**bounds, **filters)

    def page(self, answer: Any) -> Page[_T]:
        """Return the rows of what its method has returned."""
        return answer if self.is_paged else Page(answer if self.rows is None else self.rows(answer), None)

    def column(self, name: str) -> Column[_T]:
        return next(column for column in self.columns if column.name == name)

    def chosen(self, *names: str) -> tuple[Column[_T], ...]:
        """Return the columns of these names, in this order."""
        return tuple(map(self.column, names))


def in_order(rows: Iterable[_T], columns: Sequence[Column[_T]], sort: str) -> list[_T]:
    """Return rows in the order of the column whose `option` is `sort`; with "-" before it the largest value is first.

    Rows without a value come last, whatever the direction.
    """
    value = next(column.sorted_by for column in columns if column.option == sort.lstrip("-"))
    every = list(rows)
    valued = [row for row in every if value(row) is not None]
    valued.sort(key=value, reverse=sort.startswith("-"))
    return [*valued, *(row for row in every if value(row) is None)]
