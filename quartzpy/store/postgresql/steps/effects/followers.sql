-- The planner is steered here: see docs/planner.md.

-- name: hold_followers
-- Holds the jobs to run after the executions that end for good (a failure that is retried is no end yet), for the same
-- reason as those of the jobs that run again.
WITH
-- include: ended
held_up AS (
    SELECT e.fire_id
      FROM (SELECT * FROM ended WHERE retry_at IS NULL) AS e
     CROSS JOIN LATERAL (
        SELECT o.continuations FROM qrtz_job_details o
         WHERE o.sched_name = :'sched' AND o.job_group = e.job_group AND o.job_name = e.job_name LIMIT 1) AS own
     CROSS JOIN LATERAL jsonb_array_elements(own.continuations) AS link(spec)
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row FROM qrtz_job_details o
         WHERE o.sched_name = :'sched' AND o.job_group = link.spec ->> 'job_group'
           AND o.job_name = link.spec ->> 'job_name' LIMIT 1) AS target
      LEFT JOIN LATERAL (
        SELECT true AS is_free FROM qrtz_job_details o
         WHERE o.ctid = target.row FOR NO KEY UPDATE SKIP LOCKED) AS follower ON true
     WHERE jsonb_exists(link.spec -> 'outcomes', e.outcome) AND follower.is_free IS NULL
)
-- include: unrecorded
;

-- name: start_followers
-- Starts them. What is held before is not passed over: were a link to have come in between, this waits for its job.
WITH
-- include: ended
followers AS MATERIALIZED (
    SELECT e.fire_id, link.place, link.spec -> 'data' AS link_data, j.*
      FROM (SELECT * FROM ended WHERE retry_at IS NULL) AS e
     CROSS JOIN LATERAL (
        SELECT o.continuations FROM qrtz_job_details o
         WHERE o.sched_name = :'sched' AND o.job_group = e.job_group AND o.job_name = e.job_name LIMIT 1) AS own
     CROSS JOIN LATERAL jsonb_array_elements(own.continuations) WITH ORDINALITY AS link(spec, place)
     CROSS JOIN LATERAL (
        SELECT j.job_group, j.job_name,
               -- include: copied_of_j
               , j.mode, j.concurrency_key, j.job_data
          FROM qrtz_job_details j
         WHERE j.sched_name = :'sched' AND j.job_group = link.spec ->> 'job_group'
           AND j.job_name = link.spec ->> 'job_name'
           FOR NO KEY UPDATE) AS j
     WHERE jsonb_exists(link.spec -> 'outcomes', e.outcome)
),
successors AS (
    SELECT l.*,
           -- include: nominal_of_f
           AS instant
      FROM followers l
      JOIN ended AS f USING (fire_id)
),
continued AS (
    -- include: continued
      JOIN ended AS f USING (fire_id)
    RETURNING trigger_state, next_fire_time
),
waiting AS (SELECT next_fire_time FROM continued WHERE trigger_state = 'WAITING')
-- include: wakes
;
