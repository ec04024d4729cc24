"""The acquire step. Lock: TRIGGER_ACCESS. Claims due triggers, and fires those that are due already.

`node` is the guard: it is empty once this epoch's row is gone, and with it everything that follows.
`due` reads the front of each index range that this node can take, in order, and skips rows that somebody's own
transaction holds. `fated` decides: FIRE, CLAIM, or BLOCK for one that a transaction outside the lock stored as
WAITING while its job was at its limit. `siblings` are the other triggers of a job that reached its limit just now.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from quartzpy.store.protocol import Acquisition, Node
from quartzpy.store.sql.misfire import caught_up
from quartzpy.store.sql.rows import parted
from quartzpy.store.sql.session import SqlSession, still_standing

# What a fired or claimed trigger is made of, in the order of `rows.TAKEN`; `moved` says what became of it.
TAKEN = """
taken AS MATERIALIZED (
    SELECT t.fate, t.given_fence, t.at, t.trigger_group, t.trigger_name, t.job_group, t.job_name, t.job_type,
           t.generation, t.scheduled_time, t.previous_time, t.next_fire_time, t.upcoming, t.upcoming_is_complete,
           t.times_triggered, t.attempt, t.max_concurrent, t.skips_when_full, t.job_data::text AS trigger_data,
           t.kind, t.schedule::text, t.description, t.start_time, t.end_time, t.priority, t.misfire_instruction,
           t.misfire_threshold, t.calendar_name,
           j.description AS job_description, j.is_durable, j.persists_data, j.requests_recovery,
           j.retry_policy::text, j.timeout, j.job_data::text AS job_data, c.calendar::text, c.revision, t.covered
      FROM moved t
      JOIN $job_details j
        ON j.sched_name = %(sched)s AND j.job_group = t.job_group AND j.job_name = t.job_name
      LEFT JOIN $calendars c ON c.sched_name = %(sched)s AND c.calendar_name = t.calendar_name
     WHERE t.fate <> 'BLOCK'
),
-- What a job that is at its limit does not run, as it asks: its trigger has moved on.
skipped AS (
    INSERT INTO $executions (fence, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        job_type, instance_id, epoch, fired_time, scheduled_time, ended_at, outcome, attempt)
    SELECT t.given_fence, %(sched)s, t.trigger_group, t.trigger_name, t.generation, t.job_group, t.job_name,
           t.job_type, %(instance)s, %(epoch)s::bigint, t.at, t.scheduled_time, t.at, 'SKIPPED', t.attempt
      FROM moved t WHERE t.fate = 'SKIP'
        ON CONFLICT DO NOTHING
)
"""

# The other triggers of jobs whose limit `moved` reached: blocked, whatever claim they were under. LATERAL with a lock
# is never planned as a scan of the whole table, whatever the statistics say.
BLOCK_SIBLINGS = """
siblings AS (
    UPDATE $triggers s
       SET trigger_state = CASE held.trigger_state WHEN 'PAUSED' THEN 'PAUSED_BLOCKED' ELSE 'BLOCKED' END,
           fence = NULL
      FROM (SELECT DISTINCT job_group, job_name FROM moved WHERE fate = 'FIRE' AND fills_job) AS mine
     CROSS JOIN LATERAL (
        SELECT o.sched_name, o.trigger_group, o.trigger_name, o.trigger_state, o.fence
          FROM $triggers o
         WHERE o.sched_name = %(sched)s AND o.job_group = mine.job_group AND o.job_name = mine.job_name
           AND (o.trigger_group, o.trigger_name) NOT IN (SELECT trigger_group, trigger_name FROM moved)
           AND o.trigger_state IN ('WAITING', 'ACQUIRED', 'PAUSED')
           FOR NO KEY UPDATE SKIP LOCKED) AS held
     WHERE s.sched_name = held.sched_name
       AND s.trigger_group = held.trigger_group AND s.trigger_name = held.trigger_name
    RETURNING held.fence
),
dropped AS (
    DELETE FROM $fired_triggers f USING siblings WHERE f.fence = siblings.fence AND f.state = 'ACQUIRED'
)
"""

ACQUIRE = f"""
WITH node AS MATERIALIZED (
    SELECT $now AS at FROM $scheduler_state
     WHERE sched_name = %(sched)s AND instance_id = %(instance)s AND epoch = %(epoch)s::bigint
),
due AS MATERIALIZED (
    SELECT node.at, front.*
      FROM node
     CROSS JOIN unnest(%(job_types)s::text[]) AS known(job_type)
     CROSS JOIN (VALUES ('SCHEDULER'), ('OWN'), ('IGNORE')) AS rule(name)
     CROSS JOIN LATERAL (
        SELECT t.ctid AS row, t.job_group, t.job_name, t.next_fire_time, t.prev_fire_time, t.priority,
               t.max_concurrent, t.skips_when_full, t.covers,
               t.next_fire_time <= node.at
                   AND (t.upcoming_is_complete OR cardinality(t.upcoming) > 0) AS fires_now
          FROM $triggers t
         WHERE t.sched_name = %(sched)s AND t.job_type = known.job_type AND t.misfire_rule = rule.name
           AND t.trigger_state = 'WAITING'
           AND t.next_fire_time <= node.at + %(look_ahead)s::interval
           AND t.next_fire_time >= CASE rule.name
                   WHEN 'SCHEDULER' THEN node.at - %(threshold)s::interval ELSE '-infinity' END
           AND (rule.name <> 'OWN' OR t.next_fire_time >= node.at - t.misfire_threshold)
         ORDER BY t.next_fire_time, t.priority DESC
         LIMIT %(limit)s::int
           FOR NO KEY UPDATE SKIP LOCKED
     ) AS front
     ORDER BY front.next_fire_time, front.priority DESC
     LIMIT %(limit)s::int
),
limited AS MATERIALIZED (
    SELECT d.*, r.running,
           row_number() OVER (PARTITION BY d.job_group, d.job_name ORDER BY d.next_fire_time, d.priority DESC) AS place
      FROM due d
     CROSS JOIN LATERAL (
        SELECT count(*) AS running FROM $fired_triggers f
         WHERE f.sched_name = %(sched)s AND f.job_group = d.job_group AND f.job_name = d.job_name
           AND f.state = 'EXECUTING' AND f.max_concurrent IS NOT NULL) AS r
     WHERE d.max_concurrent IS NOT NULL
),
fitting AS (
    SELECT l.*, NOT l.skips_when_full
                AND l.running + count(*) FILTER (WHERE l.fires_now)
                                OVER (PARTITION BY l.job_group, l.job_name) >= l.max_concurrent AS fills_job
      FROM limited l WHERE l.place <= l.max_concurrent - l.running
),
fated AS MATERIALIZED (
    SELECT d.at, d.row, d.next_fire_time AS scheduled_time, d.prev_fire_time AS previous_time,
           nextval('$fences') AS fence, CASE WHEN d.fires_now THEN 'FIRE' ELSE 'CLAIM' END AS fate, false AS fills_job,
           d.covers
      FROM due d WHERE d.max_concurrent IS NULL
    UNION ALL
    SELECT f.at, f.row, f.next_fire_time, f.prev_fire_time, nextval('$fences'),
           CASE WHEN f.fires_now THEN 'FIRE' WHEN f.fills_job THEN 'BLOCK' ELSE 'CLAIM' END, f.fills_job, f.covers
      FROM fitting f
    UNION ALL
    SELECT l.at, l.row, l.next_fire_time, l.prev_fire_time, 0, 'BLOCK', true, NULL
      FROM limited l WHERE l.running >= l.max_concurrent AND NOT l.skips_when_full
    UNION ALL
    SELECT l.at, l.row, l.next_fire_time, l.prev_fire_time, nextval('$fences'),
           CASE WHEN l.fires_now THEN 'SKIP' ELSE 'CLAIM' END, false, NULL
      FROM limited l WHERE l.skips_when_full AND l.place > l.max_concurrent - l.running
),
moved AS (
    UPDATE $triggers t
       SET trigger_state = CASE m.fate WHEN 'CLAIM' THEN 'ACQUIRED' WHEN 'BLOCK' THEN 'BLOCKED' ELSE
               CASE WHEN cardinality(t.upcoming) = 0 THEN 'COMPLETE'
                    WHEN m.fills_job THEN 'BLOCKED' ELSE 'WAITING' END END,
           fence = CASE WHEN m.fate = 'CLAIM' OR (m.fate IN ('FIRE', 'SKIP') AND cardinality(t.upcoming) = 0)
                        THEN m.fence END,
           prev_fire_time = CASE m.fate WHEN 'FIRE' THEN t.next_fire_time ELSE t.prev_fire_time END,
           next_fire_time = CASE WHEN m.fate IN ('FIRE', 'SKIP') THEN t.upcoming[1] ELSE t.next_fire_time END,
           upcoming = CASE WHEN m.fate IN ('FIRE', 'SKIP') THEN t.upcoming[2:] ELSE t.upcoming END,
           covers = CASE WHEN m.fate IN ('FIRE', 'SKIP') THEN NULL ELSE t.covers END,
{caught_up("CASE WHEN m.fate IN ('FIRE', 'SKIP') THEN t.upcoming[1] ELSE t.next_fire_time END")},
           times_triggered = t.times_triggered + CASE WHEN m.fate IN ('FIRE', 'SKIP') THEN 1 ELSE 0 END
      FROM fated m
     WHERE t.ctid = m.row
    RETURNING m.fate, m.fence AS given_fence, m.at, m.scheduled_time, m.previous_time, m.fills_job,
              m.covers AS covered, t.*
),
{TAKEN},
claims AS (
    INSERT INTO $fired_triggers (fence, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        job_type, instance_id, epoch, state, fired_time, scheduled_time, priority, max_concurrent,
        requests_recovery, attempt, trigger_data)
    SELECT t.given_fence, %(sched)s, t.trigger_group, t.trigger_name, t.generation, t.job_group, t.job_name,
           t.job_type, %(instance)s, %(epoch)s::bigint,
           CASE t.fate WHEN 'FIRE' THEN 'EXECUTING' ELSE 'ACQUIRED' END, t.at, t.scheduled_time, t.priority,
           t.max_concurrent, t.requests_recovery, t.attempt, t.trigger_data::jsonb
      FROM taken t WHERE t.fate <> 'SKIP'
),
{BLOCK_SIBLINGS}
SELECT * FROM taken ORDER BY scheduled_time, priority DESC
"""

# What is left for this node: it may sleep until then. No row: the epoch is gone.
NEXT_DUE = """
SELECT $now,
       (SELECT min(front.next_fire_time)
          FROM unnest(%(job_types)s::text[]) AS known(job_type)
         CROSS JOIN (VALUES ('SCHEDULER'), ('OWN'), ('IGNORE')) AS rule(name)
         CROSS JOIN LATERAL (
            SELECT t.next_fire_time
              FROM $triggers t
             WHERE t.sched_name = %(sched)s AND t.job_type = known.job_type AND t.misfire_rule = rule.name
               AND t.trigger_state = 'WAITING'
               AND t.next_fire_time >= CASE rule.name
                       WHEN 'SCHEDULER' THEN $now - %(threshold)s::interval ELSE '-infinity' END
               AND (rule.name <> 'OWN' OR t.next_fire_time >= $now - t.misfire_threshold)
             ORDER BY t.next_fire_time
             LIMIT 1
         ) AS front)
  FROM $scheduler_state
 WHERE sched_name = %(sched)s AND instance_id = %(instance)s AND epoch = %(epoch)s::bigint
"""


def acquire(
    session: SqlSession,
    node: Node,
    job_types: Sequence[str],
    *,
    limit: int,
    look_ahead: timedelta,
    misfire_threshold: timedelta,
) -> Acquisition:
    """Claim, and fire what is due; see `JobStore.acquire`."""
    values = {
        "instance": node.instance_id,
        "epoch": node.epoch,
        "job_types": job_types,
        "threshold": misfire_threshold,
    }
    took, left = session.locked(
        session.send(ACQUIRE, **values, limit=limit, look_ahead=look_ahead), session.send(NEXT_DUE, **values)
    )
    now, next_due = still_standing(node, left)
    fired, acquired, skipped = parted(took.rows)
    return Acquisition(now, fired, acquired, next_due, skipped)
