"""The audit log of operators' actions, and the commands to nodes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from quartzpy.states import ActionState, NodeMode
from quartzpy.store.protocol import ActionEntry, Notification
from quartzpy.store.queries import ActionQuery, Position
from quartzpy.store.records import ActionRecord
from quartzpy.store.sql.batches import chunks
from quartzpy.store.sql.conditions import all_of
from quartzpy.store.sql.db.session import SqlSession
from quartzpy.store.sql.steps import purge

RECORD = """
INSERT INTO $audit (id, sched_name, at, ended_at, actor, role, action, subject, reason, state, count, before, after,
                    error, updated_at)
SELECT nextval('$fire_ids'), %(sched)s, $now, CASE WHEN state <> 'RUNNING' THEN $now END,
       actor, role, action, subject, reason, state, count, before::jsonb, after::jsonb, error,
       CASE WHEN state = 'RUNNING' THEN $now END
  FROM unnest(%(actors)s::text[], %(roles)s::text[], %(actions)s::text[], %(subjects)s::text[], %(reasons)s::text[],
              %(states)s::text[], %(counts)s::bigint[], %(befores)s::text[], %(afters)s::text[], %(errors)s::text[])
       WITH ORDINALITY AS entry(actor, role, action, subject, reason, state, count, before, after, error, number)
 ORDER BY number
RETURNING id
"""

# The count never falls: a slice whose answer was lost has raised it beyond the count that the caller knows of.
UPDATE = """
UPDATE $audit
   SET state = %(state)s::text, count = greatest(count, %(count)s::bigint),
       ended_at = CASE WHEN %(state)s::text <> 'RUNNING' THEN $now END,
       updated_at = CASE WHEN %(state)s::text = 'RUNNING' THEN $now END,
       after = coalesce(%(after)s::jsonb, after), error = %(error)s
 WHERE sched_name = %(sched)s AND id = %(id)s::bigint AND state IN ('RUNNING', 'INTERRUPTED')
"""

# The instant rises with each change, even if the clock of a new primary is behind: by it, a node tells a command that
# it has not carried out yet from an older one.
SET_MODE = """
WITH commanded AS (
    UPDATE $scheduler_state
       SET mode = %(mode)s, mode_since = greatest($now, mode_since + interval '1 microsecond')
     WHERE sched_name = %(sched)s AND instance_id = %(instance)s
    RETURNING mode_since
), notified AS (
    SELECT pg_notify(%(channel)s, %(news)s) WHERE EXISTS (SELECT FROM commanded)
)
SELECT mode_since FROM commanded LEFT JOIN notified ON true
"""

# An expression prevents the planner, when it has no statistics, from reading all actions for those of one subject.
_FIND = """
SELECT id, at, ended_at, actor, role, action, subject, reason, state, count, before::text, after::text, error,
       updated_at
  FROM {source} WHERE {scheduler} = %(sched)s {conditions} ORDER BY id DESC LIMIT %(limit)s::int
"""
_WALK = "SELECT {columns} FROM $audit WHERE {scheduler} = %(sched)s {conditions} ORDER BY id DESC {limit}"
# Ids increase with time, except where a standby whose clock was behind became the primary.
_MARGIN = "interval '1 hour'"
_CONDITIONS = {
    "actor": "actor = %(actor)s",
    "action": "action = %(action)s",
    "subject": "subject = %(subject)s",
    "since": f"""at >= %(since)s::timestamptz
   AND id >= (SELECT id FROM $audit WHERE sched_name = %(sched)s AND at >= %(since)s::timestamptz - {_MARGIN}
               ORDER BY at LIMIT 1)""",
    "until": f"""at < %(until)s::timestamptz
   AND id <= (SELECT id FROM $audit WHERE sched_name = %(sched)s AND at < %(until)s::timestamptz + {_MARGIN}
               ORDER BY at DESC LIMIT 1)""",
}


def record(session: SqlSession, entry: ActionEntry) -> int:
    """Add an action to the audit log; see `JobStore.record_action`."""
    [number] = _recorded(session, [entry])
    return number


def record_several(session: SqlSession, entries: Sequence[ActionEntry]) -> None:
    """Add actions to the audit log, in batches; see `ActionStore.record_actions`."""
    for some in chunks(entries):
        _recorded(session, some)


def _recorded(session: SqlSession, entries: Sequence[ActionEntry]) -> list[int]:
    [added] = session.unlocked(
        session.send(
            RECORD,
            actors=[one.actor for one in entries],
            roles=[one.role for one in entries],
            actions=[one.action for one in entries],
            subjects=[one.subject for one in entries],
            reasons=[one.reason for one in entries],
            states=[str(one.state) for one in entries],
            counts=[one.count for one in entries],
            befores=[one.before_text for one in entries],
            afters=[one.after_text for one in entries],
            errors=[one.error for one in entries],
        )
    )
    return [int(number) for (number,) in added.rows]


def update(
    session: SqlSession, action_id: int, state: ActionState, count: int, after_text: str | None, error: str | None
) -> None:
    """Update a running action; see `JobStore.update_action`."""
    session.unlocked(session.send(UPDATE, id=action_id, state=state, count=count, after=after_text, error=error))


def interrupt(session: SqlSession, silent_for: timedelta) -> int:
    """End the actions of processes that have ended; see `ActionStore.interrupt_actions`."""
    [ended] = session.unlocked(purge.interrupt_actions(session, silent_for))
    return len(ended.rows)


def set_mode(session: SqlSession, instance_id: str, mode: NodeMode) -> datetime | None:
    """Command a node; see `JobStore.set_node_mode`."""
    send = session.send(SET_MODE, instance=instance_id, mode=mode, channel=session.channel, news=Notification.COMMANDED)
    [changed] = session.unlocked(send)
    return changed.rows[0][0] if changed.rows else None


def text(query: ActionQuery, after: Position | None) -> str:
    """Return the statement of a page; see `quartzpy.store.sql.pages`."""
    if query.walk is not None:
        source = f"({walked(query.walk, after, '*', 'LIMIT %(among)s::int')}) AS examined"
        return _FIND.format(source=source, scheduler="sched_name", conditions=_conditions(query, None))
    return _FIND.format(source="$audit", scheduler=_scheduler(query), conditions=_conditions(query, after))


def walked(walk: ActionQuery, after: Position | None, columns: str, limit: str) -> str:
    """Return the query of the actions that a page examines, up to a limit."""
    return _WALK.format(columns=columns, scheduler=_scheduler(walk), conditions=_conditions(walk, after), limit=limit)


def _scheduler(query: ActionQuery) -> str:
    return "sched_name" if query.subject is None else "sched_name || ''"


def _conditions(query: ActionQuery, after: Position | None) -> str:
    conditions = [text for name, text in _CONDITIONS.items() if getattr(query, name) is not None]
    if query.state is not None:
        # A literal, because a partial index needs a condition without parameters.
        conditions.append(f"state = '{query.state}'")
    if query.state not in (None, ActionState.SUCCEEDED):
        conditions.append("state <> 'SUCCEEDED'")
    if after:
        conditions.append("id < %(after_id)s::bigint")
    return all_of(conditions)


def values(query: ActionQuery, after: Position | None) -> dict[str, Any]:
    """Return the values of that statement, except the limit."""
    return {
        **{name: getattr(query, name) for name in _CONDITIONS},
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
