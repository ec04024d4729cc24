"""The executions that an epoch holds, compared with what its node has in hand; and the triggers that a node refills.

A refill takes no lock beside that of the trigger's row: it changes nothing that another step reads under TRIGGER_ACCESS
and that is not compared here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from quartzpy.store.postgresql.connection.listen import news
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, Result
from quartzpy.store.postgresql.connection.session import SqlSession, require_epoch
from quartzpy.store.postgresql.schema.rows import by_outcome
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps import submissions
from quartzpy.store.protocol import Holdings, Node, Notification, Reconciliation, Refill, UnfilledTrigger
from quartzpy.texts import storable_text

_SQL = SqlFile("steps/holdings.sql")
REFILL = _SQL("refill")
UNKNOWN_FIRES = _SQL("unknown_fires")


def refill(session: SqlSession, node: Node, refills: Sequence[Refill]) -> None:
    """Store the upcoming fire times of unfilled triggers; see `JobStore.refill`."""
    more: dict[str, Any] = {
        "upcoming": [move.upcoming.instants for move in refills],
        "complete": [move.upcoming.is_complete for move in refills],
    }
    _change(session, node, REFILL, [move.unfilled for move in refills], more)


def reject(session: SqlSession, node: Node, reasons: Sequence[tuple[UnfilledTrigger, str]]) -> None:
    """Put unfilled triggers into ERROR; see `JobStore.reject`."""
    more = {"reasons": [storable_text(reason) for _, reason in reasons]}
    _change(session, node, _SQL.reject, [unfilled for unfilled, _ in reasons], more)


def _change(
    session: SqlSession, node: Node, text: str, triggers: Sequence[UnfilledTrigger], more: dict[str, Any]
) -> None:
    at_node = {"instance": node.instance_id, "epoch": node.epoch}
    change: BoundStatement = session.bind(
        text,
        **at_node,
        groups=[unfilled.trigger_group for unfilled in triggers],
        names=[unfilled.trigger_name for unfilled in triggers],
        generations=[unfilled.generation for unfilled in triggers],
        scheduled=[unfilled.progress.next_fire_time for unfilled in triggers],
        revisions=[unfilled.calendar_revision for unfilled in triggers],
        **more,
    )
    *_, standing = session.unlocked(change, session.bind(_SQL.registered, **at_node))
    require_epoch(node, standing)


def wake_others(session: SqlSession, node: Node) -> None:
    """Notify the other nodes; see `JobStore.wake_others`."""
    session.unlocked(news(session, Notification.RESUMED))


def holdings(session: SqlSession, node: Node) -> Holdings:
    """Return the executions of an epoch; see `JobStore.holdings`."""
    [held] = session.read(session.bind(_SQL.holdings, instance=node.instance_id, epoch=node.epoch))
    return _holdings(node, held)


def _holdings(node: Node, held: Result) -> Holdings:
    now, executions = require_epoch(node, held)
    return Holdings(now, frozenset(executions))


def reconcile(session: SqlSession, node: Node, *, executions: Collection[int]) -> Reconciliation:
    """Return the fires that the node does not know; see `JobStore.reconcile`."""
    ours = {"epoch": node.epoch, "executions": list(executions)}
    fires, submitted, held = session.locked(
        session.bind(UNKNOWN_FIRES, **ours),
        session.bind(submissions.UNKNOWN, **ours),
        session.bind(_SQL.holdings, instance=node.instance_id, epoch=node.epoch),
    )
    return Reconciliation(by_outcome(fires.rows)[0], _holdings(node, held), submissions.by_fire(submitted.rows))
