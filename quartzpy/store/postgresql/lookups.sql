-- The planner is steered here: see docs/planner.md.

-- name: jobs
SELECT
    -- include: job_columns
    -- include: rest_of_job
  FROM qrtz_job_details j
  JOIN unnest(:'groups'::text[], :'names'::text[]) AS k(job_group, job_name)
    ON j.sched_name = :'sched' AND j.job_group = k.job_group AND j.job_name = k.job_name;

-- name: triggers
WITH
-- include: full_jobs
SELECT
    -- include: trigger_columns
    -- include: seen_state
    AS trigger_state,
    -- include: trigger_progress
  FROM qrtz_triggers t
  JOIN unnest(:'groups'::text[], :'names'::text[]) AS k(trigger_group, trigger_name)
    ON t.sched_name = :'sched' AND t.trigger_group = k.trigger_group AND t.trigger_name = k.trigger_name;

-- name: ahead
-- How many triggers are parked where this one is, and before it: at most `most`, and of each lane among the first `most`.
-- What is parked at the limit of a job is found by the index of held triggers, and what is parked at limits that jobs
-- share by that of their sets.
SELECT least(count(*), :'most'::int)
  FROM (SELECT * FROM qrtz_triggers
         WHERE sched_name = :'sched' AND trigger_group = :'group' AND trigger_name = :'name'
           AND trigger_state = 'BLOCKED') AS it
 CROSS JOIN LATERAL (
    (SELECT of_lane.*
       FROM
          -- include: each_lane
      CROSS JOIN LATERAL (
         SELECT t.next_fire_time, t.priority, t.trigger_group, t.trigger_name FROM qrtz_triggers t
          WHERE t.sched_name || '' = :'sched' AND t.job_group || '' = it.job_group AND t.job_name || '' = it.job_name
            AND t.concurrency_key || '' = it.concurrency_key AND t.trigger_state = 'BLOCKED'
            AND t.trigger_state IN ('BLOCKED', 'COMPLETE')
            AND
                -- include: held_lane
                = lane.name
            AND t.next_fire_time <= it.next_fire_time
          ORDER BY t.next_fire_time, t.priority DESC LIMIT :'most'::int + 1) AS of_lane
      WHERE it.parked_at IS NULL AND lane.name <> '')
    UNION ALL
    (SELECT t.next_fire_time, t.priority, t.trigger_group, t.trigger_name FROM qrtz_triggers t
      WHERE t.sched_name || '' = :'sched' AND t.parked_at = it.parked_at AND t.trigger_state = 'BLOCKED'
        AND t.next_fire_time <= it.next_fire_time
      ORDER BY t.next_fire_time, t.priority DESC LIMIT :'most'::int + 1)) AS o
 WHERE (o.next_fire_time, -o.priority, o.trigger_group, o.trigger_name)
       < (it.next_fire_time, -it.priority, it.trigger_group, it.trigger_name);

-- name: job_keys
SELECT job_group, job_name FROM qrtz_job_details
 WHERE sched_name = :'sched'
   -- include: matches_group of job_group
;

-- name: trigger_keys
SELECT trigger_group, trigger_name FROM qrtz_triggers
 WHERE sched_name = :'sched'
   -- include: matches_group of trigger_group
;

-- name: job_groups
SELECT DISTINCT job_group FROM qrtz_job_details WHERE sched_name = :'sched' ORDER BY 1;

-- name: trigger_groups
SELECT DISTINCT trigger_group FROM qrtz_triggers WHERE sched_name = :'sched' ORDER BY 1;

-- name: waiting_dispatch_keys
-- A loose index scan of the jobs: one step per job type and placement. Of each, it examines some jobs, and some triggers of
-- these, so that jobs whose triggers do not wait cost little. What it misses is met by a step when it is due.
WITH RECURSIVE keys AS (
    (SELECT job_type, placement FROM qrtz_job_details WHERE sched_name || '' = :'sched'
      ORDER BY job_type, placement LIMIT 1)
    UNION ALL
    SELECT other.job_type, other.placement
      FROM keys k
     CROSS JOIN LATERAL (
        SELECT j.job_type, j.placement FROM qrtz_job_details j
         WHERE j.sched_name || '' = :'sched' AND (j.job_type, j.placement) > (k.job_type, k.placement)
         ORDER BY j.job_type, j.placement LIMIT 1) AS other
)
SELECT k.job_type, k.placement
  FROM keys k
 WHERE EXISTS (
    SELECT FROM (SELECT j.job_group, j.job_name FROM qrtz_job_details j
                  WHERE j.sched_name || '' = :'sched' AND j.job_type = k.job_type AND j.placement = k.placement
                  LIMIT 20) AS job
     CROSS JOIN LATERAL (
        SELECT t.sched_name, t.trigger_state FROM qrtz_triggers t
         WHERE t.job_group = job.job_group AND t.job_name = job.job_name LIMIT 20) AS examined
     WHERE examined.sched_name = :'sched' AND examined.trigger_state = 'WAITING'
    OFFSET 0);

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
)
SELECT scope, group_name, paused_at, paused_by, pause_reason, pause_until, pause_missed, window_name
  FROM qrtz_paused_trigger_groups WHERE sched_name = :'sched'
UNION
SELECT 'TRIGGER', trigger_group, NULL, NULL, NULL, NULL, NULL, NULL FROM paused
 ORDER BY 1, 2;

-- name: running
SELECT f.fire_id, f.trigger_group, f.trigger_name, f.job_group, f.job_name, f.instance_id, f.epoch,
       CASE WHEN f.fired_time > :now THEN 'ACQUIRED' ELSE 'EXECUTING' END AS state,
       f.scheduled_time, f.fired_time, f.attempt, f.cancel_requested, f.progress, f.progress_message,
       CASE WHEN f.trigger_group IN ('MANUAL_TRIGGERS', 'RETRYING_JOBS', 'RECOVERING_JOBS')
            THEN f.trigger_data ->> 'QRTZ_TRIGGERED_BY' END AS triggered_by,
       n.problems IS NOT NULL
       AND jsonb_path_exists(n.problems, '$[*].fire_ids[*] ? (@ == $id)', jsonb_build_object('id', f.fire_id))
       AS is_unrecorded, f.submission, f.worker, f.worker_since
  FROM qrtz_fired_triggers f
  LEFT JOIN qrtz_scheduler_state n
         ON n.sched_name = f.sched_name AND n.instance_id = f.instance_id AND n.epoch = f.epoch
 WHERE f.sched_name = :'sched' ORDER BY f.fired_time, f.fire_id;

-- name: execution
-- Only this query reads the log: a page of executions would drag megabytes.
SELECT
    -- include: ended_columns
    , log
  FROM qrtz_executions WHERE fire_id = :'fire_id'::bigint AND sched_name || '' = :'sched'
UNION ALL
SELECT
    -- include: fired_columns
    , recent_log
  FROM qrtz_fired_triggers WHERE fire_id = :'fire_id'::bigint AND sched_name = :'sched';

-- name: job_headers
SELECT j.job_group, j.job_name, j.job_type, j.mode, j.placement, j.definition::text
  FROM unnest(:'groups'::text[], :'names'::text[]) AS k(job_group, job_name)
  JOIN qrtz_job_details j ON j.sched_name = :'sched' AND j.job_group = k.job_group AND j.job_name = k.job_name;

-- name: near_jobs
-- Each part is one walk along the primary key, or one for each group, which a loose index scan finds.
WITH RECURSIVE each_group AS (
    (SELECT job_group AS name FROM qrtz_job_details WHERE sched_name = :'sched' ORDER BY job_group LIMIT 1)
    UNION ALL
    SELECT (SELECT k.job_group FROM qrtz_job_details k WHERE k.sched_name = :'sched' AND k.job_group > g.name
             ORDER BY k.job_group LIMIT 1)
      FROM each_group g WHERE g.name IS NOT NULL
)
(SELECT job_group, job_name FROM qrtz_job_details WHERE sched_name = :'sched'
  ORDER BY job_group, job_name LIMIT :'limit'::int)
UNION
(SELECT job_group, job_name FROM qrtz_job_details WHERE sched_name = :'sched' AND job_group = :'group'
  ORDER BY job_name LIMIT :'limit'::int)
UNION
(SELECT job_group, job_name FROM qrtz_job_details
  WHERE sched_name = :'sched' AND job_group = :'group' AND job_name < :'name'
  ORDER BY job_name DESC LIMIT :'limit'::int)
UNION
(SELECT job_group, job_name FROM qrtz_job_details
  WHERE sched_name = :'sched' AND job_group = :'group' AND job_name > :'name'
  ORDER BY job_name LIMIT :'limit'::int)
UNION
SELECT job_group, job_name FROM qrtz_job_details
 WHERE sched_name = :'sched' AND job_group = :'name' AND job_name = :'group'
UNION
SELECT beside.*
  FROM (SELECT name FROM each_group WHERE name IS NOT NULL LIMIT :'limit'::int) AS g
 CROSS JOIN LATERAL (
    (SELECT job_group, job_name FROM qrtz_job_details
      WHERE sched_name = :'sched' AND job_group = g.name AND job_name < :'name'
      ORDER BY job_name DESC LIMIT 1)
    UNION ALL
    (SELECT job_group, job_name FROM qrtz_job_details
      WHERE sched_name = :'sched' AND job_group = g.name AND job_name >= :'name'
      ORDER BY job_name LIMIT 2)) AS beside;

-- name: near_triggers
-- As `jobs`.
WITH RECURSIVE each_group AS (
    (SELECT trigger_group AS name FROM qrtz_triggers WHERE sched_name = :'sched' ORDER BY trigger_group LIMIT 1)
    UNION ALL
    SELECT (SELECT k.trigger_group FROM qrtz_triggers k WHERE k.sched_name = :'sched' AND k.trigger_group > g.name
             ORDER BY k.trigger_group LIMIT 1)
      FROM each_group g WHERE g.name IS NOT NULL
)
(SELECT trigger_group, trigger_name FROM qrtz_triggers WHERE sched_name = :'sched'
  ORDER BY trigger_group, trigger_name LIMIT :'limit'::int)
UNION
(SELECT trigger_group, trigger_name FROM qrtz_triggers WHERE sched_name = :'sched' AND trigger_group = :'group'
  ORDER BY trigger_name LIMIT :'limit'::int)
UNION
(SELECT trigger_group, trigger_name FROM qrtz_triggers
  WHERE sched_name = :'sched' AND trigger_group = :'group' AND trigger_name < :'name'
  ORDER BY trigger_name DESC LIMIT :'limit'::int)
UNION
(SELECT trigger_group, trigger_name FROM qrtz_triggers
  WHERE sched_name = :'sched' AND trigger_group = :'group' AND trigger_name > :'name'
  ORDER BY trigger_name LIMIT :'limit'::int)
UNION
SELECT trigger_group, trigger_name FROM qrtz_triggers
 WHERE sched_name = :'sched' AND trigger_group = :'name' AND trigger_name = :'group'
UNION
SELECT beside.*
  FROM (SELECT name FROM each_group WHERE name IS NOT NULL LIMIT :'limit'::int) AS g
 CROSS JOIN LATERAL (
    (SELECT trigger_group, trigger_name FROM qrtz_triggers
      WHERE sched_name = :'sched' AND trigger_group = g.name AND trigger_name < :'name'
      ORDER BY trigger_name DESC LIMIT 1)
    UNION ALL
    (SELECT trigger_group, trigger_name FROM qrtz_triggers
      WHERE sched_name = :'sched' AND trigger_group = g.name AND trigger_name >= :'name'
      ORDER BY trigger_name LIMIT 2)) AS beside;

-- name: load
-- The first limit keeps the planner to a range of the due index, whose order it has, and OFFSET 0 from joining in
-- another order. The second limit bounds the sum of all ranges.
WITH RECURSIVE
-- include: full_jobs
, waiting AS (
    -- include: waiting
),
clock AS MATERIALIZED (SELECT :now AS at),
dispatched AS MATERIALIZED (
    SELECT w.slot_pool, rule.name AS misfire_rule
      FROM waiting w
     CROSS JOIN
        -- include: each_rule
),
due AS (
    SELECT of_key.*
      FROM clock
     CROSS JOIN dispatched d
     CROSS JOIN LATERAL (
        SELECT t.next_fire_time,
               -- include: seen_state
               AS state
          FROM qrtz_triggers t
         WHERE t.sched_name = :'sched' AND t.trigger_state = 'WAITING' AND t.slot_pool = d.slot_pool
           AND t.misfire_rule = d.misfire_rule AND t.next_fire_time <= clock.at
         ORDER BY t.next_fire_time LIMIT :'most'::int OFFSET 0) AS of_key
     LIMIT :'most'::int
),
-- The first one that waits for no slot.
earliest AS (
    SELECT of_key.next_fire_time
      FROM clock
     CROSS JOIN dispatched d
     CROSS JOIN LATERAL (
        SELECT front.next_fire_time
          FROM (SELECT t.next_fire_time,
                       -- include: seen_state
                       AS state
                  FROM qrtz_triggers t
                 WHERE t.sched_name = :'sched' AND t.trigger_state = 'WAITING' AND t.slot_pool = d.slot_pool
                   AND t.misfire_rule = d.misfire_rule AND t.next_fire_time <= clock.at
                 ORDER BY t.next_fire_time LIMIT :'most'::int OFFSET 0) AS front
         WHERE front.state = 'WAITING' ORDER BY front.next_fire_time LIMIT 1) AS of_key
),
held AS MATERIALIZED (
    SELECT t.next_fire_time,
           -- include: seen_state
           AS state
      FROM qrtz_triggers t
     WHERE t.sched_name || '' = :'sched' AND t.trigger_state IN ('BLOCKED', 'COMPLETE')
     LIMIT :'most'::int
),
-- The triggers that count as due, or as late at least.
counted AS (
    SELECT * FROM due
    UNION ALL
    SELECT * FROM held WHERE state IN ('WAITING', 'BLOCKED')
)
SELECT number.due, number.late,
       (SELECT clock.at - min(first.next_fire_time)
          FROM (SELECT next_fire_time FROM earliest
                UNION ALL
                SELECT h.next_fire_time FROM held h, clock
                 WHERE h.state = 'WAITING' AND h.next_fire_time <= clock.at) AS first, clock
         GROUP BY clock.at),
       in_error.number, fired.claimed, fired.executing
  FROM (SELECT count(*) FILTER (WHERE state = 'WAITING' AND next_fire_time <= clock.at) AS due,
               count(*) FILTER (WHERE next_fire_time < clock.at - :'late_after'::interval) AS late
          FROM counted, clock) AS number,
       (SELECT count(*) AS number
          FROM (SELECT FROM qrtz_triggers
                 WHERE sched_name || '' = :'sched' AND trigger_state = 'ERROR'
                 LIMIT :'most'::int) AS error_row) AS in_error,
       (SELECT count(*) FILTER (WHERE fired_time > :now) AS claimed,
               count(*) FILTER (WHERE fired_time <= :now) AS executing
          FROM qrtz_fired_triggers WHERE sched_name = :'sched') AS fired;

-- name: calendar_names
SELECT calendar_name FROM qrtz_calendars WHERE sched_name = :'sched' ORDER BY 1;
