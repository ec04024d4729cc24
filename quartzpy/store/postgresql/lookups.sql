-- name: jobs
SELECT
    -- include: job_columns
    j.job_name, j.job_group, j.job_type, j.is_durable AS job_is_durable, j.max_concurrent, j.overlap_policy,
    j.placement, j.persists_data, j.requests_recovery, j.retry_policy::text AS retry, j.timeout,
    j.pause_after_failures, j.job_data::text AS job_data, j.continuations::text AS continuations, j.capture_logs,
    -- end
    -- include: rest_of_job
    j.description AS job_description, j.concurrency_key AS key_entry, j.rate_limit::text AS rate_limit,
    j.display_name, j.documentation_url
    -- end
  FROM qrtz_job_details j
  JOIN unnest(:'groups'::text[], :'names'::text[]) AS k(job_group, job_name)
    ON j.sched_name = :'sched' AND j.job_group = k.job_group AND j.job_name = k.job_name;

-- name: triggers
SELECT
    -- include: trigger_columns
    t.trigger_name, t.trigger_group, t.job_group, t.job_name, t.kind, t.schedule::text AS schedule,
    t.description, t.start_time, t.end_time, t.priority, t.misfire_instruction, t.misfire_threshold,
    t.calendar_name, t.job_data::text AS trigger_data, t.job_type, t.trigger_state, t.next_fire_time,
    t.prev_fire_time, t.times_triggered, t.generation, t.upcoming, t.error, t.catch_up_until, t.schedule_hash,
    t.paused_at, t.paused_by, t.pause_reason, t.rate_limited_until
    -- end
  FROM qrtz_triggers t
  JOIN unnest(:'groups'::text[], :'names'::text[]) AS k(trigger_group, trigger_name)
    ON t.sched_name = :'sched' AND t.trigger_group = k.trigger_group AND t.trigger_name = k.trigger_name;

-- name: triggers_of_job
SELECT
    -- include: trigger_columns
    t.trigger_name, t.trigger_group, t.job_group, t.job_name, t.kind, t.schedule::text AS schedule,
    t.description, t.start_time, t.end_time, t.priority, t.misfire_instruction, t.misfire_threshold,
    t.calendar_name, t.job_data::text AS trigger_data, t.job_type, t.trigger_state, t.next_fire_time,
    t.prev_fire_time, t.times_triggered, t.generation, t.upcoming, t.error, t.catch_up_until, t.schedule_hash,
    t.paused_at, t.paused_by, t.pause_reason, t.rate_limited_until
    -- end
  FROM qrtz_triggers t
 WHERE t.sched_name = :'sched' AND t.job_group = :'group' AND t.job_name = :'name'
 ORDER BY t.trigger_group, t.trigger_name;

-- name: triggers_of_jobs
-- The scheduler as an expression leaves only the index of the job.
SELECT t.*
  FROM unnest(:'groups'::text[], :'names'::text[]) AS k(job_group, job_name)
 CROSS JOIN LATERAL (
    SELECT
        -- include: trigger_columns
        t.trigger_name, t.trigger_group, t.job_group, t.job_name, t.kind, t.schedule::text AS schedule,
        t.description, t.start_time, t.end_time, t.priority, t.misfire_instruction, t.misfire_threshold,
        t.calendar_name, t.job_data::text AS trigger_data, t.job_type, t.trigger_state, t.next_fire_time,
        t.prev_fire_time, t.times_triggered, t.generation, t.upcoming, t.error, t.catch_up_until, t.schedule_hash,
        t.paused_at, t.paused_by, t.pause_reason, t.rate_limited_until
        -- end
      FROM qrtz_triggers t
     WHERE t.sched_name || '' = :'sched' AND t.job_group = k.job_group AND t.job_name = k.job_name OFFSET 0) AS t
 ORDER BY t.trigger_group, t.trigger_name;

-- name: states
SELECT t.trigger_group, t.trigger_name, t.trigger_state
  FROM unnest(:'groups'::text[], :'names'::text[]) AS k(trigger_group, trigger_name)
  JOIN qrtz_triggers t
    ON t.sched_name = :'sched' AND t.trigger_group = k.trigger_group AND t.trigger_name = k.trigger_name;

-- name: job_keys
-- Compares a group with a matcher by text functions, not LIKE, so that every character is literal.
SELECT job_group, job_name FROM qrtz_job_details
 WHERE sched_name = :'sched'
   AND CASE :'operator'
           WHEN 'equals' THEN job_group = :'value'
           WHEN 'starts_with' THEN starts_with(job_group, :'value')
           WHEN 'ends_with' THEN right(job_group, length(:'value')) = :'value'
           WHEN 'contains' THEN strpos(job_group, :'value') > 0
           ELSE true
       END;

-- name: trigger_keys
-- As `job_keys`.
SELECT trigger_group, trigger_name FROM qrtz_triggers
 WHERE sched_name = :'sched'
   AND CASE :'operator'
           WHEN 'equals' THEN trigger_group = :'value'
           WHEN 'starts_with' THEN starts_with(trigger_group, :'value')
           WHEN 'ends_with' THEN right(trigger_group, length(:'value')) = :'value'
           WHEN 'contains' THEN strpos(trigger_group, :'value') > 0
           ELSE true
       END;

-- name: job_groups
SELECT DISTINCT job_group FROM qrtz_job_details WHERE sched_name = :'sched' ORDER BY 1;

-- name: trigger_groups
SELECT DISTINCT trigger_group FROM qrtz_triggers WHERE sched_name = :'sched' ORDER BY 1;

-- name: waiting_dispatch_keys
WITH RECURSIVE waiting AS (
    -- include: waiting
    -- A loose index scan: one step per dispatch key, so the cost does not depend on the number of triggers.
    (SELECT job_type, placement FROM qrtz_triggers WHERE sched_name = :'sched' AND trigger_state = 'WAITING'
      ORDER BY job_type, placement LIMIT 1)
    UNION ALL
    SELECT other.job_type, other.placement
      FROM waiting w
     CROSS JOIN LATERAL (
        SELECT t.job_type, t.placement FROM qrtz_triggers t
         WHERE t.sched_name = :'sched' AND t.trigger_state = 'WAITING'
           AND (t.job_type, t.placement) > (w.job_type, w.placement)
         ORDER BY t.job_type, t.placement LIMIT 1) AS other
    -- end
)
SELECT job_type, placement FROM waiting;

-- name: paused
-- Under `pause_all`, a group that was first stored later is paused as well, and all triggers may be paused. So their
-- groups are found by a loose index scan as well.
WITH RECURSIVE paused AS (
    (SELECT trigger_group FROM qrtz_triggers
      WHERE sched_name = :'sched' AND trigger_state = 'PAUSED'
        AND EXISTS (SELECT FROM qrtz_paused_trigger_groups WHERE sched_name = :'sched' AND scope = 'ALL')
      ORDER BY trigger_group LIMIT 1)
    UNION ALL
    SELECT other.trigger_group
      FROM paused p
     CROSS JOIN LATERAL (
        SELECT t.trigger_group FROM qrtz_triggers t
         WHERE t.sched_name = :'sched' AND t.trigger_state = 'PAUSED' AND t.trigger_group > p.trigger_group
         ORDER BY t.trigger_group LIMIT 1) AS other
),
paused_blocked AS (
    (SELECT trigger_group FROM qrtz_triggers
      WHERE sched_name = :'sched' AND trigger_state = 'PAUSED_BLOCKED'
        AND EXISTS (SELECT FROM qrtz_paused_trigger_groups WHERE sched_name = :'sched' AND scope = 'ALL')
      ORDER BY trigger_group LIMIT 1)
    UNION ALL
    SELECT other.trigger_group
      FROM paused_blocked p
     CROSS JOIN LATERAL (
        SELECT t.trigger_group FROM qrtz_triggers t
         WHERE t.sched_name = :'sched' AND t.trigger_state = 'PAUSED_BLOCKED' AND t.trigger_group > p.trigger_group
         ORDER BY t.trigger_group LIMIT 1) AS other
)
SELECT scope, group_name FROM qrtz_paused_trigger_groups WHERE sched_name = :'sched'
UNION
SELECT 'TRIGGER', trigger_group FROM paused
UNION
SELECT 'TRIGGER', trigger_group FROM paused_blocked;

-- name: running
SELECT fire_id, trigger_group, trigger_name, job_group, job_name, instance_id, epoch, state, scheduled_time, fired_time,
       attempt, cancel_requested, progress, progress_message
  FROM qrtz_fired_triggers WHERE sched_name = :'sched' ORDER BY fired_time, fire_id;

-- name: execution
-- Only this query reads the log: a page of executions would drag megabytes.
SELECT
    -- include: ended_columns
    outcome AS state, fire_id, trigger_group, trigger_name, job_group, job_name, job_type, instance_id,
    scheduled_time, fired_time, started_at, ended_at, attempt, error, trigger_data::text, result::text,
    retry_at
    -- end
    , log
  FROM qrtz_executions WHERE fire_id = :'fire_id'::bigint AND sched_name = :'sched'
UNION ALL
SELECT
    -- include: fired_columns
    CASE state WHEN 'ACQUIRED' THEN 'ENQUEUED' ELSE 'PROCESSING' END, fire_id, trigger_group, trigger_name, job_group,
    job_name, job_type, instance_id, scheduled_time, CASE state WHEN 'EXECUTING' THEN fired_time END,
    NULL::timestamptz, NULL::timestamptz, attempt, NULL::text, trigger_data::text, NULL::text, NULL::timestamptz
    -- end
    , recent_log
  FROM qrtz_fired_triggers WHERE fire_id = :'fire_id'::bigint AND sched_name = :'sched';

-- name: counts
SELECT (SELECT count(*) FROM qrtz_job_details WHERE sched_name = :'sched'),
       (SELECT coalesce(jsonb_object_agg(trigger_state, n), '{}')::text
          FROM (SELECT trigger_state, count(*) AS n FROM qrtz_triggers
                 WHERE sched_name = :'sched' GROUP BY trigger_state) AS s),
       (SELECT count(*) FROM qrtz_fired_triggers WHERE sched_name = :'sched' AND state = 'EXECUTING');
