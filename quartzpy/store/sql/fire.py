"""The fire step. Lock: TRIGGER_ACCESS. Fires the claims of this node that are due.

Their new fire times have been computed before, outside the lock. A claim that was lost in the meantime (its trigger was
paused, deleted, replaced, or blocked by another trigger of its job) no longer matches by state and fire_id, and its
trigger does not change.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from quartzpy.store.protocol import FireRequest, Firing, Holdings, Node, Reconciliation
from quartzpy.store.sql.acquire import BLOCK_SIBLINGS, CANCEL_OTHERS, OVERLAP, PLACE, TAKEN
from quartzpy.store.sql.flight import Result
from quartzpy.store.sql.listen import news
from quartzpy.store.sql.misfire import caught_up
from quartzpy.store.sql.rows import by_outcome
from quartzpy.store.sql.session import SqlSession, require_epoch
from quartzpy.texts import storable_text

FIRE = f"""
WITH node AS MATERIALIZED (
    SELECT $now AS at FROM $scheduler_state
     WHERE sched_name = %(sched)s AND instance_id = %(instance)s AND epoch = %(epoch)s::bigint
),
wanted AS (
    SELECT w.fire_id, w.following::timestamptz[] AS following, w.is_complete
      FROM unnest(%(fire_ids)s::bigint[], %(following)s::text[], %(complete)s::bool[])
        AS w(fire_id, following, is_complete)
),
ready AS MATERIALIZED (
    SELECT node.at, t.row, t.job_group, t.job_name, t.max_concurrent, t.overlap_policy, t.concurrency_key,
           t.next_fire_time, t.prev_fire_time AS previous_time, t.priority, true AS fires_now,
           w.fire_id, w.following, w.is_complete, t.coalesced_fire_times,
           CASE WHEN t.overlap_policy IN ('buffer_one', 'cancel_other')
                THEN least((SELECT count(*) FROM unnest(w.following) AS u(instant) WHERE u.instant <= node.at),
                           cardinality(w.following) - CASE WHEN w.is_complete THEN 0 ELSE 1 END)::int
                ELSE 0 END AS passed
      FROM node
     CROSS JOIN wanted w
      JOIN $fired_triggers f
        ON f.fire_id = w.fire_id AND f.epoch = %(epoch)s::bigint AND f.state = 'ACQUIRED'
         AND f.scheduled_time <= node.at
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.*
          FROM $triggers o
         WHERE o.sched_name = %(sched)s AND o.trigger_group = f.trigger_group AND o.trigger_name = f.trigger_name
           AND o.trigger_state || '' = 'ACQUIRED' AND o.fire_id = w.fire_id
           FOR NO KEY UPDATE SKIP LOCKED) AS t
),
limited AS MATERIALIZED (
    SELECT d.*, {PLACE}, r.running
      FROM ready d
     CROSS JOIN LATERAL (
        SELECT count(*) AS running FROM $fired_triggers r
         WHERE r.sched_name = %(sched)s AND r.job_group = d.job_group AND r.job_name = d.job_name
           AND r.concurrency_key = d.concurrency_key AND r.state = 'EXECUTING' AND r.max_concurrent IS NOT NULL) AS r
     WHERE d.max_concurrent IS NOT NULL
),
chosen AS MATERIALIZED (
    SELECT *, 1 AS place, 0 AS running, 'FIRE' AS fate, false AS fills_job FROM ready WHERE max_concurrent IS NULL
    UNION ALL
    SELECT l.*, 'FIRE', l.running + count(*) OVER (PARTITION BY l.job_group, l.job_name, l.concurrency_key)
                            >= l.max_concurrent
      FROM limited l WHERE l.overlap_policy = 'block' AND l.place <= l.max_concurrent - l.running
    UNION ALL
    SELECT l.*, {OVERLAP}, false FROM limited l WHERE l.overlap_policy <> 'block'
),
moved AS (
    UPDATE $triggers t
       SET trigger_state = CASE WHEN NOT c.moves_on THEN 'BLOCKED'
                                WHEN cardinality(c.following) = c.skipped THEN 'COMPLETE'
                                WHEN c.fills_job THEN 'BLOCKED' ELSE 'WAITING' END,
           fire_id = CASE WHEN c.moves_on AND cardinality(c.following) = c.skipped THEN c.fire_id END,
           prev_fire_time = CASE c.fate WHEN 'FIRE' THEN t.next_fire_time ELSE t.prev_fire_time END,
           next_fire_time = CASE WHEN c.moves_on THEN c.following[1 + c.skipped] ELSE t.next_fire_time END,
           coalesced_fire_times = CASE WHEN c.moves_on THEN NULL ELSE t.coalesced_fire_times END,
{caught_up("CASE WHEN c.moves_on THEN c.following[1 + c.skipped] ELSE t.next_fire_time END")},
           upcoming = CASE WHEN c.moves_on THEN c.following[2 + c.skipped:] ELSE t.upcoming END,
           upcoming_is_complete = CASE WHEN c.moves_on THEN c.is_complete ELSE t.upcoming_is_complete END,
           times_triggered = t.times_triggered + CASE WHEN c.moves_on THEN 1 + c.skipped ELSE 0 END
      FROM (SELECT *, fate <> 'BLOCK' AS moves_on, CASE fate WHEN 'FIRE' THEN passed ELSE 0 END AS skipped
              FROM chosen) AS c
     WHERE t.ctid = c.row
    RETURNING c.fate::text AS fate, c.fire_id AS given_fire_id, c.at, c.next_fire_time AS scheduled_time,
              c.previous_time, c.fills_job,
              CASE WHEN c.skipped = 0 THEN c.coalesced_fire_times
                   ELSE coalesce(c.coalesced_fire_times, ARRAY[c.next_fire_time]) || c.following[:c.skipped] END
                   AS covered, t.*
),
{TAKEN},
claims AS (
    UPDATE $fired_triggers f
       SET state = 'EXECUTING', fired_time = moved.at, coalesced_fire_times = moved.covered,
           concurrency_key = moved.concurrency_key
      FROM moved WHERE f.fire_id = moved.given_fire_id AND moved.fate = 'FIRE'
),
unclaimed AS (
    DELETE FROM $fired_triggers f USING moved WHERE f.fire_id = moved.given_fire_id AND moved.fate <> 'FIRE'
),
{BLOCK_SIBLINGS},
{CANCEL_OTHERS}
SELECT * FROM taken ORDER BY scheduled_time, priority DESC
"""

# Claims whose trigger was removed or has changed are deleted.
FORGET_ALL = """
DELETE FROM $fired_triggers f
 WHERE f.sched_name = %(sched)s AND f.epoch = %(epoch)s::bigint AND f.state = 'ACQUIRED'
   AND (SELECT count(*) FROM $triggers t
         WHERE t.sched_name = f.sched_name AND t.trigger_group = f.trigger_group
           AND t.trigger_name = f.trigger_name AND t.fire_id = f.fire_id) = 0
"""
FORGET = FORGET_ALL + "   AND f.fire_id = ANY(%(fire_ids)s::bigint[])"

# The remaining claims: not due by the store's clock, or their rows are locked. No row: the epoch no longer exists.
STILL_CLAIMED = """
SELECT $now, ARRAY(SELECT f.fire_id FROM $fired_triggers f
                    WHERE f.fire_id = ANY(%(fire_ids)s::bigint[]) AND f.epoch = %(epoch)s::bigint
                      AND f.state = 'ACQUIRED')
  FROM $scheduler_state
 WHERE sched_name = %(sched)s AND instance_id = %(instance)s AND epoch = %(epoch)s::bigint
"""


def _release(which: str) -> str:
    """Return the SQL that releases the claims for which `which` is true. A trigger becomes WAITING only if it is still
    ACQUIRED by the same claim. It notifies other nodes, which may be asleep beyond its fire time."""
    return f"""
WITH held AS (
    SELECT t.row, f.fire_id
      FROM $fired_triggers f
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row
          FROM $triggers o
         WHERE o.sched_name = f.sched_name AND o.trigger_group = f.trigger_group AND o.trigger_name = f.trigger_name
           AND o.trigger_state || '' = 'ACQUIRED' AND o.fire_id = f.fire_id
           FOR NO KEY UPDATE SKIP LOCKED) AS t
     WHERE f.sched_name = %(sched)s AND f.epoch = %(epoch)s::bigint AND f.state = 'ACQUIRED' AND {which}
),
freed AS (
    UPDATE $triggers t SET trigger_state = 'WAITING', fire_id = NULL
      FROM held
     WHERE t.ctid = held.row
    RETURNING held.fire_id
),
gone AS (
    DELETE FROM $fired_triggers f USING freed WHERE f.fire_id = freed.fire_id
)
SELECT fire_id, pg_notify(%(channel)s, 'scheduled') FROM freed
"""


RELEASE = _release("f.fire_id = ANY(%(fire_ids)s::bigint[])")
RELEASE_OTHERS = _release("f.fire_id <> ALL(%(claims)s::bigint[])")

# A trigger whose next fire time the claiming node cannot compute.
REJECT = """
WITH held AS (
    SELECT t.row, f.fire_id, w.reason
      FROM unnest(%(fire_ids)s::bigint[], %(reasons)s::text[]) AS w(fire_id, reason)
      JOIN $fired_triggers f ON f.fire_id = w.fire_id AND f.epoch = %(epoch)s::bigint AND f.state = 'ACQUIRED'
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row
          FROM $triggers o
         WHERE o.sched_name = f.sched_name AND o.trigger_group = f.trigger_group AND o.trigger_name = f.trigger_name
           AND o.trigger_state || '' = 'ACQUIRED' AND o.fire_id = f.fire_id
           FOR NO KEY UPDATE SKIP LOCKED) AS t
),
put AS (
    UPDATE $triggers t SET trigger_state = 'ERROR', fire_id = NULL, error = held.reason
      FROM held
     WHERE t.ctid = held.row
    RETURNING held.fire_id
)
DELETE FROM $fired_triggers f USING put WHERE f.fire_id = put.fire_id
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
UNKNOWN_FIRES = """
SELECT 'FIRE'::text, f.fire_id, f.fired_time, f.trigger_group, f.trigger_name, f.job_group, f.job_name, f.job_type,
       f.generation, f.scheduled_time, t.prev_fire_time, t.next_fire_time, coalesce(t.upcoming, '{}'),
       coalesce(t.upcoming_is_complete, true), coalesce(t.times_triggered, 1), f.attempt, f.max_concurrent,
       coalesce(t.overlap_policy, 'block'), coalesce(t.placement, j.placement, ''),
       f.trigger_data::text, f.concurrency_key, coalesce(t.kind, 'simple'),
       coalesce(t.schedule, '{"interval_us": 0, "repeat_count": 0}')::text,
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


def fire(session: SqlSession, node: Node, moves: Sequence[FireRequest]) -> Firing:
    """Fire the claims of `moves` that are due; see `JobStore.fire`."""
    fire_ids = [move.acquired.fire_id for move in moves]
    at_node = {"instance": node.instance_id, "epoch": node.epoch}
    fired, _, left = session.locked(
        session.send(
            FIRE,
            **at_node,
            fire_ids=fire_ids,
            following=[move.following.instants for move in moves],
            complete=[move.following.is_complete for move in moves],
            channel=session.channel,
        ),
        session.send(FORGET, epoch=node.epoch, fire_ids=fire_ids),
        session.send(STILL_CLAIMED, **at_node, fire_ids=fire_ids),
    )
    now, still_claimed = require_epoch(node, left)
    ran, _, skipped = by_outcome(fired.rows)
    return Firing(now, ran, frozenset(still_claimed), skipped)


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
    _, still_claimed = require_epoch(node, left)
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
