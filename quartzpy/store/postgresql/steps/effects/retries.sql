-- name: retry
-- Stores a one-shot trigger for each execution that runs again, with the key and the time of the original; one that is
-- repeated again keeps those of the first original. One that was snoozed has not used up an attempt. The rate limit is
-- not asked again about one that was handed back, because it was charged for that run already.
WITH
-- include: ended
retried AS (
    INSERT INTO qrtz_triggers (sched_name, generation, trigger_group, trigger_name, job_group, job_name, job_type,
        max_concurrent, overlap_policy, placement, rate_limit, limits, concurrency_key, kind, schedule, trigger_state,
        held_by_mode, next_fire_time, upcoming_is_complete, start_time, priority, misfire_instruction, admission,
        attempt, coalesced_fire_times, job_data)
    SELECT f.sched_name, nextval('qrtz_fire_ids'), 'RETRYING_JOBS', 'retry_' || f.attempt || '_' || f.fire_id,
           f.job_group, f.job_name, j.job_type, j.max_concurrent, j.overlap_policy, j.placement, j.rate_limit, j.limits,
           -- include: key_of_repeated
           , 'simple', '{"interval_us": 0, "repeat_count": 0}',
           CASE WHEN pause.applies OR j.mode = 'DISABLED' THEN 'PAUSED' ELSE 'WAITING' END,
           j.mode = 'DISABLED' AND NOT pause.applies,
           f.retry_at, true, f.retry_at, f.priority, 'ignore',
           CASE WHEN f.fire_id = ANY(:'handed_back_fire_ids'::bigint[]) AND j.rate_limit IS NOT NULL THEN 'CHARGED' END,
           f.attempt + (f.outcome = 'FAILED')::int, f.coalesced_fire_times,
           jsonb_build_object(
               'QRTZ_RETRIED_TRIGGER_NAME', f.trigger_name,
               'QRTZ_RETRIED_TRIGGER_GROUP', f.trigger_group,
               'QRTZ_RETRIED_SCHEDULED_FIRETIME_IN_MILLISECONDS_AS_STRING',
               trim_scale(extract(epoch FROM f.scheduled_time) * 1000)::text)
           || coalesce(f.trigger_data, '{}')
      FROM (SELECT * FROM ended WHERE retry_at IS NOT NULL) AS f
     CROSS JOIN LATERAL (
        SELECT o.job_type, o.max_concurrent, o.overlap_policy, o.placement, o.rate_limit, o.limits, o.mode,
               o.concurrency_key, o.job_data
          FROM qrtz_job_details o
         WHERE o.sched_name = :'sched' AND o.job_group = f.job_group AND o.job_name = f.job_name
           FOR NO KEY UPDATE) AS j
     CROSS JOIN LATERAL (
        SELECT EXISTS (SELECT FROM qrtz_paused_trigger_groups p
                        WHERE p.sched_name = :'sched'
                          AND (p.scope = 'ALL' OR (p.scope = 'TRIGGER' AND p.group_name = 'RETRYING_JOBS')
                               OR (p.scope = 'JOB' AND p.group_name = f.job_group))) AS applies) AS pause
    RETURNING trigger_state, next_fire_time
),
waiting AS (SELECT next_fire_time FROM retried WHERE trigger_state = 'WAITING')
-- include: wakes
;
