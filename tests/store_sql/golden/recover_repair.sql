WITH stuck AS MATERIALIZED (
    -- include: stuck
    SELECT t.trigger_group, t.trigger_name, t.trigger_state, t.job_group, t.job_name
      FROM qrtz_triggers t
     WHERE t.sched_name = %(sched)s
       AND t.trigger_state IN ('ACQUIRED', 'BLOCKED', 'PAUSED_BLOCKED', 'COMPLETE')
       AND CASE t.trigger_state
           WHEN 'ACQUIRED' THEN NOT EXISTS (
               SELECT FROM qrtz_fired_triggers f WHERE f.fire_id = t.fire_id AND f.state = 'ACQUIRED' OFFSET 0)
           WHEN 'COMPLETE' THEN t.fire_id IS NOT NULL AND t.owner IS NULL AND NOT EXISTS (
               SELECT FROM qrtz_fired_triggers f WHERE f.fire_id = t.fire_id OFFSET 0)
           ELSE t.overlap_policy = 'skip' OR coalesce(t.max_concurrent, 1000000) > (
               SELECT count(*) FROM qrtz_fired_triggers f
                WHERE f.sched_name = t.sched_name AND f.job_group = t.job_group AND f.job_name = t.job_name
                  AND f.concurrency_key = t.concurrency_key
                  AND f.state = 'EXECUTING' AND f.max_concurrent IS NOT NULL)
           END
    -- end
       FOR UPDATE OF t SKIP LOCKED
),
freed AS (
    UPDATE qrtz_triggers t
       SET trigger_state = CASE s.trigger_state WHEN 'PAUSED_BLOCKED' THEN 'PAUSED' ELSE 'WAITING' END, fire_id = NULL
      FROM stuck s
     WHERE t.sched_name = %(sched)s AND t.trigger_group = s.trigger_group AND t.trigger_name = s.trigger_name
       AND s.trigger_state <> 'COMPLETE'
),
deleted AS (
    DELETE FROM qrtz_triggers t USING stuck s
     WHERE t.sched_name = %(sched)s AND t.trigger_group = s.trigger_group AND t.trigger_name = s.trigger_name
       AND s.trigger_state = 'COMPLETE'
)
SELECT trigger_state, job_group, job_name FROM stuck
