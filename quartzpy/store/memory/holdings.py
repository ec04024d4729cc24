"""What an epoch holds, and the triggers whose fire times a node computes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from quartzpy.states import TriggerState
from quartzpy.store.memory.rows import TriggerRow
from quartzpy.store.memory.tables import Tables
from quartzpy.store.protocol import Holdings, Node, Notification, Reconciliation, Refill, UnfilledTrigger


def refill(tables: Tables, node: Node, refills: Sequence[Refill]) -> None:
    """Store the upcoming fire times of unfilled triggers; see `JobStore.refill`."""
    tables.require(node)
    for move in refills:
        if (row := _same(tables, move.unfilled)) is not None:
            row.upcoming = move.upcoming


def reject(tables: Tables, node: Node, reasons: Sequence[tuple[UnfilledTrigger, str]]) -> None:
    """Put unfilled triggers into ERROR; see `JobStore.reject`."""
    tables.require(node)
    for unfilled, reason in reasons:
        if (row := _same(tables, unfilled)) is not None:
            tables.move(row, TriggerState.ERROR)
            row.error = reason


def wake_others(tables: Tables, node: Node) -> None:
    """Notify the other nodes; see `JobStore.wake_others`."""
    tables.notifications.add(Notification.RESUMED)


def _same(tables: Tables, unfilled: UnfilledTrigger) -> TriggerRow | None:
    """Return the row of an unfilled trigger; None if it has changed."""
    row = tables.triggers.get(unfilled.key)
    if row is None or row.state is not TriggerState.WAITING:
        return None
    calendar = tables.calendar_of(row)
    there = row.generation, row.progress.next_fire_time, None if calendar is None else calendar.revision
    computed = unfilled.generation, unfilled.progress.next_fire_time, unfilled.calendar_revision
    return row if there == computed else None


def holdings(tables: Tables, node: Node) -> Holdings:
    """Return the executions of an epoch; see `JobStore.holdings`."""
    now = tables.require(node)
    return Holdings(now, frozenset(row.fire_id for row in tables.fired.values() if row.epoch == node.epoch))


def reconcile(tables: Tables, node: Node, *, executions: Collection[int]) -> Reconciliation:
    """Return the fires that the node does not know; see `JobStore.reconcile`."""
    held = holdings(tables, node)
    unknown = [tables.fired[fire_id] for fire_id in held.executions.difference(executions)]
    unknown.sort(key=lambda row: (row.scheduled_time, -row.priority))
    return Reconciliation(tuple(row.fired for row in unknown if row.fired is not None), held)
