-- Follows the instructions of ended jobs: a state for the trigger that fired them (its generation), or for all triggers
-- of the job. The instructions of fenced executions are ignored.
WITH requests AS (
    SELECT e.trigger_group, e.trigger_name, e.generation, e.job_group, e.job_name, e.error, a.all_triggers, a.state
      FROM unnest(%(fire_ids)s::bigint[], %(all)s::bool[], %(states)s::text[]) AS a(fire_id, all_triggers, state)
      JOIN qrtz_executions e ON e.fire_id = a.fire_id AND e.epoch = %(epoch)s::bigint AND e.outcome <> 'TERMINATED'
),
locked AS (
    SELECT c.*, a.state, a.error
      FROM requests a
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.fire_id FROM qrtz_triggers o
         WHERE NOT a.all_triggers AND o.sched_name = %(sched)s AND o.trigger_group = a.trigger_group
           AND o.trigger_name = a.trigger_name AND o.generation = a.generation
           FOR NO KEY UPDATE SKIP LOCKED) AS c
    UNION ALL
    SELECT c.*, a.state, a.error
      FROM requests a
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.fire_id FROM qrtz_triggers o
         WHERE a.all_triggers AND o.sched_name = %(sched)s AND o.job_group = a.job_group AND o.job_name = a.job_name
           FOR NO KEY UPDATE SKIP LOCKED) AS c
),
changed AS (
    UPDATE qrtz_triggers t
       SET trigger_state = locked.state, fire_id = NULL,
           error = CASE locked.state WHEN 'ERROR' THEN coalesce(locked.error, %(not_failed)s) END
      FROM locked
     WHERE t.ctid = locked.row
    RETURNING locked.fire_id
)
-- The claims on them are void. One whose row another transaction has locked stays. It no longer matches its trigger, so
-- it never fires, and its node deletes it when it tries to fire it, or at the next comparison of what it holds.
DELETE FROM qrtz_fired_triggers f
 USING changed
 CROSS JOIN LATERAL (
    SELECT o.ctid AS row FROM qrtz_fired_triggers o
     WHERE o.fire_id = changed.fire_id AND o.state = 'ACQUIRED'
       FOR UPDATE SKIP LOCKED) AS void
 WHERE f.ctid = void.row
