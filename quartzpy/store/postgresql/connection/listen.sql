-- The planner is steered here: see docs/planner.md.

-- name: notify
SELECT pg_notify(:'channel', :'news');

-- name: announce
-- Notifies nodes that may be asleep beyond these fire times. A node looks when the first trigger becomes due that it has
-- not refused to run. So an earlier trigger that no node has refused, or only nodes that have refused the new one too,
-- wakes everybody in time. It is looked for among the next ones that share the slots of the new one: if these are
-- refused, others may be far away. Rows that this transaction has written itself are recognised by their xmin. The
-- notification tells the soonest of these instants.
WITH clock AS MATERIALIZED (SELECT :now AS at),
refusing AS MATERIALIZED (
    SELECT refuses || '{}' AS refuses FROM qrtz_scheduler_state WHERE sched_name = :'sched' AND refuses <> '{}'
)
SELECT pg_notify(:'channel', :'news' || ':' || extract(epoch FROM min(w.at)))
  FROM clock
 CROSS JOIN (
        SELECT j.key_hash, min(j.slot_pool) AS slot_pool, min(o.at) AS at
          FROM unnest(:'groups'::text[], :'names'::text[], :'instants'::timestamptz[]) AS o(job_group, job_name, at)
         CROSS JOIN LATERAL (
            SELECT t.slot_pool,
                   -- include: key_hash
                   AS key_hash
              FROM qrtz_job_details t
             WHERE t.sched_name = :'sched' AND t.job_group = o.job_group AND t.job_name = o.job_name LIMIT 1) AS j
         GROUP BY j.key_hash) AS w
 WHERE w.at <= clock.at
    OR NOT EXISTS (
        SELECT FROM (VALUES ('NODE'), ('OWN'), ('IGNORE')) AS rule(name)
         CROSS JOIN LATERAL (
            SELECT
                   -- include: key_hash
                   AS key_hash
              FROM qrtz_triggers t
             WHERE t.sched_name = :'sched' AND t.slot_pool = w.slot_pool AND t.misfire_rule = rule.name
               AND t.trigger_state = 'WAITING' AND t.next_fire_time > clock.at AND t.next_fire_time <= w.at
               AND t.xmin <> pg_current_xact_id()::xid
             ORDER BY t.next_fire_time LIMIT 20) AS earlier
         WHERE NOT EXISTS (
            SELECT FROM refusing n
             WHERE n.refuses[width_bucket(earlier.key_hash, n.refuses)] = earlier.key_hash
               AND n.refuses[width_bucket(w.key_hash, n.refuses)] IS DISTINCT FROM w.key_hash OFFSET 0) OFFSET 0)
HAVING count(*) > 0;
