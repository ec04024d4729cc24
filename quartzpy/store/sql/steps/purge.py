"""Deletes what is kept for a time only: the history, the misfires, and triggers that have ended."""

from __future__ import annotations

from datetime import datetime, timedelta

from quartzpy.store.protocol import ACTION_SILENCE, UNHEARD
from quartzpy.store.sql.db.flight import Send
from quartzpy.store.sql.db.session import SqlSession
from quartzpy.store.sql.steps.orphans import orphans
from quartzpy.store.sql.steps.rate_limits import PRUNE

# Triggers that a job or a misfire ended. Declared ones are kept: their owner would store them again.
PURGE_ENDED = """
DELETE FROM $triggers t
 USING (SELECT o.ctid AS row FROM $triggers o
         WHERE o.sched_name = %(sched)s AND o.trigger_state = 'COMPLETE' AND o.fire_id IS NULL AND o.owner IS NULL
           AND coalesce(o.next_fire_time, o.prev_fire_time, o.start_time) < $now - %(older_than)s::interval
         LIMIT %(limit)s::int
           FOR UPDATE SKIP LOCKED) AS ended
 WHERE t.ctid = ended.row
RETURNING t.job_group, t.job_name
"""

# The bound is a subquery, because an index condition cannot use a volatile expression such as the clock; greatest()
# ignores a bound that is not set. A batch begins where the last one ended, so that it does not read the dead entries of
# the index that were left by the batches before.
PURGE = """
WITH deleted AS (
    DELETE FROM $executions
     WHERE ctid IN (SELECT ctid FROM $executions
                     WHERE sched_name = %(sched)s
                       AND ended_at >= %(since)s::timestamptz
                       AND ended_at < (SELECT greatest($now - %(older_than)s::interval, %(before)s::timestamptz))
                     ORDER BY ended_at LIMIT %(limit)s::int
                       FOR UPDATE SKIP LOCKED)
    RETURNING ended_at
)
SELECT count(*), max(ended_at) FROM deleted
"""


# The end of the first execution that is one too many, by a walk along the index without the rows.
CUTOFF = """
SELECT ended_at FROM $executions
 WHERE sched_name = %(sched)s
 ORDER BY ended_at DESC OFFSET %(keep)s::bigint LIMIT 1
"""
_NEXT_INSTANT = timedelta(microseconds=1)


# Of the oldest: their ids increase with time.
PURGE_MISFIRES = """
DELETE FROM $misfires
 WHERE sched_name = %(sched)s
   AND id IN (SELECT id
                FROM (SELECT id, handled_at FROM $misfires
                       WHERE sched_name = %(sched)s ORDER BY id LIMIT %(limit)s::int) AS oldest
               WHERE handled_at < $now - %(older_than)s::interval)
"""


PURGE_ACTIONS = """
DELETE FROM $audit
 WHERE sched_name = %(sched)s
   AND id IN (SELECT id
                FROM (SELECT id, at FROM $audit WHERE sched_name = %(sched)s ORDER BY id LIMIT %(limit)s::int) AS oldest
               WHERE at < $now - %(older_than)s::interval)
"""

# The partial index of actions that did not succeed finds those that are RUNNING.
INTERRUPT = """
UPDATE $audit
   SET state = 'INTERRUPTED', ended_at = updated_at, updated_at = NULL, error = %(error)s
 WHERE sched_name = %(sched)s AND state = 'RUNNING' AND state <> 'SUCCEEDED'
   AND updated_at < $now - %(silent_for)s::interval
RETURNING id
"""


def cutoff(session: SqlSession, keep: int) -> datetime | None:
    """Return the instant that parts the latest executions from the others; see `JobStore.history_cutoff`."""
    (result,) = session.unlocked(session.send(CUTOFF, keep=keep))
    return result.rows[0][0] + _NEXT_INSTANT if result.rows else None


def interrupt_actions(session: SqlSession, silent_for: timedelta) -> Send:
    """Return the statement that ends the actions of processes which have ended."""
    return session.send(INTERRUPT, silent_for=silent_for, error=UNHEARD)


def purge(
    session: SqlSession,
    older_than: timedelta | None,
    limit: int,
    ended_triggers: timedelta | None,
    actions: timedelta | None,
    before: datetime | None,
) -> int:
    """Delete old history and ended triggers; see `JobStore.purge_history`."""
    executions, history = [], []
    if older_than is not None or before is not None:
        since = session.purged_up_to or "-infinity"
        executions = [session.send(PURGE, since=since, older_than=older_than, before=before, limit=limit)]
    if older_than is not None:
        history.append(session.send(PURGE_MISFIRES, older_than=older_than, limit=limit))
    if actions is not None:
        history.append(session.send(PURGE_ACTIONS, older_than=actions, limit=limit))
    triggers = []
    if ended_triggers is not None:
        triggers = [session.send(PURGE_ENDED, older_than=ended_triggers, limit=limit)]
    if not executions and not history and not triggers:
        return 0
    # The acquire step deletes the rows of rate limits as well, but not once no job has a limit any more.
    others = session.send(PRUNE), interrupt_actions(session, ACTION_SILENCE)
    *results, _, _ = session.unlocked(*executions, *history, *triggers, *others)
    deleted = 0
    if executions:
        [(deleted, last)] = results.pop(0).rows
        session.purged_up_to = last if deleted == limit else None
    ended = [key for result in results[len(history) :] for key in result.rows]
    if ended:
        session.unlocked(*orphans(session, [(group, name) for group, name in ended]))
    return int(deleted) + sum(result.touched for result in results[: len(history)])
