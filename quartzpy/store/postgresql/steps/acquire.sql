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
-- - `coalesced_fire_times`, those that it coalesces already;
-- - `is_parked`: it waits at its gate; `runs_here`: this node may take it; `is_late`: it is the misfire step's.
--
-- `decisions` adds `decision`: FIRE, SKIP, PARK, UNPARK, or REFILL: the node computes more fire times of an unfilled
-- trigger. What stays as it is has no row.

-- name: acquire
-- Fires triggers of all jobs. Where all slots are of one executor and one group,
-- as on most nodes, `limit` is the only limit that counts, which saves two sorts.
--
-- A gate is a job with a limit and a value of its concurrency key. What finds no place at its gate is parked: BLOCKED, and
-- out of the index of waiting triggers. An end releases nothing. The node names the gates at which its executions have
-- ended (`opened_...`), and this step takes what is parked there together with the front, in one order. It counts under
-- the lock: either this step sees the end, or the one that parked a trigger beside it was before, and this one sees the
-- trigger.
\if :shared
--
-- A job has rates, too, and limits that it shares with others by their names, which are parts of the gate: it needs a
-- place at each. What finds one at its job's own limit, and none at the shared ones, is parked at their set. A rate is
-- charged here for what fires; while somebody is parked for it, `opens_at` tells when it admits the next one.
WITH RECURSIVE
\else
WITH
\endif
-- include: node
-- include: keys
,
-- The front of the index of waiting triggers, locked. Their fire times are at most `look_ahead` ahead, and not before
-- `since`. More may be read than the node takes, so that a node with few free workers gets past triggers of full jobs.
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
        SELECT
               -- include: candidate_columns
          FROM qrtz_triggers t
         -- include: passed_instants
         WHERE t.sched_name = :'sched' AND t.slot_pool = slots.slot_pool
           AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
           AND t.next_fire_time <= node.at + :'look_ahead'::interval
           AND t.next_fire_time >= slots.since
           -- include: is_in_time
           -- include: has_slots_only
           -- include: runs_here
         ORDER BY t.next_fire_time, t.priority DESC
         LIMIT slots.pool_limit
           FOR NO KEY UPDATE OF t SKIP LOCKED
     ) AS of_range
),
\if :shared
-- include: shared_limits
\endif
-- Their gates, and those that have opened, with what is free there. What is parked at a gate says its limit as well.
gates AS MATERIALIZED (
    SELECT row_number() OVER () AS gate, asked.job_group, asked.job_name, asked.concurrency_key,
\if :shared
           least(slots.free, CASE WHEN stored.is_held THEN 0 ELSE rate.admits END) AS free,
           coalesce(slots.free, 1000000) AS free_slots, rate.*, stored.tat, stored.opens_at, stored.is_held,
           parked.is_patient,
\else
           coalesce(asked.slots, parked.max_concurrent) - executions.running AS free,
\endif
           parked.overlap_policy AS policy_of_parked
      FROM (SELECT job_group, job_name, concurrency_key, min(slots) AS slots
\if :shared
                   , min(rate_limit::text)::jsonb AS rate_limit, bool_or(by_time) AS by_time
\endif
              FROM (SELECT job_group, job_name, concurrency_key, max_concurrent AS slots
\if :shared
                           , rate_limit, false AS by_time
                      FROM front WHERE num_nonnulls(max_concurrent, rate_limit) > 0
                     UNION ALL
                    SELECT job_group, job_name, concurrency_key, max_concurrent, rate_limit, false
                      FROM at_sets WHERE num_nonnulls(max_concurrent, rate_limit) > 0
                     UNION ALL
                    SELECT job_group, job_name, concurrency_key, NULL, NULL, by_time
                      FROM opened_gates WHERE job_name > '') AS named
\else
                      FROM front WHERE max_concurrent IS NOT NULL
                     UNION ALL
                    SELECT o.*, NULL
                      FROM node
                     CROSS JOIN unnest(:'opened_groups'::text[], :'opened_jobs'::text[], :'opened_keys'::text[])
                                AS o(job_group, job_name, concurrency_key)) AS named
\endif
             GROUP BY job_group, job_name, concurrency_key) AS asked
      LEFT JOIN LATERAL (
        SELECT p.max_concurrent, p.overlap_policy
\if :shared
               , p.rate_limit, num_nonnulls(p.rate_limit, p.limits) > 0 AS is_patient
\endif
          FROM qrtz_triggers p
         WHERE p.sched_name || '' = :'sched' AND p.job_group || '' = asked.job_group
           AND p.job_name || '' = asked.job_name AND p.concurrency_key || '' = asked.concurrency_key
           AND p.trigger_state = 'BLOCKED'
\if :shared
           AND coalesce(left(p.parked_at, 0), p.misfire_rule) > ''
\endif
         LIMIT 1) AS parked ON true
     CROSS JOIN LATERAL (
        SELECT count(*) AS running FROM qrtz_fired_triggers r
         WHERE r.sched_name = :'sched' AND r.job_group = asked.job_group AND r.job_name = asked.job_name
           AND r.concurrency_key = asked.concurrency_key AND r.max_concurrent IS NOT NULL
     ) AS executions
\if :shared
     CROSS JOIN node
     CROSS JOIN LATERAL (
        SELECT coalesce(asked.slots, parked.max_concurrent) - executions.running AS free,
               coalesce(asked.rate_limit, parked.rate_limit) AS rate_limit) AS slots
      LEFT JOIN LATERAL (
        SELECT o.tat, o.opens_at,
               -- include: is_held
               AS is_held
          FROM qrtz_limits o
         WHERE o.sched_name = :'sched' AND o.limit_name = '' AND o.job_group = asked.job_group
           AND o.job_name = asked.job_name AND o.concurrency_key = asked.concurrency_key
           AND (slots.rate_limit IS NOT NULL OR asked.by_time)
         LIMIT 1) AS stored ON true
     CROSS JOIN LATERAL (
        -- include: rate
       ) AS rate
\else
     WHERE coalesce(asked.slots, parked.max_concurrent) IS NOT NULL
\endif
),
-- The soonest that are parked at these, as many as may run, of each range of the index; the few that wait by another
-- overlap policy, all of them.
-- Those that are late are the misfire step's.
parked AS MATERIALIZED (
    SELECT node.at, of_gate.*, range.is_late
\if :shared
           , false AS reserves
\endif
      FROM node
     CROSS JOIN (SELECT * FROM gates WHERE policy_of_parked IS NOT NULL AND free > 0) AS g
     CROSS JOIN (VALUES ('NODE', false), ('OWN', false), ('IGNORE', false), ('NODE', true), ('OWN', true), ('LATE', true)) AS range(name, is_late)
     CROSS JOIN LATERAL (
        SELECT t.slot_pool, t.generation,
               -- include: is_not_run
               AS is_foreign,
               -- include: candidate_columns
          FROM qrtz_triggers t
         -- include: passed_instants
         WHERE t.sched_name || '' = :'sched' AND t.job_group || '' = g.job_group AND t.job_name || '' = g.job_name
           AND t.concurrency_key || '' = g.concurrency_key AND t.trigger_state = 'BLOCKED'
           AND
               -- include: held_lane
               = range.name
           AND t.next_fire_time >= CASE WHEN range.name = 'NODE' AND NOT range.is_late
\if :shared
                                             AND NOT g.is_patient
\endif
                                        THEN node.at - :'threshold'::interval ELSE '-infinity' END
           AND t.next_fire_time < CASE WHEN range.name = 'NODE' AND range.is_late
                                       THEN node.at - :'threshold'::interval ELSE 'infinity' END
           -- include: has_slots_only
           AND (range.name <> 'OWN' OR (t.next_fire_time < node.at - t.misfire_threshold) = range.is_late
\if :shared
                OR g.is_patient
\endif
               )
         ORDER BY t.next_fire_time, t.priority DESC
         LIMIT CASE g.policy_of_parked WHEN 'block' THEN g.free ELSE 1000 END
           FOR NO KEY UPDATE OF t SKIP LOCKED) AS of_gate
\if :shared
     -- What has waited for a rate or a shared limit is not late.
     WHERE NOT (g.is_patient AND range.is_late AND range.name <> 'LATE')
    UNION ALL
    SELECT * FROM at_sets
\endif
),
-- All of these. What is parked of a slot pool or a type that this node does not run, or is late, waits for others.
candidates AS MATERIALIZED (
    SELECT greatest(front.at, scheduled_time) AS at, row, scheduled_time, priority, max_concurrent, job_group, job_name,
           concurrency_key, overlap_policy, previous_time, following, following_is_complete, coalesced_fire_times,
           also_due, is_filled, false AS is_parked, true AS runs_here, false AS is_late
\if :shared
           , rate_limit, limits, NULL::text AS parked_at, false AS reserves
\endif
\if :several_pools
           , executor, workers, execution_group, group_slots
\endif
      FROM front
    UNION ALL
    SELECT greatest(parked.at, scheduled_time), row, scheduled_time, priority, max_concurrent, job_group, job_name,
           concurrency_key, overlap_policy, previous_time, following, following_is_complete, coalesced_fire_times,
           also_due, is_filled, true,
           slots.slot_pool IS NOT NULL AND NOT is_late AND NOT is_foreign
               AND scheduled_time <= parked.at + :'look_ahead'::interval
               AND generation <> ALL(:'passed_over'::bigint[]),
           is_late
\if :shared
           , rate_limit, limits, parked_at, reserves
\endif
\if :several_pools
           , slots.executor, slots.workers, slots.execution_group, slots.group_slots
\endif
      FROM parked
      LEFT JOIN unnest(:'slot_pools'::text[], :'executors'::text[], :'workers'::int[], :'groups'::text[],
                       :'group_slots'::int[])
                AS slots(slot_pool, executor, workers, execution_group, group_slots)
             ON slots.slot_pool = parked.slot_pool
),
-- include: placed
-- What this node has room for: what may fire here, or be skipped.
taken AS MATERIALIZED (
    SELECT *,
           -- include: may
\if :several_pools
              AND executor_rank <= workers AND group_rank <= group_slots
\endif
              AS fits
      FROM (SELECT placed.*
\if :several_pools
                   , row_number() OVER (PARTITION BY executor,
                                                     -- include: may
                                            ORDER BY scheduled_time, priority DESC, row) AS executor_rank,
                   row_number() OVER (PARTITION BY execution_group,
                                                   -- include: may
                                          ORDER BY scheduled_time, priority DESC, row) AS group_rank
\endif
              FROM placed) AS ranked
),
-- include: decisions
-- include: advanced
-- include: handed
           -- include: rest_of_job
-- include: from_advanced
-- include: stored
,
-- include: overlaps
,
\if :shared
-- include: charged
,
\endif
-- Another node may take what this one does not.
notified AS (
    SELECT pg_notify(:'channel', 'scheduled') FROM advanced WHERE decision = 'UNPARK' LIMIT 1
)
SELECT * FROM handed
 WHERE (SELECT count(*) FROM notified) >= 0
 ORDER BY scheduled_fire_time, priority DESC;

-- name: acquire_unlimited
-- Fires triggers of jobs without a limit. For one executor and one group as in `acquire`.
WITH
-- include: node
-- include: keys
,
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
        SELECT t.ctid AS row, t.next_fire_time AS scheduled_time, t.priority,
               num_nonnulls(t.max_concurrent, t.rate_limit, t.limits) > 0 AS is_limited,
               t.prev_fire_time AS previous_time, t.coalesced_fire_times,
               t.upcoming_is_complete OR cardinality(t.upcoming) > 0 AS is_filled
          FROM qrtz_triggers t
         WHERE t.sched_name = :'sched' AND t.slot_pool = slots.slot_pool
           AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
           AND t.next_fire_time <= node.at + :'look_ahead'::interval
           AND t.next_fire_time >= slots.since
           -- include: is_in_time
           -- include: runs_here
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
              FROM front) AS ranked
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
           catch_up_until = CASE WHEN t.catch_up_until
                                      >= CASE WHEN d.is_filled THEN t.upcoming[1] ELSE t.next_fire_time END
                                 THEN t.catch_up_until END,
           times_triggered = t.times_triggered + d.is_filled::int
      FROM (SELECT *, nextval('qrtz_fire_ids') AS fire_id FROM candidates
             WHERE NOT is_limited) AS d
     WHERE t.ctid = d.row
    RETURNING CASE WHEN d.is_filled THEN 'FIRE' ELSE 'REFILL' END AS decision, d.fire_id AS given_fire_id,
              greatest(d.at, d.scheduled_time) AS at,
              d.scheduled_time, d.previous_time, d.coalesced_fire_times AS coalesced,
              t.trigger_group, t.trigger_name, t.generation, t.job_group, t.job_name, t.job_type,
              t.next_fire_time, t.upcoming, t.upcoming_is_complete, t.times_triggered, t.attempt, t.max_concurrent,
              t.overlap_policy, t.concurrency_key, t.placement, t.job_data, t.kind, t.schedule, t.description,
              t.start_time, t.end_time, t.priority, t.misfire_instruction, t.misfire_threshold, t.calendar_name,
              t.limits
),
-- include: handed
           -- include: rest_of_job
-- include: from_advanced
-- include: stored
SELECT * FROM handed ORDER BY scheduled_fire_time, priority DESC;

-- name: next_due
-- What waits for this node, without a lock. No row: the epoch is no longer registered.
WITH node AS MATERIALIZED (
    SELECT :now AS at, clock_timestamp() AS began FROM qrtz_scheduler_state
     WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint
),
-- include: keys
,
-- The soonest trigger of each range, and whether this node has yet to say whether it runs it.
waiting AS MATERIALIZED (
    SELECT slots.place, first_of_range.*
      FROM node
     CROSS JOIN unnest(:'slot_pools'::text[], :'sinces'::timestamptz[]) WITH ORDINALITY AS slots(slot_pool, since, place)
     CROSS JOIN
        -- include: acquired_rules
      LEFT JOIN LATERAL (
            SELECT t.next_fire_time, num_nonnulls(t.max_concurrent, t.rate_limit, t.limits) > 0 AS is_limited, t.job_type, t.placement,
                   -- include: is_not_run
                   AS is_undecided
              FROM qrtz_triggers t
             WHERE t.sched_name = :'sched' AND t.slot_pool = slots.slot_pool
               AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
               AND t.next_fire_time >= slots.since
               -- include: is_in_time
               -- This node has not said that it does not run such triggers.
               AND (NOT (SELECT refuses_some FROM keys)
                    OR ((SELECT refuses FROM keys))[width_bucket(
                           -- include: key_hash
                           , (SELECT refuses FROM keys))] IS DISTINCT FROM
                       -- include: key_hash
                   )
             ORDER BY t.next_fire_time
             LIMIT 1) AS first_of_range ON true
)
SELECT node.at,
       -- triggers that users' transactions have stored, and that no step has reconciled yet
       (SELECT min(n.next_fire_time) FROM qrtz_triggers n WHERE n.sched_name = :'sched' AND n.unreconciled = 'NEW'),
       (SELECT min(next_fire_time) FROM waiting WHERE is_limited),
       -- A limit opens at its instant, and not ahead of it.
       (SELECT min(l.opens_at) + :'look_ahead'::interval FROM qrtz_limits l
         WHERE l.sched_name = :'sched' AND l.opens_at IS NOT NULL),
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
       ARRAY(SELECT min(w.next_fire_time) FROM waiting w GROUP BY w.place ORDER BY w.place),
       ARRAY(SELECT w.job_type FROM waiting w WHERE w.is_undecided ORDER BY w.job_type, w.placement),
       ARRAY(SELECT w.placement FROM waiting w WHERE w.is_undecided ORDER BY w.job_type, w.placement),
       extract(epoch FROM clock_timestamp() - node.began)::float8
  FROM node;

-- name: reconcile_new
-- Compares the triggers that users' transactions have committed since with the current pauses, running executions and
-- jobs. Such a transaction takes no lock, so it stores its triggers as NEW (HELD if they are paused afterwards), and no
-- other step takes such triggers. Locked rows are reconciled later, and those of locked
-- jobs: the statement that follows in this transaction updates a trigger again, and the foreign key of a row that the
-- transaction itself has written is checked once more, which would wait for the job.
UPDATE qrtz_triggers t
   SET trigger_state = j.new_state, held_by_mode = j.new_hold, unreconciled = NULL,
       concurrency_key = j.new_key,
       -- include: becomes_of_j
  FROM (SELECT o.row, j.*, own.new_key,
               CASE WHEN o.trigger_state IN ('WAITING', 'PAUSED', 'BLOCKED') THEN
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
            SELECT
                   -- include: copied_of_j
                   , j.concurrency_key, j.job_data
              FROM qrtz_job_details j
             WHERE j.sched_name = :'sched' AND j.job_group = o.job_group AND j.job_name = o.job_name
             LIMIT 1
               FOR NO KEY UPDATE SKIP LOCKED) AS j
         -- include: checked
       ) AS j
 WHERE t.ctid = j.row;
