"""Jobs with a limit of concurrent executions: what their end releases."""

from __future__ import annotations


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
