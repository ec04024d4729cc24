-- name: release
-- Gives the slots of the executions that end to triggers of their jobs that wait for one.
WITH
-- include: ended
ends AS (
    SELECT job_group, job_name, concurrency_key, count(*) AS number
      FROM ended WHERE max_concurrent IS NOT NULL
     GROUP BY job_group, job_name, concurrency_key
),
-- include: freed
-- include: released
,
waiting AS (
    SELECT next_fire_time FROM released
    UNION ALL
    SELECT next_fire_time FROM freed_by_policy WHERE trigger_state = 'WAITING'
)
-- include: wakes
;
