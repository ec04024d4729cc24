"""The audit log of operators' actions, and the commands to nodes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from quartzpy.states import ActionState
from quartzpy.store.postgresql.admin.records import ActionEntry
from quartzpy.store.postgresql.batches import chunks
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps import purge

_SQL = SqlFile("admin/audit_log.sql")
RECORD = _SQL("record")
UPDATE = _SQL("update")


def record_action(session: SqlSession, entry: ActionEntry) -> int:
    """Add an action to the audit log; see `Admin.record_action`."""
    [number] = _recorded(session, [entry])
    return number


def record_actions(session: SqlSession, entries: Sequence[ActionEntry]) -> None:
    """Add actions to the audit log, in batches; see `Admin.record_actions`."""
    for some in chunks(entries):
        _recorded(session, some)


def _recorded(session: SqlSession, entries: Sequence[ActionEntry]) -> list[int]:
    [added] = session.unlocked(
        session.bind(
            RECORD,
            actors=[one.actor for one in entries],
            roles=[one.role for one in entries],
            action_names=[one.action for one in entries],
            subjects=[one.subject for one in entries],
            reasons=[one.reason for one in entries],
            action_states=[str(one.state) for one in entries],
            changed=[one.count for one in entries],
            befores=[one.before_text for one in entries],
            afters=[one.after_text for one in entries],
            errors=[one.error for one in entries],
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
    session.unlocked(session.bind(UPDATE, **values))


def interrupt_actions(session: SqlSession, silent_for: timedelta) -> int:
    """End the actions of processes that have ended; see `Admin.interrupt_actions`."""
    [ended] = session.unlocked(purge.interrupt_actions(session, silent_for))
    return len(ended.rows)
