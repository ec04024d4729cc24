-- name: repeat
-- Stores a one-shot trigger for each execution that runs again, with the key and the times of the original, under
-- Quartz's names for one whose node died; one that is repeated again keeps those of the first original. One that was
-- snoozed has not used up an attempt.
WITH
-- include: ended
repeated AS (
    -- include: one_shot
        , coalesced_fire_times)
    SELECT f.sched_name, nextval('qrtz_fire_ids'), again.trigger_group, again.trigger_name,
           f.job_group, f.job_name,
           -- include: copied_of_j
           ,
           -- As the job computes it now: it may have another one than when the execution began.
           -- include: key_of_t
           ,
           'simple', '{"interval_us": 0, "repeat_count": 0}',
           CASE WHEN pause.applies OR j.mode = 'DISABLED' THEN 'PAUSED' ELSE 'WAITING' END,
           j.mode = 'DISABLED' AND NOT pause.applies,
           again.at, true, again.at, f.priority, 'ignore',
           f.attempt + (f.outcome = 'FAILED')::int,
           again.original || coalesce(f.trigger_data, '{}'), f.coalesced_fire_times
      FROM (SELECT *, trim_scale(extract(epoch FROM scheduled_time) * 1000)::text AS scheduled_ms
              FROM ended WHERE retry_at IS NOT NULL) AS f
     CROSS JOIN LATERAL (
        SELECT 'RETRYING_JOBS' AS trigger_group, 'retry_' || f.attempt || '_' || f.fire_id AS trigger_name,
               f.retry_at AS at,
               jsonb_build_object(
                   'QRTZ_RETRIED_TRIGGER_NAME', f.trigger_name,
                   'QRTZ_RETRIED_TRIGGER_GROUP', f.trigger_group,
                   'QRTZ_RETRIED_SCHEDULED_FIRETIME_IN_MILLISECONDS_AS_STRING', f.scheduled_ms) AS original
         WHERE f.outcome <> 'TERMINATED'
        UNION ALL
        SELECT 'RECOVERING_JOBS', 'recover_' || left(f.instance_id, 150) || '_' || f.fire_id, f.scheduled_time,
               jsonb_build_object(
                   'QRTZ_FAILED_JOB_ORIG_TRIGGER_NAME', f.trigger_name,
                   'QRTZ_FAILED_JOB_ORIG_TRIGGER_GROUP', f.trigger_group,
                   'QRTZ_FAILED_JOB_ORIG_TRIGGER_FIRETIME_IN_MILLISECONDS_AS_STRING',
                   trim_scale(extract(epoch FROM f.fired_time) * 1000)::text,
                   'QRTZ_FAILED_JOB_ORIG_TRIGGER_SCHEDULED_FIRETIME_IN_MILLISECONDS_AS_STRING', f.scheduled_ms)
         WHERE f.outcome = 'TERMINATED') AS again
     CROSS JOIN LATERAL (
        SELECT
               -- include: copied_of_j
               , j.mode, j.concurrency_key, j.job_data
          FROM qrtz_job_details j
         WHERE j.sched_name = :'sched' AND j.job_group = f.job_group AND j.job_name = f.job_name
           FOR NO KEY UPDATE) AS j
     CROSS JOIN LATERAL (SELECT again.trigger_group, f.job_group, f.trigger_data AS job_data) AS t
     CROSS JOIN LATERAL (
        SELECT
               -- include: group_is_paused_t
               AS applies) AS pause
    RETURNING trigger_state, next_fire_time
),
waiting AS (SELECT next_fire_time FROM repeated WHERE trigger_state = 'WAITING')
-- include: wakes
;
