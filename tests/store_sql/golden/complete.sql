-- Ends executions by fire_id, if their claims still belong to this epoch. What only some executions need has a switch:
-- asks (their jobs give instructions, or their ends move triggers), stores (job data), retries, counts (failures for
-- pause_after_failures), continues (other jobs run after theirs), captures (log lines). Most completions have no log
-- lines, and their statement does not mention them.
WITH ended AS MATERIALIZED (
    SELECT *
      FROM unnest(%(fire_ids)s::bigint[], %(started)s::timestamptz[], %(ended)s::timestamptz[], %(outcomes)s::text[],
                  %(errors)s::text[], %(stores_data)s::bool[], %(last)s::bool[], %(retry_after)s::interval[],
                  %(results)s::text[]
                 ) AS e(fire_id, started_at, ended_at, outcome, error, stores_data, is_last, retry_after, result
                       )
),
-- The end of the executions: everything that follows depends on these rows. An execution whose job no longer exists
-- does not need its job's row.
done AS (
    DELETE FROM qrtz_fired_triggers f
     USING ended e
     CROSS JOIN LATERAL (
        SELECT r.ctid AS row FROM qrtz_fired_triggers r
         WHERE r.fire_id = e.fire_id AND r.epoch = %(epoch)s::bigint AND r.state = 'EXECUTING' LIMIT 1
           FOR UPDATE SKIP LOCKED) AS own
     WHERE f.ctid = own.row
       AND (true
            OR NOT EXISTS (SELECT FROM qrtz_job_details j
                            WHERE j.sched_name = f.sched_name AND j.job_group = f.job_group AND j.job_name = f.job_name
                           OFFSET 0))
    RETURNING f.*, e.started_at, e.ended_at, e.outcome, e.error, e.is_last, e.retry_after, e.result
),
-- A second record of the same instant is refused by a unique index, and reported. The instants are estimates of the
-- node, limited to the time between the fire and now by the store's clock. Estimates of two nodes differ by up to a
-- round trip: without the limits, the history could show that an execution began before the previous one of a serial
-- job had ended.
history AS (
    INSERT INTO qrtz_executions (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        job_type, instance_id, epoch, fired_time, scheduled_time, started_at, ended_at, outcome, error, attempt,
        trigger_data, result, retry_at
        )
    SELECT fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name, job_type, instance_id,
           epoch, fired_time, scheduled_time, least(greatest(started_at, fired_time), clock_timestamp()),
           least(greatest(ended_at, fired_time), clock_timestamp()), outcome, error, attempt, trigger_data, result::jsonb,
           NULL
      FROM done
        ON CONFLICT DO NOTHING
    RETURNING fire_id
),
-- The triggers that waited for a slot of these jobs.
unblocked AS (
    UPDATE qrtz_triggers t
       SET trigger_state = CASE b.trigger_state WHEN 'BLOCKED' THEN 'WAITING' ELSE 'PAUSED' END
      FROM (SELECT DISTINCT job_group, job_name, concurrency_key FROM done WHERE max_concurrent IS NOT NULL) AS job
     -- include: unblocked
     CROSS JOIN LATERAL (
        SELECT s.ctid AS row, s.trigger_state
          FROM qrtz_triggers s
         WHERE s.sched_name = %(sched)s AND s.job_group = job.job_group AND s.job_name = job.job_name
           AND s.concurrency_key = job.concurrency_key AND s.trigger_state IN ('BLOCKED', 'PAUSED_BLOCKED')
           FOR NO KEY UPDATE SKIP LOCKED) AS b
     WHERE t.ctid = b.row
     -- end
    RETURNING t.trigger_state, t.next_fire_time
),
-- include: ended_triggers
-- The triggers whose last fire this was. A declared one (it has an owner) stays, or the next sync would store it anew.
ended_triggers AS (
    DELETE FROM qrtz_triggers t
     USING (SELECT sched_name, trigger_group, trigger_name, generation FROM done WHERE is_last) AS d
     CROSS JOIN LATERAL (
        SELECT c.ctid AS row
          FROM qrtz_triggers c
         WHERE c.sched_name = d.sched_name AND c.trigger_group = d.trigger_group AND c.trigger_name = d.trigger_name
           AND c.generation = d.generation AND c.trigger_state || '' = 'COMPLETE' AND c.owner IS NULL
           FOR UPDATE SKIP LOCKED) AS over
     WHERE t.ctid = over.row
),
-- end
-- The node takes the triggers that wait again; it notifies the others if it takes no more work.
waiting AS (
    SELECT next_fire_time
      FROM (SELECT * FROM unblocked
           ) AS w
     WHERE trigger_state = 'WAITING'
)
SELECT clock_timestamp(),
       ARRAY(SELECT fire_id FROM done),
       ARRAY(SELECT fire_id FROM done EXCEPT SELECT fire_id FROM history),
       (SELECT min(next_fire_time) FROM waiting),
       (SELECT count(pg_notify(%(channel)s, 'scheduled'))
          FROM (SELECT FROM waiting WHERE %(wakes_others)s::bool LIMIT 1) AS any_waiting)
