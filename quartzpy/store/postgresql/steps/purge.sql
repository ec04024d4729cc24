-- The planner is steered here: see docs/planner.md.

-- name: purge_ended
-- Deletes triggers that a job or a misfire ended. Declared ones are kept: their owner would store them again.
DELETE FROM qrtz_triggers t
 USING (SELECT o.ctid AS row FROM qrtz_triggers o
         WHERE o.sched_name = :'sched' AND o.trigger_state = 'COMPLETE' AND o.fire_id IS NULL AND o.owner IS NULL
           AND coalesce(o.next_fire_time, o.prev_fire_time, o.start_time) < :now - :'older_than'::interval
         LIMIT :'limit'::int
           FOR UPDATE SKIP LOCKED) AS ended
 WHERE t.ctid = ended.row
RETURNING t.job_group, t.job_name;

-- name: purge
-- Deletes old history. The bound is a subquery, because an index condition cannot use a volatile expression such as the
-- clock; greatest() ignores a bound that is not set. A batch begins where the last one ended, so that it does not read
-- the dead entries of the index that were left by the batches before.
WITH deleted AS (
    DELETE FROM qrtz_executions
     WHERE ctid IN (SELECT ctid FROM qrtz_executions
                     WHERE sched_name = :'sched'
                       AND ended_at >= :'since'::timestamptz
                       AND ended_at < (SELECT greatest(:now - :'older_than'::interval, :'before'::timestamptz))
                     ORDER BY ended_at LIMIT :'limit'::int
                       FOR UPDATE SKIP LOCKED)
    RETURNING ended_at
)
SELECT count(*), max(ended_at) FROM deleted;

-- name: cutoff
-- The end of the first execution that is one too many, by a walk along the index without the rows.
SELECT ended_at FROM qrtz_executions
 WHERE sched_name = :'sched'
 ORDER BY ended_at DESC OFFSET :'keep'::bigint LIMIT 1;

-- name: purge_misfires
-- Deletes old misfires, of the oldest: their ids increase with time.
DELETE FROM qrtz_misfires
 WHERE sched_name = :'sched'
   AND id IN (SELECT id
                FROM (SELECT id, handled_at FROM qrtz_misfires
                       WHERE sched_name = :'sched' ORDER BY id LIMIT :'limit'::int) AS oldest
               WHERE handled_at < :now - :'older_than'::interval);

-- name: purge_actions
-- The same for the actions of operators.
DELETE FROM qrtz_audit
 WHERE sched_name = :'sched'
   AND id IN (SELECT id
                FROM (SELECT id, at FROM qrtz_audit
                       WHERE sched_name = :'sched' ORDER BY id LIMIT :'limit'::int) AS oldest
               WHERE at < :now - :'older_than'::interval);

-- name: purge_incidents
-- Deletes incidents that have been over for long, off the beginning of their index.
DELETE FROM qrtz_incidents
 WHERE ctid IN (SELECT ctid FROM qrtz_incidents
                 WHERE sched_name = :'sched' AND closed_at IS NOT NULL
                   AND closed_at < (SELECT :now - :'older_than'::interval)
                 ORDER BY closed_at LIMIT :'limit'::int
                   FOR UPDATE SKIP LOCKED);

-- name: purge_joins
-- Deletes joins and batches of which nothing has ended for long. A batch that waits is kept, however old it is.
DELETE FROM qrtz_joins
 WHERE ctid IN (SELECT ctid FROM qrtz_joins
                 WHERE sched_name || '' = :'sched' AND opened_at < (SELECT :now - :'older_than'::interval)
                   AND coalesce(last_end_at, opened_at) < (SELECT :now - :'older_than'::interval)
                   AND NOT (total IS NOT NULL AND state = 'WAITING')
                 ORDER BY opened_at LIMIT :'limit'::int
                   FOR UPDATE SKIP LOCKED);

-- name: purge_breaches
-- Deletes breaches that have been over for long, off the beginning of their index: those that last do not stand before
-- them.
DELETE FROM qrtz_breaches
 WHERE ctid IN (SELECT ctid FROM qrtz_breaches
                 WHERE sched_name = :'sched' AND over_at IS NOT NULL
                   AND over_at < (SELECT :now - :'older_than'::interval)
                 ORDER BY over_at LIMIT :'limit'::int
                   FOR UPDATE SKIP LOCKED);

-- name: purge_notifications
-- Deletes the notifications of long ago, off the beginning of their index.
DELETE FROM qrtz_notifications
 WHERE ctid IN (SELECT ctid FROM qrtz_notifications
                 WHERE sched_name || '' = :'sched' AND created_at < (SELECT :now - :'older_than'::interval)
                 ORDER BY created_at LIMIT :'limit'::int
                   FOR UPDATE SKIP LOCKED);

-- name: interrupt
-- Ends the actions of processes that have ended. The partial index of actions that did not succeed finds those that are
-- RUNNING.
UPDATE qrtz_audit
   SET state = 'INTERRUPTED', ended_at = updated_at, updated_at = NULL, error = :'error'
 WHERE sched_name = :'sched' AND state = 'RUNNING' AND state <> 'SUCCEEDED'
   AND updated_at < :now - :'silent_for'::interval
RETURNING id;

-- name: purge_limits
-- The states of the rates of jobs that mean nothing any more. The condition is repeated, so that it holds for the version
-- of the row that is deleted: old minor versions do not compare the ctid of a row that has changed.
DELETE FROM qrtz_limits
 WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM qrtz_limits
     WHERE sched_name = :'sched' AND limit_name = '' AND opens_at IS NULL AND coalesce(tat, '-infinity') <= :now
     LIMIT :'limit'::int FOR UPDATE SKIP LOCKED))
   AND opens_at IS NULL AND coalesce(tat, '-infinity') <= :now;
