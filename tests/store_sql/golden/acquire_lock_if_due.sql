-- Takes the lock of the acquire step if a trigger without a limit is due, and unless another transaction has the lock.
-- A lock writes to the log of the server, so a node that would find nothing does not take it.
WITH
-- The guard of the step. It is empty if this epoch is no longer registered, and then all that follows is empty, too.
-- `at` is the one instant by which the whole step decides.
node AS MATERIALIZED (
    SELECT clock_timestamp() AS at FROM qrtz_scheduler_state
     WHERE sched_name = %(sched)s AND instance_id = %(instance)s AND epoch = %(epoch)s::bigint
)
SELECT 1
  FROM qrtz_locks
 WHERE sched_name = %(sched)s AND lock_name = 'TRIGGER_ACCESS'
   AND EXISTS (
    SELECT FROM node
     CROSS JOIN unnest(%(job_types)s::text[], %(placements)s::text[]) AS dispatch_key(job_type, placement)
     CROSS JOIN (VALUES ('SCHEDULER'), ('OWN'), ('IGNORE')) AS rule(name)
     CROSS JOIN LATERAL (
        SELECT t.max_concurrent
          FROM qrtz_triggers t
         WHERE t.sched_name = %(sched)s AND t.job_type = dispatch_key.job_type
           AND t.placement = dispatch_key.placement
           AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
           AND t.next_fire_time <= node.at + %(look_ahead)s::interval
           AND t.next_fire_time >= %(since)s::timestamptz
           -- include: is_in_time
           -- It is no misfire; as a range of the index.
           AND t.next_fire_time >= CASE rule.name
                   WHEN 'SCHEDULER' THEN node.at - %(threshold)s::interval ELSE '-infinity' END
           AND (rule.name <> 'OWN' OR t.next_fire_time >= node.at - t.misfire_threshold)
           AND t.generation <> ALL(%(passed_over)s::bigint[])
           -- end
         ORDER BY t.next_fire_time
         LIMIT 1
     ) AS first_of_key
     WHERE first_of_key.max_concurrent IS NULL)
   FOR UPDATE SKIP LOCKED
