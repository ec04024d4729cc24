-- The remaining claims: not due by the store's clock, or their rows are locked; and whether one of them was left because
-- its job has got a limit. No row: the epoch is no longer registered.
SELECT clock_timestamp(), ARRAY(SELECT f.fire_id FROM qrtz_fired_triggers f
                    WHERE f.fire_id = ANY(%(fire_ids)s::bigint[]) AND f.epoch = %(epoch)s::bigint
                      AND f.state = 'ACQUIRED'),
       EXISTS (SELECT FROM qrtz_fired_triggers f
                CROSS JOIN LATERAL (
                   SELECT o.max_concurrent FROM qrtz_triggers o
                    WHERE o.sched_name = f.sched_name AND o.trigger_group = f.trigger_group
                      AND o.trigger_name = f.trigger_name LIMIT 1) AS t
                WHERE f.fire_id = ANY(%(fire_ids)s::bigint[]) AND f.epoch = %(epoch)s::bigint
                  AND f.state = 'ACQUIRED' AND f.scheduled_time <= clock_timestamp() AND t.max_concurrent IS NOT NULL)
  FROM qrtz_scheduler_state
 WHERE sched_name = %(sched)s AND instance_id = %(instance)s AND epoch = %(epoch)s::bigint
