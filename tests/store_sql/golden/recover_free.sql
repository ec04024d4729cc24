-- Releases what nodes held that are no longer registered.
WITH
-- Their claims and executions. An execution that was asked to stop does not run again.
abandoned AS MATERIALIZED (
    SELECT o.fire_id, o.job_group, o.job_name, o.state,
           o.state = 'EXECUTING' AND o.requests_recovery AND NOT o.cancel_requested AS runs_again
      FROM qrtz_fired_triggers o
     WHERE o.sched_name = %(sched)s
       AND NOT EXISTS (SELECT FROM qrtz_scheduler_state s
                        WHERE s.sched_name = o.sched_name AND s.epoch = o.epoch)
       FOR UPDATE SKIP LOCKED
),
-- The jobs that run again, without those that another transaction has locked. A trigger that is stored refers to its
-- job, which would wait under the lock for any open transaction that deletes or redefines the job. So the job's row is
-- locked first. The lock is stronger than the foreign key requires, because the check of the key would wait for a row
-- that was updated and then locked.
repeatable AS MATERIALIZED (
    SELECT a.fire_id, j.job_type, j.max_concurrent, j.overlap_policy, j.placement, j.rate_limit, j.mode
      FROM abandoned a
     CROSS JOIN LATERAL (
        SELECT o.job_type, o.max_concurrent, o.overlap_policy, o.placement, o.rate_limit, o.mode
          FROM qrtz_job_details o
         WHERE o.sched_name = %(sched)s AND o.job_group = a.job_group AND o.job_name = a.job_name
           FOR NO KEY UPDATE SKIP LOCKED) AS j
     WHERE a.runs_again
),
-- The jobs to run after the executions that do not run again. An execution with more links than followers, whose rows
-- nobody else holds, is recovered by a later pass.
links AS MATERIALIZED (
    SELECT e.fire_id, link.place, target.row, link.spec -> 'data' AS given
      FROM (SELECT fire_id, job_group, job_name, 'TERMINATED' AS outcome
              FROM abandoned WHERE state = 'EXECUTING' AND NOT runs_again) AS e
-- include: followers
     CROSS JOIN LATERAL (
        SELECT o.continuations FROM qrtz_job_details o
         WHERE o.sched_name = %(sched)s AND o.job_group = e.job_group AND o.job_name = e.job_name LIMIT 1) AS own
     CROSS JOIN LATERAL jsonb_array_elements(own.continuations) WITH ORDINALITY AS link(spec, place)
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row FROM qrtz_job_details o
         WHERE o.sched_name = %(sched)s AND o.job_group = link.spec ->> 'job_group'
           AND o.job_name = link.spec ->> 'job_name' LIMIT 1) AS target
     WHERE jsonb_exists(link.spec -> 'outcomes', e.outcome)
),
followers AS MATERIALIZED (
    SELECT l.fire_id, l.place, l.given, j.*
      FROM links l
     CROSS JOIN LATERAL (
        SELECT o.job_group, o.job_name, o.job_type, o.max_concurrent, o.overlap_policy, o.placement, o.mode,
               o.rate_limit, o.concurrency_key, o.job_data
          FROM qrtz_job_details o
         WHERE o.ctid = l.row
           FOR NO KEY UPDATE SKIP LOCKED) AS j
),
-- end
-- The rows go, unless somebody holds the row of a job that must be stored with them.
removed AS (
    DELETE FROM qrtz_fired_triggers f USING abandoned o
     WHERE f.fire_id = o.fire_id
       AND (NOT o.runs_again OR f.fire_id IN (SELECT fire_id FROM repeatable)
            OR NOT EXISTS (SELECT FROM qrtz_job_details j
                            WHERE j.sched_name = f.sched_name AND j.job_group = f.job_group AND j.job_name = f.job_name
                           OFFSET 0))
       AND f.fire_id NOT IN (SELECT fire_id FROM links EXCEPT ALL SELECT fire_id FROM followers)
    RETURNING f.*, 'TERMINATED' AS outcome, NULL::text AS result
),
-- The triggers of claims wait again.
released AS (
    UPDATE qrtz_triggers t SET trigger_state = 'WAITING', fire_id = NULL
      FROM (SELECT c.row
              FROM removed f
             CROSS JOIN LATERAL (
                SELECT o.ctid AS row
                  FROM qrtz_triggers o
                 WHERE o.sched_name = f.sched_name AND o.trigger_group = f.trigger_group
                   AND o.trigger_name = f.trigger_name AND o.trigger_state || '' = 'ACQUIRED' AND o.fire_id = f.fire_id
                   FOR NO KEY UPDATE SKIP LOCKED) AS c) AS claimed
     WHERE t.ctid = claimed.row
    RETURNING t.trigger_name
),
-- The triggers that waited for a slot of these jobs.
unblocked AS (
    UPDATE qrtz_triggers t
       SET trigger_state = CASE b.trigger_state WHEN 'BLOCKED' THEN 'WAITING' ELSE 'PAUSED' END
      FROM (SELECT DISTINCT job_group, job_name, concurrency_key
              FROM removed WHERE max_concurrent IS NOT NULL AND state = 'EXECUTING') AS job
     -- include: unblocked
     CROSS JOIN LATERAL (
        SELECT s.ctid AS row, s.trigger_state
          FROM qrtz_triggers s
         WHERE s.sched_name = %(sched)s AND s.job_group = job.job_group AND s.job_name = job.job_name
           AND s.concurrency_key = job.concurrency_key AND s.trigger_state IN ('BLOCKED', 'PAUSED_BLOCKED')
           FOR NO KEY UPDATE SKIP LOCKED) AS b
     WHERE t.ctid = b.row
     -- end
),
-- A one-shot trigger for each execution that runs again, with the key and the times of the original, under Quartz's
-- names; one that is repeated again keeps those of the first original. A rate limit is charged anew, because nobody
-- knows whether the job had begun.
reruns AS (
    INSERT INTO qrtz_triggers (sched_name, generation, trigger_group, trigger_name, job_group, job_name, job_type,
        max_concurrent, overlap_policy, placement, rate_limit, concurrency_key, kind, schedule, trigger_state,
        held_by_mode, next_fire_time, upcoming_is_complete, start_time, priority, misfire_instruction, misfire_rule,
        attempt, coalesced_fire_times, job_data)
    SELECT f.sched_name, nextval('qrtz_fire_ids'), 'RECOVERING_JOBS',
           'recover_' || left(f.instance_id, 150) || '_' || f.fire_id,
           f.job_group, f.job_name, j.job_type, j.max_concurrent, j.overlap_policy, j.placement, j.rate_limit,
           f.concurrency_key, 'simple', '{"interval_us": 0, "repeat_count": 0}',
           CASE WHEN pause.applies OR j.mode = 'DISABLED' THEN 'PAUSED' ELSE 'WAITING' END,
           j.mode = 'DISABLED' AND NOT pause.applies,
           f.scheduled_time, true, f.scheduled_time, f.priority, 'ignore',
           CASE WHEN j.rate_limit IS NULL THEN 'IGNORE' ELSE 'RATE_LIMIT' END,
           f.attempt, f.coalesced_fire_times,
           -- Before PostgreSQL 14, `extract` returns a float, which is exact for these two parts but not for their sum.
           jsonb_build_object(
               'QRTZ_FAILED_JOB_ORIG_TRIGGER_NAME', f.trigger_name,
               'QRTZ_FAILED_JOB_ORIG_TRIGGER_GROUP', f.trigger_group,
               'QRTZ_FAILED_JOB_ORIG_TRIGGER_FIRETIME_IN_MILLISECONDS_AS_STRING',
               trim_scale(extract(epoch FROM date_trunc('minute', f.fired_time))::numeric * 1000
                          + extract(microseconds FROM f.fired_time)::numeric / 1000)::text,
               'QRTZ_FAILED_JOB_ORIG_TRIGGER_SCHEDULED_FIRETIME_IN_MILLISECONDS_AS_STRING',
               trim_scale(extract(epoch FROM date_trunc('minute', f.scheduled_time))::numeric * 1000
                          + extract(microseconds FROM f.scheduled_time)::numeric / 1000)::text)
           || coalesce(f.trigger_data, '{}')
      FROM (SELECT * FROM removed WHERE state = 'EXECUTING' AND requests_recovery AND NOT cancel_requested) AS f
      JOIN repeatable AS j USING (fire_id)
     CROSS JOIN LATERAL (
        SELECT EXISTS (SELECT FROM qrtz_paused_trigger_groups p
                        WHERE p.sched_name = %(sched)s
                          AND (p.scope = 'ALL' OR (p.scope = 'TRIGGER' AND p.group_name = 'RECOVERING_JOBS')
                               OR (p.scope = 'JOB' AND p.group_name = f.job_group))) AS applies) AS pause
        ON CONFLICT DO NOTHING
    RETURNING trigger_name
),
-- A one-shot trigger for each job that runs after one of these executions.
continued AS (
    -- include: continued
    INSERT INTO qrtz_triggers (sched_name, generation, trigger_group, trigger_name, job_group, job_name, job_type,
        max_concurrent, overlap_policy, placement, rate_limit, concurrency_key, kind, schedule, trigger_state,
        held_by_mode, next_fire_time, upcoming_is_complete, start_time, priority, misfire_instruction, misfire_rule,
        attempt, coalesced_fire_times, job_data)
    SELECT f.sched_name, nextval('qrtz_fire_ids'), 'CONTINUATIONS', 'after_' || j.fire_id || '_' || j.place,
           j.job_group, j.job_name, j.job_type, j.max_concurrent, j.overlap_policy, j.placement, j.rate_limit,
           CASE WHEN j.concurrency_key IS NULL THEN ''
                ELSE (SELECT CASE WHEN length(k.value) <= 60 THEN k.value ELSE md5(k.value) END
                        FROM (SELECT coalesce((coalesce(j.job_data, '{}') || coalesce(j.given, '{}'))
                                              ->> j.concurrency_key, '') AS value) AS k) END,
           'simple', '{"interval_us": 0, "repeat_count": 0}',
           CASE WHEN pause.applies OR j.mode = 'DISABLED' THEN 'PAUSED' ELSE 'WAITING' END,
           j.mode = 'DISABLED' AND NOT pause.applies,
           clock_timestamp(), true, clock_timestamp(), f.priority, 'ignore',
           CASE WHEN j.rate_limit IS NULL THEN 'IGNORE' ELSE 'RATE_LIMIT' END, 1, NULL,
           jsonb_build_object(
               'QRTZ_PREDECESSOR_JOB_NAME', f.job_name,
               'QRTZ_PREDECESSOR_JOB_GROUP', f.job_group,
               'QRTZ_PREDECESSOR_FIRE_ID', f.fire_id,
               'QRTZ_PREDECESSOR_OUTCOME', f.outcome,
               'QRTZ_PREDECESSOR_RESULT', f.result::jsonb)
           || coalesce(j.given, '{}')
      FROM followers AS j
     CROSS JOIN LATERAL (
        SELECT EXISTS (SELECT FROM qrtz_paused_trigger_groups p
                        WHERE p.sched_name = %(sched)s
                          AND (p.scope = 'ALL' OR (p.scope = 'TRIGGER' AND p.group_name = 'CONTINUATIONS')
                               OR (p.scope = 'JOB' AND p.group_name = j.job_group))) AS applies) AS pause
    -- end
      JOIN removed AS f USING (fire_id)
        ON CONFLICT DO NOTHING
),
-- The jobs that were running on nodes that died.
deaths AS (
    UPDATE qrtz_job_details j SET node_deaths = j.node_deaths + 1
      FROM (SELECT DISTINCT job_group, job_name FROM removed
             WHERE state = 'EXECUTING' AND epoch = ANY(%(died)s::bigint[])) AS d
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row FROM qrtz_job_details o
         WHERE o.sched_name = %(sched)s AND o.job_group = d.job_group AND o.job_name = d.job_name
           FOR NO KEY UPDATE SKIP LOCKED) AS died_in
     WHERE j.ctid = died_in.row
),
-- The history of executions that do not run again.
terminated AS (
    INSERT INTO qrtz_executions (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        job_type, instance_id, epoch, fired_time, scheduled_time, ended_at, outcome, error, attempt,
        trigger_data, log)
    SELECT f.fire_id, f.sched_name, f.trigger_group, f.trigger_name, f.generation, f.job_group, f.job_name, f.job_type,
           f.instance_id, f.epoch, f.fired_time, f.scheduled_time, clock_timestamp(), f.outcome,
           'its node stopped while executing it', f.attempt, f.trigger_data, f.recent_log
      FROM removed f
     WHERE f.state = 'EXECUTING'
       AND NOT (f.requests_recovery AND NOT f.cancel_requested
                AND EXISTS (SELECT FROM qrtz_job_details j
                             WHERE j.sched_name = f.sched_name AND j.job_group = f.job_group AND j.job_name = f.job_name
                            OFFSET 0))
        ON CONFLICT DO NOTHING
    RETURNING fire_id
)
SELECT (SELECT count(*) FROM reruns), (SELECT count(*) FROM terminated), (SELECT count(*) FROM released)
