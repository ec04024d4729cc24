-- The planner is steered here: see docs/planner.md.

-- name: leave
-- Counts the triggers of batches that end without a fire: of these keys (by_trigger), of these jobs (by_job), or else
-- those that have ended already. A trigger that has fired is counted by its end, and a run by hand is no part of a
-- batch. Each is marked as counted, by the update that returns its batch, so that it is counted once whoever else
-- changes it. The row of the batch is updated from the version that is locked: the steps, which count the other ends,
-- leave its column `removed` alone. Where the batch is over, the one-shot trigger of its job is stored, NEW as those of
-- a user's transaction are, because nothing here runs under the lock of the steps.
WITH
\if :by_trigger
\else
\if :by_job
\else
-- The purge waits for nobody: what somebody else holds is counted by a later one.
candidates AS MATERIALIZED (
    SELECT o.ctid AS row, o.job_data -> 'QRTZ_BATCH' AS entry
      FROM qrtz_triggers o
     WHERE o.sched_name = :'sched' AND o.trigger_state = 'COMPLETE' AND o.prev_fire_time IS NULL
       AND jsonb_exists(o.job_data, 'QRTZ_BATCH') AND NOT jsonb_exists(o.job_data -> 'QRTZ_BATCH', 'left')
     LIMIT :'limit'::int
       FOR UPDATE SKIP LOCKED
),
free AS MATERIALIZED (
    SELECT b.entry
      FROM (SELECT DISTINCT entry FROM candidates) AS b
     CROSS JOIN LATERAL (
        SELECT FROM qrtz_joins o
         WHERE o.sched_name = :'sched' AND o.job_group = b.entry ->> 'job_group' AND o.job_name = b.entry ->> 'job_name'
           AND o.occasion = b.entry ->> 'batch'
           FOR UPDATE SKIP LOCKED) AS own
     CROSS JOIN LATERAL (
        SELECT FROM qrtz_job_details o
         WHERE o.sched_name = :'sched' AND o.job_group = b.entry ->> 'job_group' AND o.job_name = b.entry ->> 'job_name'
           FOR NO KEY UPDATE SKIP LOCKED) AS job
),
\endif
\endif
marked AS (
    UPDATE qrtz_triggers t
       SET job_data = jsonb_set(t.job_data, '{QRTZ_BATCH,left}', 'true'),
           -- include: prepared_once
\if :by_trigger
      FROM unnest(:'groups'::text[], :'names'::text[], :'batch_entries'::text[]) AS k(trigger_group, trigger_name, entry)
     WHERE t.sched_name = :'sched' AND t.trigger_group = k.trigger_group AND t.trigger_name = k.trigger_name
       AND t.job_data -> 'QRTZ_BATCH' IS DISTINCT FROM k.entry::jsonb
\else
\if :by_job
      FROM unnest(:'groups'::text[], :'names'::text[]) AS k(job_group, job_name)
     WHERE t.sched_name = :'sched' AND t.job_group = k.job_group AND t.job_name = k.job_name
\else
      FROM candidates c
     WHERE t.ctid = c.row AND c.entry IN (SELECT entry FROM free)
\endif
\endif
       AND t.prev_fire_time IS NULL AND jsonb_exists(t.job_data, 'QRTZ_BATCH') AND NOT jsonb_exists(t.job_data -> 'QRTZ_BATCH', 'left')
    RETURNING t.job_data -> 'QRTZ_BATCH' ->> 'job_group' AS job_group,
              t.job_data -> 'QRTZ_BATCH' ->> 'job_name' AS job_name,
              t.job_data -> 'QRTZ_BATCH' ->> 'batch' AS batch
),
counted AS (
    UPDATE qrtz_joins j
       SET removed = j.removed + m.number, last_end_at = :now,
           state = CASE WHEN j.succeeded + j.failed + j.removed + m.number < j.total THEN 'WAITING'
                        WHEN jsonb_exists(j.outcomes, 'FAILED') THEN 'FIRED' ELSE 'UNMET' END
      FROM (SELECT job_group, job_name, batch, count(*) AS number FROM marked GROUP BY 1, 2, 3) AS m
     WHERE j.sched_name = :'sched' AND j.job_group = m.job_group AND j.job_name = m.job_name AND j.occasion = m.batch
       AND j.state = 'WAITING'
    RETURNING j.job_group, j.job_name, j.occasion, j.state, j.succeeded, j.failed, j.removed
),
started AS (
    -- include: one_shot
        , unreconciled)
    SELECT :'sched', nextval('qrtz_fire_ids'), 'CONTINUATIONS', 'after_' || nextval('qrtz_fire_ids') || '_batch',
           j.job_group, j.job_name,
           -- include: copied_of_j
           , '', 'simple', '{"interval_us": 0, "repeat_count": 0}', 'WAITING', false, :now, true, :now, 5, 'ignore', 1,
           jsonb_build_object('QRTZ_JOINED', jsonb_build_object(
               'occasion', c.occasion, 'succeeded', c.succeeded, 'failed', c.failed, 'removed', c.removed,
               'ended', '[]'::jsonb)),
           'NEW'
      FROM counted c
     CROSS JOIN LATERAL (
        SELECT * FROM qrtz_job_details d
         WHERE d.sched_name = :'sched' AND d.job_group = c.job_group AND d.job_name = c.job_name
           FOR KEY SHARE) AS j
     WHERE c.state = 'FIRED'
    RETURNING trigger_name
)
SELECT count(pg_notify(:'channel', 'scheduled')) FROM (SELECT FROM started LIMIT 1) AS any_started;
