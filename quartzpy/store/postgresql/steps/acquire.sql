-- The planner is steered here: see docs/planner.md.

-- A row is looked up by LATERAL with a lock or a limit, here and in all steps, and updated by its `ctid`. So no
-- statistics can make the planner choose a scan of the whole table for each row. Where a row is looked up by its key,
-- its state is compared as an expression, so that the partial index of blocked triggers does not match: it
-- looks small to the planner, but can have an entry for each running one-shot trigger.
--
-- A subquery of EXISTS that is to be looked up by its key, once for each row, ends with OFFSET 0, here and in all steps.
-- A session keeps its plans. Without this end, one that was made for a small table may read the whole table into a hash.
--
-- `candidates` has these columns:
--
-- - `at`, the time of the fire: that of the step, or the instant of a trigger that fires ahead of it; `row`, the ctid of the locked trigger;
-- - `job_group`, `job_name`, `concurrency_key`, `max_concurrent`, `overlap_policy`, `priority` of the trigger;
-- - `scheduled_time` and `previous_time`, its next and previous fire times before the step;
-- - `is_filled`: its fire leaves a stored fire time to wait for, or it has no further one; `following`: the fire times after `scheduled_time`, `following_is_complete` if
--   no others come after them; `also_due`: the number of the following ones that this fire coalesces, as they are due,
--   too;
-- - `coalesced_fire_times`, those that it coalesces already; `fire_id`, the id of the execution;
-- - `overtakes`: a trigger of the job that is due before it waits for a slot, and must have it first.
--
-- `decisions` adds `decision`: FIRE, SKIP, BLOCK, or REFILL: the node computes more fire times of an unfilled trigger.

-- name: acquire
-- Fires triggers of all jobs. Where all slots are of one executor and one group,
-- as on most nodes, `limit` is the only limit that counts, which saves two sorts.
WITH
-- include: node
-- include: accepted
-- The front of the index of waiting triggers, locked, for the slots that the node has free. Their fire times are at most
-- `look_ahead` ahead, and not before `since`.
front AS MATERIALIZED (
    SELECT node.at, slots.slot_pool, of_range.*
\if :several_pools
           , slots.executor, slots.workers, slots.execution_group, slots.group_slots
\endif
      FROM node
     CROSS JOIN unnest(:'slot_pools'::text[], :'sinces'::timestamptz[], :'executors'::text[], :'workers'::int[],
                       :'groups'::text[], :'group_slots'::int[], :'pool_limits'::int[])
                AS slots(slot_pool, since, executor, workers, execution_group, group_slots, pool_limit)
     CROSS JOIN
        -- include: acquired_rules
     CROSS JOIN LATERAL (
        SELECT t.ctid AS row, t.next_fire_time AS scheduled_time, t.priority, t.max_concurrent,
               t.job_group, t.job_name, t.job_type, t.placement, t.concurrency_key,
               -- include: key_hash
               AS key_hash,
               t.overlap_policy, t.prev_fire_time AS previous_time, t.upcoming AS following,
               t.upcoming_is_complete AS following_is_complete, t.coalesced_fire_times,
               -- At least one must remain for the trigger to wait for.
               least(late.passed, cardinality(t.upcoming) - CASE WHEN t.upcoming_is_complete THEN 0 ELSE 1 END) AS also_due,
               t.upcoming_is_complete OR cardinality(t.upcoming) > least(late.passed, 1000) AS is_filled
          FROM qrtz_triggers t
         CROSS JOIN LATERAL (
            SELECT CASE WHEN t.overlap_policy IN ('buffer_one', 'cancel_other')
                        THEN (SELECT count(*) FROM unnest(t.upcoming) AS u(instant)
                               WHERE u.instant <= node.at)
                        ELSE 0 END::int AS passed) AS late
         WHERE t.sched_name = :'sched' AND t.slot_pool = slots.slot_pool
           AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
           AND t.next_fire_time <= node.at + :'look_ahead'::interval
           -- What a rate limit has admitted may be due at any time.
           AND t.next_fire_time >= CASE WHEN :'admits'::bool AND rule.name = 'IGNORE' THEN '-infinity' ELSE slots.since END
           -- include: is_in_time
           -- include: is_not_refused
         ORDER BY t.next_fire_time, t.priority DESC
         LIMIT slots.pool_limit
           FOR NO KEY UPDATE OF t SKIP LOCKED
     ) AS of_range
),
-- The triggers that this node can take. One of a job with a limit may have been read from a time on before which a trigger
-- of the job waits since an end has just released it: it `overtakes` those that are still blocked.
candidates AS MATERIALIZED (
    SELECT greatest(due.at, due.scheduled_time) AS at, due.row, due.job_group, due.job_name, due.concurrency_key, due.max_concurrent, due.overlap_policy,
           due.priority, due.scheduled_time, due.previous_time, due.is_filled, due.following, due.following_is_complete,
           due.also_due, due.coalesced_fire_times, nextval('qrtz_fire_ids') AS fire_id,
           due.max_concurrent IS NOT NULL AND due.overlap_policy = 'block' AND
               -- include: sooner_waits
               AS overtakes
      FROM (
        SELECT *
          FROM (SELECT front.*
\if :several_pools
                       , row_number() OVER (PARTITION BY executor
                                              ORDER BY scheduled_time, priority DESC, row) AS executor_rank,
                       row_number() OVER (PARTITION BY execution_group
                                              ORDER BY scheduled_time, priority DESC, row) AS group_rank
\endif
                  FROM front
                 WHERE
                    -- include: has_said
                 ) AS ranked
\if :several_pools
         WHERE executor_rank <= workers AND group_rank <= group_slots
\endif
         ORDER BY scheduled_time, priority DESC, row
         LIMIT :'limit'::int) AS due
),
-- include: limited
-- include: advanced
-- include: claimed
           -- include: rest_of_job
-- include: from_advanced
-- include: stored
,
-- include: overlaps
,
-- A node with few free workers takes few candidates, and triggers of full jobs could be all of them, step after step.
-- So a step that meets some of them among as many candidates as it may take looks further along the front of the index.
further AS MATERIALIZED (
    SELECT soonest.*
      FROM node
     CROSS JOIN (SELECT s.slot_pool, s.since
                   FROM unnest(:'slot_pools'::text[], :'sinces'::timestamptz[]) AS s(slot_pool, since)
                  WHERE s.slot_pool IN (SELECT f.slot_pool FROM front f JOIN decisions d ON d.row = f.row
                                         WHERE d.decision = 'BLOCK' AND d.overlap_policy = 'block')
                    AND :'limit'::int < 200
                    AND (SELECT count(*) FROM candidates) = :'limit'::int) AS slots
     CROSS JOIN
        -- include: acquired_rules
     CROSS JOIN LATERAL (
        SELECT t.ctid AS row, t.job_group, t.job_name, t.concurrency_key, t.overlap_policy, t.max_concurrent
          FROM qrtz_triggers t
         WHERE t.sched_name = :'sched' AND t.slot_pool = slots.slot_pool
           AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
           AND t.next_fire_time <= node.at
           AND t.next_fire_time >= slots.since
           -- include: is_in_time
         ORDER BY t.next_fire_time, t.priority DESC
         LIMIT 200) AS soonest
     WHERE soonest.overlap_policy = 'block' AND soonest.max_concurrent IS NOT NULL
       AND soonest.row NOT IN (SELECT row FROM candidates)
),
-- The jobs and keys of these that have no slot left after this step, and whose executions are all awaited.
full_jobs AS MATERIALIZED (
    SELECT job.job_group, job.job_name, job.concurrency_key
      FROM (SELECT job_group, job_name, concurrency_key, min(max_concurrent) AS slots
              FROM further GROUP BY job_group, job_name, concurrency_key) AS job
     CROSS JOIN LATERAL (
        SELECT count(*) AS running, coalesce(bool_and(r.awaited), true) AS are_awaited FROM qrtz_fired_triggers r
         WHERE r.sched_name = :'sched' AND r.job_group = job.job_group AND r.job_name = job.job_name
           AND r.concurrency_key = job.concurrency_key AND r.max_concurrent IS NOT NULL
     ) AS executions
     CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE a.decision = 'FIRE') AS number,
               coalesce(bool_or(a.decision = 'BLOCK'), false) AS has_blocked
          FROM advanced a
         WHERE a.job_group = job.job_group AND a.job_name = job.job_name
           AND a.concurrency_key = job.concurrency_key) AS fires
     WHERE executions.running + fires.number >= job.slots AND (executions.are_awaited OR fires.has_blocked)
),
-- Their triggers become BLOCKED as well.
crowded AS (
    UPDATE qrtz_triggers t
       SET trigger_state = 'BLOCKED',
           -- include: prepared_once
      FROM (SELECT mine.row
              FROM further
             CROSS JOIN LATERAL (
                SELECT o.ctid AS row FROM qrtz_triggers o
                 WHERE o.ctid = further.row FOR NO KEY UPDATE SKIP LOCKED) AS mine
             WHERE (further.job_group, further.job_name, further.concurrency_key)
                   IN (SELECT job_group, job_name, concurrency_key FROM full_jobs)) AS others
     WHERE t.ctid = others.row
)
SELECT * FROM claimed ORDER BY scheduled_fire_time, priority DESC;

-- name: acquire_unlimited
-- Fires triggers of jobs without a limit. For one executor and one group as in `acquire`.
WITH
-- include: node
-- include: accepted
-- The front of the index, as in `acquire`.
front AS MATERIALIZED (
    SELECT node.at, of_range.*
\if :several_pools
           , slots.executor, slots.workers, slots.execution_group, slots.group_slots
\endif
      FROM node
     CROSS JOIN unnest(:'slot_pools'::text[], :'sinces'::timestamptz[], :'executors'::text[], :'workers'::int[],
                       :'groups'::text[], :'group_slots'::int[], :'pool_limits'::int[])
                AS slots(slot_pool, since, executor, workers, execution_group, group_slots, pool_limit)
     CROSS JOIN
        -- include: acquired_rules
     CROSS JOIN LATERAL (
        SELECT t.ctid AS row, t.next_fire_time AS scheduled_time, t.priority, t.max_concurrent,
               t.job_type, t.placement, t.prev_fire_time AS previous_time, t.coalesced_fire_times,
               -- include: key_hash
               AS key_hash,
               t.upcoming_is_complete OR cardinality(t.upcoming) > 0 AS is_filled
          FROM qrtz_triggers t
         WHERE t.sched_name = :'sched' AND t.slot_pool = slots.slot_pool
           AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
           AND t.next_fire_time <= node.at + :'look_ahead'::interval
           -- What a rate limit has admitted may be due at any time.
           AND t.next_fire_time >= CASE WHEN :'admits'::bool AND rule.name = 'IGNORE' THEN '-infinity' ELSE slots.since END
           -- include: is_in_time
           -- include: is_not_refused
         ORDER BY t.next_fire_time, t.priority DESC
         LIMIT slots.pool_limit
           FOR NO KEY UPDATE OF t SKIP LOCKED
     ) AS of_range
),
-- The triggers that this node can take.
candidates AS MATERIALIZED (
    SELECT *
      FROM (SELECT front.*
\if :several_pools
                   , row_number() OVER (PARTITION BY executor
                                          ORDER BY scheduled_time, priority DESC, row) AS executor_rank,
                   row_number() OVER (PARTITION BY execution_group
                                          ORDER BY scheduled_time, priority DESC, row) AS group_rank
\endif
              FROM front
             WHERE
                -- include: has_said
             ) AS ranked
\if :several_pools
     WHERE executor_rank <= workers AND group_rank <= group_slots
\endif
     ORDER BY scheduled_time, priority DESC, row
     LIMIT :'limit'::int
),
-- A trigger fires and moves on to the next of its upcoming fire times, or to COMPLETE where there is none. One that is
-- not filled does not change. Nor does a trigger whose job has got a limit, for the other statement. A trigger that
-- catches up does so until its next fire time is later than the end of the catch-up.
advanced AS (
    UPDATE qrtz_triggers t
       SET trigger_state = CASE WHEN d.is_filled AND cardinality(t.upcoming) = 0 THEN 'COMPLETE' ELSE 'WAITING' END,
           fire_id = CASE WHEN d.is_filled AND cardinality(t.upcoming) = 0 THEN d.fire_id END,
           prev_fire_time = CASE WHEN d.is_filled THEN t.next_fire_time ELSE t.prev_fire_time END,
           next_fire_time = CASE WHEN d.is_filled THEN t.upcoming[1] ELSE t.next_fire_time END,
           upcoming = CASE WHEN d.is_filled THEN t.upcoming[2:] ELSE t.upcoming END,
           coalesced_fire_times = CASE WHEN NOT d.is_filled THEN t.coalesced_fire_times END,
           admission = CASE WHEN NOT d.is_filled THEN t.admission END,
           catch_up_until = CASE WHEN t.catch_up_until
                                      >= CASE WHEN d.is_filled THEN t.upcoming[1] ELSE t.next_fire_time END
                                 THEN t.catch_up_until END,
           times_triggered = t.times_triggered + d.is_filled::int
      FROM (SELECT *, nextval('qrtz_fire_ids') AS fire_id FROM candidates
             WHERE max_concurrent IS NULL) AS d
     WHERE t.ctid = d.row
    RETURNING CASE WHEN d.is_filled THEN 'FIRE' ELSE 'REFILL' END AS decision, d.fire_id AS given_fire_id,
              greatest(d.at, d.scheduled_time) AS at,
              d.scheduled_time, d.previous_time, d.coalesced_fire_times AS coalesced,
              t.trigger_group, t.trigger_name, t.generation, t.job_group, t.job_name, t.job_type,
              t.next_fire_time, t.upcoming, t.upcoming_is_complete, t.times_triggered, t.attempt, t.max_concurrent,
              t.overlap_policy, t.concurrency_key, t.placement, t.job_data, t.kind, t.schedule, t.description,
              t.start_time, t.end_time, t.priority, t.misfire_instruction, t.misfire_threshold, t.calendar_name
),
-- include: claimed
           -- include: rest_of_job
-- include: from_advanced
-- include: stored
SELECT * FROM claimed ORDER BY scheduled_fire_time, priority DESC;

-- name: next_due
-- What waits for this node, without a lock. No row: the epoch is no longer registered.
WITH node AS MATERIALIZED (
    SELECT :now AS at, clock_timestamp() AS began FROM qrtz_scheduler_state
     WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint
),
-- The soonest trigger of each slot pool; of jobs with a limit; and whether this node has yet to say that it runs it.
waiting AS (
    SELECT slots.place, min(first_of_range.next_fire_time) AS soonest,
           min(first_of_range.next_fire_time) FILTER (WHERE first_of_range.max_concurrent IS NOT NULL) AS limited,
           bool_or(NOT EXISTS (SELECT FROM qrtz_node_keys k
                                WHERE k.epoch = :'epoch'::bigint AND k.job_type = first_of_range.job_type
                                  AND k.placement = first_of_range.placement AND k.runs OFFSET 0))
               FILTER (WHERE first_of_range.next_fire_time IS NOT NULL) AS is_undecided
      FROM node
     CROSS JOIN unnest(:'slot_pools'::text[], :'sinces'::timestamptz[]) WITH ORDINALITY AS slots(slot_pool, since, place)
     CROSS JOIN
        -- include: acquired_rules
      LEFT JOIN LATERAL (
            SELECT t.next_fire_time, t.max_concurrent, t.job_type, t.placement
              FROM qrtz_triggers t
             WHERE t.sched_name = :'sched' AND t.slot_pool = slots.slot_pool
               AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
               AND t.next_fire_time >= slots.since
               -- include: is_in_time
               -- include: is_not_refused
             ORDER BY t.next_fire_time
             LIMIT 1) AS first_of_range ON true
     GROUP BY slots.place
)
SELECT node.at,
       -- triggers that users' transactions have stored, and that no step has reconciled yet
       (SELECT min(n.next_fire_time) FROM qrtz_triggers n WHERE n.sched_name = :'sched' AND n.unreconciled = 'NEW'),
       of_pools.limited,
       EXISTS (SELECT FROM qrtz_job_details WHERE sched_name = :'sched'
                                                   AND (rate_limit IS NOT NULL OR limits IS NOT NULL)),
       -- Slot pools for which triggers wait and that this node has not met: the first between each two that it has, and
       -- behind the last. So the fronts of those that it has met are not read.
       ARRAY(SELECT following_met.slot_pool
               FROM unnest(:'met_pools'::text[], :'following_pools'::text[]) AS met(slot_pool, following)
              CROSS JOIN LATERAL (
                 SELECT t.slot_pool FROM qrtz_triggers t
                  WHERE t.sched_name = :'sched' AND t.trigger_state = 'WAITING'
                    AND t.slot_pool > met.slot_pool AND t.slot_pool < met.following
                  ORDER BY t.slot_pool LIMIT 1) AS following_met),
       of_pools.soonest,
       of_pools.is_undecided,
       extract(epoch FROM clock_timestamp() - node.began)::float8
  FROM node
 CROSS JOIN (SELECT coalesce(array_agg(soonest ORDER BY place), '{}') AS soonest, min(limited) AS limited,
                    coalesce(bool_or(is_undecided), false) AS is_undecided
               FROM waiting) AS of_pools;

-- name: undecided
-- The job types and placements among the soonest triggers of these slot pools about which this node has said nothing yet,
-- or says anew that it does not run them.
SELECT met.job_type, met.placement
  FROM (SELECT DISTINCT soonest.job_type, soonest.placement
          FROM unnest(:'slot_pools'::text[]) AS slots(slot_pool)
         CROSS JOIN
            (VALUES ('NODE'), ('OWN'), ('IGNORE'), ('RATE_LIMIT'), ('LATE')) AS rule(name)
         CROSS JOIN LATERAL (
            SELECT t.job_type, t.placement
              FROM qrtz_triggers t
             WHERE t.sched_name = :'sched' AND t.slot_pool = slots.slot_pool
               AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
               -- include: is_not_refused
             ORDER BY t.next_fire_time
             LIMIT 5000) AS soonest) AS met
 WHERE NOT EXISTS (SELECT FROM qrtz_node_keys k
                    WHERE k.epoch = :'epoch'::bigint AND k.job_type = met.job_type AND k.placement = met.placement
                      AND k.runs OFFSET 0);

-- name: reconcile_new
-- Compares the triggers that users' transactions have committed since with the current pauses, running executions and
-- jobs. Such a transaction takes no lock, so it stores its triggers as NEW (HELD if they are paused afterwards), and no
-- other step takes such triggers. Locked rows are reconciled later, and those of locked
-- jobs: the statement that follows in this transaction updates a trigger again, and the foreign key of a row that the
-- transaction itself has written is checked once more, which would wait for the job.
UPDATE qrtz_triggers t
   SET trigger_state = j.new_state, held_by_mode = j.new_hold, unreconciled = NULL,
       job_type = j.job_type, max_concurrent = j.max_concurrent, overlap_policy = j.overlap_policy,
       placement = j.placement, concurrency_key = j.new_key, rate_limit = j.rate_limit, limits = j.limits,
       -- include: admission_of_job
  FROM (SELECT o.row, j.*, own.new_key,
               CASE WHEN o.trigger_state IN ('WAITING', 'PAUSED', 'BLOCKED', 'PAUSED_BLOCKED') THEN
                    -- include: new_state
                    ELSE o.trigger_state END AS new_state,
               -- Leaving a mode resumes the triggers that only the mode pauses.
               NOT usual.is_so AND NOT checked.group_is_paused AND checked.mode_forbids AS new_hold
          FROM (SELECT
                -- include: ordinary
                AS is_so) AS usual
         CROSS JOIN (
            SELECT n.ctid AS row, n.trigger_group, n.job_group, n.job_name, n.trigger_state, n.job_data
              FROM qrtz_triggers n
             WHERE n.sched_name = :'sched' AND n.unreconciled = 'NEW'
             ORDER BY n.next_fire_time
             LIMIT 500
               FOR NO KEY UPDATE SKIP LOCKED) AS o
         CROSS JOIN LATERAL (
            SELECT d.job_type, d.max_concurrent, d.overlap_policy, d.placement, d.concurrency_key, d.rate_limit,
                   d.limits, d.job_data
              FROM qrtz_job_details d
             WHERE d.sched_name = :'sched' AND d.job_group = o.job_group AND d.job_name = o.job_name
             LIMIT 1
               FOR NO KEY UPDATE SKIP LOCKED) AS j
         -- include: checked
       ) AS j
 WHERE t.ctid = j.row;
