-- The planner is steered here: see docs/planner.md.

-- name: reset_node_deaths
-- Resets the node deaths of jobs of which an execution has now succeeded.
UPDATE qrtz_job_details j
   SET node_deaths = 0,
       -- include: prepared_once_of_job
  FROM (SELECT DISTINCT e.job_group, e.job_name
          FROM unnest(:'fire_ids'::bigint[]) AS a(fire_id)
          JOIN qrtz_executions e
            ON e.fire_id = a.fire_id AND e.instance_id = :'instance' AND e.outcome = 'SUCCEEDED') AS d
 CROSS JOIN LATERAL (
    SELECT o.ctid AS row FROM qrtz_job_details o
     WHERE o.sched_name = :'sched' AND o.job_group = d.job_group AND o.job_name = d.job_name
       AND NOT o.is_stopping
       FOR NO KEY UPDATE SKIP LOCKED) AS survivor
 WHERE j.ctid = survivor.row;

-- name: refill
-- Appends fire times if nothing else has: the schedule, the calendar and the last instant must be those from which they
-- were computed. The calendar is looked up by its key, because of OFFSET 0.
UPDATE qrtz_triggers t
   SET upcoming = t.upcoming || r.more::timestamptz[], upcoming_is_complete = r.is_complete,
       -- include: prepared_once
  FROM (SELECT x.row, w.more, w.is_complete
          FROM unnest(:'groups'::text[], :'names'::text[], :'generations'::bigint[], :'after'::timestamptz[],
                      :'further'::text[], :'complete'::bool[], :'revisions'::bigint[])
               AS w(trigger_group, trigger_name, generation, after, more, is_complete, revision)
         CROSS JOIN LATERAL (
            SELECT o.ctid AS row, o.job_group, o.job_name
              FROM qrtz_triggers o
             WHERE o.sched_name = :'sched' AND o.trigger_group = w.trigger_group
               AND o.trigger_name = w.trigger_name AND o.generation = w.generation
               AND coalesce(o.upcoming[cardinality(o.upcoming)], o.next_fire_time) = w.after
               AND NOT o.upcoming_is_complete
               AND (o.calendar_name IS NULL
                    OR EXISTS (SELECT FROM qrtz_calendars c
                                WHERE c.sched_name = o.sched_name AND c.calendar_name = o.calendar_name
                                  AND c.revision = w.revision
                               OFFSET 0))
               FOR NO KEY UPDATE SKIP LOCKED) AS x
\if :of_limited
         -- The end of an execution that counts for a limit may have released its trigger. A row that this transaction
         -- has written has its foreign key checked at the next update, so the job's row is locked, or the trigger
         -- passed over.
         CROSS JOIN LATERAL (
            SELECT FROM qrtz_job_details j
             WHERE j.sched_name = :'sched' AND j.job_group = x.job_group AND j.job_name = x.job_name
               FOR NO KEY UPDATE SKIP LOCKED) AS job
\endif
       ) AS r
 WHERE t.ctid = r.row;

-- name: move_by_end
-- Moves triggers whose next fire follows from the end of the execution. One that was moved in the meantime does not
-- change. The execution ends only if its trigger's row is free, so no row is skipped here whose execution has ended.
UPDATE qrtz_triggers t
   SET next_fire_time = w.next_fire_time,
       trigger_state = CASE WHEN w.next_fire_time IS NULL THEN 'COMPLETE' ELSE t.trigger_state END,
       -- include: prepared_once
  FROM unnest(:'fire_ids'::bigint[], :'expected'::timestamptz[], :'next'::timestamptz[])
           AS w(fire_id, expected, next_fire_time)
  JOIN qrtz_executions e ON e.fire_id = w.fire_id AND e.instance_id = :'instance' AND e.outcome <> 'TERMINATED'
 CROSS JOIN LATERAL (
    SELECT o.ctid AS row FROM qrtz_triggers o
     WHERE o.sched_name = :'sched' AND o.trigger_group = e.trigger_group AND o.trigger_name = e.trigger_name
       AND o.generation = e.generation AND o.next_fire_time = w.expected
       AND o.trigger_state || '' NOT IN ('ACQUIRED', 'COMPLETE')
       FOR NO KEY UPDATE SKIP LOCKED) AS own
 WHERE t.ctid = own.row;

-- name: set_states
-- Follows the instructions of ended jobs: a state for the trigger that fired them (its generation), or for all triggers
-- of the job. The instructions of fenced executions are ignored.
WITH requests AS (
    SELECT e.trigger_group, e.trigger_name, e.generation, e.job_group, e.job_name, e.error, a.all_triggers, a.state
      FROM unnest(:'fire_ids'::bigint[], :'all'::bool[], :'states'::text[]) AS a(fire_id, all_triggers, state)
      JOIN qrtz_executions e ON e.fire_id = a.fire_id AND e.instance_id = :'instance' AND e.outcome <> 'TERMINATED'
),
locked AS (
    SELECT c.*, a.state, a.error
      FROM requests a
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.fire_id FROM qrtz_triggers o
         WHERE NOT a.all_triggers AND o.sched_name = :'sched' AND o.trigger_group = a.trigger_group
           AND o.trigger_name = a.trigger_name AND o.generation = a.generation
           FOR NO KEY UPDATE SKIP LOCKED) AS c
    UNION ALL
    SELECT c.*, a.state, a.error
      FROM requests a
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.fire_id FROM qrtz_triggers o
         WHERE a.all_triggers AND o.sched_name = :'sched' AND o.job_group = a.job_group AND o.job_name = a.job_name
           FOR NO KEY UPDATE SKIP LOCKED) AS c
),
changed AS (
    UPDATE qrtz_triggers t
       SET trigger_state = locked.state, fire_id = NULL,
           error = CASE locked.state WHEN 'ERROR' THEN coalesce(locked.error, :'not_failed') END,
           -- include: prepared_once
      FROM locked
     WHERE t.ctid = locked.row
    RETURNING locked.fire_id
)
-- The claims on them are void. One whose row another transaction has locked stays. It no longer matches its trigger, so
-- it never fires, and its node deletes it when it tries to fire it, or at the next comparison of what it holds.
DELETE FROM qrtz_fired_triggers f
 USING changed
 -- include: void_claims
;

-- name: delete_triggers
-- Deletes the triggers that ended jobs asked to delete, with the claims on them. As above, only the generation that
-- fired, and no claim whose row is locked.
WITH deleted AS (
    DELETE FROM qrtz_triggers t
     USING unnest(:'fire_ids'::bigint[]) AS a(fire_id)
      JOIN qrtz_executions e ON e.fire_id = a.fire_id AND e.instance_id = :'instance' AND e.outcome <> 'TERMINATED'
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row FROM qrtz_triggers o
         WHERE o.sched_name = :'sched' AND o.trigger_group = e.trigger_group AND o.trigger_name = e.trigger_name
           AND o.generation = e.generation
           FOR UPDATE SKIP LOCKED) AS own
     WHERE t.ctid = own.row
    RETURNING t.fire_id
)
DELETE FROM qrtz_fired_triggers f
 USING deleted AS changed
 -- include: void_claims
;
