-- The planner is steered here: see docs/planner.md.

-- name: refill
-- Stores the upcoming fire times of unfilled triggers.
UPDATE qrtz_triggers t
   SET upcoming = r.upcoming::timestamptz[], upcoming_is_complete = r.is_complete,
       -- include: prepared_once
  FROM (SELECT own.row, w.upcoming, w.is_complete
          FROM unnest(:'groups'::text[], :'names'::text[], :'generations'::bigint[], :'scheduled'::timestamptz[],
                      :'revisions'::bigint[], :'upcoming'::text[], :'complete'::bool[])
               AS w(trigger_group, trigger_name, generation, scheduled, revision, upcoming, is_complete)
         CROSS JOIN LATERAL (
            -- include: still_unfilled
           ) AS own) AS r
 WHERE t.ctid = r.row AND EXISTS (
    -- include: registered
 );

-- name: reject
-- Puts unfilled triggers into ERROR whose fire times the node cannot compute.
UPDATE qrtz_triggers t
   SET trigger_state = 'ERROR', error = r.reason,
       -- include: prepared_once
  FROM (SELECT own.row, w.reason
          FROM unnest(:'groups'::text[], :'names'::text[], :'generations'::bigint[], :'scheduled'::timestamptz[],
                      :'revisions'::bigint[], :'reasons'::text[])
               AS w(trigger_group, trigger_name, generation, scheduled, revision, reason)
         CROSS JOIN LATERAL (
            -- include: still_unfilled
           ) AS own) AS r
 WHERE t.ctid = r.row AND EXISTS (
    -- include: registered
 );

-- name: registered
-- No row: the epoch is no longer registered.
-- include: registered
;

-- name: holdings
-- No row: the epoch no longer exists.
SELECT :now,
       ARRAY(SELECT f.fire_id FROM qrtz_fired_triggers f
              WHERE f.sched_name = :'sched' AND f.epoch = :'epoch'::bigint)
  FROM qrtz_scheduler_state
 WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint;

-- name: unknown_fires
-- The executions of this epoch that the node does not know, because the answer to their fire was lost.
SELECT f.fire_id, f.fired_time AS fire_time, f.trigger_group, f.trigger_name, f.job_group, f.job_name, f.job_type,
       f.generation, f.scheduled_time AS scheduled_fire_time, t.prev_fire_time AS previous_fire_time, t.next_fire_time,
       coalesce(t.times_triggered, 1) AS times_triggered, f.attempt,
       coalesce(t.placement, j.placement, '') AS placement, j.definition::text AS definition,
       coalesce(j.persists_data, false) AS persists_data, j.job_data::text AS job_data,
       f.trigger_data::text AS trigger_data, c.revision AS calendar_revision,
       CASE WHEN cardinality(t.upcoming) < 3 THEN t.upcoming END AS upcoming_instants,
       coalesce(t.upcoming_is_complete, true) AS upcoming_is_complete, f.coalesced_fire_times AS coalesced,
       coalesce(j.node_deaths, 0) AS node_deaths, j.pause_after_failures, j.continuations::text AS continuations,
       f.max_concurrent, coalesce(j.is_durable, false) AS job_is_durable, f.limits,
       j.joined_by IS NOT NULL AS is_joined,
       -- To look at a gate where nothing waits costs a step.
       CASE WHEN f.max_concurrent IS NOT NULL THEN f.concurrency_key END AS gate_key,
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
 WHERE f.sched_name = :'sched' AND f.epoch = :'epoch'::bigint
   AND f.fire_id <> ALL(:'executions'::bigint[])
 ORDER BY f.scheduled_time, f.priority DESC;
