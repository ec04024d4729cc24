-- The planner is steered here: see docs/planner.md.

-- name: hold_orphans
-- Locks non-durable jobs that seem to have no trigger left, and for which no batch waits. One that is receiving a trigger is locked, and is skipped.
SELECT 1
  FROM unnest(:'job_groups'::text[], :'job_names'::text[]) AS named(job_group, job_name)
 CROSS JOIN LATERAL (
    SELECT FROM qrtz_job_details o
     WHERE o.sched_name = :'sched' AND o.job_group = named.job_group AND o.job_name = named.job_name
       AND NOT o.is_durable
       AND (SELECT true FROM qrtz_triggers t WHERE t.sched_name = o.sched_name
               AND t.job_group = o.job_group AND t.job_name = o.job_name LIMIT 1) IS NULL
       AND (SELECT true FROM qrtz_joins w WHERE w.sched_name = o.sched_name
               AND w.job_group = o.job_group AND w.job_name = o.job_name AND w.state = 'WAITING' LIMIT 1) IS NULL
       FOR UPDATE SKIP LOCKED) AS j;

-- name: orphaned_jobs
-- Deletes them. A separate statement, because it must see a trigger that was stored between the check and the lock.
DELETE FROM qrtz_job_details j
 USING unnest(:'job_groups'::text[], :'job_names'::text[]) AS named(job_group, job_name)
 CROSS JOIN LATERAL (
    SELECT o.ctid AS row FROM qrtz_job_details o
     WHERE o.sched_name = :'sched' AND o.job_group = named.job_group AND o.job_name = named.job_name
       AND NOT o.is_durable
       AND (SELECT true FROM qrtz_triggers t WHERE t.sched_name = o.sched_name
               AND t.job_group = o.job_group AND t.job_name = o.job_name LIMIT 1) IS NULL
       AND (SELECT true FROM qrtz_joins w WHERE w.sched_name = o.sched_name
               AND w.job_group = o.job_group AND w.job_name = o.job_name AND w.state = 'WAITING' LIMIT 1) IS NULL
       FOR UPDATE SKIP LOCKED) AS orphan
 WHERE j.ctid = orphan.row;
