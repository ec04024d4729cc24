-- The planner is steered here: see docs/planner.md.

-- name: report_progress
-- Stores what running executions report. Locked rows are skipped: a step that ends several executions locks their rows
-- in an order of its own.
UPDATE qrtz_fired_triggers f
   SET progress = coalesce(locked.progress, f.progress),
       progress_message = CASE WHEN locked.progress IS NULL THEN f.progress_message ELSE locked.message END,
       recent_log = coalesce(locked.log, f.recent_log)
  FROM (SELECT r.row, p.progress, p.message, p.log
          FROM unnest(:'fire_ids'::bigint[], :'fractions'::float8[], :'messages'::text[], :'logs'::text[])
               AS p(fire_id, progress, message, log)
         CROSS JOIN LATERAL (
            SELECT o.ctid AS row FROM qrtz_fired_triggers o
             WHERE o.fire_id = p.fire_id AND o.sched_name = :'sched' AND o.epoch = :'epoch'::bigint
               FOR NO KEY UPDATE SKIP LOCKED) AS r) AS locked
 WHERE f.ctid = locked.row
RETURNING f.fire_id;
