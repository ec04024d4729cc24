-- The planner is steered here: see docs/planner.md.

-- name: page
-- The jobs that match all filters, by key; with `examined` those among the first `among`, or of the group.
\if :count
SELECT count(*) FROM (
\endif
SELECT s.trigger_count, s.next_waiting, s.next_blocked, s.next_paused, s.parked_at, s.has_error,
       s.previous_fire_time, j.mode,
       -- include: job_columns
       -- include: rest_of_job
  FROM (SELECT *
          FROM (SELECT * FROM qrtz_job_details
                 WHERE sched_name = :'sched'
\if :of_job
                   AND job_group = :'job_group' AND job_name = :'job_name'
\endif
\if :in_group
                   AND job_group = :'group'
\endif
\if :after
                   AND (job_group, job_name) > (:'after_group', :'after_name')
\endif
\if :examined
                 ORDER BY job_group, job_name LIMIT :'among'::int
\endif
               ) AS walked
         WHERE true
           -- include: of_jobs
\if :of_contains
           AND strpos(job_name, :'contains') > 0
\endif
\if :of_mode
           AND mode = :'mode'
\endif
         ORDER BY job_group, job_name LIMIT :'limit'::int) AS j
 CROSS JOIN LATERAL (
    SELECT count(*) AS trigger_count,
           min(next_fire_time) FILTER (WHERE trigger_state = 'WAITING') AS next_waiting,
           min(next_fire_time) FILTER (WHERE trigger_state = 'BLOCKED') AS next_blocked,
           min(next_fire_time) FILTER (WHERE trigger_state = 'PAUSED') AS next_paused,
           (array_agg(parked_at ORDER BY next_fire_time) FILTER (WHERE trigger_state = 'BLOCKED'))[1] AS parked_at,
           coalesce(bool_or(trigger_state = 'ERROR'), false) AS has_error,
           max(prev_fire_time) AS previous_fire_time
      FROM (SELECT next_fire_time, prev_fire_time, trigger_state, parked_at FROM qrtz_triggers t
             WHERE t.sched_name || '' = :'sched' AND t.job_group = j.job_group AND t.job_name = j.job_name
             LIMIT :'most_triggers'::int + 1) AS t) AS s
 ORDER BY j.job_group, j.job_name
\if :count
) AS matching
\endif
;

-- name: last
-- The last job that a page examines.
SELECT job_group, job_name FROM qrtz_job_details
 WHERE sched_name = :'sched'
\if :in_group
   AND job_group = :'group'
\endif
\if :after
   AND (job_group, job_name) > (:'after_group', :'after_name')
\endif
 ORDER BY job_group, job_name OFFSET :'among'::int - 1 LIMIT 1;
