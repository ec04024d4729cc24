-- The planner is steered here: see docs/planner.md.

-- name: limits
-- The stored limits, with the jobs whose executions have places of them, and how many triggers are parked for each: at
-- most `most`, of each set.
WITH RECURSIVE
-- include: parked_sets
,
parked AS MATERIALIZED (
    SELECT string_to_array(s.limits, ',') AS names, first_of_set.number
      FROM parked_sets s
     CROSS JOIN LATERAL (
        SELECT count(*) AS number
          FROM (SELECT FROM qrtz_triggers t
                 WHERE t.sched_name || '' = :'sched' AND t.trigger_state = 'BLOCKED' AND t.parked_at = s.limits
                 LIMIT :'most'::int) AS few) AS first_of_set
),
taken AS MATERIALIZED (
    SELECT n.name, f.job_group, f.job_name, count(*) AS number, min(f.fired_time) AS since
      FROM qrtz_fired_triggers f
     CROSS JOIN unnest(string_to_array(f.limits, ',')) AS n(name)
     WHERE f.sched_name || '' = :'sched' AND f.limits IS NOT NULL
     GROUP BY n.name, f.job_group, f.job_name
)
SELECT l.limit_name, l.max_concurrent, l.rate_limit::text, l.tat, :now,
       coalesce((SELECT sum(p.number) FROM parked p WHERE l.limit_name = ANY(p.names)), 0)::bigint,
       uses.job_groups, uses.job_names, uses.numbers, uses.since
  FROM qrtz_limits l
 CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(job.job_group), '{}') AS job_groups, coalesce(array_agg(job.job_name), '{}') AS job_names,
           coalesce(array_agg(job.number), '{}') AS numbers, min(job.since) AS since
      FROM (SELECT u.job_group, u.job_name, u.number, u.since FROM taken u WHERE u.name = l.limit_name
             ORDER BY u.number DESC, u.job_group, u.job_name) AS job) AS uses
 WHERE l.sched_name = :'sched' AND l.limit_name > ''
 ORDER BY l.limit_name;

-- name: put_limit
-- The next step looks for what is parked for it.
INSERT INTO qrtz_limits AS l (sched_name, limit_name, max_concurrent, rate_limit, opens_at)
VALUES (:'sched', :'name', :'max_concurrent'::int, :'rate_limit'::jsonb, :now)
    ON CONFLICT (sched_name, limit_name, job_group, job_name, concurrency_key) DO UPDATE
   SET max_concurrent = excluded.max_concurrent, rate_limit = excluded.rate_limit, opens_at = excluded.opens_at;

-- name: delete_limit
-- Unless jobs share it. Returns some of these, and whether the limit was stored.
WITH sharing AS MATERIALIZED (
    SELECT j.job_group, j.job_name FROM qrtz_job_details j
     WHERE j.sched_name = :'sched' AND (j.rate_limit IS NOT NULL OR j.limits IS NOT NULL)
       AND :'name' = ANY(string_to_array(j.limits, ','))
     ORDER BY j.job_group, j.job_name LIMIT 3
),
removed AS (
    DELETE FROM qrtz_limits l
     WHERE l.sched_name = :'sched' AND l.limit_name = :'name' AND l.job_name = ''
       AND NOT EXISTS (SELECT FROM sharing)
    RETURNING l.limit_name
)
SELECT (SELECT count(*) FROM removed) > 0, ARRAY(SELECT job_group FROM sharing), ARRAY(SELECT job_name FROM sharing);

-- name: missing
-- The names among these under which no limit is stored, and the stored ones.
SELECT ARRAY(SELECT n.name FROM unnest(:'limit_names'::text[]) AS n(name)
              WHERE NOT EXISTS (SELECT FROM qrtz_limits l
                                 WHERE l.sched_name = :'sched' AND l.limit_name = n.name OFFSET 0)),
       ARRAY(SELECT l.limit_name FROM qrtz_limits l
              WHERE l.sched_name = :'sched' AND l.limit_name > '' ORDER BY l.limit_name);
