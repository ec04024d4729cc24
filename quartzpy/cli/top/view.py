"""The tables of `quartzpy top`, what its user has chosen, and the keys that change it.

Nothing is read or done here: an action that was confirmed is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from quartzpy.cli.cells import Sentence
from quartzpy.cli.layout import Column
from quartzpy.cli.list_executions import EXECUTIONS, RUNNING, UPCOMING

if TYPE_CHECKING:
    from quartzpy.operations.executions import RunningView
    from quartzpy.operations.overview import Overview

_PROGRESS_BAR = 10


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of the cluster at one instant, or the error of an attempt to read it."""

    overview: Overview | None = None
    running: tuple[RunningView, ...] = ()
    error: str | None = None
    """The reason why the last attempt failed; the rest is as it was before."""


@dataclass(frozen=True, slots=True)
class Tab:
    """A table of the screen: its rows, its columns, and the orders in which it can be sorted."""

    title: str
    columns: Sequence[Column[Any]]
    source: str
    """The attribute of the overview that has the rows."""
    identity: Callable[[Any], Any]
    """The key of a row, by which the selection follows it from snapshot to snapshot."""
    orders: Mapping[str, Callable[[Any], Any]]
    """The orders by name; the first is that of the snapshot."""
    empty: str
    instants: tuple[str, ...] = ()

    def records(self, snapshot: Snapshot) -> Sequence[Any]:
        if self.source == "running":
            return snapshot.running
        return getattr(snapshot.overview, self.source, ())

    def rows(self, snapshot: Snapshot, *, contains: str, order: str, is_reversed: bool) -> list[Any]:
        """Return the rows whose job, trigger or node contains a text, in an order."""
        rows = [one for one in self.records(snapshot) if contains.lower() in _searched(one)]
        rows.sort(key=self.orders[order])
        return rows[::-1] if is_reversed else rows


def _searched(record: Any) -> str:
    names = ("job", "trigger", "node", "progress_message", "error", "what")
    return " ".join(str(getattr(record, name, None) or "") for name in names).lower()


def _unordered(record: Any) -> int:
    return 0


def _by(*names: str) -> dict[str, Callable[[Any], Any]]:
    """Return orders by the texts of attributes."""

    def text_of(name: str, record: Any) -> str:
        return str(getattr(record, name) or "")

    return {name: partial(text_of, name) for name in names}


def _of(columns: Sequence[Column[Any]], *names: str) -> tuple[Column[Any], ...]:
    by_name = {column.name: column for column in columns}
    return tuple(by_name[name] for name in names)


def _why(record: Any) -> Sentence:
    return Sentence(" ".join(record.why))


def _progress(running: RunningView) -> str | None:
    if running.progress is None:
        return None
    filled = round(running.progress * _PROGRESS_BAR)
    return f"{'█' * filled}{'░' * (_PROGRESS_BAR - filled)} {running.progress:4.0%}"


TABS: tuple[Tab, ...] = (
    Tab(
        "Running",
        (
            *_of(RUNNING.columns, "id", "job", "state", "for"),
            Column("progress", _progress, drop=8, rigid=True),
            *_of(RUNNING.columns, "message", "node", "attempt", "trigger"),
        ),
        "running",
        attrgetter("fire_id"),
        {
            "longest": lambda one: -one.elapsed,
            **_by("job", "node"),
            "progress": lambda one: one.progress if one.progress is not None else 2.0,
            "id": attrgetter("fire_id"),
        },
        "nothing runs",
    ),
    Tab(
        "Late",
        (
            Column("trigger", attrgetter("trigger"), middle=True, readable=28),
            Column("late", attrgetter("late"), rigid=True, right=True),
            Column("due at", attrgetter("due_at"), drop=2, rigid=True),
            Column("job", attrgetter("job"), drop=1, middle=True),
            Column("why", _why),
        ),
        "late",
        attrgetter("trigger"),
        {"latest": lambda one: -one.late, **_by("trigger", "job")},
        "no trigger is late",
        ("due at",),
    ),
    Tab(
        "Failed",
        _of(EXECUTIONS.columns, "id", "job", "ended", "ran", "attempt", "node", "error"),
        "failed",
        attrgetter("fire_id"),
        {"newest": _unordered, **_by("job", "node", "error")},
        "no execution has failed",
        ("ended",),
    ),
    Tab(
        "Next",
        _of(UPCOMING.columns, "at", "trigger", "job", "zone", "clock change"),
        "agenda",
        attrgetter("trigger", "at"),
        {"soonest": _unordered, **_by("trigger", "job")},
        "nothing fires within the next hour",
        ("at",),
    ),
    Tab(
        "Wrong",
        (
            Column("severity", lambda one: str(one.severity), rigid=True, is_state=True),
            Column("what", lambda one: Sentence(one.what), readable=40),
            Column("since", attrgetter("since"), drop=2, rigid=True),
            Column("remedy", lambda one: one.remedies[0].label if one.remedies else None, drop=3),
            Column("why", _why, drop=1),
        ),
        "incidents",
        attrgetter("kind", "subject"),
        {"worst": _unordered, **_by("kind")},
        "nothing is wrong",
        ("since",),
    ),
)
RUNNING_TAB, LATE, FAILED, NEXT, WRONG = range(len(TABS))


@dataclass(frozen=True, slots=True)
class Proposal:
    """An action on the selected row that waits for a confirmation."""

    question: str
    action: str
    """The name of the method of `Operations.actions`."""
    subjects: tuple[Any, ...] = ()
    """Its positional arguments."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Its other arguments."""


@dataclass(frozen=True, slots=True)
class Details:
    """A request to show all that is known about a row: an execution, a trigger or an incident."""

    kind: str
    subject: Any


@dataclass
class View:
    """The state of the screen beside the snapshot."""

    tab: int = RUNNING_TAB
    selected: dict[int, Any] = field(default_factory=dict)
    """The identity of the selected row of each tab."""
    orders: dict[int, str] = field(default_factory=dict)
    is_reversed: bool = False
    contains: str = ""
    typed: str | None = None
    """The filter while it is typed; None otherwise."""
    frozen: bool = False
    help: bool = False
    proposal: Proposal | None = None
    message: str = ""
    text: Sequence[str] = ()
    """The lines of the details that are shown in place of the table; empty if none are."""
    scrolled: int = 0
    quit: bool = False

    @property
    def current(self) -> Tab:
        return TABS[self.tab]

    @property
    def order(self) -> str:
        return self.orders.get(self.tab, next(iter(self.current.orders)))

    @property
    def sought(self) -> str:
        """The text that the rows contain."""
        return self.contains if self.typed is None else self.typed

    def rows(self, snapshot: Snapshot) -> list[Any]:
        """Return the rows of the current tab."""
        return self.current.rows(snapshot, contains=self.sought, order=self.order, is_reversed=self.is_reversed)

    def position(self, rows: Sequence[Any]) -> int:
        """Return the index of the selected row; that of the first if the selected one has gone."""
        wanted = self.selected.get(self.tab)
        identities = [self.current.identity(one) for one in rows]
        return identities.index(wanted) if wanted in identities else 0

    def press(self, key: str, snapshot: Snapshot, page: int = 10) -> Proposal | Details | None:
        """Change the view by a key; return an action that was confirmed, or details that were asked for.

        `page` is the number of rows on the screen. Keys are characters, or names such as "up" and "escape".
        """
        self.message = ""
        if self.proposal is not None:
            proposal, self.proposal = self.proposal, None
            if key in ("y", "Y"):
                return proposal
            self.message = "nothing was changed"
            return None
        if self.typed is not None:
            self._type(key)
            return None
        if self.help or self.text:
            self._read(key, page)
            return None
        return self._command(key, snapshot, page)

    def _type(self, key: str) -> None:
        assert self.typed is not None
        match key:
            case "enter":
                self.contains, self.typed = self.typed, None
            case "escape":
                self.contains, self.typed = "", None
            case "backspace":
                self.typed = self.typed[:-1]
            case _ if len(key) == 1 and key.isprintable():
                self.typed += key

    def _read(self, key: str, page: int) -> None:
        steps = {"down": 1, "j": 1, "up": -1, "k": -1, "pagedown": page, " ": page, "pageup": -page}
        if self.text and key in steps:
            self.scrolled = max(0, min(self.scrolled + steps[key], len(self.text) - 1))
            return
        if key == "q":
            self.quit = not (self.help or self.text)
        self.help, self.text, self.scrolled = False, (), 0

    def _command(self, key: str, snapshot: Snapshot, page: int) -> Details | None:
        steps = {"down": 1, "j": 1, "up": -1, "k": -1, "pagedown": page, "pageup": -page}
        ends = {"home": -(10**9), "g": -(10**9), "end": 10**9, "G": 10**9}
        rows = self.rows(snapshot)
        match key:
            case "q":
                self.quit = True
            case "1" | "2" | "3" | "4" | "5":
                self.tab = int(key) - 1
            case "tab" | "right":
                self.tab = (self.tab + 1) % len(TABS)
            case "backtab" | "left":
                self.tab = (self.tab - 1) % len(TABS)
            case "s":
                names = list(self.current.orders)
                self.orders[self.tab] = names[(names.index(self.order) + 1) % len(names)]
            case "r":
                self.is_reversed = not self.is_reversed
            case "/":
                self.typed = self.contains
            case "escape":
                self.contains = ""
            case " ":
                self.frozen = not self.frozen
            case "?" | "h":
                self.help = True
            case _ if rows and key in (steps | ends):
                at = self.position(rows) + (steps | ends)[key]
                self.selected[self.tab] = self.current.identity(rows[max(0, min(at, len(rows) - 1))])
            case _ if rows and (key in ACTIONS or key in ("enter", "w")):
                return self._act(key, rows[self.position(rows)])
            case _ if key in ACTIONS:
                self.message = f"{self.current.empty}: there is no row to act on"
        return None

    def _act(self, key: str, row: Any) -> Details | None:
        # The selection stays with the row that the question names.
        self.selected[self.tab] = self.current.identity(row)
        if key in ("enter", "w"):
            fire_id, trigger = getattr(row, "fire_id", None), getattr(row, "trigger", None)
            if fire_id is not None:
                return Details("execution", fire_id)
            if trigger is not None:
                return Details("trigger", trigger)
            return Details("incident", row)
        proposed = ACTIONS[key](row)
        if proposed is None:
            self.message = "this action does not apply to the selected row"
        self.proposal = proposed
        return None


def _cancel(row: Any) -> Proposal | None:
    if not hasattr(row, "cancel_requested"):
        return None
    return Proposal(f"Cancel execution {row.fire_id} of {row.job}?", "cancel", (row.fire_id,))


def _run_again(row: Any) -> Proposal | None:
    if not hasattr(row, "ended_at") or row.fire_id is None:
        return None
    return Proposal(f"Run execution {row.fire_id} of {row.job} again?", "run_again", (row.fire_id,))


def _mend(row: Any) -> Proposal | None:
    remedies = getattr(row, "remedies", ())
    if not remedies:
        return None
    first = remedies[0]
    words = f"{first.label[:1].upper()}{first.label[1:]}"
    return Proposal(f"{words}: {row.subject}?", first.action, arguments=first.arguments)


def _on(name: str, question: str, action: str) -> Callable[[Any], Proposal | None]:
    """Return the proposal of an action on the job or the trigger of a row."""

    def propose(row: Any) -> Proposal | None:
        subject = getattr(row, name, None)
        return None if subject is None else Proposal(question.format(subject), action, (subject,))

    return propose


ACTIONS: Mapping[str, Callable[[Any], Proposal | None]] = {
    "c": _cancel,
    "a": _run_again,
    "m": _mend,
    "t": _on("job", "Run job {} now?", "trigger"),
    "p": _on("trigger", "Pause trigger {}?", "pause"),
    "u": _on("trigger", "Resume trigger {}?", "resume"),
    "n": _on("trigger", "Skip the next fire of trigger {}?", "skip_next"),
}

HELP = (
    ("1 2 3 4 5, Tab", "running, late, failed, next, and what is wrong"),
    ("up, down, PgUp, PgDn, Home, End", "select a row (also k, j, g, G)"),
    ("Enter, w", "show the row with all that is known, and why"),
    ("/", "show only rows with a text; Esc shows all"),
    ("s, r", "change the order; reverse it"),
    ("Space", "freeze the screen, or go on"),
    ("c", "cancel the running execution"),
    ("a", "run the failed execution again"),
    ("m", "mend what is wrong by the remedy of the row"),
    ("t", "run the job of the row now"),
    ("p, u, n", "pause the trigger of the row; resume it; skip its next fire"),
    ("?, q", "this help; quit"),
)
