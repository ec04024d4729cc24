"""The audit log of operators' actions, and the commands to nodes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from quartzpy.states import ActionState
from quartzpy.store.postgresql.admin.records import ActionEntry, EndedPause, NodeEndRecord
from quartzpy.store.postgresql.batches import chunks
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps import purge

_SQL = SqlFile("admin/audit_log.sql")
NODE_ENDS = _SQL("node_ends")
ENDED_PAUSES = _SQL("ended_pauses")
ENDED_PAUSES_OF_EVERYTHING = _SQL("ended_pauses", of_everything=True)


def record_action(session: SqlSession, entry: ActionEntry) -> int:
    """Add an action to the audit log; see `Admin.record_action`."""
    [number] = _recorded(session, [entry])
    return number


def record_actions(session: SqlSession, entries: Sequence[ActionEntry]) -> None:
    """Add actions to the audit log, in batches; see `Admin.record_actions`."""
    for some in chunks(entries):
        _recorded(session, some)


def node_ends(session: SqlSession, limit: int, *, among: int) -> list[NodeEndRecord]:
    """Return the nodes that were lost or that left within a day, the latest first, among the latest `among` entries."""
    return [
        NodeEndRecord(subject.removeprefix("node "), *values)
        for subject, *values in session.read_one(NODE_ENDS, limit=limit, among=among)
    ]


def ended_pauses(
    session: SqlSession, start: datetime, end: datetime, limit: int, *, among: int, of_everything: bool
) -> list[EndedPause]:
    """Return the pauses of operators that overlap a span and have ended: the latest `limit` among `among` entries.

    With `of_everything`, only pauses of everything and the entries about everything count.
    """
    text = ENDED_PAUSES_OF_EVERYTHING if of_everything else ENDED_PAUSES
    rows = session.read_one(text, start=start, end=end, limit=limit, among=among)
    return [EndedPause(*row) for row in rows]


def _recorded(session: SqlSession, entries: Sequence[ActionEntry]) -> list[int]:
    [added] = session.unlocked(
        session.bind(
            _SQL.record,
            actors=[entry.actor for entry in entries],
            roles=[entry.role for entry in entries],
            action_names=[entry.action for entry in entries],
            subjects=[entry.subject for entry in entries],
            reasons=[entry.reason for entry in entries],
            action_states=[str(entry.state) for entry in entries],
            changed=[entry.count for entry in entries],
            befores=[entry.before_text for entry in entries],
            afters=[entry.after_text for entry in entries],
            errors=[entry.error for entry in entries],
        )
    )
    return [int(number) for (number,) in added.rows]


def update_action(
    session: SqlSession,
    action_id: int,
    *,
    state: ActionState,
    count: int,
    after_text: str | None = None,
    error: str | None = None,
) -> None:
    """Update a running action; see `Admin.update_action`."""
    values = {"action_id": action_id, "state": state, "count": count, "after_json": after_text, "error": error}
    session.unlocked(session.bind(_SQL.update, **values))


def interrupt_actions(session: SqlSession, silent_for: timedelta) -> int:
    """End the actions of processes that have ended; see `Admin.interrupt_actions`."""
    [ended] = session.unlocked(purge.interrupt_actions(session, silent_for))
    return len(ended.rows)
