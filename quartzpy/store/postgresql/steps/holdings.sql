-- The planner is steered here: see docs/planner.md.

-- name: forget
-- Deletes claims whose trigger was removed or has changed.
DELETE FROM qrtz_fired_triggers
 WHERE ctid = ANY(ARRAY(
    SELECT f.ctid FROM qrtz_fired_triggers f
     WHERE f.sched_name = :'sched' AND f.epoch = :'epoch'::bigint AND f.state = 'ACQUIRED'
\if :named
       AND f.fire_id = ANY(:'fire_ids'::bigint[])
\endif
       AND (SELECT count(*) FROM qrtz_triggers t
             WHERE t.sched_name = f.sched_name AND t.trigger_group = f.trigger_group
               AND t.trigger_name = f.trigger_name AND t.fire_id = f.fire_id) = 0
       FOR UPDATE SKIP LOCKED));

-- name: still_claimed
-- The remaining claims: not due by the store's clock, or their rows are locked; and whether one of them was left because
-- its job has got a limit. No row: the epoch is no longer registered.
SELECT :now, ARRAY(SELECT f.fire_id FROM qrtz_fired_triggers f
                    WHERE f.fire_id = ANY(:'fire_ids'::bigint[]) AND f.epoch = :'epoch'::bigint
                      AND f.state = 'ACQUIRED'),
       EXISTS (SELECT FROM qrtz_fired_triggers f
                CROSS JOIN LATERAL (
                   SELECT o.max_concurrent FROM qrtz_triggers o
                    WHERE o.sched_name = f.sched_name AND o.trigger_group = f.trigger_group
                      AND o.trigger_name = f.trigger_name LIMIT 1) AS t
                WHERE f.fire_id = ANY(:'fire_ids'::bigint[]) AND f.epoch = :'epoch'::bigint
                  AND f.state = 'ACQUIRED' AND f.scheduled_time <= :now AND t.max_concurrent IS NOT NULL)
  FROM qrtz_scheduler_state
 WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint;

-- name: release
-- Releases claims. A trigger becomes WAITING only if it is still ACQUIRED by the same claim. It notifies other nodes,
-- which may be asleep beyond its fire time.
WITH claimed AS (
    SELECT t.row, f.fire_id
      FROM qrtz_fired_triggers f
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row
          FROM qrtz_triggers o
         WHERE o.sched_name = f.sched_name AND o.trigger_group = f.trigger_group AND o.trigger_name = f.trigger_name
           AND o.trigger_state || '' = 'ACQUIRED' AND o.fire_id = f.fire_id
           FOR NO KEY UPDATE SKIP LOCKED) AS t
     WHERE f.sched_name = :'sched' AND f.epoch = :'epoch'::bigint AND f.state = 'ACQUIRED'
\if :all_but
       AND f.fire_id <> ALL(:'claims'::bigint[])
\else
       AND f.fire_id = ANY(:'fire_ids'::bigint[])
\endif
       FOR UPDATE OF f SKIP LOCKED
),
released AS (
    UPDATE qrtz_triggers t
       SET trigger_state = 'WAITING', fire_id = NULL,
           -- include: prepared_once
      FROM claimed
     WHERE t.ctid = claimed.row
    RETURNING claimed.fire_id
),
deleted AS (
    DELETE FROM qrtz_fired_triggers f USING released WHERE f.fire_id = released.fire_id
)
SELECT fire_id, pg_notify(:'channel', 'scheduled') FROM released;

-- name: reject
-- Puts triggers into ERROR whose next fire time the claiming node cannot compute.
WITH claimed AS (
    SELECT t.row, f.fire_id, rejected.reason
      FROM unnest(:'fire_ids'::bigint[], :'reasons'::text[]) AS rejected(fire_id, reason)
      JOIN qrtz_fired_triggers f ON f.fire_id = rejected.fire_id AND f.epoch = :'epoch'::bigint AND f.state = 'ACQUIRED'
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row
          FROM qrtz_triggers o
         WHERE o.sched_name = f.sched_name AND o.trigger_group = f.trigger_group AND o.trigger_name = f.trigger_name
           AND o.trigger_state || '' = 'ACQUIRED' AND o.fire_id = f.fire_id
           FOR NO KEY UPDATE SKIP LOCKED) AS t
       FOR UPDATE OF f SKIP LOCKED
),
failed AS (
    UPDATE qrtz_triggers t
       SET trigger_state = 'ERROR', fire_id = NULL, error = claimed.reason,
           -- include: prepared_once
      FROM claimed
     WHERE t.ctid = claimed.row
    RETURNING claimed.fire_id
)
DELETE FROM qrtz_fired_triggers f USING failed WHERE f.fire_id = failed.fire_id;

-- name: holdings
-- No row: the epoch no longer exists.
SELECT :now,
       ARRAY(SELECT f.fire_id FROM qrtz_fired_triggers f
              WHERE f.sched_name = :'sched' AND f.epoch = :'epoch'::bigint AND f.state = 'ACQUIRED'),
       ARRAY(SELECT f.fire_id FROM qrtz_fired_triggers f
              WHERE f.sched_name = :'sched' AND f.epoch = :'epoch'::bigint AND f.state = 'EXECUTING')
  FROM qrtz_scheduler_state
 WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint;

-- name: unknown_fires
-- The executions of this epoch that the node does not know, because the answer to their fire was lost.
SELECT f.fire_id, f.fired_time AS fire_time, f.trigger_group, f.trigger_name, f.job_group, f.job_name, f.job_type,
       f.generation, f.scheduled_time AS scheduled_fire_time, t.prev_fire_time AS previous_fire_time, t.next_fire_time,
       coalesce(t.times_triggered, 1) AS times_triggered, f.attempt,
       coalesce(t.placement, j.placement, '') AS placement, j.retry_policy::text AS retry, j.timeout,
       coalesce(j.persists_data, false) AS persists_data, j.job_data::text AS job_data,
       f.trigger_data::text AS trigger_data, c.revision AS calendar_revision,
       CASE WHEN cardinality(t.upcoming) < 3 THEN t.upcoming END AS upcoming_instants,
       coalesce(t.upcoming_is_complete, true) AS upcoming_is_complete, f.coalesced_fire_times AS coalesced,
       coalesce(j.node_deaths, 0) AS node_deaths, j.pause_after_failures, j.continuations::text AS continuations,
       f.max_concurrent, j.capture_logs, coalesce(j.is_durable, false) AS job_is_durable, j.limits,
       j.joined_by IS NOT NULL AS is_joined,
       'FIRE'::text AS decision, f.concurrency_key, coalesce(t.overlap_policy, 'block') AS overlap_policy,
       f.requests_recovery, c.calendar::text AS calendar_text, coalesce(t.kind, 'simple') AS kind,
       coalesce(t.schedule, '{"interval_us": 0, "repeat_count": 0}')::text AS schedule,
       t.description, coalesce(t.start_time, f.scheduled_time) AS start_time, t.end_time, f.priority,
       coalesce(t.misfire_instruction, 'smart') AS misfire_instruction, t.misfire_threshold, t.calendar_name,
       -- include: rest_of_job
  FROM qrtz_fired_triggers f
  LEFT JOIN qrtz_job_details j
    ON j.sched_name = f.sched_name AND j.job_group = f.job_group AND j.job_name = f.job_name
  LEFT JOIN qrtz_triggers t
    ON t.sched_name = f.sched_name AND t.trigger_group = f.trigger_group AND t.trigger_name = f.trigger_name
   AND t.generation = f.generation
  LEFT JOIN qrtz_calendars c ON c.sched_name = t.sched_name AND c.calendar_name = t.calendar_name
 WHERE f.sched_name = :'sched' AND f.epoch = :'epoch'::bigint AND f.state = 'EXECUTING'
   AND f.fire_id <> ALL(:'executions'::bigint[])
 ORDER BY f.scheduled_time, f.priority DESC;
