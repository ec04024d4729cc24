-- The planner is steered here: see docs/planner.md.

-- name: store_jobs
-- With the switch `new`, nothing that is stored changes. Otherwise it returns what it has stored, and whether it has
-- replaced it.
INSERT INTO qrtz_job_details AS j (sched_name, job_name, job_group, job_type, is_durable, max_concurrent,
       overlap_policy, placement, persists_data, requests_recovery, definition, pause_after_failures, job_data,
       continuations, concurrency_key, rate_limit, limits, after, joined_by, expect)
SELECT :'sched', w.job_name, w.job_group, w.job_type, w.is_durable, w.max_concurrent, w.overlap_policy, w.placement,
       w.persists_data, w.requests_recovery, w.definition::jsonb, w.pause_after_failures, w.job_data::jsonb,
       w.continuations::jsonb, w.key_entry, w.rate_limit::jsonb, w.limits, w.after::jsonb, joins.joined_by,
       w.expect::jsonb
  FROM unnest(:'job_name_list'::text[], :'job_group_list'::text[], :'job_type_list'::text[],
              :'job_is_durable_list'::bool[], :'max_concurrent_list'::int[], :'overlap_policy_list'::text[],
              :'placement_list'::text[], :'persists_data_list'::bool[], :'requests_recovery_list'::bool[],
              :'definition_list'::text[], :'pause_after_failures_list'::int[], :'job_data_list'::text[],
              :'continuations_list'::text[], :'limits_list'::text[], :'key_entry_list'::text[],
              :'rate_limit_list'::text[], :'after_list'::text[], :'expect_list'::text[])
       AS w(job_name, job_group, job_type, is_durable, max_concurrent, overlap_policy, placement, persists_data,
            requests_recovery, definition, pause_after_failures, job_data, continuations, limits, key_entry, rate_limit,
            after, expect)
  LEFT JOIN LATERAL (
       -- The jobs that wait for it: it was deleted, and they were not.
       SELECT jsonb_agg(jsonb_build_object('job_group', u.job_group, 'job_name', u.job_name)
                        ORDER BY u.job_group, u.job_name) AS joined_by
         FROM qrtz_job_upstreams u
        WHERE u.sched_name || '' = :'sched' AND u.upstream_group || '' = w.job_group
          AND u.upstream_name || '' = w.job_name
       ) AS joins ON true
 ORDER BY w.job_group, w.job_name
    ON CONFLICT (sched_name, job_group, job_name) DO
\if :new
       NOTHING
\else
       UPDATE
   SET job_type = excluded.job_type, is_durable = excluded.is_durable,
       max_concurrent = excluded.max_concurrent, overlap_policy = excluded.overlap_policy,
       concurrency_key = excluded.concurrency_key, rate_limit = excluded.rate_limit, limits = excluded.limits,
       placement = excluded.placement, persists_data = excluded.persists_data,
       requests_recovery = excluded.requests_recovery, definition = excluded.definition,
       pause_after_failures = excluded.pause_after_failures, continuations = excluded.continuations,
       after = excluded.after, expect = excluded.expect,
       job_data = CASE WHEN :'keeps_data'::bool
                         OR (:'keeps_persisted'::bool AND j.persists_data AND excluded.persists_data)
                       THEN j.job_data ELSE excluded.job_data END,
       owner = NULL
 WHERE :'replace'::bool
RETURNING j.job_group, j.job_name, j.xmax <> 0
\endif
;

-- name: store_batch
-- Stores the row by which the ends of a batch are counted. Returns whether its job is stored, and whether it is new.
WITH new AS (
    INSERT INTO qrtz_joins (sched_name, job_group, job_name, occasion, state, opened_at, total, outcomes)
    SELECT o.sched_name, o.job_group, o.job_name, :'batch', 'WAITING', :now, :'total'::bigint,
           to_jsonb(:'batch_outcomes'::text[])
      FROM qrtz_job_details o
     WHERE o.sched_name = :'sched' AND o.job_group = :'group' AND o.job_name = :'name'
        ON CONFLICT DO NOTHING
    RETURNING job_name
)
SELECT EXISTS (SELECT FROM qrtz_job_details o
                WHERE o.sched_name = :'sched' AND o.job_group = :'group' AND o.job_name = :'name' OFFSET 0),
       EXISTS (SELECT FROM new);

-- name: compare_jobs
-- For jobs that will be replaced: do the values change of which their triggers have copies? Each job is looked up by
-- its key and locked in the order of the keys. A join of both lists was planned for the few jobs that the table had at
-- its last ANALYZE, and compared each job with all others.
SELECT j.job_group, j.job_name,
       (
        -- include: copied_of_j
       )
           IS DISTINCT FROM (w.job_type, w.max_concurrent, w.overlap_policy, w.placement, w.rate_limit, w.limits)
           -- The data, which the values of its key come from, may be another.
           OR j.concurrency_key IS NOT NULL OR w.concurrency_key IS NOT NULL,
       j.after IS NOT NULL
  FROM (SELECT *
          FROM unnest(:'job_group_list'::text[], :'job_name_list'::text[], :'job_type_list'::text[],
                      :'max_concurrent_list'::int[], :'overlap_policy_list'::text[], :'placement_list'::text[],
                      :'key_entry_list'::text[], :'rate_limit_list'::text[]::jsonb[], :'limits_list'::text[])
               AS replacement(job_group, job_name, job_type, max_concurrent, overlap_policy, placement,
                              concurrency_key, rate_limit, limits)
         ORDER BY job_group, job_name) AS w
 CROSS JOIN LATERAL (
    SELECT * FROM qrtz_job_details o
     WHERE o.sched_name = :'sched' AND o.job_group = w.job_group AND o.job_name = w.job_name
       FOR NO KEY UPDATE) AS j;

-- name: take_keys
-- Takes the keys of triggers that are to be stored, and waits for whoever stores the same ones: the next statement sees
-- what they have stored. The jobs' rows are held as the foreign key of the triggers will hold them. All programs take
-- first the jobs, then the keys, then the rows of the triggers, each in the same order, so that two that store the same
-- do not deadlock.
INSERT INTO qrtz_trigger_keys (sched_name, trigger_group, trigger_name)
SELECT :'sched', o.trigger_group, o.trigger_name
  FROM unnest(:'trigger_group_list'::text[], :'trigger_name_list'::text[], :'job_group_list'::text[],
              :'job_name_list'::text[]) AS o(trigger_group, trigger_name, job_group, job_name)
 CROSS JOIN LATERAL (
    SELECT FROM qrtz_job_details d
     WHERE d.sched_name = :'sched' AND d.job_group = o.job_group AND d.job_name = o.job_name
       FOR KEY SHARE) AS job
 ORDER BY o.trigger_group, o.trigger_name
    ON CONFLICT DO NOTHING;

-- name: hold_stored
-- Locks those that are stored: the next statement finds them where its snapshot has them.
SELECT count(*)
  FROM (SELECT trigger_group, trigger_name
          FROM unnest(:'trigger_group_list'::text[], :'trigger_name_list'::text[]) AS k(trigger_group, trigger_name)
         ORDER BY trigger_group, trigger_name) AS k
 CROSS JOIN LATERAL (
    SELECT FROM qrtz_triggers t
     WHERE t.sched_name = :'sched' AND t.trigger_group = k.trigger_group AND t.trigger_name = k.trigger_name
     ORDER BY t.times_triggered DESC
     LIMIT 1
       FOR NO KEY UPDATE) AS held;

-- name: store_triggers
-- A trigger whose schedule did not change keeps its progress, its pause and its misfires; it keeps its generation, too,
-- which is below that of all others here. Rows that exist are not returned where they may not be replaced: fewer rows
-- come back than were sent. The jobs' rows are held as their foreign key will hold them, but before they are read. Each
-- is looked up by LATERAL, so that a plan that was made while the table was empty does not read all jobs.
-- With the switch `new`, a row that exists is an error, and the states of new triggers are found out under the lock.
WITH before AS MATERIALIZED (SELECT nextval('qrtz_fire_ids') AS generation),
wanted AS (
    SELECT nextval('qrtz_fire_ids') AS generation, o.trigger_group, o.trigger_name, o.job_group, o.job_name,
           -- include: copied_of_j
           , own.new_key AS concurrency_key,
\if :new
           'WAITING' AS trigger_state, false AS held_by_mode,
\else
           -- include: new_state
           AS trigger_state,
           -- Leaving a mode resumes the triggers that only the mode pauses.
           NOT usual.is_so AND NOT checked.group_is_paused AND checked.mode_forbids AS held_by_mode, stored.row,
\endif
           o.description, o.kind, o.schedule::jsonb AS schedule, o.next_fire_time, o.prev_fire_time,
           o.upcoming::timestamptz[] AS upcoming, o.is_complete AS upcoming_is_complete, o.times AS times_triggered,
           o.start_time, o.end_time, o.priority, o.misfire AS misfire_instruction, o.threshold AS misfire_threshold,
           :'unreconciled'::text AS unreconciled, o.calendar AS calendar_name, o.job_data, o.hash AS schedule_hash
      FROM before
\if :new
\else
     CROSS JOIN (SELECT
                 -- include: ordinary
                 AS is_so) AS usual
\endif
     CROSS JOIN (
        SELECT v.*, v.data::jsonb AS job_data
          FROM unnest(:'trigger_name_list'::text[], :'trigger_group_list'::text[], :'job_group_list'::text[],
                      :'job_name_list'::text[], :'kind_list'::text[], :'schedule_list'::text[],
                      :'description_list'::text[], :'start_time_list'::timestamptz[], :'end_time_list'::timestamptz[], :'priority_list'::int[],
                      :'misfire_instruction_list'::text[], :'misfire_threshold_list'::interval[],
                      :'calendar_name_list'::text[], :'trigger_data_list'::text[], :'next'::timestamptz[],
                      :'previous'::timestamptz[], :'upcoming'::text[], :'complete'::bool[], :'times'::bigint[],
                      :'hashes'::bigint[])
               AS v(trigger_name, trigger_group, job_group, job_name, kind, schedule, description, start_time, end_time,
                    priority, misfire, threshold, calendar, data, next_fire_time, prev_fire_time, upcoming, is_complete,
                    times, hash)) AS o
     CROSS JOIN LATERAL (
        SELECT * FROM qrtz_job_details d
         WHERE d.sched_name = :'sched' AND d.job_group = o.job_group AND d.job_name = o.job_name
           FOR KEY SHARE) AS j
\if :new
     -- The rest of what is checked below is not even planned.
     -- include: own_key
\else
     -- include: checked
\endif
\if :new
\else
      LEFT JOIN LATERAL (
        SELECT t.ctid AS row FROM qrtz_triggers t
         WHERE t.sched_name = :'sched' AND t.trigger_group = o.trigger_group AND t.trigger_name = o.trigger_name
         ORDER BY t.times_triggered DESC
         LIMIT 1) AS stored ON true
\endif
     WHERE before.generation > 0
),
\if :new
\else
replaced AS (
    UPDATE qrtz_triggers t
       SET (trigger_state, next_fire_time, prev_fire_time, upcoming, upcoming_is_complete, times_triggered, start_time,
            generation, coalesced_fire_times, attempt, fire_id, error, held_by_mode, paused_at, paused_by, pause_reason,
            pause_until, pause_missed, schedule, unreconciled, missed_policy, catch_up_until) = (
           SELECT CASE WHEN NOT same.has_schedule THEN excluded.trigger_state
                       WHEN t.concurrency_key = excluded.concurrency_key THEN t.trigger_state
                       WHEN t.trigger_state = 'BLOCKED' THEN 'WAITING' ELSE t.trigger_state END,
                  CASE WHEN same.has_schedule THEN t.next_fire_time ELSE excluded.next_fire_time END,
                  CASE WHEN same.has_schedule THEN t.prev_fire_time ELSE excluded.prev_fire_time END,
                  CASE WHEN same.has_schedule THEN t.upcoming ELSE excluded.upcoming END,
                  CASE WHEN same.has_schedule THEN t.upcoming_is_complete ELSE excluded.upcoming_is_complete END,
                  CASE WHEN same.has_schedule THEN t.times_triggered ELSE excluded.times_triggered END,
                  CASE WHEN same.has_schedule THEN t.start_time ELSE excluded.start_time END,
                  CASE WHEN same.has_schedule THEN t.generation ELSE excluded.generation END,
                  CASE WHEN same.has_schedule THEN t.coalesced_fire_times END,
                  CASE WHEN same.has_schedule THEN t.attempt ELSE 1 END,
                  CASE WHEN same.has_schedule THEN t.fire_id END,
                  CASE WHEN same.has_schedule THEN t.error END,
                  CASE WHEN same.has_schedule THEN t.held_by_mode ELSE excluded.held_by_mode END,
                  CASE WHEN same.has_schedule THEN t.paused_at END,
                  CASE WHEN same.has_schedule THEN t.paused_by END,
                  CASE WHEN same.has_schedule THEN t.pause_reason END,
                  CASE WHEN same.has_schedule THEN t.pause_until END,
                  CASE WHEN same.has_schedule THEN t.pause_missed END,
                  -- The schedule of a trigger that keeps its progress, with the new catch-up limits and expectation.
                  CASE WHEN same.has_schedule
                       THEN (t.schedule - '{catch_up,expect}'::text[])
                            || jsonb_strip_nulls(jsonb_build_object('catch_up', excluded.schedule -> 'catch_up',
                                                                    'expect', excluded.schedule -> 'expect'))
                       ELSE excluded.schedule END,
                  CASE WHEN same.has_schedule THEN t.unreconciled ELSE excluded.unreconciled END,
                  CASE WHEN same.has_schedule THEN t.missed_policy END,
                  CASE WHEN same.has_schedule AND same.has_misfire THEN t.catch_up_until END
             FROM (-- The stored trigger `t` belongs to the same job and already has the schedule that is to be stored:
                   -- as it was declared, or as it is now.
                   SELECT (t.job_group, t.job_name) = (excluded.job_group, excluded.job_name)
                          AND (coalesce(t.schedule_hash = excluded.schedule_hash, false)
                               OR (t.kind, t.schedule - '{catch_up,expect}'::text[], t.start_time, t.end_time,
                                   t.calendar_name)
                                  IS NOT DISTINCT FROM
                                  (excluded.kind, excluded.schedule - '{catch_up,expect}'::text[], excluded.start_time,
                                   excluded.end_time, excluded.calendar_name)) AS has_schedule,
                          (t.misfire_instruction, t.misfire_threshold)
                          IS NOT DISTINCT FROM (excluded.misfire_instruction, excluded.misfire_threshold) AS has_misfire
                   OFFSET 0) AS same),
           job_group = excluded.job_group, job_name = excluded.job_name, job_type = excluded.job_type,
           max_concurrent = excluded.max_concurrent, overlap_policy = excluded.overlap_policy,
           placement = excluded.placement, rate_limit = excluded.rate_limit, limits = excluded.limits,
           concurrency_key = excluded.concurrency_key, description = excluded.description, kind = excluded.kind,
           end_time = excluded.end_time, priority = excluded.priority,
           misfire_instruction = excluded.misfire_instruction, misfire_threshold = excluded.misfire_threshold, calendar_name = excluded.calendar_name,
           job_data = excluded.job_data, schedule_hash = excluded.schedule_hash, owner = NULL
      FROM wanted AS excluded
     WHERE t.ctid = excluded.row AND :'replace'::bool
    RETURNING t.trigger_group, t.trigger_name, t.generation < (SELECT generation FROM before) AS is_kept,
              t.next_fire_time, :now, t.job_group, t.job_name, t.job_type, t.max_concurrent, t.overlap_policy,
              t.placement, t.rate_limit::text, t.limits
),
\endif
added AS (
    INSERT INTO qrtz_triggers AS t (sched_name, generation, trigger_group, trigger_name, job_group, job_name, job_type,
           max_concurrent, overlap_policy, placement, rate_limit, limits, concurrency_key, trigger_state, held_by_mode,
           description, kind, schedule, next_fire_time, prev_fire_time, upcoming, upcoming_is_complete,
           times_triggered, start_time, end_time, priority, misfire_instruction, misfire_threshold, unreconciled,
           calendar_name, job_data, schedule_hash)
    SELECT :'sched', w.generation, w.trigger_group, w.trigger_name, w.job_group, w.job_name, w.job_type,
           w.max_concurrent, w.overlap_policy, w.placement, w.rate_limit, w.limits, w.concurrency_key, w.trigger_state,
           w.held_by_mode, w.description, w.kind, w.schedule, w.next_fire_time, w.prev_fire_time, w.upcoming,
           w.upcoming_is_complete, w.times_triggered, w.start_time, w.end_time, w.priority, w.misfire_instruction,
           w.misfire_threshold, w.unreconciled, w.calendar_name, w.job_data, w.schedule_hash
      FROM wanted w
\if :new
    RETURNING t.trigger_group, t.trigger_name, false, t.next_fire_time, :now
)
SELECT * FROM added
\else
     WHERE w.row IS NULL
    RETURNING t.trigger_group, t.trigger_name, false, t.next_fire_time, :now, t.job_group, t.job_name, t.job_type,
              t.max_concurrent, t.overlap_policy, t.placement, t.rate_limit::text, t.limits
)
SELECT * FROM replaced
UNION ALL
SELECT * FROM added
\endif
;

-- name: watch_new
-- What is expected of the fires of new triggers is noted with their rows, so that the first fire is judged as well, and
-- the only one of a trigger that is gone before the nodes look for new expectations.
INSERT INTO qrtz_expectations (sched_name, trigger_group, trigger_name, generation, due_at, checkpoint)
SELECT t.sched_name, t.trigger_group, t.trigger_name, t.generation, clock.at,
       jsonb_build_object('created', clock.at, 'since', least(clock.at, t.next_fire_time) - interval '1 microsecond',
                          'expect', x.expect, 'zone', coalesce(t.schedule ->> 'time_zone', 'UTC'),
                          'job', jsonb_build_array(t.job_group, t.job_name))
  FROM (SELECT :now AS at OFFSET 0) AS clock
 CROSS JOIN unnest(:'groups'::text[], :'names'::text[]) AS k(of_group, of_name)
 CROSS JOIN LATERAL (
    SELECT * FROM qrtz_triggers o
     WHERE o.sched_name = :'sched' AND o.trigger_group = k.of_group AND o.trigger_name = k.of_name OFFSET 0) AS t
 CROSS JOIN LATERAL (
    SELECT coalesce(t.schedule -> 'expect',
                    (SELECT j.expect FROM qrtz_job_details j
                      WHERE j.sched_name = t.sched_name AND j.job_group = t.job_group AND j.job_name = t.job_name))
           AS expect) AS x
 WHERE x.expect IS NOT NULL
 ORDER BY t.trigger_group, t.trigger_name
    ON CONFLICT DO NOTHING;

-- name: settle_new
-- Under the lock: compares newly stored triggers with the current pauses, running executions and jobs. Each value is
-- computed once, because the server prepares every subquery of a statement before it runs, whether it is used or not.
UPDATE qrtz_triggers t
   SET trigger_state = j.new_state, held_by_mode = j.new_hold,
       concurrency_key = j.new_key,
       -- include: becomes_of_j
  FROM (SELECT o.row,
               -- include: copied_of_j
               , own.new_key,
               -- include: new_state
               AS new_state,
               -- Leaving a mode resumes the triggers that only the mode pauses.
               NOT usual.is_so AND NOT checked.group_is_paused AND checked.mode_forbids AS new_hold
          FROM (SELECT
                -- include: ordinary
                AS is_so) AS usual
         CROSS JOIN unnest(:'groups'::text[], :'names'::text[]) AS k(trigger_group, trigger_name)
         CROSS JOIN LATERAL (
            SELECT o.ctid AS row, o.trigger_group, o.job_group, o.job_name, o.job_data FROM qrtz_triggers o
             WHERE o.sched_name = :'sched' AND o.trigger_group = k.trigger_group AND o.trigger_name = k.trigger_name
             LIMIT 1) AS o
         CROSS JOIN LATERAL (
            SELECT
                   -- include: copied_of_j
                   , j.concurrency_key, j.job_data
              FROM qrtz_job_details j
             WHERE j.sched_name = :'sched' AND j.job_group = o.job_group AND j.job_name = o.job_name
             LIMIT 1) AS j
         -- include: checked
        OFFSET 0) AS j
 WHERE t.ctid = j.row
   AND t.trigger_state IN ('WAITING', 'PAUSED', 'BLOCKED')
   AND (t.trigger_state <> j.new_state OR t.held_by_mode <> j.new_hold
        OR
        -- include: other_job
        OR t.concurrency_key <> j.new_key);

-- name: is_ordinary
SELECT
-- include: ordinary
;

-- name: still_ordinary
-- Fails if that is no longer the case, or if a job differs from the copies in its new triggers.
SELECT 1 / count(*)
  FROM (SELECT 1
         WHERE
               -- include: ordinary
           AND NOT EXISTS (
               SELECT FROM unnest(:'groups'::text[], :'names'::text[], :'types'::text[], :'limits'::int[],
                                  :'overlap_policy'::text[], :'placements'::text[],
                                  :'rate_limits'::text[]::jsonb[], :'shared_limits'::text[])
                           AS t(job_group, job_name, job_type, max_concurrent, overlap_policy, placement, rate_limit,
                                limits)
                 JOIN qrtz_job_details j
                   ON j.sched_name = :'sched' AND j.job_group = t.job_group AND j.job_name = t.job_name
                WHERE
                      -- include: other_job
       )) AS so;

-- name: lock_if_new
-- Takes the lock, or fails without it if a row was not made by this transaction, or if the time is not the expected
-- one. Nobody else sees the new rows yet, so a wait for the lock does not make the check out of date.
WITH checked AS MATERIALIZED (
    SELECT (SELECT count(*)
              FROM unnest(:'job_groups'::text[], :'job_names'::text[]) AS k(job_group, job_name)
             CROSS JOIN LATERAL (
                SELECT FROM qrtz_job_details j
                 WHERE j.sched_name = :'sched' AND j.job_group = k.job_group AND j.job_name = k.job_name
                   AND j.xmin = pg_current_xact_id()::xid
                 LIMIT 1) AS made) = cardinality(:'job_names'::text[])
           AND (SELECT count(*)
                  FROM unnest(:'groups'::text[], :'names'::text[]) AS k(trigger_group, trigger_name)
                 CROSS JOIN LATERAL (
                    SELECT FROM qrtz_triggers t
                     WHERE t.sched_name = :'sched' AND t.trigger_group = k.trigger_group
                       AND t.trigger_name = k.trigger_name AND t.xmin = pg_current_xact_id()::xid
                     LIMIT 1) AS made) = cardinality(:'names'::text[])
           AND (:now BETWEEN :'earliest'::timestamptz AND :'latest'::timestamptz) IS NOT FALSE AS is_new
)
SELECT CASE WHEN is_new THEN (
           -- include: lock
       ) ELSE repeat('quartzpy: not everything is new, so it is stored step by step', 1 + is_new::int)::int END
  FROM checked;

-- name: copy_job
-- Corrects the copies that triggers have of their jobs' values. A trigger that is blocked waits for executions with its
-- former concurrency key, so it waits no longer; where executions with the new one fill the job, the next node that
-- meets the trigger blocks it.
UPDATE qrtz_triggers t
   SET
       -- include: becomes_of_j
       ,
       concurrency_key =
           -- include: key_of_t
       ,
       trigger_state =
           -- What is parked asks its gate again if that is another one, or has other places.
           CASE WHEN t.trigger_state = 'BLOCKED'
                     AND ((t.max_concurrent, t.overlap_policy, t.rate_limit, t.limits)
                          IS DISTINCT FROM (j.max_concurrent, j.overlap_policy, j.rate_limit, j.limits)
                          OR t.concurrency_key <>
                             -- include: key_of_t
                         )
                THEN 'WAITING' ELSE t.trigger_state END
  FROM unnest(:'groups'::text[], :'names'::text[]) AS w(job_group, job_name)
  JOIN qrtz_job_details j ON j.sched_name = :'sched' AND j.job_group = w.job_group AND j.job_name = w.job_name
\if :under_lock
 -- Triggers that were stored since. It skips locked rows.
 CROSS JOIN LATERAL (
    SELECT t.ctid AS row FROM qrtz_triggers t
     WHERE t.sched_name = :'sched' AND t.job_group = j.job_group AND t.job_name = j.job_name
       AND (
            -- include: other_job
            OR t.concurrency_key <>
            -- include: key_of_t
           )
       FOR NO KEY UPDATE SKIP LOCKED) AS own
 WHERE t.ctid = own.row
\else
 WHERE t.sched_name = j.sched_name AND t.job_group = j.job_group AND t.job_name = j.job_name
   AND (
        -- include: other_job
        OR t.concurrency_key <>
        -- include: key_of_t
       )
\endif
;

-- name: hold_job
SELECT FROM qrtz_job_details
 WHERE sched_name = :'sched' AND job_group = :'group' AND job_name = :'name'
   FOR NO KEY UPDATE;

-- name: count_triggers
-- The number of triggers of jobs, up to a number that is many.
SELECT count(*)::int
  FROM (SELECT FROM unnest(:'groups'::text[], :'names'::text[]) AS k(job_group, job_name)
         CROSS JOIN LATERAL (
            SELECT FROM qrtz_triggers t
             WHERE t.sched_name = :'sched' AND t.job_group = k.job_group AND t.job_name = k.job_name
             LIMIT :'most'::int) AS of_job
         LIMIT :'most'::int) AS of_jobs;
