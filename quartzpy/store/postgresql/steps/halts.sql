-- The planner is steered here: see docs/planner.md.

-- name: hold_large_jobs
-- The executions whose ends change more triggers than one statement may under the lock do not end here: a transaction of
-- their own ends them.
WITH
-- include: ended
held_up AS (
    SELECT running.fire_id
      FROM (SELECT e.fire_id, e.job_group, e.job_name, a.failures
              FROM unnest(:'fire_ids'::bigint[], :'failures'::int[]) AS a(fire_id, failures)
              JOIN ended e USING (fire_id)) AS running
     CROSS JOIN LATERAL (
        SELECT FROM qrtz_job_details o
         WHERE o.sched_name = :'sched' AND o.job_group = running.job_group AND o.job_name = running.job_name
           AND (running.failures IS NULL OR o.consecutive_failures + running.failures >= o.pause_after_failures)
         LIMIT 1) AS changing
     WHERE (SELECT count(*)
              FROM (SELECT FROM qrtz_triggers t
                     WHERE t.sched_name = :'sched' AND t.job_group = running.job_group
                       AND t.job_name = running.job_name
                     LIMIT :'most'::int + 1) AS first_of_job) > :'most'::int
)
-- include: unrecorded
;

-- name: hold_fires
-- The rows of the fires that end, as far as they are still this epoch's. A recovery that starts in the meantime
-- skips them; a request to stop need not wait. What another transaction holds is passed over.
SELECT fire_id FROM qrtz_fired_triggers
 WHERE fire_id = ANY(:'fire_ids'::bigint[]) AND epoch = :'epoch'::bigint
   FOR KEY SHARE SKIP LOCKED;

-- name: hold_job
-- Locks the job's row, unless another transaction holds it: its failures are counted by this transaction alone. Triggers
-- of the job can be stored meanwhile; they are stored after these ends.
SELECT j.consecutive_failures, j.pause_after_failures, coalesce(free.is_free, false)
  FROM qrtz_job_details j
  LEFT JOIN LATERAL (
    SELECT true AS is_free FROM qrtz_job_details o WHERE o.ctid = j.ctid FOR NO KEY UPDATE SKIP LOCKED) AS free ON true
 WHERE j.sched_name = :'sched' AND j.job_group = :'group' AND j.job_name = :'name';

-- name: hold_triggers
-- Locks the triggers that change, before any of them does. A row that another transaction holds is passed over.
SELECT t.ctid::text FROM qrtz_triggers t
 WHERE t.sched_name = :'sched' AND t.job_group = :'group' AND t.job_name = :'name'
\if :pauses
   -- include: is_paused_by_failures
\endif
   FOR NO KEY UPDATE SKIP LOCKED;

-- name: number
-- How many they are with those that others hold.
SELECT count(*) FROM qrtz_triggers t
 WHERE t.sched_name = :'sched' AND t.job_group = :'group' AND t.job_name = :'name'
\if :pauses
   -- include: is_paused_by_failures
\endif
;

-- name: rest
-- The steps that hold some of them end meanwhile.
SELECT pg_sleep(:'seconds'::float8)::text;

-- name: change
-- Changes triggers that this transaction has locked.
UPDATE qrtz_triggers t
\if :pauses
   -- include: paused_by_failures
  FROM (SELECT o.row, :'reason'::text AS reason
\else
   SET trigger_state = locked.state, fire_id = NULL,
       error = CASE locked.state WHEN 'ERROR' THEN coalesce(:'error'::text, :'not_failed') END
  FROM (SELECT o.row, :'state'::text AS state
\endif
\if :whole_job
          FROM (SELECT c.ctid AS row FROM qrtz_triggers c
                 WHERE c.sched_name = :'sched' AND c.job_group = :'group' AND c.job_name = :'name') AS o) AS locked
\else
          FROM unnest(:'rows'::tid[]) AS own(row)
         CROSS JOIN LATERAL (
            SELECT c.ctid AS row FROM qrtz_triggers c WHERE c.ctid = own.row) AS o) AS locked
\endif
 WHERE t.ctid = locked.row;

-- name: all_ended
-- Fails, which rolls back all that this transaction has changed, unless these executions have just been recorded.
SELECT 1 / (count(*) = :'number'::int)::int FROM qrtz_executions
 WHERE fire_id = ANY(:'fire_ids'::bigint[]) AND instance_id = :'instance' AND outcome <> 'TERMINATED';
