-- The planner is steered here: see docs/planner.md.

-- name: release
-- Gives the slots of the executions that end to triggers of their jobs that wait for one.
WITH
-- include: ended
ends AS (
    SELECT job_group, job_name, concurrency_key, count(*) AS number
      FROM ended WHERE max_concurrent IS NOT NULL
     GROUP BY job_group, job_name, concurrency_key
),
-- The slots that they leave to triggers that wait for one. `at` is a column because a function that is called for each
-- row is no bound of an index.
freed AS MATERIALIZED (
    SELECT :now AS at, ends.job_group, ends.job_name, ends.concurrency_key,
           least(ends.number, waiting.max_concurrent - before.running + ends.number) AS slots,
           waiting.overlap_policy <> 'block' OR waiting.max_concurrent IS NULL AS frees_all
      FROM ends
     CROSS JOIN LATERAL (
        SELECT o.max_concurrent, o.overlap_policy FROM qrtz_triggers o
         WHERE o.sched_name || '' = :'sched' AND o.job_group || '' = ends.job_group AND o.job_name || '' = ends.job_name
           AND o.concurrency_key || '' = ends.concurrency_key AND o.trigger_state IN ('BLOCKED', 'PAUSED_BLOCKED')
         LIMIT 1) AS waiting
     CROSS JOIN LATERAL (
        SELECT count(*) AS running FROM qrtz_fired_triggers r
         WHERE r.sched_name = :'sched' AND r.job_group = ends.job_group AND r.job_name = ends.job_name
           AND r.concurrency_key = ends.concurrency_key AND r.max_concurrent IS NOT NULL
     ) AS before
),
-- The few triggers that wait by another overlap policy: all of them.
freed_by_policy AS (
    UPDATE qrtz_triggers t
       SET trigger_state = CASE waiting.trigger_state WHEN 'BLOCKED' THEN 'WAITING' ELSE 'PAUSED' END,
           -- include: prepared_once
      FROM freed
     CROSS JOIN LATERAL (
        SELECT s.ctid AS row, s.trigger_state FROM qrtz_triggers s
         WHERE freed.frees_all AND s.sched_name || '' = :'sched' AND s.job_group || '' = freed.job_group
           AND s.job_name || '' = freed.job_name AND s.concurrency_key || '' = freed.concurrency_key
           AND s.trigger_state IN ('BLOCKED', 'PAUSED_BLOCKED')
           FOR NO KEY UPDATE SKIP LOCKED) AS waiting
     WHERE t.ctid = waiting.row
    RETURNING t.trigger_state, t.next_fire_time
),
-- include: released
,
waiting AS (
    SELECT next_fire_time FROM released
    UNION ALL
    SELECT next_fire_time FROM freed_by_policy WHERE trigger_state = 'WAITING'
)
-- include: wakes
;
