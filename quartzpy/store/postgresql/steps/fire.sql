-- The planner is steered here: see docs/planner.md.

-- name: fire
-- Fires the claims that are due. Without limits, triggers of jobs with a limit stay claimed. `acquire.sql` describes
-- the columns of `candidates` and `decisions`.
WITH
-- include: node
-- The claims to fire, with the fire times that follow; each array comes as a text.
requested AS (
    SELECT r.fire_id, r.following::timestamptz[] AS following, r.following_is_complete
      FROM unnest(:'fire_ids'::bigint[], :'following'::text[], :'complete'::bool[])
        AS r(fire_id, following, following_is_complete)
),
-- The claims that still stand and that are due by the clock of the step, with their triggers locked.
candidates AS MATERIALIZED (
    SELECT greatest(node.at, f.scheduled_time) AS at, t.row, t.job_group, t.job_name, t.concurrency_key,
           t.max_concurrent, t.overlap_policy, t.priority, t.next_fire_time AS scheduled_time,
           t.prev_fire_time AS previous_time, true AS is_due, r.following, r.following_is_complete,
           CASE WHEN t.overlap_policy IN ('buffer_one', 'cancel_other')
                THEN least((SELECT count(*) FROM unnest(r.following) AS u(instant) WHERE u.instant <= node.at),
                           cardinality(r.following) - CASE WHEN r.following_is_complete THEN 0 ELSE 1 END)::int
                ELSE 0 END AS also_due,
           t.coalesced_fire_times, r.fire_id, false AS overtakes
      FROM node
     CROSS JOIN requested r
      JOIN qrtz_fired_triggers f
        ON f.fire_id = r.fire_id AND f.epoch = :'epoch'::bigint AND f.state = 'ACQUIRED'
         AND f.scheduled_time <= node.at + :'early'::interval
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.*
          FROM qrtz_triggers o
         WHERE o.sched_name = :'sched' AND o.trigger_group = f.trigger_group AND o.trigger_name = f.trigger_name
           AND o.trigger_state || '' = 'ACQUIRED' AND o.fire_id = r.fire_id
\if :with_limits
\else
           AND o.max_concurrent IS NULL
\endif
           FOR NO KEY UPDATE SKIP LOCKED) AS t
       FOR UPDATE OF f SKIP LOCKED
),
\if :with_limits
-- include: limited
\else
-- Nothing holds up a job without a limit.
decisions AS (SELECT *, 'FIRE'::text AS decision FROM candidates),
\endif
-- include: advanced
-- include: claimed
           -- include: rest_of_job
-- include: from_advanced
-- The claim becomes the row of the execution.
started AS (
    UPDATE qrtz_fired_triggers f
       SET state = 'EXECUTING', fired_time = advanced.at, coalesced_fire_times = advanced.coalesced,
           concurrency_key = advanced.concurrency_key, max_concurrent = advanced.max_concurrent
      FROM advanced WHERE f.fire_id = advanced.given_fire_id AND advanced.decision = 'FIRE'
)
\if :with_limits
,
-- A fire that is skipped, or whose trigger waits for a slot, keeps no claim.
unclaimed AS (
    DELETE FROM qrtz_fired_triggers f USING advanced
     WHERE f.fire_id = advanced.given_fire_id AND advanced.decision <> 'FIRE'
),
-- include: overlaps
\endif
SELECT * FROM claimed ORDER BY scheduled_fire_time, priority DESC;
