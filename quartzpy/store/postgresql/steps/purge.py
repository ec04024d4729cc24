"""Deletes what is kept for a time only: the history, the misfires, old incidents, and triggers that have ended."""

from __future__ import annotations

from datetime import datetime, timedelta

from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.left_batches import leave_ended
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps.orphans import orphans
from quartzpy.store.protocol import Purged
from quartzpy.store.records import ACTION_SILENCE, UNHEARD

_SQL = SqlFile("steps/purge.sql")
PURGE = _SQL("purge")
PURGE_INCIDENTS = _SQL("purge_incidents")
PURGE_BREACHES = _SQL("purge_breaches")
PURGE_NOTIFICATIONS = _SQL("purge_notifications")

_NEXT_INSTANT = timedelta(microseconds=1)


def _history_cutoff(session: SqlSession, keep: int) -> datetime | None:
    """Return the instant that parts the latest `keep` executions from the others; None if there are no others."""
    (result,) = session.unlocked(session.bind(_SQL.cutoff, keep=keep))
    return result.rows[0][0] + _NEXT_INSTANT if result.rows else None


def interrupt_actions(session: SqlSession, silent_for: timedelta) -> BoundStatement:
    """Return the statement that ends the actions of processes which have ended."""
    return session.bind(_SQL.interrupt, silent_for=silent_for, error=UNHEARD)


def purge_history(
    session: SqlSession,
    older_than: timedelta | None,
    *,
    limit: int,
    ended_triggers: timedelta | None = None,
    actions: timedelta | None = None,
    before: datetime | None = None,
    most: int | None = None,
) -> Purged:
    """Delete old history and ended triggers; see `ClusterStore.purge_history`."""
    if most is not None:
        before = _history_cutoff(session, most)
    ended_triggers = ended_triggers or older_than
    executions, history = [], []
    if older_than is not None or before is not None:
        since = session.purged_up_to or "-infinity"
        executions = [session.bind(PURGE, since=since, older_than=older_than, before=before, limit=limit)]
    if older_than is not None:
        texts = (_SQL.purge_misfires, PURGE_INCIDENTS, _SQL.purge_joins, PURGE_BREACHES, PURGE_NOTIFICATIONS)
        history = [session.bind(text, older_than=older_than, limit=limit) for text in texts]
    if actions is not None:
        history.append(session.bind(_SQL.purge_actions, older_than=actions, limit=limit))
    triggers = []
    if ended_triggers is not None:
        triggers = [session.bind(_SQL.purge_ended, older_than=ended_triggers, limit=limit)]
    if not executions and not history and not triggers:
        return Purged(0)
    others = session.bind(_SQL.purge_limits, limit=limit), interrupt_actions(session, ACTION_SILENCE)
    # A trigger of a batch that ended without a fire is counted before it is deleted.
    _, *results, _, _ = session.unlocked(leave_ended(session, limit=limit), *executions, *history, *triggers, *others)
    deleted = 0
    if executions:
        [(deleted, last)] = results.pop(0).rows
        session.purged_up_to = last if deleted == limit else None
    ended = [key for result in results[len(history) :] for key in result.rows]
    if ended:
        session.unlocked(*orphans(session, [(group, name) for group, name in ended]))
    return Purged(int(deleted) + sum(result.touched for result in results[: len(history)]), before)
