-- What waits for this node, without a lock. No row: the epoch is no longer registered.
WITH RECURSIVE node AS MATERIALIZED (
    SELECT clock_timestamp() AS at, clock_timestamp() AS began FROM qrtz_scheduler_state
     WHERE sched_name = %(sched)s AND instance_id = %(instance)s AND epoch = %(epoch)s::bigint
),
-- The dispatch keys with a placement for which triggers wait, by a loose index scan.
placed AS (
    (SELECT placement, job_type FROM qrtz_triggers
      WHERE sched_name = %(sched)s AND trigger_state = 'WAITING' AND placement <> ''
      ORDER BY placement, job_type LIMIT 1)
    UNION ALL
    SELECT other.placement, other.job_type
      FROM placed p
     CROSS JOIN LATERAL (
        SELECT t.placement, t.job_type FROM qrtz_triggers t
         WHERE t.sched_name = %(sched)s AND t.trigger_state = 'WAITING' AND t.placement <> ''
           AND (t.placement, t.job_type) > (p.placement, p.job_type)
         ORDER BY t.placement, t.job_type LIMIT 1) AS other
)
SELECT node.at,
       -- triggers that users' transactions have stored, and that no step has reconciled yet
       (SELECT min(n.next_fire_time) FROM qrtz_triggers n WHERE n.sched_name = %(sched)s AND n.misfire_rule = 'NEW'),
       known.soonest, known.soonest_limited,
       EXISTS (SELECT FROM qrtz_job_details WHERE sched_name = %(sched)s AND rate_limit IS NOT NULL),
       ARRAY(SELECT job_type FROM placed), ARRAY(SELECT placement FROM placed),
       extract(epoch FROM clock_timestamp() - node.began)::float8
  FROM node
 CROSS JOIN LATERAL (
    SELECT min(first_of_key.next_fire_time) AS soonest,
           min(first_of_key.next_fire_time) FILTER (WHERE first_of_key.max_concurrent IS NOT NULL) AS soonest_limited
      FROM unnest(%(job_types)s::text[], %(placements)s::text[]) AS dispatch_key(job_type, placement)
     CROSS JOIN (VALUES ('SCHEDULER'), ('OWN'), ('IGNORE')) AS rule(name)
     CROSS JOIN LATERAL (
        SELECT t.next_fire_time, t.max_concurrent
          FROM qrtz_triggers t
         WHERE t.sched_name = %(sched)s AND t.job_type = dispatch_key.job_type
           AND t.placement = dispatch_key.placement
           AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
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
     ) AS first_of_key) AS known
