-- The planner is steered here: see docs/planner.md.

-- A row is looked up by LATERAL with a lock or a limit: a plain join may be planned as a scan of the whole table for
-- each execution. EXISTS ends with OFFSET 0, so that it looks its row up by the key, once for each row: a plan that was
-- made for a small table may else read the whole table into a hash.

-- name: record
-- Records the ends of executions whose fires still belong to this epoch, and locks their rows. An execution that
-- somebody has asked to stop does not run again: one that was snoozed, by its job or because it was handed back, is
-- CANCELLED, and a failure remains one without a further attempt. Nor does one whose job is gone: this is its end, for
-- those who wait for it as well.
-- A second record of the same instant, which only a bug can cause, is refused by a unique index. The statement is then
-- sent again with `tolerates`: ON CONFLICT costs another look into each unique index and a record of the log for each
-- row. The instants are estimates of the node, limited to the time between the fire and now by the store's clock.
-- Estimates of two nodes differ by up to a round trip: without the limits, the history could show that an execution
-- began before the previous one of a serial job had ended.
WITH fires AS MATERIALIZED (
    SELECT f.*, e.started_at, e.ended_at, e.outcome, e.error, e.result, e.log, e.retry_after, e.is_handed_back
      FROM unnest(:'fire_ids'::bigint[], :'started'::timestamptz[], :'ended'::timestamptz[], :'outcomes'::text[],
                  :'errors'::text[], :'results'::text[], :'logs'::text[], :'retry_after'::interval[],
                  :'handed_back'::bool[])
           AS e(fire_id, started_at, ended_at, outcome, error, result, log, retry_after, is_handed_back)
     CROSS JOIN LATERAL (
        SELECT r.fire_id, r.sched_name, r.trigger_group, r.trigger_name, r.generation, r.job_group, r.job_name,
               r.job_type, r.instance_id, r.fired_time, r.scheduled_time, r.attempt, r.trigger_data, r.cancel_requested
          FROM qrtz_fired_triggers r
         WHERE r.fire_id = e.fire_id AND r.epoch = :'epoch'::bigint LIMIT 1
           FOR UPDATE SKIP LOCKED) AS f
),
recorded AS (
    INSERT INTO qrtz_executions (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        job_type, instance_id, fired_time, scheduled_time, started_at, ended_at, outcome, error, attempt, trigger_data,
        result, log, retry_at)
    SELECT c.fire_id, c.sched_name, c.trigger_group, c.trigger_name, c.generation, c.job_group, c.job_name, c.job_type,
           c.instance_id, c.fired_time, c.scheduled_time, least(greatest(c.started_at, c.fired_time), :now),
           least(greatest(c.ended_at, c.fired_time), :now),
           CASE WHEN c.cancel_requested AND c.outcome = 'SNOOZED' THEN 'CANCELLED' ELSE c.outcome END,
           CASE WHEN NOT (c.cancel_requested AND c.is_handed_back) THEN c.error END,
           c.attempt, c.trigger_data, c.result::jsonb, c.log,
           CASE WHEN c.retry_after IS NOT NULL AND NOT c.cancel_requested
                     AND EXISTS (SELECT FROM qrtz_job_details j
                                  WHERE j.sched_name = c.sched_name AND j.job_group = c.job_group
                                    AND j.job_name = c.job_name
                                 OFFSET 0) THEN :now + c.retry_after END
      FROM fires c
\if :tolerates
        ON CONFLICT DO NOTHING
    RETURNING fire_id
),
-- include: twice
SELECT :now, ARRAY(SELECT fire_id FROM fires WHERE cancel_requested), ARRAY(SELECT fire_id FROM twice)
\else
)
SELECT :now, ARRAY(SELECT fire_id FROM fires WHERE cancel_requested), '{}'::bigint[]
\endif
;

-- name: hold_jobs
-- Holds the jobs whose rows these ends write, or which run again: a trigger that is stored refers to its job, which
-- would wait under the lock for any open transaction that deletes or redefines the job. The lock is stronger than the
-- foreign key requires, because the check of the key would wait for a row that was updated and then locked. An execution
-- whose job no longer exists does not need its job's row.
WITH
-- include: ended
held_up AS (
    SELECT e.fire_id
      FROM ended e
      LEFT JOIN LATERAL (
        SELECT true AS is_free FROM qrtz_job_details o
         WHERE o.sched_name = :'sched' AND o.job_group = e.job_group AND o.job_name = e.job_name
           FOR NO KEY UPDATE SKIP LOCKED) AS j ON true
     WHERE j.is_free IS NULL
       AND (e.retry_at IS NOT NULL
            OR EXISTS (SELECT FROM qrtz_job_details o
                        WHERE o.sched_name = :'sched' AND o.job_group = e.job_group AND o.job_name = e.job_name
                       OFFSET 0))
)
-- include: unrecorded
;

-- name: leave
-- The end of the executions that are recorded: the rows of their fires go, and the triggers whose last fires they were.
WITH
done AS (
    DELETE FROM qrtz_fired_triggers f
     USING unnest(:'fire_ids'::bigint[], :'last'::bool[]) AS a(fire_id, is_last)
     CROSS JOIN LATERAL (SELECT r.ctid AS row FROM qrtz_fired_triggers r WHERE r.fire_id = a.fire_id LIMIT 1) AS own
     WHERE f.ctid = own.row
       AND EXISTS (SELECT FROM qrtz_executions e WHERE e.fire_id = a.fire_id OFFSET 0)
    RETURNING f.fire_id, f.sched_name, f.trigger_group, f.trigger_name, f.generation, a.is_last
),
-- include: ended_triggers
SELECT ARRAY(SELECT fire_id FROM done);

-- name: unfinished
-- Executions that did not end: still this epoch's (a row was locked), or recorded by a call whose answer was lost.
SELECT ARRAY(SELECT fire_id FROM qrtz_fired_triggers
              WHERE fire_id = ANY(:'fire_ids'::bigint[]) AND epoch = :'epoch'::bigint),
       ARRAY(SELECT fire_id FROM qrtz_executions
              WHERE fire_id = ANY(:'fire_ids'::bigint[]) AND instance_id = :'instance' AND outcome <> 'TERMINATED');
