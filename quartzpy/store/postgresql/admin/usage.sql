-- The planner is steered here: see docs/planner.md.

-- name: tallies
-- The conditions are those of the partial indexes on `triggers`. The index of the held triggers does not distinguish
-- BLOCKED and COMPLETE, so the first ones are read once; with the scheduler as an expression, only that index
-- can serve. The paused triggers that are overdue are looked for among the first ones by key. Of the triggers that wait
-- for a slot although their rows are WAITING or PAUSED, the first ones are found by their jobs. If these are all, an index
-- counts that many too many as WAITING or PAUSED; otherwise, only the first ones of these states are counted, and those
-- that wait only among the first and the last ones of each range of the due index: the first ones may all be late
-- ones of a job at its limit.
WITH RECURSIVE
-- include: full_jobs
-- include: full_keys
, held AS MATERIALIZED (
    SELECT count(*) FILTER (WHERE state = 'WAITING') AS waiting,
           count(*) FILTER (WHERE state = 'BLOCKED') AS blocked,
           count(*) FILTER (WHERE state = 'COMPLETE') AS complete
      FROM (SELECT
                   -- include: seen_state
                   AS state
              FROM qrtz_triggers t
             WHERE t.sched_name || '' = :'sched' AND t.trigger_state IN ('BLOCKED', 'COMPLETE')
             LIMIT 2 * :'most'::int) AS of_held
),
of_full AS MATERIALIZED (
    SELECT t.trigger_state,
           -- include: seen_state
           AS state
      FROM full_keys k
     CROSS JOIN LATERAL (
        SELECT * FROM qrtz_triggers o
         WHERE o.sched_name || '' = :'sched' AND o.job_group = k.job_group AND o.job_name = k.job_name
           AND o.concurrency_key = k.concurrency_key OFFSET 0) AS t
     LIMIT 2 * :'most'::int
),
hidden AS MATERIALIZED (
    SELECT count(*) < 2 * :'most'::int AS are_all,
           count(*) FILTER (WHERE trigger_state = 'WAITING' AND state = 'BLOCKED') AS waiting,
           count(*) FILTER (WHERE trigger_state = 'PAUSED' AND state = 'PAUSED_BLOCKED') AS paused
      FROM of_full
),
waiting AS (
    -- include: waiting
),
examined AS MATERIALIZED (
    SELECT
           -- include: seen_state
           AS state
      FROM ((SELECT of_range.*
               FROM waiting w
              CROSS JOIN
                 -- include: each_rule
              CROSS JOIN LATERAL (
                 (SELECT t.ctid AS row, t.trigger_state, t.overlap_policy, t.max_concurrent, t.job_group, t.job_name,
                         t.concurrency_key, t.rate_limit, t.limits
                    FROM qrtz_triggers t
                   WHERE t.sched_name = :'sched' AND t.trigger_state = 'WAITING' AND t.slot_pool = w.slot_pool
                     AND t.misfire_rule = rule.name
                   ORDER BY t.next_fire_time, t.priority DESC
                   LIMIT 2 * :'most'::int)
                 UNION
                 (SELECT t.ctid AS row, t.trigger_state, t.overlap_policy, t.max_concurrent, t.job_group, t.job_name,
                         t.concurrency_key, t.rate_limit, t.limits
                    FROM qrtz_triggers t
                   WHERE t.sched_name = :'sched' AND t.trigger_state = 'WAITING' AND t.slot_pool = w.slot_pool
                     AND t.misfire_rule = rule.name
                   ORDER BY t.next_fire_time DESC, t.priority
                   LIMIT 2 * :'most'::int)) AS of_range)
            UNION ALL
            (SELECT ctid AS row, trigger_state, overlap_policy, max_concurrent, job_group, job_name, concurrency_key,
                    rate_limit, limits
               FROM qrtz_triggers
              WHERE sched_name = :'sched' AND trigger_state = 'PAUSED' LIMIT 2 * :'most'::int)) AS t
)
SELECT (SELECT count(*) FROM (SELECT FROM qrtz_job_details
                               WHERE sched_name = :'sched' LIMIT :'most'::int + 1) AS counted),
       (SELECT count(*) FROM (SELECT FROM qrtz_fired_triggers
                               WHERE sched_name = :'sched' AND fired_time > :now
                               LIMIT :'most'::int + 1) AS counted),
       (SELECT count(*) FROM (SELECT FROM qrtz_fired_triggers
                               WHERE sched_name = :'sched' AND fired_time <= :now
                               LIMIT :'most'::int + 1) AS counted),
       (SELECT count(*)
          FROM (SELECT
                       -- include: seen_state
                       AS state
                  FROM (
                        -- include: first_paused
                       ) AS t) AS paused
         WHERE state = 'PAUSED'),
       -- The triggers by state, in the order of `TriggerState`.
       CASE WHEN (SELECT are_all FROM hidden)
            THEN (SELECT count(*) - (SELECT waiting FROM hidden)
                    FROM (SELECT FROM qrtz_triggers
                           WHERE sched_name = :'sched' AND trigger_state = 'WAITING'
                           LIMIT :'most'::int + 1 + (SELECT waiting FROM hidden)) AS counted)
            ELSE (SELECT count(*) FROM (SELECT FROM examined WHERE state = 'WAITING' LIMIT :'most'::int + 1) AS counted) END
       + (SELECT waiting FROM held),
       (SELECT waiting FROM hidden) + (SELECT blocked FROM held),
       CASE WHEN (SELECT are_all FROM hidden)
            THEN (SELECT count(*) - (SELECT paused FROM hidden)
                    FROM (SELECT FROM qrtz_triggers
                           WHERE sched_name = :'sched' AND trigger_state = 'PAUSED'
                           LIMIT :'most'::int + 1 + (SELECT paused FROM hidden)) AS counted)
            ELSE (SELECT count(*) FROM (SELECT FROM examined WHERE state = 'PAUSED' LIMIT :'most'::int + 1) AS counted) END,
       (SELECT paused FROM hidden),
       (SELECT complete FROM held),
       (SELECT count(*) FROM (SELECT FROM qrtz_triggers
                               WHERE sched_name = :'sched' AND trigger_state = 'ERROR'
                               LIMIT :'most'::int + 1) AS counted);

-- name: overdue
-- The triggers that are due, by job: those that are late and wait for a node, and those that wait for a rate or for limits
-- that jobs share. They are counted among the first ones of each range of the due index, and among those whose rows say
-- BLOCKED. The clock is read once: an index condition cannot use a volatile expression, so that all that wait would be
-- read where nothing is late, and no subquery with one becomes part of another.
WITH RECURSIVE
-- include: full_jobs
, waiting AS (
    -- include: waiting
),
bound AS MATERIALIZED (SELECT :now - :'late'::interval AS late),
due AS (
    SELECT t.job_group, t.job_name, t.job_type, t.next_fire_time,
           -- include: seen_state
           AS state,
           -- include: is_full
           AS is_full
      FROM ((SELECT of_range.*
               FROM waiting w
              CROSS JOIN
                 -- include: each_rule
              CROSS JOIN LATERAL (
                 SELECT * FROM qrtz_triggers t
                  WHERE t.sched_name = :'sched' AND t.trigger_state = 'WAITING' AND t.slot_pool = w.slot_pool
                    AND t.misfire_rule = rule.name AND t.next_fire_time < (SELECT late FROM bound)
                  ORDER BY t.next_fire_time, t.priority DESC
                  LIMIT :'most'::int + 1) AS of_range)
            UNION ALL
            (SELECT * FROM qrtz_triggers
              WHERE sched_name || '' = :'sched' AND trigger_state = 'BLOCKED' AND next_fire_time < (SELECT late FROM bound)
              LIMIT 2 * :'most'::int)) AS t
),
of_jobs AS MATERIALIZED (
    SELECT job_group, job_name, min(job_type) AS job_type, state = 'BLOCKED' AS is_held, count(*) AS number,
           min(next_fire_time) AS next_fire_time
      FROM due
     WHERE state = 'WAITING' OR (state = 'BLOCKED' AND NOT is_full)
     GROUP BY job_group, job_name, state
)
SELECT job_group, job_name, job_type, is_held, number, next_fire_time,
       CASE WHEN is_held THEN (SELECT sum(number)::bigint FROM of_jobs WHERE is_held)
            ELSE (SELECT sum(number)::bigint FROM of_jobs WHERE NOT is_held) END
  FROM of_jobs
 ORDER BY next_fire_time, job_group, job_name LIMIT :'limit'::int;

-- name: blocked
-- The triggers that have waited for a slot of their jobs since before an instant: the first ones that are parked at each
-- job and concurrency key, and those at the front of the due index that no step has met.
WITH RECURSIVE
-- include: full_jobs
, waiting AS (
    -- include: waiting
),
at_limit AS MATERIALIZED (
    SELECT DISTINCT f.job_group, f.job_name, f.concurrency_key
      FROM full_jobs f
     WHERE EXISTS (SELECT FROM qrtz_job_details j
                    WHERE j.sched_name = :'sched' AND j.job_group = f.job_group AND j.job_name = f.job_name
                      AND j.max_concurrent = f.max_concurrent OFFSET 0)
)
SELECT t.job_group, t.job_name, t.trigger_group, t.trigger_name, t.next_fire_time
  FROM ((SELECT parked.*
           FROM at_limit k
          CROSS JOIN
             -- include: each_lane
          CROSS JOIN LATERAL (
             SELECT * FROM qrtz_triggers t
              WHERE t.sched_name || '' = :'sched' AND t.job_group || '' = k.job_group AND t.job_name || '' = k.job_name
                AND t.concurrency_key || '' = k.concurrency_key AND t.trigger_state = 'BLOCKED'
                AND t.trigger_state IN ('BLOCKED', 'COMPLETE')
                AND
                    -- include: held_lane
                    = lane.name
                AND t.next_fire_time < :'until'::timestamptz
              ORDER BY t.next_fire_time, t.priority DESC LIMIT :'limit'::int) AS parked)
        UNION ALL
        (SELECT of_range.*
           FROM waiting w
          CROSS JOIN
             -- include: each_rule
          CROSS JOIN LATERAL (
             SELECT * FROM qrtz_triggers t
              WHERE t.sched_name = :'sched' AND t.trigger_state = 'WAITING' AND t.slot_pool = w.slot_pool
                AND t.misfire_rule = rule.name AND t.next_fire_time < :'until'::timestamptz
              ORDER BY t.next_fire_time, t.priority DESC LIMIT :'limit'::int) AS of_range
          WHERE EXISTS (SELECT FROM at_limit))) AS t
 WHERE t.trigger_state = 'BLOCKED'
    OR (t.overlap_policy = 'block'
        AND
            -- include: is_full
       )
 ORDER BY t.next_fire_time, t.trigger_group, t.trigger_name LIMIT :'limit'::int;

-- name: paused_overdue
-- The triggers that are paused although they are due, by their pauses: among those that have waited longest, as many as
-- are counted.
WITH
-- include: full_jobs
SELECT trigger_group, min(trigger_name), job_group, job_name, paused_at, paused_by, pause_reason, pause_until,
       is_alone, count(*),
       min(next_fire_time), (sum(count(*)) OVER ())::bigint
  FROM (SELECT t.trigger_group, t.trigger_name, t.job_group, t.job_name, t.paused_at, t.paused_by, t.pause_reason,
               t.pause_until, t.pause_missed IS NOT NULL AS is_alone, t.next_fire_time,
               -- include: seen_state
               AS state
          FROM (
                -- include: first_paused
               ) AS t) AS paused
 WHERE state = 'PAUSED'
 GROUP BY trigger_group, job_group, job_name, paused_at, paused_by, pause_reason, pause_until, is_alone
 ORDER BY min(next_fire_time), trigger_group, job_group, job_name LIMIT :'limit'::int;

-- name: slots
-- The triggers that wait are counted among the first ones whose rows say so, where an overlap policy let them wait, and
-- among the first ones of jobs at their limits. What waits for a rate, or for limits that jobs share, is not among them.
WITH
-- include: full_jobs
-- include: full_keys
SELECT job_group, job_name, concurrency_key, max(max_concurrent), sum(executing)::int, sum(blocked)::int
  FROM (SELECT job_group, job_name, concurrency_key, max_concurrent, 1 AS executing, 0 AS blocked
          FROM qrtz_fired_triggers
         WHERE sched_name = :'sched' AND max_concurrent IS NOT NULL
         UNION ALL
        SELECT t.job_group, t.job_name, t.concurrency_key, t.max_concurrent, 0, 1
          FROM (SELECT *
                  FROM (SELECT * FROM qrtz_triggers
                         WHERE sched_name || '' = :'sched' AND trigger_state = 'BLOCKED'
                           AND max_concurrent IS NOT NULL
                         LIMIT 10000) AS held
                 WHERE overlap_policy <> 'block'
                UNION ALL
                (SELECT o.*
                   FROM full_keys k
                  CROSS JOIN LATERAL (
                     SELECT * FROM qrtz_triggers
                      WHERE sched_name || '' = :'sched' AND job_group = k.job_group AND job_name = k.job_name
                        AND concurrency_key = k.concurrency_key OFFSET 0) AS o
                  LIMIT 10000)) AS t
         WHERE
               -- include: seen_state
               IN ('BLOCKED', 'PAUSED_BLOCKED')
           AND (num_nonnulls(t.rate_limit, t.limits) = 0
                OR
                   -- include: is_full
               )) AS used
 GROUP BY job_group, job_name, concurrency_key
 ORDER BY job_group, job_name, concurrency_key LIMIT :'limit'::int;

-- name: rates
-- The rates of jobs that are in use, each with the number of triggers that are parked for it: at most `most` of each lane.
SELECT r.job_group, r.job_name, r.concurrency_key, j.rate_limit::text, r.tat, parked.number
  FROM qrtz_limits r
  JOIN qrtz_job_details j USING (sched_name, job_group, job_name)
 CROSS JOIN LATERAL (
    SELECT count(*) AS number
      FROM
         -- include: each_lane
     CROSS JOIN LATERAL (
        SELECT FROM qrtz_triggers t
         WHERE t.sched_name || '' = :'sched' AND t.job_group || '' = r.job_group AND t.job_name || '' = r.job_name
           AND t.concurrency_key || '' = r.concurrency_key AND t.trigger_state = 'BLOCKED'
           AND t.trigger_state IN ('BLOCKED', 'COMPLETE')
           AND
               -- include: held_lane
               = lane.name
         LIMIT :'most'::int) AS of_lane
     WHERE lane.name <> '') AS parked
 WHERE r.sched_name = :'sched' AND r.limit_name = '' AND (r.tat > :now OR r.opens_at IS NOT NULL)
   AND j.rate_limit IS NOT NULL
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
                                 AND trigger_state = 'PAUSED'
                               LIMIT :'most'::int + 1) AS counted),
       (SELECT count(*) FROM (SELECT FROM qrtz_triggers
                               WHERE sched_name = :'sched' AND trigger_group = g.name AND trigger_state = 'ERROR'
                               LIMIT :'most'::int + 1) AS counted)
  FROM groups g ORDER BY name;

-- name: job_groups
-- As `trigger_groups`. The jobs with triggers that are paused or in ERROR are found by the first ones of those triggers
-- in the indexes of these states, so a group has at least as many.
WITH RECURSIVE paused AS MATERIALIZED (
    SELECT DISTINCT job_group, job_name
      FROM (SELECT job_group, job_name FROM qrtz_triggers
             WHERE sched_name = :'sched' AND trigger_state = 'PAUSED'
             LIMIT :'among'::int) AS of_triggers
),
in_error AS MATERIALIZED (
    SELECT DISTINCT job_group, job_name
      FROM (SELECT job_group, job_name FROM qrtz_triggers
             WHERE sched_name = :'sched' AND trigger_state = 'ERROR' LIMIT :'among'::int) AS of_triggers
),
groups AS (
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
                               LIMIT :'most'::int + 1) AS counted),
       (SELECT count(*) FROM (SELECT FROM paused p WHERE p.job_group = g.name LIMIT :'most'::int + 1) AS counted),
       (SELECT count(*) FROM (SELECT FROM in_error e WHERE e.job_group = g.name LIMIT :'most'::int + 1) AS counted)
  FROM groups g ORDER BY name;

-- name: unscheduled
-- The number of triggers that the scheduler itself made, group by group.
SELECT count(*)
  FROM unnest(:'groups'::text[]) AS g(name)
 CROSS JOIN LATERAL (
    SELECT FROM qrtz_triggers WHERE sched_name = :'sched' AND trigger_group = g.name LIMIT :'most'::int + 1) AS t;
