-- The planner is steered here: see docs/planner.md.

-- name: pass_on
-- Releases triggers that wait for a slot of a job that has one. The end of an execution gives its slot to one of them.
-- If that one does not take it, because it was paused, deleted or moved in the meantime, or if its row was locked, this
-- gives the slot to the next one: at each check-in, for all jobs, and where a trigger of a job is taken away. One
-- that is released in vain is blocked again.
WITH RECURSIVE
\if :of_jobs
-- The keys of these jobs of which triggers wait for a slot, by a loose index scan.
blocked AS (
    SELECT first_of_job.*
      FROM unnest(:'job_groups'::text[], :'job_names'::text[]) AS named(job_group, job_name)
     CROSS JOIN LATERAL (
        SELECT t.job_group, t.job_name, t.concurrency_key, t.max_concurrent, t.overlap_policy FROM qrtz_triggers t
         WHERE t.sched_name || '' = :'sched' AND t.trigger_state = 'BLOCKED'
           AND t.job_group || '' = named.job_group AND t.job_name || '' = named.job_name
         ORDER BY t.concurrency_key || '' LIMIT 1) AS first_of_job
    UNION ALL
    SELECT other.*
      FROM blocked b
     CROSS JOIN LATERAL (
        SELECT t.job_group, t.job_name, t.concurrency_key, t.max_concurrent, t.overlap_policy FROM qrtz_triggers t
         WHERE t.sched_name || '' = :'sched' AND t.trigger_state = 'BLOCKED'
           AND t.job_group || '' = b.job_group AND t.job_name || '' = b.job_name
           AND t.concurrency_key || '' > b.concurrency_key
         ORDER BY t.concurrency_key || '' LIMIT 1) AS other
),
\else
-- include: blocked
\endif
-- include: open_slots
,
-- include: released
SELECT (SELECT count(*) FROM released),
       (SELECT count(pg_notify(:'channel', 'scheduled')) FROM (SELECT FROM released LIMIT 1) AS any_released);
