"""Jobs with a limit of concurrent executions: from the candidates of a step to a decision about each.

The acquire step and the fire step put their candidates into a CTE `candidates` with the same columns:

- `at`, the time of the step; `row`, the ctid of the locked trigger;
- `job_group`, `job_name`, `concurrency_key`, `max_concurrent`, `overlap_policy`, `priority` of the trigger;
- `scheduled_time` and `previous_time`, its next and previous fire times before the step;
- `is_due`: the trigger can fire now; `following`: the fire times after `scheduled_time`, `following_is_complete` if no
  others come after them; `also_due`: the number of the following ones that this fire coalesces, as they are due, too;
- `coalesced_fire_times`, those that it coalesces already; `fire_id`, the id of the claim or of the execution.

`decisions` adds `fills_limit` (the job reaches its limit by this step, so that its other triggers are blocked) and
`decision`: FIRE, CLAIM, SKIP, or BLOCK. `ADVANCED` of `claims` carries the decisions out.
"""

from __future__ import annotations

from quartzpy.store.sql.db.statement import BY_KEY
from quartzpy.store.sql.steps.void_claims import void_claims


def running(of: str) -> str:
    """Return the SQL, a query, that counts the executions that use up the limit of the trigger in the row `of`."""
    return f"""
        SELECT count(*) AS running FROM $fired_triggers r
         WHERE r.sched_name = %(sched)s AND r.job_group = {of}.job_group AND r.job_name = {of}.job_name
           AND r.concurrency_key = {of}.concurrency_key AND r.state = 'EXECUTING' AND r.max_concurrent IS NOT NULL"""


# The decision about a trigger that is due, `l`, of a job that does not wait for a slot.
_OVERLAP = f"""
CASE WHEN l.rank <= l.max_concurrent - l.running THEN 'FIRE'
     WHEN l.overlap_policy = 'cancel_other' AND l.rank <= l.max_concurrent THEN 'BLOCK'
     WHEN l.overlap_policy = 'buffer_one' AND l.rank = greatest(l.max_concurrent - l.running, 0) + 1
          AND NOT EXISTS (SELECT FROM $triggers w
                           WHERE w.sched_name = %(sched)s AND w.job_group = l.job_group AND w.job_name = l.job_name
                             AND w.concurrency_key = l.concurrency_key AND w.trigger_state = 'BLOCKED' {BY_KEY})
          THEN 'BLOCK'
     ELSE 'SKIP' END"""

_AT_LIMIT = """
    UNION ALL
    -- BLOCK, at the limit already: a transaction that takes no lock has stored the trigger as WAITING, or its row was
    -- locked when the other triggers of its job were blocked.
    SELECT l.*, true, 'BLOCK'
      FROM limited l WHERE l.overlap_policy = 'block' AND l.running >= l.max_concurrent"""


def decisions(*, blocks_waiting: bool) -> str:
    """Return the CTEs from `candidates` to `decisions`.

    With `blocks_waiting`, a trigger whose job is at its limit becomes BLOCKED; without it, it stays as it is.
    """
    at_limit = _AT_LIMIT if blocks_waiting else ""
    return f"""
-- The candidates of jobs with a limit, with the number of their running executions, in the order in which they get the
-- free slots: the soonest first, but the newest first if it replaces running executions. Those that are due are ranked
-- apart from those that are not.
limited AS MATERIALIZED (
    SELECT c.*, executions.running,
           row_number() OVER (PARTITION BY c.job_group, c.job_name, c.concurrency_key,
                                           c.overlap_policy <> 'block' AND c.is_due
                                  ORDER BY CASE c.overlap_policy WHEN 'cancel_other' THEN c.scheduled_time END DESC,
                                           c.scheduled_time, c.priority DESC) AS rank
      FROM candidates c
     CROSS JOIN LATERAL ({running("c")}) AS executions
     WHERE c.max_concurrent IS NOT NULL
),
-- The jobs with an execution that a fire would replace and whose row another transaction has locked.
held AS MATERIALIZED (
    SELECT e.job_group, e.job_name, e.concurrency_key
      FROM (SELECT DISTINCT job_group, job_name, concurrency_key FROM limited
             WHERE overlap_policy = 'cancel_other' AND is_due AND rank > max_concurrent - running) AS full_job
     CROSS JOIN LATERAL (
        SELECT r.fire_id, r.job_group, r.job_name, r.concurrency_key FROM $fired_triggers r
         WHERE r.sched_name = %(sched)s AND r.job_group = full_job.job_group AND r.job_name = full_job.job_name
           AND r.concurrency_key = full_job.concurrency_key
           AND r.state = 'EXECUTING' AND r.max_concurrent IS NOT NULL AND NOT r.cancel_requested) AS e
      LEFT JOIN LATERAL (
        SELECT true AS is_free FROM $fired_triggers o
         WHERE o.fire_id = e.fire_id FOR NO KEY UPDATE SKIP LOCKED) AS f ON true
     WHERE f.is_free IS NULL
),
-- One decision for each candidate.
decisions AS MATERIALIZED (
    -- Nothing holds up a job without a limit.
    SELECT c.*, 0::bigint AS running, 1::bigint AS rank, false AS fills_limit,
           CASE WHEN c.is_due THEN 'FIRE' ELSE 'CLAIM' END AS decision
      FROM candidates c WHERE c.max_concurrent IS NULL
    UNION ALL
    -- BLOCK, with a free slot. If those that fire now take the last slot, the others are blocked and not claimed.
    SELECT f.*, CASE WHEN f.is_due THEN 'FIRE' WHEN f.fills_limit THEN 'BLOCK' ELSE 'CLAIM' END
      FROM (SELECT l.*, l.running + count(*) FILTER (WHERE l.is_due)
                                        OVER (PARTITION BY l.job_group, l.job_name, l.concurrency_key)
                            >= l.max_concurrent AS fills_limit
              FROM limited l
             WHERE l.overlap_policy = 'block' AND l.rank <= l.max_concurrent - l.running) AS f{at_limit}
    UNION ALL
    SELECT l.*, false, CASE WHEN l.is_due THEN {_OVERLAP} ELSE 'CLAIM' END
      FROM limited l
     WHERE l.overlap_policy <> 'block'
       AND (l.overlap_policy <> 'cancel_other'
            OR (l.job_group, l.job_name, l.concurrency_key)
               NOT IN (SELECT job_group, job_name, concurrency_key FROM held))
)"""


OTHERS_BLOCKED = f"""
-- The other triggers of jobs that have reached their limits by this step are blocked, even if they are claimed.
others AS (
    UPDATE $triggers t
       SET trigger_state = CASE o.trigger_state WHEN 'PAUSED' THEN 'PAUSED_BLOCKED' ELSE 'BLOCKED' END, fire_id = NULL
      FROM (SELECT DISTINCT job_group, job_name, concurrency_key
              FROM advanced WHERE decision = 'FIRE' AND fills_limit) AS full_job
     CROSS JOIN LATERAL (
        SELECT s.ctid AS row, s.trigger_state, s.fire_id
          FROM $triggers s
         WHERE s.sched_name = %(sched)s AND s.job_group = full_job.job_group AND s.job_name = full_job.job_name
           AND s.concurrency_key = full_job.concurrency_key
           AND (s.trigger_group, s.trigger_name) NOT IN (SELECT trigger_group, trigger_name FROM advanced)
           AND s.trigger_state IN ('WAITING', 'ACQUIRED', 'PAUSED')
           FOR NO KEY UPDATE SKIP LOCKED) AS o
     WHERE t.ctid = o.row
    RETURNING o.fire_id
),
-- They lose the claims that nodes had on them.
lost_claims AS (
{void_claims("others").strip()}
)"""

OTHERS_CANCELLED = """
-- CANCEL_OTHER: one execution is asked to stop for each fire that waits to replace it, the longest-running first. The
-- commit notifies the nodes.
cancelled AS (
    UPDATE $fired_triggers f SET cancel_requested = true
      FROM (SELECT job_group, job_name, concurrency_key, count(*) AS waiting
              FROM advanced WHERE decision = 'BLOCK' AND overlap_policy = 'cancel_other'
             GROUP BY job_group, job_name, concurrency_key) AS job
     CROSS JOIN LATERAL (
        SELECT r.fire_id FROM $fired_triggers r
         WHERE r.sched_name = %(sched)s AND r.job_group = job.job_group AND r.job_name = job.job_name
           AND r.concurrency_key = job.concurrency_key
           AND r.state = 'EXECUTING' AND r.max_concurrent IS NOT NULL AND NOT r.cancel_requested
         ORDER BY r.fired_time, r.fire_id
         LIMIT job.waiting) AS longest
     WHERE f.fire_id = longest.fire_id
    RETURNING pg_notify(%(channel)s, 'cancelled')
)"""


def unblocked(jobs: str) -> str:
    """Return a CTE, without its end, that releases the blocked triggers of `jobs`, a query of groups, names and keys.

    The caller may add RETURNING, and closes it.
    """
    return f"""
-- The triggers that waited for a slot of these jobs.
unblocked AS (
    UPDATE $triggers t
       SET trigger_state = CASE b.trigger_state WHEN 'BLOCKED' THEN 'WAITING' ELSE 'PAUSED' END
      FROM ({jobs}) AS job
     CROSS JOIN LATERAL (
        SELECT s.ctid AS row, s.trigger_state
          FROM $triggers s
         WHERE s.sched_name = %(sched)s AND s.job_group = job.job_group AND s.job_name = job.job_name
           AND s.concurrency_key = job.concurrency_key AND s.trigger_state IN ('BLOCKED', 'PAUSED_BLOCKED')
           FOR NO KEY UPDATE SKIP LOCKED) AS b
     WHERE t.ctid = b.row"""
