"""The audit log of operators' actions, and the commands to nodes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from quartzpy.states import ActionState, NodeMode
from quartzpy.store.memory.tables import HISTORY, Tables
from quartzpy.store.protocol import UNHEARD, ActionEntry, Notification
from quartzpy.store.queries import ActionQuery
from quartzpy.store.records import ActionRecord


def record(tables: Tables, entry: ActionEntry) -> int:
    """Add an action to the audit log; see `JobStore.record_action`."""
    now = tables.now()
    number = tables.next_number()
    tables.actions[number] = ActionRecord(
        action_id=number,
        at=now,
        ended_at=None if entry.state is ActionState.RUNNING else now,
        actor=entry.actor,
        role=entry.role,
        action=entry.action,
        subject=entry.subject,
        reason=entry.reason,
        state=entry.state,
        count=entry.count,
        before_text=entry.before_text,
        after_text=entry.after_text,
        error=entry.error,
        updated_at=now if entry.state is ActionState.RUNNING else None,
    )
    if len(tables.actions) > HISTORY:
        del tables.actions[next(iter(tables.actions))]
    return number


def update(
    tables: Tables, action_id: int, state: ActionState, count: int, after_text: str | None, error: str | None
) -> None:
    """Update a running action; see `JobStore.update_action`."""
    known = tables.actions.get(action_id)
    if known is None or known.state not in (ActionState.RUNNING, ActionState.INTERRUPTED):
        return
    now, is_running = tables.now(), state is ActionState.RUNNING
    tables.actions[action_id] = replace(
        known,
        state=state,
        count=max(known.count, count),
        ended_at=None if is_running else now,
        after_text=known.after_text if after_text is None else after_text,
        error=error,
        updated_at=now if is_running else None,
    )


def interrupt(tables: Tables, silent_for: timedelta) -> int:
    """End the actions of threads that have ended; see `ActionStore.interrupt_actions`."""
    before = tables.now() - silent_for
    found = [action for action in tables.actions.values() if action.updated_at and action.updated_at < before]
    for action in found:
        tables.actions[action.action_id] = replace(
            action, state=ActionState.INTERRUPTED, ended_at=action.updated_at, updated_at=None, error=UNHEARD
        )
    return len(found)


def purge(tables: Tables, older_than: timedelta, limit: int) -> int:
    """Delete at most `limit` actions that began longer ago; return how many."""
    before = tables.now() - older_than
    old = [number for number, action in tables.actions.items() if action.at < before][:limit]
    for number in old:
        del tables.actions[number]
    return len(old)


def set_mode(tables: Tables, instance_id: str, mode: NodeMode) -> datetime | None:
    """Command a node; see `JobStore.set_node_mode`."""
    node = tables.nodes.get(instance_id)
    if node is None:
        return None
    since = tables.now()
    if node.mode_since is not None:
        since = max(since, node.mode_since + timedelta.resolution)
    tables.nodes[instance_id] = replace(node, mode=mode, mode_since=since)
    tables.notifications.add(Notification.COMMANDED)
    return since


def matches(record: ActionRecord, query: ActionQuery) -> bool:
    """Return True if the query selects the record."""
    return (
        query.actor in (None, record.actor)
        and query.action in (None, record.action)
        and query.subject in (None, record.subject)
        and query.state in (None, record.state)
        and (query.since is None or record.at >= query.since)
        and (query.until is None or record.at < query.until)
    )
