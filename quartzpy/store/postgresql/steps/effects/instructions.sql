-- The planner is steered here: see docs/planner.md.

-- name: hold_triggers
-- Holds the triggers to which the instructions of jobs apply, or which an end moves, and their jobs. The trigger may be
-- updated twice, by several statements; then its foreign key is checked, although the key does not change, and the check
-- would wait for the job.
WITH
-- include: ended
requests AS MATERIALIZED (
    SELECT e.fire_id, about.trigger_group, about.trigger_name, e.job_group, e.job_name
      FROM unnest(:'fire_ids'::bigint[], :'all'::bool[]) AS a(fire_id, all_triggers)
      JOIN ended e USING (fire_id)
     CROSS JOIN LATERAL (
        SELECT o.trigger_group, o.trigger_name FROM qrtz_triggers o
         WHERE a.all_triggers AND o.sched_name = :'sched' AND o.job_group = e.job_group AND o.job_name = e.job_name
        UNION ALL
        SELECT n.trigger_group, n.trigger_name
          FROM (SELECT o.trigger_group, o.trigger_name, o.generation FROM qrtz_triggers o
                 WHERE NOT a.all_triggers AND o.sched_name = :'sched' AND o.trigger_group = e.trigger_group
                   AND o.trigger_name = e.trigger_name
                 ORDER BY o.times_triggered DESC
                 LIMIT 1) AS n
         WHERE n.generation = e.generation) AS about
),
held_up AS MATERIALIZED (
    SELECT a.fire_id
      FROM requests a
      LEFT JOIN LATERAL (
        SELECT true AS is_free FROM qrtz_triggers o
         WHERE o.sched_name = :'sched' AND o.trigger_group = a.trigger_group AND o.trigger_name = a.trigger_name
         ORDER BY o.times_triggered DESC
         LIMIT 1
           FOR NO KEY UPDATE SKIP LOCKED) AS t ON true
      LEFT JOIN LATERAL (
        SELECT true AS is_free FROM qrtz_job_details o
         WHERE o.sched_name = :'sched' AND o.job_group = a.job_group AND o.job_name = a.job_name
           FOR NO KEY UPDATE SKIP LOCKED) AS j ON true
     WHERE t.is_free IS NULL OR j.is_free IS NULL
)
-- include: unrecorded
;

-- name: set_states
-- Follows the instructions of ended jobs: a state for the trigger that fired them (its generation), or for all triggers
-- of the job. The instructions of fenced executions are ignored.
WITH requests AS (
    SELECT e.trigger_group, e.trigger_name, e.generation, e.job_group, e.job_name, e.error, a.all_triggers, a.state
      FROM unnest(:'fire_ids'::bigint[], :'all'::bool[], :'states'::text[]) AS a(fire_id, all_triggers, state)
     -- include: own_record
),
locked AS (
    SELECT c.*, e.state, e.error
      FROM (SELECT * FROM requests WHERE NOT all_triggers) AS e
     -- include: newest
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row FROM qrtz_triggers o
         WHERE o.ctid = newest.row AND o.generation = e.generation
           FOR NO KEY UPDATE SKIP LOCKED) AS c
    UNION ALL
    SELECT c.*, a.state, a.error
      FROM requests a
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row FROM qrtz_triggers o
         WHERE a.all_triggers AND o.sched_name = :'sched' AND o.job_group = a.job_group AND o.job_name = a.job_name
           FOR NO KEY UPDATE SKIP LOCKED) AS c
)
UPDATE qrtz_triggers t
   SET trigger_state = locked.state, fire_id = NULL,
       error = CASE locked.state WHEN 'ERROR' THEN coalesce(locked.error, :'not_failed') END,
       -- include: prepared_once
  FROM locked
 WHERE t.ctid = locked.row;

-- name: delete_triggers
-- Deletes the triggers that ended jobs asked to delete. As above, only the generation that fired.
DELETE FROM qrtz_triggers t
 USING unnest(:'fire_ids'::bigint[]) AS a(fire_id)
 -- include: own_record
 -- include: newest
 CROSS JOIN LATERAL (
    SELECT o.ctid AS row FROM qrtz_triggers o
     WHERE o.ctid = newest.row AND o.generation = e.generation
       FOR UPDATE SKIP LOCKED) AS own
 WHERE t.ctid = own.row;
