"""The acquire step. Lock: TRIGGER_ACCESS. Claims due triggers, and fires those that are due already.

In this and the other steps, a row is looked up by LATERAL with a lock or a limit, and updated by its `ctid`. So no
statistics can make the planner choose a scan of the whole table for each row. Where a row is looked up by its key, its
state is compared as an expression, so that the partial index of claimed and blocked triggers does not match: it looks
small to the planner, but can have an entry for each running one-shot trigger.

`node` is the guard: it is empty if this epoch's row no longer exists, and then everything that follows is empty too.
`due` reads the front of each index range for which this node has free slots, in order, and skips rows that a user's
transaction has locked; `passed` are the later instants that a fire coalesces if the job buffers or replaces fires.
`decisions` has the decision for each trigger: FIRE, CLAIM, SKIP, or BLOCK if the job is at its limit, also for a
trigger that a transaction outside the lock has stored as WAITING in that situation. `siblings` are the other triggers
of jobs that reach their limits in this step.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from quartzpy.store.protocol import Acquisition, AvailableSlots, DispatchKey, Node
from quartzpy.store.sql.flight import Result, Send
from quartzpy.store.sql.misfire import caught_up
from quartzpy.store.sql.rate_limits import around
from quartzpy.store.sql.rows import by_outcome
from quartzpy.store.sql.session import SqlSession, require_epoch
from quartzpy.store.sql.settling import SETTLE

# The columns of a fired or claimed trigger, in the order of `rows.TAKEN`; `moved` has the decisions.
TAKEN = """
taken AS MATERIALIZED (
    SELECT t.fate, t.given_fire_id, t.at, t.trigger_group, t.trigger_name, t.job_group, t.job_name, t.job_type,
           t.generation, t.scheduled_time, t.previous_time, t.next_fire_time, t.upcoming, t.upcoming_is_complete,
           t.times_triggered, t.attempt, t.max_concurrent, t.overlap_policy, t.placement, t.job_data::text AS
           trigger_data, t.concurrency_key,
           t.kind, t.schedule::text, t.description, t.start_time, t.end_time, t.priority, t.misfire_instruction,
           t.misfire_threshold, t.calendar_name,
           j.description AS job_description, j.is_durable, j.persists_data, j.requests_recovery,
           j.retry_policy::text, j.timeout, j.job_data::text AS job_data, c.calendar::text, c.revision, t.covered,
           j.node_deaths, j.pause_after_failures, j.concurrency_key AS key_entry,
           j.continuations::text AS continuations, j.rate_limit::text AS rate_limit, j.display_name, j.capture_logs
      FROM moved t
     CROSS JOIN LATERAL (
        SELECT * FROM $job_details o
         WHERE o.sched_name = %(sched)s AND o.job_group = t.job_group AND o.job_name = t.job_name LIMIT 1) AS j
      LEFT JOIN LATERAL (
        SELECT * FROM $calendars o
         WHERE o.sched_name = %(sched)s AND o.calendar_name = t.calendar_name LIMIT 1) AS c ON true
     WHERE t.fate <> 'BLOCK'
),
-- What a job that is at its limit does not run, as it asks: its trigger has moved on.
skipped AS (
    INSERT INTO $executions (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        job_type, instance_id, epoch, fired_time, scheduled_time, ended_at, outcome, attempt, trigger_data)
    SELECT t.given_fire_id, %(sched)s, t.trigger_group, t.trigger_name, t.generation, t.job_group, t.job_name,
           t.job_type, %(instance)s, %(epoch)s::bigint, t.at, t.scheduled_time, t.at, 'SKIPPED', t.attempt,
           t.job_data
      FROM moved t WHERE t.fate = 'SKIP'
        ON CONFLICT DO NOTHING
)
"""

# The other triggers of jobs that reach their limits by `moved` are blocked, even if they are claimed.
BLOCK_SIBLINGS = """
siblings AS (
    UPDATE $triggers s
       SET trigger_state = CASE held.trigger_state WHEN 'PAUSED' THEN 'PAUSED_BLOCKED' ELSE 'BLOCKED' END,
           fire_id = NULL
      FROM (SELECT DISTINCT job_group, job_name, concurrency_key FROM moved WHERE fate = 'FIRE' AND fills_job) AS mine
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.trigger_state, o.fire_id
          FROM $triggers o
         WHERE o.sched_name = %(sched)s AND o.job_group = mine.job_group AND o.job_name = mine.job_name
           AND o.concurrency_key = mine.concurrency_key
           AND (o.trigger_group, o.trigger_name) NOT IN (SELECT trigger_group, trigger_name FROM moved)
           AND o.trigger_state IN ('WAITING', 'ACQUIRED', 'PAUSED')
           FOR NO KEY UPDATE SKIP LOCKED) AS held
     WHERE s.ctid = held.row
    RETURNING held.fire_id
),
dropped AS (
    DELETE FROM $fired_triggers f USING siblings WHERE f.fire_id = siblings.fire_id AND f.state = 'ACQUIRED'
)
"""

# Both statements that choose among the due triggers of a job with a limit use this order: the soonest first, but the
# newest first if it replaces running executions. Triggers that are due are ranked apart from those that are not.
PLACE = """
row_number() OVER (PARTITION BY d.job_group, d.job_name, d.concurrency_key, d.overlap_policy <> 'block' AND d.fires_now
                       ORDER BY CASE d.overlap_policy WHEN 'cancel_other' THEN d.next_fire_time END DESC,
                                d.next_fire_time, d.priority DESC) AS place
"""
# The decision about a due fire (`l`) of a job with the overlap policy SKIP, BUFFER_ONE or CANCEL_OTHER.
OVERLAP = """
CASE WHEN l.place <= l.max_concurrent - l.running THEN 'FIRE'
     WHEN l.overlap_policy = 'cancel_other' AND l.place <= l.max_concurrent THEN 'BLOCK'
     WHEN l.overlap_policy = 'buffer_one' AND l.place = greatest(l.max_concurrent - l.running, 0) + 1
          AND NOT EXISTS (SELECT FROM $triggers w
                           WHERE w.sched_name = %(sched)s AND w.job_group = l.job_group AND w.job_name = l.job_name
                             AND w.concurrency_key = l.concurrency_key AND w.trigger_state = 'BLOCKED') THEN 'BLOCK'
     ELSE 'SKIP' END
"""
# Cancels one execution for each fire that waits to replace it, the longest-running first; the commit notifies its node.
CANCEL_OTHERS = """
told AS (
    UPDATE $fired_triggers f SET cancel_requested = true
      FROM (SELECT job_group, job_name, concurrency_key, count(*) AS wanted
              FROM moved WHERE fate = 'BLOCK' AND overlap_policy = 'cancel_other'
             GROUP BY job_group, job_name, concurrency_key) AS w
     CROSS JOIN LATERAL (
        SELECT r.fire_id FROM $fired_triggers r
         WHERE r.sched_name = %(sched)s AND r.job_group = w.job_group AND r.job_name = w.job_name
           AND r.concurrency_key = w.concurrency_key
           AND r.state = 'EXECUTING' AND r.max_concurrent IS NOT NULL AND NOT r.cancel_requested
         ORDER BY r.fired_time, r.fire_id
         LIMIT w.wanted) AS other
     WHERE f.fire_id = other.fire_id
    RETURNING pg_notify(%(channel)s, 'cancelled')
)
"""

ACQUIRE = f"""
WITH node AS MATERIALIZED (
    SELECT $now AS at FROM $scheduler_state
     WHERE sched_name = %(sched)s AND instance_id = %(instance)s AND epoch = %(epoch)s::bigint
),
due AS MATERIALIZED (
    SELECT *
      FROM (SELECT node.at, front.*, dispatch_key.workers, dispatch_key.room,
                   row_number() OVER (PARTITION BY dispatch_key.executor
                                          ORDER BY front.next_fire_time, front.priority DESC) AS executor_place,
                   row_number() OVER (PARTITION BY dispatch_key.execution_group
                                          ORDER BY front.next_fire_time, front.priority DESC) AS group_place
              FROM node
             CROSS JOIN unnest(%(job_types)s::text[], %(placements)s::text[], %(executors)s::text[], %(workers)s::int[],
                               %(groups)s::text[], %(rooms)s::int[])
                        AS dispatch_key(job_type, placement, executor, workers, execution_group, room)
             CROSS JOIN (VALUES ('SCHEDULER'), ('OWN'), ('IGNORE')) AS rule(name)
             CROSS JOIN LATERAL (
                SELECT t.ctid AS row, t.job_group, t.job_name, t.next_fire_time, t.prev_fire_time, t.priority,
                       t.max_concurrent, t.overlap_policy, t.concurrency_key, t.coalesced_fire_times, late.passed,
                       t.next_fire_time <= node.at
                           AND (t.upcoming_is_complete OR cardinality(t.upcoming) > cardinality(late.passed))
                           AS fires_now
                  FROM $triggers t
                 CROSS JOIN LATERAL (
                    SELECT CASE WHEN t.overlap_policy IN ('buffer_one', 'cancel_other')
                                THEN ARRAY(SELECT u.instant FROM unnest(t.upcoming) AS u(instant)
                                            WHERE u.instant <= node.at)
                                ELSE '{{}}' END AS passed) AS late
                 WHERE t.sched_name = %(sched)s AND t.job_type = dispatch_key.job_type
                   AND t.placement = dispatch_key.placement
                   AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
                   AND t.next_fire_time <= node.at + %(look_ahead)s::interval
                   AND t.next_fire_time >= CASE rule.name
                           WHEN 'SCHEDULER' THEN node.at - %(threshold)s::interval ELSE '-infinity' END
                   AND (rule.name <> 'OWN' OR t.next_fire_time >= node.at - t.misfire_threshold)
                   AND t.generation <> ALL(%(passed_over)s::bigint[])
                 ORDER BY t.next_fire_time, t.priority DESC
                 LIMIT least(%(limit)s::int, dispatch_key.workers, dispatch_key.room)
                   FOR NO KEY UPDATE OF t SKIP LOCKED
             ) AS front) AS ranked
     WHERE executor_place <= workers AND group_place <= room
     ORDER BY next_fire_time, priority DESC
     LIMIT %(limit)s::int
),
limited AS MATERIALIZED (
    SELECT d.*, r.running, {PLACE}
      FROM due d
     CROSS JOIN LATERAL (
        SELECT count(*) AS running FROM $fired_triggers f
         WHERE f.sched_name = %(sched)s AND f.job_group = d.job_group AND f.job_name = d.job_name
           AND f.concurrency_key = d.concurrency_key AND f.state = 'EXECUTING' AND f.max_concurrent IS NOT NULL) AS r
     WHERE d.max_concurrent IS NOT NULL
),
fitting AS (
    SELECT l.*, l.running + count(*) FILTER (WHERE l.fires_now)
                                OVER (PARTITION BY l.job_group, l.job_name, l.concurrency_key)
                                    >= l.max_concurrent AS fills_job
      FROM limited l WHERE l.overlap_policy = 'block' AND l.place <= l.max_concurrent - l.running
),
decisions AS MATERIALIZED (
    SELECT d.at, d.row, d.next_fire_time AS scheduled_time, d.prev_fire_time AS previous_time,
           nextval('$fire_ids') AS fire_id, CASE WHEN d.fires_now THEN 'FIRE' ELSE 'CLAIM' END AS fate,
           false AS fills_job, d.coalesced_fire_times, d.passed
      FROM due d WHERE d.max_concurrent IS NULL
    UNION ALL
    SELECT f.at, f.row, f.next_fire_time, f.prev_fire_time, nextval('$fire_ids'),
           CASE WHEN f.fires_now THEN 'FIRE' WHEN f.fills_job THEN 'BLOCK' ELSE 'CLAIM' END, f.fills_job,
           f.coalesced_fire_times, f.passed
      FROM fitting f
    UNION ALL
    SELECT l.at, l.row, l.next_fire_time, l.prev_fire_time, 0, 'BLOCK', true, NULL, '{{}}'
      FROM limited l WHERE l.overlap_policy = 'block' AND l.running >= l.max_concurrent
    UNION ALL
    SELECT l.at, l.row, l.next_fire_time, l.prev_fire_time, nextval('$fire_ids'),
           CASE WHEN l.fires_now THEN {OVERLAP} ELSE 'CLAIM' END, false, l.coalesced_fire_times, l.passed
      FROM limited l WHERE l.overlap_policy <> 'block'
),
moved AS (
    UPDATE $triggers t
       SET trigger_state = CASE m.fate WHEN 'CLAIM' THEN 'ACQUIRED' WHEN 'BLOCK' THEN 'BLOCKED' ELSE
               CASE WHEN cardinality(t.upcoming) = m.skipped THEN 'COMPLETE'
                    WHEN m.fills_job THEN 'BLOCKED' ELSE 'WAITING' END END,
           fire_id = CASE WHEN m.fate = 'CLAIM' OR (m.moves_on AND cardinality(t.upcoming) = m.skipped)
                          THEN m.fire_id END,
           prev_fire_time = CASE m.fate WHEN 'FIRE' THEN t.next_fire_time ELSE t.prev_fire_time END,
           next_fire_time = CASE WHEN m.moves_on THEN t.upcoming[1 + m.skipped] ELSE t.next_fire_time END,
           upcoming = CASE WHEN m.moves_on THEN t.upcoming[2 + m.skipped:] ELSE t.upcoming END,
           coalesced_fire_times = CASE WHEN m.moves_on THEN NULL ELSE t.coalesced_fire_times END,
{caught_up("CASE WHEN m.moves_on THEN t.upcoming[1 + m.skipped] ELSE t.next_fire_time END")},
           times_triggered = t.times_triggered + CASE WHEN m.moves_on THEN 1 + m.skipped ELSE 0 END
      FROM (SELECT *, fate IN ('FIRE', 'SKIP') AS moves_on,
                   CASE fate WHEN 'FIRE' THEN cardinality(passed) ELSE 0 END AS skipped
              FROM decisions) AS m
     WHERE t.ctid = m.row
    RETURNING m.fate, m.fire_id AS given_fire_id, m.at, m.scheduled_time, m.previous_time, m.fills_job,
              CASE WHEN m.skipped = 0 THEN m.coalesced_fire_times
                   ELSE coalesce(m.coalesced_fire_times, ARRAY[m.scheduled_time]) || m.passed END AS covered, t.*
),
{TAKEN},
claims AS (
    INSERT INTO $fired_triggers (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        job_type, instance_id, epoch, state, fired_time, scheduled_time, priority, max_concurrent,
        concurrency_key, requests_recovery, attempt, trigger_data, coalesced_fire_times)
    SELECT t.given_fire_id, %(sched)s, t.trigger_group, t.trigger_name, t.generation, t.job_group, t.job_name,
           t.job_type, %(instance)s, %(epoch)s::bigint,
           CASE t.fate WHEN 'FIRE' THEN 'EXECUTING' ELSE 'ACQUIRED' END, t.at, t.scheduled_time, t.priority,
           t.max_concurrent, t.concurrency_key, t.requests_recovery, t.attempt, t.trigger_data::jsonb,
           CASE t.fate WHEN 'FIRE' THEN t.covered END
      FROM taken t WHERE t.fate <> 'SKIP'
),
{BLOCK_SIBLINGS},
{CANCEL_OTHERS}
SELECT * FROM taken ORDER BY scheduled_time, priority DESC
"""

# The next due trigger for this node, or one that has yet to be reconciled: the node may sleep until then. No row means
# that the epoch no longer exists. `placed` are the placements of waiting triggers, found by a loose index scan.
NEXT_DUE = """
WITH RECURSIVE placed AS (
    (SELECT placement, job_type FROM $triggers
      WHERE sched_name = %(sched)s AND trigger_state = 'WAITING' AND placement <> ''
      ORDER BY placement, job_type LIMIT 1)
    UNION ALL
    SELECT other.placement, other.job_type
      FROM placed p
     CROSS JOIN LATERAL (
        SELECT t.placement, t.job_type FROM $triggers t
         WHERE t.sched_name = %(sched)s AND t.trigger_state = 'WAITING' AND t.placement <> ''
           AND (t.placement, t.job_type) > (p.placement, p.job_type)
         ORDER BY t.placement, t.job_type LIMIT 1) AS other
)
SELECT $now,
       (SELECT min(n.next_fire_time) FROM $triggers n WHERE n.sched_name = %(sched)s AND n.misfire_rule = 'NEW'),
       (SELECT min(front.next_fire_time)
          FROM unnest(%(job_types)s::text[], %(placements)s::text[]) AS dispatch_key(job_type, placement)
         CROSS JOIN (VALUES ('SCHEDULER'), ('OWN'), ('IGNORE')) AS rule(name)
         CROSS JOIN LATERAL (
            SELECT t.next_fire_time
              FROM $triggers t
             WHERE t.sched_name = %(sched)s AND t.job_type = dispatch_key.job_type
               AND t.placement = dispatch_key.placement
               AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
               AND t.next_fire_time >= CASE rule.name
                       WHEN 'SCHEDULER' THEN $now - %(threshold)s::interval ELSE '-infinity' END
               AND (rule.name <> 'OWN' OR t.next_fire_time >= $now - t.misfire_threshold)
               AND t.generation <> ALL(%(passed_over)s::bigint[])
             ORDER BY t.next_fire_time
             LIMIT 1
         ) AS front),
       EXISTS (SELECT FROM $job_details WHERE sched_name = %(sched)s AND rate_limit IS NOT NULL),
       ARRAY(SELECT job_type FROM placed), ARRAY(SELECT placement FROM placed)
  FROM $scheduler_state
 WHERE sched_name = %(sched)s AND instance_id = %(instance)s AND epoch = %(epoch)s::bigint
"""


def acquire(
    session: SqlSession,
    node: Node,
    available_slots: Sequence[AvailableSlots],
    *,
    limit: int,
    look_ahead: timedelta,
    misfire_threshold: timedelta,
    passed_over: Collection[int],
) -> Acquisition:
    """Claim triggers, and fire those that are due; see `JobStore.acquire`."""
    values = {
        "instance": node.instance_id,
        "epoch": node.epoch,
        "job_types": [opening.job_type for opening in available_slots],
        "placements": [opening.placement for opening in available_slots],
        "threshold": misfire_threshold,
        "passed_over": list(passed_over),
    }
    claim = session.send(
        ACQUIRE,
        **values,
        executors=[opening.executor for opening in available_slots],
        workers=[opening.workers for opening in available_slots],
        groups=[opening.group for opening in available_slots],
        rooms=[opening.group_slots for opening in available_slots],
        limit=limit,
        look_ahead=look_ahead,
        channel=session.channel,
    )
    look = session.send(NEXT_DUE, **values)
    done = session.has_new, session.has_rate_limits
    took, turn, left = _step(session, claim, look)
    needed = session.has_new, session.has_rate_limits
    if not took.rows and any(need and not was for need, was in zip(needed, done, strict=True)):
        # Triggers that this step has not looked at may be due already.
        done = needed
        took, turn, left = _step(session, claim, look)
    now, new, known, has_rate_limits, *placed = require_epoch(node, left)
    if has_rate_limits and not done[1]:
        turn = now
    fired, acquired, skipped = by_outcome(took.rows)
    return Acquisition(
        now,
        fired,
        acquired,
        min((at for at in (new, known, turn) if at is not None), default=None),
        skipped,
        {DispatchKey(*dispatch_key) for dispatch_key in zip(*placed, strict=True)},
    )


def _step(session: SqlSession, claim: Send, look: Send) -> tuple[Result, datetime | None, Result]:
    """Return the results of `claim` and of `look`, and the next turn by a rate limit. Before the claim, new triggers
    are reconciled if the last step has found some; the rate limits are applied if it has found a job that has one."""
    settle = [session.send(SETTLE)] if session.has_new else []
    limits = session.has_rate_limits
    *results, left = session.locked(*settle, *(around(session, claim) if limits else [claim]), look)
    answer = left.first()
    if answer is not None:
        _, new, _, session.has_rate_limits, *_ = answer
        session.has_new = new is not None
    took, turn = (results[-4], results[-1].rows[0][0]) if limits else (results[-1], None)
    return took, turn, left
