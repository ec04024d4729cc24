"""The content of `quartzpy top`: a snapshot of the cluster, and the tables over it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from quartzpy.cli.cells import Sentence
from quartzpy.cli.layout import Column
from quartzpy.cli.list_executions import EXECUTIONS, RUNNING, UPCOMING
from quartzpy.operations.overview import LateTrigger

if TYPE_CHECKING:
    from quartzpy.operations.executions import RunningView
    from quartzpy.operations.operations import Operations
    from quartzpy.operations.overview import Overview


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of the cluster at one instant, or the error of an attempt to read it."""

    overview: Overview | None = None
    running: tuple[RunningView, ...] = ()
    error: str | None = None
    """The reason why the last attempt failed; the rest is as it was before."""


def read(operations: Operations) -> Snapshot:
    """Read a snapshot."""
    return Snapshot(operations.overview(), operations.running())


@dataclass(frozen=True, slots=True)
class Tab:
    """A table of the screen: its rows, its columns, and the orders in which it can be sorted."""

    title: str
    columns: tuple[Column[Any], ...]
    instants: tuple[str, ...]
    records: Callable[[Snapshot], Sequence[Any]]
    identity: Callable[[Any], Any]
    """The key of a row, by which the selection follows it from snapshot to snapshot."""
    orders: Mapping[str, Callable[[Any], Any]]
    """The orders by name; the first is that of the snapshot."""
    empty: str

    def rows(self, snapshot: Snapshot, *, contains: str, order: str, is_reversed: bool) -> list[Any]:
        """Return the rows whose job, trigger or node contains a text, in an order."""
        found = list(self.records(snapshot))
        if contains:
            found = [one for one in found if contains.lower() in _searched(one)]
        found.sort(key=self.orders[order])
        return found[::-1] if is_reversed else found


def _searched(record: Any) -> str:
    parts = [getattr(record, name, None) for name in ("job", "trigger", "node", "progress_message", "error", "what")]
    return " ".join(str(part) for part in parts if part is not None).lower()


def _unordered(record: Any) -> int:
    return 0


def _longest(span: timedelta | None) -> timedelta:
    return -(span or timedelta())


def _key(name: str) -> Callable[[Any], str]:
    return lambda one: str(getattr(one, name) or "")


def _of(columns: Sequence[Column[Any]], *names: str) -> tuple[Column[Any], ...]:
    by_name = {column.name: column for column in columns}
    return tuple(by_name[name] for name in names)


_LATE: tuple[Column[LateTrigger], ...] = (
    Column("trigger", lambda one: one.trigger, middle=True, readable=28),
    Column("late", lambda one: one.late, rigid=True, right=True),
    Column("due at", lambda one: one.due_at, drop=2, rigid=True),
    Column("job", lambda one: one.job, drop=1, middle=True),
    Column("why", lambda one: Sentence(" ".join(one.why))),
)

_PROGRESS_BAR = 10


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
        (),
        lambda snapshot: snapshot.running,
        lambda one: one.fire_id,
        {
            "longest": lambda one: _longest(one.elapsed),
            "job": _key("job"),
            "node": _key("node"),
            "progress": lambda one: one.progress if one.progress is not None else 2.0,
            "id": lambda one: one.fire_id,
        },
        "nothing runs",
    ),
    Tab(
        "Late",
        _LATE,
        ("due at",),
        lambda snapshot: snapshot.overview.late if snapshot.overview else (),
        lambda one: one.trigger,
        {"latest": lambda one: -one.late, "trigger": _key("trigger"), "job": _key("job")},
        "no trigger is late",
    ),
    Tab(
        "Failed",
        _of(EXECUTIONS.columns, "id", "job", "ended", "ran", "attempt", "node", "error"),
        ("ended",),
        lambda snapshot: snapshot.overview.failed if snapshot.overview else (),
        lambda one: one.fire_id,
        {"newest": _unordered, "job": _key("job"), "node": _key("node"), "error": _key("error")},
        "no execution has failed",
    ),
    Tab(
        "Next",
        _of(UPCOMING.columns, "at", "trigger", "job", "zone", "clock change"),
        ("at",),
        lambda snapshot: snapshot.overview.agenda if snapshot.overview else (),
        lambda one: (one.trigger, one.at),
        {"soonest": _unordered, "trigger": _key("trigger"), "job": _key("job")},
        "nothing fires within the next hour",
    ),
    Tab(
        "Wrong",
        (
            Column("severity", lambda one: str(one.severity), rigid=True, is_state=True),
            Column("what", lambda one: Sentence(one.what), readable=40),
            Column("since", lambda one: one.since, drop=2, rigid=True),
            Column("remedy", lambda one: one.remedies[0].label if one.remedies else None, drop=3),
            Column("why", lambda one: Sentence(" ".join(one.why)), drop=1),
        ),
        ("since",),
        lambda snapshot: snapshot.overview.incidents if snapshot.overview else (),
        lambda one: (one.kind, one.subject),
        {"worst": _unordered, "kind": _key("kind")},
        "nothing is wrong",
    ),
)
