"""The audit log of operators' actions, and the commands to nodes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from quartzpy.states import ActionState, NodeMode
from quartzpy.store.postgresql.batches import chunks
from quartzpy.store.postgresql.db.session import SqlSession
from quartzpy.store.postgresql.db.sql_files import SqlFile
from quartzpy.store.postgresql.steps import purge
from quartzpy.store.protocol import ActionEntry, Notification
from quartzpy.store.queries import ActionQuery, Position
from quartzpy.store.records import ActionRecord

_SQL = SqlFile("actions.sql")
RECORD = _SQL("record")
UPDATE = _SQL("update")
SET_MODE = _SQL("set_mode")


def record_action(session: SqlSession, entry: ActionEntry) -> int:
    """Add an action to the audit log; see `JobStore.record_action`."""
    [number] = _recorded(session, [entry])
    return number


def record_actions(session: SqlSession, entries: Sequence[ActionEntry]) -> None:
    """Add actions to the audit log, in batches; see `ActionStore.record_actions`."""
    for some in chunks(entries):
        _recorded(session, some)


def _recorded(session: SqlSession, entries: Sequence[ActionEntry]) -> list[int]:
    [added] = session.unlocked(
        session.send(
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
    """Update a running action; see `JobStore.update_action`."""
    values = {"action_id": action_id, "state": state, "count": count, "after_json": after_text, "error": error}
    session.unlocked(session.send(UPDATE, **values))


def interrupt_actions(session: SqlSession, silent_for: timedelta) -> int:
    """End the actions of processes that have ended; see `ActionStore.interrupt_actions`."""
    [ended] = session.unlocked(purge.interrupt_actions(session, silent_for))
    return len(ended.rows)


def set_node_mode(session: SqlSession, instance_id: str, mode: NodeMode) -> datetime | None:
    """Command a node; see `JobStore.set_node_mode`."""
    values = {"instance": instance_id, "node_mode": mode, "channel": session.channel, "news": Notification.COMMANDED}
    send = session.send(SET_MODE, **values)
    [changed] = session.unlocked(send)
    return changed.rows[0][0] if changed.rows else None


def text(query: ActionQuery, after: Position | None, *, last: bool = False, count: bool = False) -> str:
    """Return the statement of a page, or of the last action that it examines; see `quartzpy.store.postgresql.pages`."""
    # A partial index has all actions that did not succeed.
    is_unsuccessful = query.state not in (None, ActionState.SUCCEEDED)
    return _SQL(
        "page",
        count=count,
        last=last,
        examined=query.walk is not None,
        of_subject=query.subject is not None,
        since=query.since is not None,
        until=query.until is not None,
        unsuccessful=is_unsuccessful,
        after=after is not None,
        by_actor=query.actor is not None and not last,
        of_action=query.action is not None and not last,
        succeeded=query.state is ActionState.SUCCEEDED and not last,
    )


def values(query: ActionQuery, after: Position | None) -> dict[str, Any]:
    """Return the values of that statement, except the limit."""
    return {
        "actor": query.actor,
        "action": query.action,
        "subject": query.subject,
        "state": query.state,
        "since": query.since,
        "until": query.until,
        "after_id": after and after[0],
        "among": query.among,
    }


def record_of(row: Sequence[Any]) -> ActionRecord:
    """Return the record of a row that the statement returned."""
    number, at, ended_at, actor, role, action, subject, reason, state, count, before, after, error, updated_at = row
    return ActionRecord(
        action_id=number,
        at=at,
        ended_at=ended_at,
        actor=actor,
        role=role,
        action=action,
        subject=subject,
        reason=reason,
        state=ActionState(state),
        count=count,
        before_text=before,
        after_text=after,
        error=error,
        updated_at=updated_at,
    )
