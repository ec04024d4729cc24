-- name: load
-- The first limit keeps the planner to a range of the due index, whose order it has, and OFFSET 0 from joining in
-- another order. The second limit bounds the sum of all ranges.
WITH RECURSIVE waiting AS (
    -- include: waiting
    -- A loose index scan: one step per dispatch key, so the cost does not depend on the number of triggers.
    (SELECT job_type, placement FROM qrtz_triggers WHERE sched_name = :'sched' AND trigger_state = 'WAITING'
      ORDER BY job_type, placement LIMIT 1)
    UNION ALL
    SELECT other.job_type, other.placement
      FROM waiting w
     CROSS JOIN LATERAL (
        SELECT t.job_type, t.placement FROM qrtz_triggers t
         WHERE t.sched_name = :'sched' AND t.trigger_state = 'WAITING'
           AND (t.job_type, t.placement) > (w.job_type, w.placement)
         ORDER BY t.job_type, t.placement LIMIT 1) AS other
    -- end
),
clock AS MATERIALIZED (SELECT :now AS at),
dispatched AS MATERIALIZED (
    SELECT w.job_type, w.placement, rule.name AS misfire_rule
      FROM waiting w
     CROSS JOIN
        -- include: each_rule
        (VALUES ('SCHEDULER'), ('OWN'), ('IGNORE'), ('LATE'), ('RATE_LIMIT'), ('NEW')) AS rule(name)
        -- end
),
due AS (
    SELECT of_key.*
      FROM clock
     CROSS JOIN dispatched d
     CROSS JOIN LATERAL (
        SELECT t.next_fire_time, t.rate_limited_until FROM qrtz_triggers t
         WHERE t.sched_name = :'sched' AND t.trigger_state = 'WAITING' AND t.job_type = d.job_type
           AND t.placement = d.placement AND t.misfire_rule = d.misfire_rule AND t.next_fire_time <= clock.at
         ORDER BY t.next_fire_time LIMIT :'most'::int OFFSET 0) AS of_key
     LIMIT :'most'::int
),
earliest AS (
    SELECT min(of_key.next_fire_time) AS next_fire_time
      FROM dispatched d
     CROSS JOIN LATERAL (
        SELECT t.next_fire_time FROM qrtz_triggers t
         WHERE t.sched_name = :'sched' AND t.trigger_state = 'WAITING' AND t.job_type = d.job_type
           AND t.placement = d.placement AND t.misfire_rule = d.misfire_rule
         ORDER BY t.next_fire_time LIMIT 1) AS of_key
)
SELECT waiting_due.due, waiting_due.late + held.late,
       (SELECT clock.at - e.next_fire_time FROM earliest e, clock WHERE e.next_fire_time <= clock.at),
       in_error.number, fired.claimed, fired.executing, nodes.alive, nodes.silent
  FROM (SELECT count(*) FILTER (WHERE rate_limited_until IS NULL OR rate_limited_until <= clock.at) AS due,
               count(*) FILTER (WHERE next_fire_time < clock.at - :'late_after'::interval) AS late
          FROM due, clock) AS waiting_due,
       (SELECT count(*) FILTER (WHERE trigger_state IN ('ACQUIRED', 'BLOCKED')
                                  AND next_fire_time < clock.at - :'late_after'::interval) AS late
          FROM (SELECT trigger_state, next_fire_time FROM qrtz_triggers
                 WHERE sched_name || '' = :'sched'
                   AND trigger_state IN ('ACQUIRED', 'BLOCKED', 'PAUSED_BLOCKED', 'COMPLETE')
                 LIMIT :'most'::int) AS held_row, clock) AS held,
       (SELECT count(*) AS number
          FROM (SELECT FROM qrtz_triggers
                 WHERE sched_name || '' = :'sched' AND trigger_state = 'ERROR'
                 LIMIT :'most'::int) AS error_row) AS in_error,
       (SELECT count(*) FILTER (WHERE state = 'ACQUIRED') AS claimed,
               count(*) FILTER (WHERE state = 'EXECUTING') AS executing
          FROM qrtz_fired_triggers WHERE sched_name = :'sched') AS fired,
       (SELECT count(*) FILTER (WHERE last_checkin >= clock.at - failure_window) AS alive,
               count(*) FILTER (WHERE last_checkin < clock.at - failure_window) AS silent
          FROM qrtz_scheduler_state, clock WHERE sched_name = :'sched') AS nodes;
