-- What a worker of an engine does with the row of its execution. A ticket is good while its submission is the latest,
-- and while the epoch that fired it is registered. An execution that outlives its node needs no epoch: until another node
-- adopts it, nobody else has it. Each statement waits for who holds a row, and asks again what has become of it.

-- name: take
-- A ticket is taken once. The name is that of one call, which may try again because an answer was lost.
WITH taken AS (
    UPDATE qrtz_fired_triggers f
       SET worker = :'worker', worker_since = :now, worker_seen = :now
     WHERE f.fire_id = :'fire_id'::bigint AND f.sched_name = :'scheduler' AND f.submission = :'submission'::int
       AND f.ending IS NULL AND (f.worker IS NULL OR f.worker = :'worker')
       -- include: may_go_on
    RETURNING f.fire_id
)
SELECT EXISTS (SELECT FROM taken);

-- name: touch
-- Says that these executions run, and what they report. A row that does not come back is void.
UPDATE qrtz_fired_triggers f
   SET worker_seen = :now,
       progress = CASE WHEN w.reports THEN w.progress ELSE f.progress END,
       progress_message = CASE WHEN w.reports THEN w.message ELSE f.progress_message END,
       recent_log = coalesce(w.log, f.recent_log)
  FROM unnest(:'schedulers'::text[], :'fire_ids'::bigint[], :'submissions'::int[], :'reports'::bool[],
              :'fractions'::float8[], :'messages'::text[], :'logs'::text[])
       AS w(sched_name, fire_id, submission, reports, progress, message, log)
 WHERE f.fire_id = w.fire_id AND f.sched_name = w.sched_name AND f.submission = w.submission
   AND f.worker IS NOT NULL AND f.ending IS NULL
   -- include: may_go_on
RETURNING f.sched_name, f.fire_id, f.submission, f.cancel_requested;

-- name: stands
-- Fails, which rolls back what the job has done in this transaction, unless the ticket is still good. The row is held
-- until the COMMIT that follows: who settles the submission waits, and a recovery passes over it until its next pass.
WITH held AS (
    UPDATE qrtz_fired_triggers f
       SET worker_seen = :now
\if :ends
           , ending = :'ending'
\endif
     WHERE f.fire_id = :'fire_id'::bigint AND f.sched_name = :'scheduler' AND f.submission = :'submission'::int
       AND f.worker IS NOT NULL AND f.ending IS NULL
       -- include: may_go_on
    RETURNING f.fire_id
)
SELECT 1 / count(*) FROM held;

-- name: finish
-- Writes the ending. The same one may be written again: the answer to a first try may have been lost.
WITH finished AS (
    UPDATE qrtz_fired_triggers f
       SET ending = :'ending', worker_seen = :now
     WHERE f.fire_id = :'fire_id'::bigint AND f.sched_name = :'scheduler' AND f.submission = :'submission'::int
       AND f.worker IS NOT NULL AND (f.ending IS NULL OR f.ending = :'ending')
       -- include: may_go_on
    RETURNING f.fire_id
)
SELECT EXISTS (SELECT FROM finished);
