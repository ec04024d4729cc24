-- name: tallies
-- The conditions are those of the partial indexes on `triggers`. The index of the held triggers does not distinguish
-- ACQUIRED, BLOCKED and COMPLETE, so all of them are read once, if they are as few as usual. Otherwise, with the scheduler
-- as an expression, only that index can serve. The paused triggers that are overdue are looked for among the first ones
-- by key.
WITH held AS MATERIALIZED (
    SELECT trigger_state FROM qrtz_triggers
     WHERE sched_name || '' = :'sched' AND trigger_state IN ('ACQUIRED', 'BLOCKED', 'COMPLETE', 'PAUSED_BLOCKED')
     LIMIT 2 * :'most'::int + 1
),
all_held AS (SELECT count(*) <= 2 * :'most'::int AS is_complete FROM held)
SELECT (SELECT count(*) FROM (SELECT FROM qrtz_job_details
                               WHERE sched_name = :'sched' LIMIT :'most'::int + 1) AS counted),
       (SELECT count(*) FROM (SELECT FROM qrtz_fired_triggers
                               WHERE sched_name = :'sched' AND state = 'ACQUIRED'
                               LIMIT :'most'::int + 1) AS counted),
       (SELECT count(*) FROM (SELECT FROM qrtz_fired_triggers
                               WHERE sched_name = :'sched' AND state = 'EXECUTING'
                               LIMIT :'most'::int + 1) AS counted),
       (SELECT count(*)
          FROM (SELECT next_fire_time FROM qrtz_triggers
                 WHERE sched_name = :'sched' AND trigger_state = 'PAUSED'
                 ORDER BY trigger_group, trigger_name LIMIT :'most'::int + 1) AS paused
         WHERE next_fire_time < :now),
       -- The triggers by state, in the order of `TriggerState`.
       (SELECT count(*) FROM (SELECT FROM qrtz_triggers
                               WHERE sched_name = :'sched' AND trigger_state = 'WAITING'
                               LIMIT :'most'::int + 1) AS counted),
       CASE WHEN (SELECT is_complete FROM all_held) THEN (SELECT count(*) FROM held WHERE trigger_state = 'ACQUIRED')
            ELSE (SELECT count(*) FROM (SELECT FROM qrtz_triggers
                                         WHERE sched_name || '' = :'sched' AND trigger_state = 'ACQUIRED'
                                         LIMIT :'most'::int + 1) AS counted) END,
       CASE WHEN (SELECT is_complete FROM all_held) THEN (SELECT count(*) FROM held WHERE trigger_state = 'BLOCKED')
            ELSE (SELECT count(*) FROM (SELECT FROM qrtz_triggers
                                         WHERE sched_name || '' = :'sched' AND trigger_state = 'BLOCKED'
                                         LIMIT :'most'::int + 1) AS counted) END,
       (SELECT count(*) FROM (SELECT FROM qrtz_triggers
                               WHERE sched_name = :'sched' AND trigger_state = 'PAUSED'
                               LIMIT :'most'::int + 1) AS counted),
       (SELECT count(*) FROM (SELECT FROM qrtz_triggers
                               WHERE sched_name = :'sched' AND trigger_state = 'PAUSED_BLOCKED'
                               LIMIT :'most'::int + 1) AS counted),
       CASE WHEN (SELECT is_complete FROM all_held) THEN (SELECT count(*) FROM held WHERE trigger_state = 'COMPLETE')
            ELSE (SELECT count(*) FROM (SELECT FROM qrtz_triggers
                                         WHERE sched_name || '' = :'sched' AND trigger_state = 'COMPLETE'
                                         LIMIT :'most'::int + 1) AS counted) END,
       (SELECT count(*) FROM (SELECT FROM qrtz_triggers
                               WHERE sched_name = :'sched' AND trigger_state = 'ERROR'
                               LIMIT :'most'::int + 1) AS counted);

-- name: slots
SELECT job_group, job_name, concurrency_key, max(max_concurrent), sum(executing)::int, sum(blocked)::int
  FROM (SELECT job_group, job_name, concurrency_key, max_concurrent, 1 AS executing, 0 AS blocked
          FROM qrtz_fired_triggers
         WHERE sched_name = :'sched' AND state = 'EXECUTING' AND max_concurrent IS NOT NULL
         UNION ALL
        (SELECT job_group, job_name, concurrency_key, max_concurrent, 0, 1
           FROM qrtz_triggers
          WHERE sched_name || '' = :'sched' AND trigger_state IN ('BLOCKED', 'PAUSED_BLOCKED')
            AND max_concurrent IS NOT NULL
          LIMIT 10000)) AS used
 GROUP BY job_group, job_name, concurrency_key
 ORDER BY job_group, job_name, concurrency_key LIMIT :'limit'::int;

-- name: rates
SELECT r.job_group, r.job_name, r.concurrency_key, j.rate_limit::text, r.tat, r.queued_until
  FROM qrtz_rate_limits r
  JOIN qrtz_job_details j USING (sched_name, job_group, job_name)
 WHERE r.sched_name = :'sched' AND r.tat > :now AND j.rate_limit IS NOT NULL
 ORDER BY r.job_group, r.job_name, r.concurrency_key LIMIT :'limit'::int;

-- name: trigger_groups
-- A loose index scan: one step per group.
WITH RECURSIVE groups AS (
    (SELECT trigger_group AS name, 1 AS number FROM qrtz_triggers
      WHERE sched_name = :'sched' AND trigger_group > :'after_group' ORDER BY trigger_group LIMIT 1)
    UNION ALL
    SELECT following.name, g.number + 1
      FROM groups g
     CROSS JOIN LATERAL (
        SELECT trigger_group AS name FROM qrtz_triggers
         WHERE sched_name = :'sched' AND trigger_group > g.name ORDER BY trigger_group LIMIT 1) AS following
     WHERE g.number < :'limit'::int
)
SELECT name,
       (SELECT count(*) FROM (SELECT FROM qrtz_triggers
                               WHERE sched_name = :'sched' AND trigger_group = g.name
                               LIMIT :'most'::int + 1) AS counted),
       (SELECT count(*) FROM (SELECT FROM qrtz_triggers
                               WHERE sched_name = :'sched' AND trigger_group = g.name
                                 AND trigger_state IN ('PAUSED', 'PAUSED_BLOCKED')
                               LIMIT :'most'::int + 1) AS counted),
       (SELECT count(*) FROM (SELECT FROM qrtz_triggers
                               WHERE sched_name = :'sched' AND trigger_group = g.name AND trigger_state = 'ERROR'
                               LIMIT :'most'::int + 1) AS counted)
  FROM groups g ORDER BY name;

-- name: job_groups
-- As `trigger_groups`.
WITH RECURSIVE groups AS (
    (SELECT job_group AS name, 1 AS number FROM qrtz_job_details
      WHERE sched_name = :'sched' AND job_group > :'after_group' ORDER BY job_group LIMIT 1)
    UNION ALL
    SELECT following.name, g.number + 1
      FROM groups g
     CROSS JOIN LATERAL (
        SELECT job_group AS name FROM qrtz_job_details
         WHERE sched_name = :'sched' AND job_group > g.name ORDER BY job_group LIMIT 1) AS following
     WHERE g.number < :'limit'::int
)
SELECT name,
       (SELECT count(*) FROM (SELECT FROM qrtz_job_details
                               WHERE sched_name = :'sched' AND job_group = g.name
                               LIMIT :'most'::int + 1) AS counted), 0, 0
  FROM groups g ORDER BY name;
