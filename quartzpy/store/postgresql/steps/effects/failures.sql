-- The planner is steered here: see docs/planner.md.

-- name: count
-- Counts the ends of executions, and pauses the jobs that have reached their limit of failures in a row.
WITH
-- include: ended
marked AS (
    SELECT *, max(place) FILTER (WHERE NOT has_failed) OVER (PARTITION BY job_group, job_name) AS succeeded_at
      FROM (SELECT e.job_group, e.job_name, e.outcome = 'FAILED' AS has_failed, c.place
              FROM unnest(:'fire_ids'::bigint[]) WITH ORDINALITY AS c(fire_id, place)
              JOIN ended e USING (fire_id)) AS counting
),
totals AS (
    SELECT job_group, job_name, bool_or(NOT has_failed) AS has_succeeded,
           count(*) FILTER (WHERE place > coalesce(succeeded_at, 0)) AS failures
      FROM marked
     GROUP BY job_group, job_name
),
counted AS MATERIALIZED (
    SELECT j.row, j.job_group, j.job_name, j.consecutive_failures AS before, j.pause_after_failures AS most,
           CASE WHEN s.has_succeeded THEN s.failures ELSE j.consecutive_failures + s.failures END AS failures
      FROM totals s
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.job_group, o.job_name, o.consecutive_failures, o.pause_after_failures
          FROM qrtz_job_details o
         WHERE o.sched_name = :'sched' AND o.job_group = s.job_group AND o.job_name = s.job_name
           FOR NO KEY UPDATE) AS j
),
stored AS (
    UPDATE qrtz_job_details j
       SET consecutive_failures = c.failures,
           -- include: prepared_once_of_job
      FROM counted c
     WHERE j.ctid = c.row AND c.failures <> c.before
)
\if :at_length
-- This transaction has paused their triggers before.
SELECT job_group, job_name FROM counted WHERE false
\else
,
paused AS (
    UPDATE qrtz_triggers t
       -- include: paused_by_failures
      FROM (SELECT o.row, c.failures || ' executions in a row failed' AS reason
              FROM counted c
             CROSS JOIN LATERAL (
                SELECT t.ctid AS row FROM qrtz_triggers t
                 WHERE t.sched_name = :'sched' AND t.job_group = c.job_group AND t.job_name = c.job_name
                   -- include: is_paused_by_failures
                   FOR NO KEY UPDATE SKIP LOCKED) AS o
             WHERE c.failures > c.before AND c.failures >= c.most) AS locked
     WHERE t.ctid = locked.row
    RETURNING t.job_group, t.job_name
)
SELECT DISTINCT job_group, job_name FROM paused
\endif
;
