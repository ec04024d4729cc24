-- The planner is steered here: see docs/planner.md.

-- name: suspects
-- The soonest triggers that an acquire step may look at, under any rule.
WITH
-- include: keys
SELECT t.generation, t.trigger_group, t.trigger_name
  FROM qrtz_triggers t
 WHERE t.sched_name = :'sched' AND t.trigger_state = 'WAITING' AND t.slot_pool = ANY(:'slot_pools'::text[])
   -- include: runs_here
   AND t.next_fire_time <= :now + :'look_ahead'::interval AND t.generation <> ALL(:'passed_over'::bigint[])
 ORDER BY t.next_fire_time
 LIMIT :'most'::int;

-- name: set_aside
-- Puts those that are to blame into ERROR, if this epoch is still registered.
UPDATE qrtz_triggers t
   SET trigger_state = 'ERROR', error = bad.reason,
       -- include: prepared_once
  FROM (SELECT mine.row, b.reason
          FROM unnest(:'groups'::text[], :'names'::text[], :'generations'::bigint[], :'reasons'::text[])
               AS b(trigger_group, trigger_name, generation, reason)
         CROSS JOIN LATERAL (
            SELECT o.ctid AS row FROM qrtz_triggers o
             WHERE o.sched_name = :'sched' AND o.trigger_group = b.trigger_group AND o.trigger_name = b.trigger_name
               AND o.generation = b.generation AND o.trigger_state || '' = 'WAITING'
               FOR NO KEY UPDATE SKIP LOCKED) AS mine
         WHERE EXISTS (SELECT FROM qrtz_scheduler_state s
                        WHERE s.sched_name = :'sched' AND s.instance_id = :'instance' AND s.epoch = :'epoch'::bigint)
       ) AS bad
 WHERE t.ctid = bad.row
RETURNING t.trigger_name;

-- name: rates_of_parked
SELECT DISTINCT rate_limit::text FROM qrtz_triggers
 WHERE sched_name || '' = :'sched' AND trigger_state = 'BLOCKED' AND rate_limit IS NOT NULL
 LIMIT :'most'::int;

-- name: compute_rates
-- Fails as the steps do that meet one of them.
SELECT rate.admits
  FROM (SELECT :now AS at) AS node
 CROSS JOIN unnest(:'rates'::text[]::jsonb[]) AS slots(rate_limit)
 CROSS JOIN (SELECT NULL::timestamptz AS tat) AS stored
 CROSS JOIN LATERAL (
    -- include: rate
   ) AS rate;

-- name: set_aside_parked
-- As `set_aside`, for what is parked with such a rate.
UPDATE qrtz_triggers t
   SET trigger_state = 'ERROR', error = bad.reason,
       -- include: prepared_once
  FROM (SELECT o.ctid AS row, b.reason
          FROM unnest(:'rates'::text[]::jsonb[], :'reasons'::text[]) AS b(rate, reason)
          JOIN qrtz_triggers o ON o.rate_limit = b.rate
         WHERE o.sched_name || '' = :'sched' AND o.trigger_state = 'BLOCKED'
           AND EXISTS (SELECT FROM qrtz_scheduler_state s
                        WHERE s.sched_name = :'sched' AND s.instance_id = :'instance' AND s.epoch = :'epoch'::bigint)
           FOR NO KEY UPDATE OF o SKIP LOCKED) AS bad
 WHERE t.ctid = bad.row
RETURNING t.trigger_group, t.trigger_name, t.error;
