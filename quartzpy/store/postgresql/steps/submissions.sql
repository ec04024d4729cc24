-- The planner is steered here: see docs/planner.md.

-- A statement that changes rows waits for who holds them, and then sees what that has left: the conditions are asked
-- again of the new version of a row, which is looked up by its key and not by its place.

-- name: submit
-- Begins submissions. One whose ticket somebody has taken stays as it is, or the job would run twice. The first number is
-- random: an engine that serves several databases has names of calls from all of them, in each of which fire ids begin
-- at 1. No row: the epoch is no longer registered.
WITH changed AS (
    UPDATE qrtz_fired_triggers f
       SET submission = coalesce(f.submission, floor(random() * 2000000000)::int) + 1, outlives_node = w.outlives_node, worker = NULL,
           worker_since = NULL, worker_seen = NULL, ending = NULL
      FROM unnest(:'fire_ids'::bigint[], :'outlives'::bool[], :'refires'::bool[])
           AS w(fire_id, outlives_node, is_refire)
     WHERE f.fire_id = w.fire_id AND f.sched_name = :'sched' AND f.epoch = :'epoch'::bigint
       AND CASE WHEN f.ending IS NULL THEN f.worker IS NULL ELSE w.is_refire END
       AND EXISTS (
        -- include: registered
        OFFSET 0)
    RETURNING f.fire_id, f.submission
)
SELECT ARRAY(SELECT fire_id FROM changed), ARRAY(SELECT submission FROM changed)
  FROM qrtz_scheduler_state
 WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint;

-- name: submitted
SELECT f.fire_id, f.submission, f.worker, extract(epoch FROM :now - f.worker_seen)::float8 AS silent_for, f.ending
  FROM unnest(:'fire_ids'::bigint[]) AS w(fire_id)
 CROSS JOIN LATERAL (
    SELECT o.* FROM qrtz_fired_triggers o
     WHERE o.fire_id = w.fire_id AND o.sched_name = :'sched' AND o.epoch = :'epoch'::bigint
       AND o.submission IS NOT NULL LIMIT 1) AS f;

-- name: settle
-- Makes submissions void that have not ended. The worker is not forgotten: what it has begun must not begin again. One that
-- is void already stays so, because the answer to an earlier call may have been lost.
-- No row: the epoch is no longer registered.
WITH changed AS (
    UPDATE qrtz_fired_triggers f
       SET submission = f.submission + CASE WHEN f.submission = w.submission AND f.ending IS NULL THEN 1 ELSE 0 END
      FROM unnest(:'fire_ids'::bigint[], :'submissions'::int[]) AS w(fire_id, submission)
     WHERE f.fire_id = w.fire_id AND f.sched_name = :'sched' AND f.epoch = :'epoch'::bigint
       AND f.submission >= w.submission
       AND EXISTS (
        -- include: registered
        OFFSET 0)
    RETURNING f.fire_id, CASE WHEN f.submission = w.submission THEN f.ending END AS ending
)
SELECT ARRAY(SELECT fire_id FROM changed), ARRAY(SELECT ending FROM changed)
  FROM qrtz_scheduler_state
 WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint;

-- name: unknown
-- What the rows of this epoch say about the executions that its node does not know.
SELECT f.fire_id, f.submission, f.worker, extract(epoch FROM :now - f.worker_seen)::float8 AS silent_for, f.ending
  FROM qrtz_fired_triggers f
 WHERE f.sched_name = :'sched' AND f.epoch = :'epoch'::bigint AND f.submission IS NOT NULL
   AND f.fire_id <> ALL(:'executions'::bigint[]);
