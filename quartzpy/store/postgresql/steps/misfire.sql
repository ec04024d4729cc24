-- The planner is steered here: see docs/planner.md.

-- The column `misfire_rule`, which the schema computes, is the rule by which a waiting trigger is late. A trigger that was
-- resumed with a `missed` policy is LATE, even if it is only slightly late: no step but this one takes it. A trigger that
-- catches up ignores misfires until it has passed the instant at which its misfire was handled, so that a missed fire is
-- not judged twice.

-- name: late
-- A batch of late triggers, without a lock.
WITH RECURSIVE node AS MATERIALIZED (SELECT :now AS at),
-- include: keys
,
pools(slot_pool) AS (
    SELECT '' COLLATE "C"
    UNION ALL
    SELECT other.slot_pool
      FROM pools p
     CROSS JOIN LATERAL (
        SELECT t.slot_pool FROM qrtz_triggers t
         WHERE t.sched_name = :'sched' AND t.trigger_state = 'WAITING' AND t.slot_pool > p.slot_pool
         ORDER BY t.slot_pool LIMIT 1) AS other
),
-- The triggers that wait and are late.
waiting AS MATERIALIZED (
    SELECT late.*
      FROM node
     CROSS JOIN pools
     CROSS JOIN
        -- include: late_rules
     CROSS JOIN LATERAL (
        SELECT t.ctid AS row, t.*
          FROM qrtz_triggers t
         WHERE t.sched_name = :'sched' AND t.slot_pool = pools.slot_pool
           AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
           AND t.next_fire_time >= :'since'::timestamptz
           -- include: is_late
           -- include: runs_here
         ORDER BY t.next_fire_time, t.priority DESC
         LIMIT :'limit'::int) AS late
     ORDER BY late.next_fire_time, late.priority DESC
     LIMIT :'limit'::int
),
-- Those that are parked at the gates of these, where a place is free: nothing holds them up. A trigger that waits for
-- a place which nobody leaves is late by design, and this is no misfire; nor is one that waits for a rate or a shared limit.
blocked AS (
    SELECT late.*
      FROM node
     CROSS JOIN (SELECT job_group, job_name, concurrency_key, min(max_concurrent) AS slots
                   FROM waiting
                  WHERE overlap_policy = 'block' AND max_concurrent IS NOT NULL AND num_nonnulls(rate_limit, limits) = 0
                  GROUP BY job_group, job_name, concurrency_key) AS job
     CROSS JOIN LATERAL (
        SELECT count(*) AS running FROM qrtz_fired_triggers r
         WHERE r.sched_name = :'sched' AND r.job_group = job.job_group AND r.job_name = job.job_name
           AND r.concurrency_key = job.concurrency_key AND r.max_concurrent IS NOT NULL
     ) AS executions
     CROSS JOIN
        -- include: late_rules
     CROSS JOIN LATERAL (
        SELECT t.ctid AS row, t.*
          FROM qrtz_triggers t
         WHERE t.sched_name || '' = :'sched' AND t.job_group || '' = job.job_group AND t.job_name || '' = job.job_name
           AND t.concurrency_key || '' = job.concurrency_key
           AND
               -- include: held_lane
               = rule.name
           AND t.trigger_state = 'BLOCKED'
           -- include: is_late
         ORDER BY t.next_fire_time, t.priority DESC
         LIMIT :'limit'::int) AS late
     WHERE executions.running < job.slots
)
SELECT t.trigger_name, t.trigger_group, t.job_group, t.job_name, t.kind, t.schedule::text AS schedule,
       t.description, t.start_time, t.end_time, t.priority, t.misfire_instruction, t.misfire_threshold,
       t.calendar_name, t.job_data::text AS trigger_data, t.next_fire_time, t.prev_fire_time, t.times_triggered,
       t.generation, c.calendar::text AS calendar_text, c.revision, t.coalesced_fire_times IS NOT NULL AS coalesced,
       t.row::text AS place, t.missed_policy, CASE t.missed_policy WHEN 'skip' THEN t.resumed_at END AS resumed_at,
       node.at
  FROM node
 CROSS JOIN (SELECT * FROM waiting UNION ALL SELECT * FROM blocked) AS t
  LEFT JOIN LATERAL (
    SELECT o.calendar, o.revision FROM qrtz_calendars o
     WHERE o.sched_name = :'sched' AND o.calendar_name = t.calendar_name LIMIT 1) AS c ON true
 ORDER BY t.next_fire_time, t.priority DESC
 LIMIT :'limit'::int;

-- name: guard
-- No row means that the epoch is no longer registered.
SELECT :now FROM qrtz_scheduler_state
 WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint;

-- name: move
-- Writes a batch back, and records its misfires. Rows are looked up by the ctid with which they were read: an index
-- scan might use another index than the primary key, and after an outage all late triggers may have the same fire time.
-- A row that was updated in the meantime has moved elsewhere, and is skipped.
WITH
-- include: node
-- The new values of each trigger, with those that were read.
moves AS (
    SELECT * FROM unnest(:'rows'::tid[], :'groups'::text[], :'names'::text[], :'generations'::bigint[],
                         :'late_fire_times'::timestamptz[], :'next'::timestamptz[], :'previous'::timestamptz[],
                         :'times'::bigint[], :'starts'::timestamptz[], :'schedules'::text[], :'upcoming'::text[],
                         :'complete'::bool[], :'revisions'::bigint[], :'missed_times'::text[], :'more'::bool[],
                         :'caught_up'::bigint[], :'actions'::text[], :'coalesces'::bool[])
        AS m(row, trigger_group, trigger_name, generation, late_fire_time, next_fire_time, prev_fire_time,
             times_triggered, start_time, schedule, upcoming, is_complete, revision, missed, has_more, caught_up, action, coalesces)
),
-- The triggers that have not changed since they were read; rows that another transaction has locked are left.
unchanged AS MATERIALIZED (
    SELECT m.*, mine.*
      FROM node
     CROSS JOIN moves m
     CROSS JOIN LATERAL (
        SELECT t.job_group, t.job_name, t.misfire_instruction, t.concurrency_key, t.trigger_state,
               CASE t.overlap_policy WHEN 'block' THEN t.max_concurrent END AS max_concurrent
          FROM qrtz_triggers t
         WHERE t.ctid = m.row
           AND t.sched_name = :'sched' AND t.trigger_group = m.trigger_group AND t.trigger_name = m.trigger_name
           AND t.generation = m.generation AND t.next_fire_time = m.late_fire_time AND t.trigger_state IN ('WAITING', 'BLOCKED')
           AND t.catch_up_until IS NULL
           AND (t.calendar_name IS NULL
                OR EXISTS (SELECT FROM qrtz_calendars c WHERE c.sched_name = t.sched_name
                              AND c.calendar_name = t.calendar_name AND c.revision = m.revision OFFSET 0))
           FOR UPDATE SKIP LOCKED) AS mine
),
-- Those of jobs whose slots are all taken: they wait for one, and this is no misfire.
held_up AS MATERIALIZED (
    SELECT u.row, u.trigger_state, u.job_group, u.job_name, u.concurrency_key
      FROM (SELECT DISTINCT job_group, job_name, concurrency_key FROM unchanged WHERE max_concurrent IS NOT NULL) AS job
     CROSS JOIN LATERAL (
        SELECT count(*) AS running FROM qrtz_fired_triggers r
         WHERE r.sched_name = :'sched' AND r.job_group = job.job_group AND r.job_name = job.job_name
           AND r.concurrency_key = job.concurrency_key AND r.max_concurrent IS NOT NULL
     ) AS executions
      JOIN unchanged u
        ON u.job_group = job.job_group AND u.job_name = job.job_name AND u.concurrency_key = job.concurrency_key
       AND u.max_concurrent <= executions.running
),
parked AS (
    UPDATE qrtz_triggers t
       SET trigger_state = 'BLOCKED', parked_at = NULL,
           -- include: prepared_once
      FROM held_up h
     WHERE t.ctid = h.row AND h.trigger_state = 'WAITING'
),
-- The others misfire.
late AS MATERIALIZED (
    SELECT * FROM unchanged WHERE row NOT IN (SELECT row FROM held_up)
),
-- Where more are parked and late than a batch handles, one of the rest waits, and leads the next batch to them.
next_late AS (
    UPDATE qrtz_triggers t
       SET trigger_state = 'WAITING',
           -- include: prepared_once
      FROM (SELECT DISTINCT job_group, job_name, concurrency_key FROM late WHERE trigger_state = 'BLOCKED') AS job
     CROSS JOIN node
     CROSS JOIN LATERAL (
        SELECT rest.row
          FROM
               -- include: late_rules
         CROSS JOIN LATERAL (
            SELECT t.ctid AS row, t.next_fire_time FROM qrtz_triggers t
             WHERE t.sched_name || '' = :'sched' AND t.job_group || '' = job.job_group
               AND t.job_name || '' = job.job_name AND t.concurrency_key || '' = job.concurrency_key
               AND t.trigger_state = 'BLOCKED'
               AND
                   -- include: held_lane
                   = rule.name
               -- include: is_overdue
               AND t.ctid NOT IN (SELECT row FROM unchanged)
             ORDER BY t.next_fire_time, t.priority DESC
             LIMIT 1
               FOR NO KEY UPDATE SKIP LOCKED) AS rest
         ORDER BY rest.next_fire_time
         LIMIT 1) AS next
     WHERE t.ctid = next.row
),
-- Those that have another fire time.
moved AS (
    UPDATE qrtz_triggers t
       SET trigger_state = 'WAITING', next_fire_time = l.next_fire_time, prev_fire_time = l.prev_fire_time,
           times_triggered = l.times_triggered, start_time = l.start_time, schedule = l.schedule::jsonb,
           upcoming = l.upcoming::timestamptz[], upcoming_is_complete = l.is_complete,
           coalesced_fire_times = CASE WHEN l.coalesces
                         THEN (coalesce(t.coalesced_fire_times, '{}') || l.missed::timestamptz[])[:1000] END,
           missed_policy = NULL,
           catch_up_until = CASE WHEN l.caught_up > 0 THEN :'at'::timestamptz END
      FROM late l
     WHERE t.ctid = l.row AND l.next_fire_time IS NOT NULL
    RETURNING l.*
),
-- Those that have no fire time left.
finalized AS (
    UPDATE qrtz_triggers t
       SET trigger_state = 'COMPLETE', next_fire_time = NULL, upcoming = '{}', upcoming_is_complete = true,
           missed_policy = NULL
      FROM late l
     WHERE t.ctid = l.row AND l.next_fire_time IS NULL
    RETURNING l.*
),
-- The record of the misfires.
recorded AS (
    INSERT INTO qrtz_misfires (id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        instance_id, handled_at, misfire_instruction, action, scheduled_time, missed, has_more, caught_up,
        next_fire_time)
    SELECT nextval('qrtz_fire_ids'), :'sched', trigger_group, trigger_name, generation, job_group, job_name,
           :'instance', :'at'::timestamptz, misfire_instruction, action, late_fire_time, missed::timestamptz[],
           has_more, caught_up, next_fire_time
      FROM (SELECT * FROM moved UNION ALL SELECT * FROM finalized) AS handled
)
SELECT trigger_group, trigger_name FROM moved UNION ALL SELECT trigger_group, trigger_name FROM finalized;

-- name: spoil
-- A trigger whose fire times cannot be computed does not fire until somebody resets it.
UPDATE qrtz_triggers t
   SET trigger_state = 'ERROR', error = late.reason,
       -- include: prepared_once
  FROM (SELECT mine.row, m.reason
          FROM unnest(:'rows'::tid[], :'groups'::text[], :'names'::text[], :'generations'::bigint[],
                      :'reasons'::text[]) AS m(row, trigger_group, trigger_name, generation, reason)
         CROSS JOIN LATERAL (
            SELECT o.ctid AS row FROM qrtz_triggers o
             WHERE o.ctid = m.row
               AND o.sched_name = :'sched' AND o.trigger_group = m.trigger_group AND o.trigger_name = m.trigger_name
               AND o.generation = m.generation AND o.trigger_state IN ('WAITING', 'BLOCKED')
               FOR NO KEY UPDATE SKIP LOCKED) AS mine
         WHERE EXISTS (SELECT FROM qrtz_scheduler_state s
                        WHERE s.sched_name = :'sched' AND s.instance_id = :'instance' AND s.epoch = :'epoch'::bigint)
       ) AS late
 WHERE t.ctid = late.row;
