"""The claims and executions that an epoch holds: released, rejected, and compared with what its node has in hand."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from quartzpy.store.protocol import Holdings, Node, Reconciliation
from quartzpy.store.sql.db.flight import Result
from quartzpy.store.sql.db.listen import news
from quartzpy.store.sql.db.rows import by_outcome
from quartzpy.store.sql.db.session import SqlSession, require_epoch
from quartzpy.texts import storable_text
from quartzpy.triggers.upcoming import REFILL_BELOW

# Claims whose trigger was removed or has changed are deleted.


def _forget(which: str) -> str:
    return f"""
DELETE FROM $fired_triggers
 WHERE ctid = ANY(ARRAY(
    SELECT f.ctid FROM $fired_triggers f
     WHERE f.sched_name = %(sched)s AND f.epoch = %(epoch)s::bigint AND f.state = 'ACQUIRED' AND {which}
       AND (SELECT count(*) FROM $triggers t
             WHERE t.sched_name = f.sched_name AND t.trigger_group = f.trigger_group
               AND t.trigger_name = f.trigger_name AND t.fire_id = f.fire_id) = 0
       FOR UPDATE SKIP LOCKED))
"""


FORGET_ALL = _forget("true")
FORGET = _forget("f.fire_id = ANY(%(fire_ids)s::bigint[])")

# The remaining claims: not due by the store's clock, or their rows are locked; and whether one of them was left by
# `FIRE_UNLIMITED`, because its job has got a limit. No row: the epoch is no longer registered.
STILL_CLAIMED = """
SELECT $now, ARRAY(SELECT f.fire_id FROM $fired_triggers f
                    WHERE f.fire_id = ANY(%(fire_ids)s::bigint[]) AND f.epoch = %(epoch)s::bigint
                      AND f.state = 'ACQUIRED'),
       EXISTS (SELECT FROM $fired_triggers f
                CROSS JOIN LATERAL (
                   SELECT o.max_concurrent FROM $triggers o
                    WHERE o.sched_name = f.sched_name AND o.trigger_group = f.trigger_group
                      AND o.trigger_name = f.trigger_name LIMIT 1) AS t
                WHERE f.fire_id = ANY(%(fire_ids)s::bigint[]) AND f.epoch = %(epoch)s::bigint
                  AND f.state = 'ACQUIRED' AND f.scheduled_time <= $now AND t.max_concurrent IS NOT NULL)
  FROM $scheduler_state
 WHERE sched_name = %(sched)s AND instance_id = %(instance)s AND epoch = %(epoch)s::bigint
"""


def _release(which: str) -> str:
    """Return the SQL that releases the claims for which `which` is true. A trigger becomes WAITING only if it is still
    ACQUIRED by the same claim. It notifies other nodes, which may be asleep beyond its fire time."""
    return f"""
WITH claimed AS (
    SELECT t.row, f.fire_id
      FROM $fired_triggers f
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row
          FROM $triggers o
         WHERE o.sched_name = f.sched_name AND o.trigger_group = f.trigger_group AND o.trigger_name = f.trigger_name
           AND o.trigger_state || '' = 'ACQUIRED' AND o.fire_id = f.fire_id
           FOR NO KEY UPDATE SKIP LOCKED) AS t
     WHERE f.sched_name = %(sched)s AND f.epoch = %(epoch)s::bigint AND f.state = 'ACQUIRED' AND {which}
       FOR UPDATE OF f SKIP LOCKED
),
released AS (
    UPDATE $triggers t SET trigger_state = 'WAITING', fire_id = NULL
      FROM claimed
     WHERE t.ctid = claimed.row
    RETURNING claimed.fire_id
),
deleted AS (
    DELETE FROM $fired_triggers f USING released WHERE f.fire_id = released.fire_id
)
SELECT fire_id, pg_notify(%(channel)s, 'scheduled') FROM released
"""


RELEASE = _release("f.fire_id = ANY(%(fire_ids)s::bigint[])")
RELEASE_OTHERS = _release("f.fire_id <> ALL(%(claims)s::bigint[])")

# A trigger whose next fire time the claiming node cannot compute.
REJECT = """
WITH claimed AS (
    SELECT t.row, f.fire_id, rejected.reason
      FROM unnest(%(fire_ids)s::bigint[], %(reasons)s::text[]) AS rejected(fire_id, reason)
      JOIN $fired_triggers f ON f.fire_id = rejected.fire_id AND f.epoch = %(epoch)s::bigint AND f.state = 'ACQUIRED'
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row
          FROM $triggers o
         WHERE o.sched_name = f.sched_name AND o.trigger_group = f.trigger_group AND o.trigger_name = f.trigger_name
           AND o.trigger_state || '' = 'ACQUIRED' AND o.fire_id = f.fire_id
           FOR NO KEY UPDATE SKIP LOCKED) AS t
       FOR UPDATE OF f SKIP LOCKED
),
failed AS (
    UPDATE $triggers t SET trigger_state = 'ERROR', fire_id = NULL, error = claimed.reason
      FROM claimed
     WHERE t.ctid = claimed.row
    RETURNING claimed.fire_id
)
DELETE FROM $fired_triggers f USING failed WHERE f.fire_id = failed.fire_id
"""

# No row: the epoch no longer exists.
HOLDINGS = """
SELECT $now,
       ARRAY(SELECT f.fire_id FROM $fired_triggers f
              WHERE f.sched_name = %(sched)s AND f.epoch = %(epoch)s::bigint AND f.state = 'ACQUIRED'),
       ARRAY(SELECT f.fire_id FROM $fired_triggers f
              WHERE f.sched_name = %(sched)s AND f.epoch = %(epoch)s::bigint AND f.state = 'EXECUTING')
  FROM $scheduler_state
 WHERE sched_name = %(sched)s AND instance_id = %(instance)s AND epoch = %(epoch)s::bigint
"""

# Executions of this epoch that the node does not know, because the answer to their fire was lost.
UNKNOWN_FIRES = f"""
SELECT 'FIRE'::text, f.fire_id, f.fired_time, f.trigger_group, f.trigger_name, f.job_group, f.job_name, f.job_type,
       f.generation, f.scheduled_time, t.prev_fire_time, t.next_fire_time,
       CASE WHEN cardinality(t.upcoming) < {REFILL_BELOW} THEN t.upcoming END,
       coalesce(t.upcoming_is_complete, true), coalesce(t.times_triggered, 1), f.attempt, f.max_concurrent,
       coalesce(t.overlap_policy, 'block'), coalesce(t.placement, j.placement, ''),
       f.trigger_data::text, f.concurrency_key, coalesce(t.kind, 'simple'),
       coalesce(t.schedule, '{{"interval_us": 0, "repeat_count": 0}}')::text,
       t.description, coalesce(t.start_time, f.scheduled_time), t.end_time, f.priority,
       coalesce(t.misfire_instruction, 'smart'), t.misfire_threshold, t.calendar_name,
       j.description, coalesce(j.is_durable, false), coalesce(j.persists_data, false), f.requests_recovery,
       j.retry_policy::text, j.timeout, j.job_data::text, c.calendar::text, c.revision, f.coalesced_fire_times,
       coalesce(j.node_deaths, 0), j.pause_after_failures, j.concurrency_key, j.continuations::text,
       j.rate_limit::text, j.display_name, j.capture_logs
  FROM $fired_triggers f
  LEFT JOIN $job_details j
    ON j.sched_name = f.sched_name AND j.job_group = f.job_group AND j.job_name = f.job_name
  LEFT JOIN $triggers t
    ON t.sched_name = f.sched_name AND t.trigger_group = f.trigger_group AND t.trigger_name = f.trigger_name
   AND t.generation = f.generation
  LEFT JOIN $calendars c ON c.sched_name = t.sched_name AND c.calendar_name = t.calendar_name
 WHERE f.sched_name = %(sched)s AND f.epoch = %(epoch)s::bigint AND f.state = 'EXECUTING'
   AND f.fire_id <> ALL(%(executions)s::bigint[])
 ORDER BY f.scheduled_time, f.priority DESC
"""


def release(session: SqlSession, node: Node, fire_ids: Collection[int]) -> frozenset[int]:
    """Release claims; see `JobStore.release`."""
    if not fire_ids:
        session.unlocked(news(session))
        return frozenset()
    values = {"epoch": node.epoch, "fire_ids": list(fire_ids)}
    *_, left = session.locked(
        session.send(RELEASE, **values, channel=session.channel),
        session.send(FORGET, **values),
        session.send(STILL_CLAIMED, **values, instance=node.instance_id),
    )
    _, still_claimed, _ = require_epoch(node, left)
    return frozenset(still_claimed)


def reject(session: SqlSession, node: Node, reasons: Mapping[int, str]) -> None:
    """Put claimed triggers into ERROR; see `JobStore.reject`."""
    if reasons:
        session.locked(
            session.send(
                REJECT,
                epoch=node.epoch,
                fire_ids=list(reasons),
                reasons=[storable_text(reason) for reason in reasons.values()],
            )
        )


def holdings(session: SqlSession, node: Node) -> Holdings:
    """Return the claims and executions of an epoch; see `JobStore.holdings`."""
    [found] = session.read(session.send(HOLDINGS, instance=node.instance_id, epoch=node.epoch))
    return _holdings(node, found)


def _holdings(node: Node, found: Result) -> Holdings:
    now, claims, executions = require_epoch(node, found)
    return Holdings(now, frozenset(claims), frozenset(executions))


def reconcile(session: SqlSession, node: Node, claims: Collection[int], executions: Collection[int]) -> Reconciliation:
    """Reconcile the store's rows with the node's; see `JobStore.reconcile`."""
    values = {"epoch": node.epoch, "claims": list(claims)}
    fires, released, _, found = session.locked(
        session.send(UNKNOWN_FIRES, epoch=node.epoch, executions=list(executions)),
        session.send(RELEASE_OTHERS, **values, channel=session.channel),
        session.send(FORGET_ALL, epoch=node.epoch),
        session.send(HOLDINGS, instance=node.instance_id, epoch=node.epoch),
    )
    return Reconciliation(
        by_outcome(fires.rows)[0], frozenset(fire_id for fire_id, _ in released.rows), _holdings(node, found)
    )
