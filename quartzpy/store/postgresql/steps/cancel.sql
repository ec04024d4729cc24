-- name: request_cancel
UPDATE qrtz_fired_triggers SET cancel_requested = true
 WHERE fire_id = :'fire_id'::bigint AND sched_name = :'sched';

-- name: request_cancel_of_job
-- Sends one notification for all executions, and none if nothing is running. It waits for rows that are being
-- completed, or whose progress is being stored, because a request that passed over a row would be lost; an execution
-- that has ended by then is not reported. Two requests lock the rows in the same order, and completions wait for no
-- row.
WITH requested AS (
    UPDATE qrtz_fired_triggers f SET cancel_requested = true
      FROM (SELECT o.fire_id FROM qrtz_fired_triggers o
             WHERE o.sched_name = :'sched' AND o.job_group = :'group' AND o.job_name = :'name'
             ORDER BY o.fire_id
               FOR NO KEY UPDATE) AS held
     WHERE f.fire_id = held.fire_id
    RETURNING f.fire_id
),
notified AS (
    SELECT pg_notify(:'channel', 'cancelled') WHERE EXISTS (SELECT FROM requested)
)
SELECT fire_id FROM requested LEFT JOIN notified ON true;

-- name: cancel_requests
SELECT fire_id FROM qrtz_fired_triggers
 WHERE sched_name = :'sched' AND epoch = :'epoch'::bigint AND cancel_requested;
