"""The fire step. Lock: TRIGGER_ACCESS. Fires triggers that this node acquired and whose instant has come.

Where each goes was computed before, outside the lock. A claim that was lost meanwhile (paused, deleted, replaced,
blocked by another trigger of its job) no longer matches by state and fence, and nothing happens to that trigger.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from quartzpy.store.protocol import Acquisition, Firing, Move, Node
from quartzpy.store.sql.acquire import BLOCK_SIBLINGS, CANCEL_OTHERS, OVERLAP, PLACE, TAKEN
from quartzpy.store.sql.listen import channel, news
from quartzpy.store.sql.misfire import GUARD, caught_up
from quartzpy.store.sql.rows import parted
from quartzpy.store.sql.session import SqlSession, still_standing

FIRE = f"""
WITH node AS MATERIALIZED (
    SELECT $now AS at FROM $scheduler_state
     WHERE sched_name = %(sched)s AND instance_id = %(instance)s AND epoch = %(epoch)s::bigint
),
wanted AS (
    SELECT * FROM unnest(%(fences)s::bigint[], %(next)s::timestamptz[], %(upcoming)s::text[], %(complete)s::bool[],
                         %(times)s::bigint[], %(covers)s::text[])
        AS w(fence, next_fire_time, upcoming, is_complete, times_triggered, stands_for)
),
ready AS MATERIALIZED (
    SELECT node.at, t.row, t.job_group, t.job_name, t.max_concurrent, t.when_full,
           t.next_fire_time, t.prev_fire_time AS previous_time, t.priority, true AS fires_now,
           w.fence, w.next_fire_time AS following, w.upcoming, w.is_complete, w.times_triggered,
           CASE WHEN w.stands_for IS NULL THEN t.covers
                ELSE coalesce(t.covers, (w.stands_for::timestamptz[])[:1]) || (w.stands_for::timestamptz[])[2:] END
               AS covers
      FROM node
     CROSS JOIN wanted w
      JOIN $fired_triggers f
        ON f.fence = w.fence AND f.epoch = %(epoch)s::bigint AND f.state = 'ACQUIRED' AND f.scheduled_time <= node.at
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.*
          FROM $triggers o
         WHERE o.sched_name = %(sched)s AND o.trigger_group = f.trigger_group AND o.trigger_name = f.trigger_name
           AND o.trigger_state || '' = 'ACQUIRED' AND o.fence = w.fence
           FOR NO KEY UPDATE SKIP LOCKED) AS t
),
limited AS MATERIALIZED (
    SELECT d.*, {PLACE}, r.running
      FROM ready d
     CROSS JOIN LATERAL (
        SELECT count(*) AS running FROM $fired_triggers r
         WHERE r.sched_name = %(sched)s AND r.job_group = d.job_group AND r.job_name = d.job_name
           AND r.state = 'EXECUTING' AND r.max_concurrent IS NOT NULL) AS r
     WHERE d.max_concurrent IS NOT NULL
),
chosen AS MATERIALIZED (
    SELECT *, 1 AS place, 0 AS running, 'FIRE' AS fate, false AS fills_job FROM ready WHERE max_concurrent IS NULL
    UNION ALL
    SELECT l.*, 'FIRE', l.running + count(*) OVER (PARTITION BY l.job_group, l.job_name) >= l.max_concurrent
      FROM limited l WHERE l.when_full = 'block' AND l.place <= l.max_concurrent - l.running
    UNION ALL
    SELECT l.*, {OVERLAP}, false FROM limited l WHERE l.when_full <> 'block'
),
moved AS (
    UPDATE $triggers t
       SET trigger_state = CASE WHEN NOT c.moves_on THEN 'BLOCKED'
                                WHEN c.following IS NULL THEN 'COMPLETE'
                                WHEN c.fills_job THEN 'BLOCKED' ELSE 'WAITING' END,
           fence = CASE WHEN c.moves_on AND c.following IS NULL THEN c.fence END,
           prev_fire_time = CASE c.fate WHEN 'FIRE' THEN t.next_fire_time ELSE t.prev_fire_time END,
           next_fire_time = CASE WHEN c.moves_on THEN c.following ELSE t.next_fire_time END,
           covers = CASE WHEN c.moves_on THEN NULL ELSE t.covers END,
{caught_up("CASE WHEN c.moves_on THEN c.following ELSE t.next_fire_time END")},
           upcoming = CASE WHEN c.moves_on THEN c.upcoming::timestamptz[] ELSE t.upcoming END,
           upcoming_is_complete = CASE WHEN c.moves_on THEN c.is_complete ELSE t.upcoming_is_complete END,
           times_triggered = CASE WHEN c.moves_on THEN c.times_triggered ELSE t.times_triggered END
      FROM (SELECT *, fate <> 'BLOCK' AS moves_on FROM chosen) AS c
     WHERE t.ctid = c.row
    RETURNING c.fate::text AS fate, c.fence AS given_fence, c.at, c.next_fire_time AS scheduled_time, c.previous_time,
              c.fills_job, c.covers AS covered, t.*
),
{TAKEN},
claims AS (
    UPDATE $fired_triggers f SET state = 'EXECUTING', fired_time = moved.at
      FROM moved WHERE f.fence = moved.given_fence AND moved.fate = 'FIRE'
),
unclaimed AS (
    DELETE FROM $fired_triggers f USING moved WHERE f.fence = moved.given_fence AND moved.fate <> 'FIRE'
),
{BLOCK_SIBLINGS},
{CANCEL_OTHERS}
SELECT * FROM taken ORDER BY scheduled_time, priority DESC
"""

# Claims whose trigger went or passed on are of no more use.
FORGET = """
DELETE FROM $fired_triggers f
 WHERE f.fence = ANY(%(fences)s::bigint[]) AND f.epoch = %(epoch)s::bigint AND f.state = 'ACQUIRED'
   AND (SELECT count(*) FROM $triggers t
         WHERE t.sched_name = f.sched_name AND t.trigger_group = f.trigger_group
           AND t.trigger_name = f.trigger_name AND t.fence = f.fence) = 0
"""

# What is still claimed: not due by this clock, or its row is held. No row at all: the epoch is gone.
STILL_CLAIMED = """
SELECT $now, ARRAY(SELECT f.fence FROM $fired_triggers f
                    WHERE f.fence = ANY(%(fences)s::bigint[]) AND f.epoch = %(epoch)s::bigint
                      AND f.state = 'ACQUIRED')
  FROM $scheduler_state
 WHERE sched_name = %(sched)s AND instance_id = %(instance)s AND epoch = %(epoch)s::bigint
"""

# ACQUIRED becomes WAITING where it is still this claim, and nothing else does.
RELEASE = """
WITH held AS (
    SELECT t.row, f.fence
      FROM $fired_triggers f
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row
          FROM $triggers o
         WHERE o.sched_name = f.sched_name AND o.trigger_group = f.trigger_group AND o.trigger_name = f.trigger_name
           AND o.trigger_state || '' = 'ACQUIRED' AND o.fence = f.fence
           FOR NO KEY UPDATE SKIP LOCKED) AS t
     WHERE f.fence = ANY(%(fences)s::bigint[]) AND f.epoch = %(epoch)s::bigint AND f.state = 'ACQUIRED'
),
freed AS (
    UPDATE $triggers t SET trigger_state = 'WAITING', fence = NULL
      FROM held
     WHERE t.ctid = held.row
    RETURNING held.fence
)
DELETE FROM $fired_triggers f USING freed WHERE f.fence = freed.fence
"""

# What this epoch holds, executing or claimed, that its node does not know of: the answer was lost.
UNKNOWN_FIRES = """
SELECT 'FIRE'::text, f.fence, f.fired_time, f.trigger_group, f.trigger_name, f.job_group, f.job_name, f.job_type,
       f.generation, f.scheduled_time, t.prev_fire_time, t.next_fire_time, coalesce(t.upcoming, '{}'),
       coalesce(t.upcoming_is_complete, true), coalesce(t.times_triggered, 1), f.attempt, f.max_concurrent,
       coalesce(t.when_full, 'block'), coalesce(t.placement, j.placement, ''),
       f.trigger_data::text, coalesce(t.kind, 'simple'),
       coalesce(t.schedule, '{"interval_us": 0, "repeat_count": 0}')::text,
       t.description, coalesce(t.start_time, f.scheduled_time), t.end_time, f.priority,
       coalesce(t.misfire_instruction, 'smart'), t.misfire_threshold, t.calendar_name,
       j.description, coalesce(j.is_durable, false), coalesce(j.persists_data, false), f.requests_recovery,
       j.retry_policy::text, j.timeout, j.job_data::text, c.calendar::text, c.revision, NULL::timestamptz[]
  FROM $fired_triggers f
  LEFT JOIN $job_details j
    ON j.sched_name = f.sched_name AND j.job_group = f.job_group AND j.job_name = f.job_name
  LEFT JOIN $triggers t
    ON t.sched_name = f.sched_name AND t.trigger_group = f.trigger_group AND t.trigger_name = f.trigger_name
   AND t.generation = f.generation
  LEFT JOIN $calendars c ON c.sched_name = t.sched_name AND c.calendar_name = t.calendar_name
 WHERE f.sched_name = %(sched)s AND f.epoch = %(epoch)s::bigint AND f.state = 'EXECUTING'
   AND f.fence <> ALL(%(known)s::bigint[])
 ORDER BY f.scheduled_time, f.priority DESC
"""
UNKNOWN_CLAIMS = """
SELECT coalesce(array_agg(f.fence), '{}')
  FROM $fired_triggers f
 WHERE f.sched_name = %(sched)s AND f.epoch = %(epoch)s::bigint AND f.state = 'ACQUIRED'
   AND f.fence <> ALL(%(known)s::bigint[])
"""


def fire(session: SqlSession, node: Node, moves: Sequence[Move]) -> Firing:
    """Fire those of `moves` that are due; see `JobStore.fire`."""
    fences = [move.acquired.fence for move in moves]
    at_node = {"instance": node.instance_id, "epoch": node.epoch}
    fired, _, left = session.locked(
        session.send(
            FIRE,
            **at_node,
            fences=fences,
            next=[move.progress.next_fire_time for move in moves],
            upcoming=[move.horizon.instants for move in moves],
            complete=[move.horizon.is_complete for move in moves],
            times=[move.progress.times_triggered for move in moves],
            covers=[move.covers or None for move in moves],
            channel=channel(session.scheduler),
        ),
        session.send(FORGET, epoch=node.epoch, fences=fences),
        session.send(STILL_CLAIMED, **at_node, fences=fences),
    )
    now, still_claimed = still_standing(node, left)
    ran, _, skipped = parted(fired.rows)
    return Firing(now, ran, frozenset(still_claimed), skipped)


def release(session: SqlSession, node: Node, fences: Collection[int]) -> None:
    """Give claims back; see `JobStore.release`."""
    if fences:
        session.locked(session.send(RELEASE, epoch=node.epoch, fences=list(fences)), news(session))
    else:
        session.unlocked(news(session))


def settle(session: SqlSession, node: Node, known: Collection[int]) -> Acquisition:
    """Learn what became of steps whose answer was lost; see `JobStore.settle`."""
    values = {"epoch": node.epoch, "known": list(known)}
    fires, claims, standing = session.locked(
        session.send(UNKNOWN_FIRES, **values),
        session.send(UNKNOWN_CLAIMS, **values),
        session.send(GUARD, instance=node.instance_id, epoch=node.epoch),
    )
    (now,) = still_standing(node, standing)
    if unknown := claims.rows[0][0]:
        release(session, node, unknown)
    return Acquisition(now, parted(fires.rows)[0])
