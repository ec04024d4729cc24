-- Releases claims. A trigger becomes WAITING only if it is still ACQUIRED by the same claim. It notifies other nodes,
-- which may be asleep beyond its fire time.
WITH claimed AS (
    SELECT t.row, f.fire_id
      FROM qrtz_fired_triggers f
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row
          FROM qrtz_triggers o
         WHERE o.sched_name = f.sched_name AND o.trigger_group = f.trigger_group AND o.trigger_name = f.trigger_name
           AND o.trigger_state || '' = 'ACQUIRED' AND o.fire_id = f.fire_id
           FOR NO KEY UPDATE SKIP LOCKED) AS t
     WHERE f.sched_name = %(sched)s AND f.epoch = %(epoch)s::bigint AND f.state = 'ACQUIRED'
       AND f.fire_id = ANY(%(fire_ids)s::bigint[])
       FOR UPDATE OF f SKIP LOCKED
),
released AS (
    UPDATE qrtz_triggers t SET trigger_state = 'WAITING', fire_id = NULL
      FROM claimed
     WHERE t.ctid = claimed.row
    RETURNING claimed.fire_id
),
deleted AS (
    DELETE FROM qrtz_fired_triggers f USING released WHERE f.fire_id = released.fire_id
)
SELECT fire_id, pg_notify(%(channel)s, 'scheduled') FROM released
