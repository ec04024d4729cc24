-- EXISTS ends with OFFSET 0 where it looks its row up by the key, once for each row: a plan that was made for a small
-- table may else read the whole table into a hash.

-- name: guard
-- No row means that the epoch is no longer registered.
SELECT :now FROM qrtz_scheduler_state
 WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint;

-- name: remove_dead
-- Only nodes that have not checked in since they were judged dead.
DELETE FROM qrtz_scheduler_state s
 USING unnest(:'instances'::text[], :'epochs'::bigint[], :'counts'::bigint[]) AS d(instance_id, epoch, checkin_count)
 WHERE s.sched_name = :'sched' AND s.instance_id = d.instance_id AND s.epoch = d.epoch
   AND s.checkin_count = d.checkin_count
RETURNING s.instance_id;

-- name: end_sessions
-- Their open transactions hold locks on rows that recovery would have to skip. Only from PostgreSQL 14 on does
-- pg_terminate_backend() wait for the end of a session: these get a moment.
SELECT ended, (SELECT pg_sleep(0.1) WHERE ended > 0)::text
  FROM (SELECT count(*) FILTER (WHERE pg_terminate_backend(a.pid)) AS ended
          FROM unnest(:'instances'::text[], :'epochs'::bigint[], :'counts'::bigint[], :'prefixes'::text[])
                   AS d(instance_id, epoch, checkin_count, prefix)
          JOIN qrtz_scheduler_state s
            ON s.sched_name = :'sched' AND s.instance_id = d.instance_id AND s.epoch = d.epoch
           AND s.checkin_count = d.checkin_count
          JOIN pg_stat_activity a
            ON a.datname = current_database() AND a.usename = current_user AND a.pid <> pg_backend_pid()
           AND starts_with(a.application_name, d.prefix)) AS sessions;

-- name: free
-- Releases what nodes held that are no longer registered.
WITH
-- Their claims and executions. An execution that was asked to stop does not run again.
abandoned AS MATERIALIZED (
    SELECT o.fire_id, o.job_group, o.job_name, o.state,
           o.state = 'EXECUTING' AND o.requests_recovery AND NOT o.cancel_requested AS runs_again
      FROM qrtz_fired_triggers o
     WHERE o.sched_name = :'sched'
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
         WHERE o.sched_name = :'sched' AND o.job_group = a.job_group AND o.job_name = a.job_name
           FOR NO KEY UPDATE SKIP LOCKED) AS j
     WHERE a.runs_again
),
-- The jobs to run after the executions that do not run again. An execution with more links than followers, whose rows
-- nobody else holds, is recovered by a later pass.
links AS MATERIALIZED (
    SELECT e.fire_id, link.place, target.row, link.spec -> 'data' AS link_data
      FROM (SELECT fire_id, job_group, job_name, 'TERMINATED' AS outcome
              FROM abandoned WHERE state = 'EXECUTING' AND NOT runs_again) AS e
-- include: followers
     CROSS JOIN LATERAL (
        SELECT o.continuations FROM qrtz_job_details o
         WHERE o.sched_name = :'sched' AND o.job_group = e.job_group AND o.job_name = e.job_name LIMIT 1) AS own
     CROSS JOIN LATERAL jsonb_array_elements(own.continuations) WITH ORDINALITY AS link(spec, place)
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row FROM qrtz_job_details o
         WHERE o.sched_name = :'sched' AND o.job_group = link.spec ->> 'job_group'
           AND o.job_name = link.spec ->> 'job_name' LIMIT 1) AS target
     WHERE jsonb_exists(link.spec -> 'outcomes', e.outcome)
),
followers AS MATERIALIZED (
    SELECT l.fire_id, l.place, l.link_data, j.*
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
         WHERE s.sched_name = :'sched' AND s.job_group = job.job_group AND s.job_name = job.job_name
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
        held_by_mode, next_fire_time, upcoming_is_complete, start_time, priority, misfire_instruction, attempt,
        coalesced_fire_times, job_data)
    SELECT f.sched_name, nextval('qrtz_fire_ids'), 'RECOVERING_JOBS',
           'recover_' || left(f.instance_id, 150) || '_' || f.fire_id,
           f.job_group, f.job_name, j.job_type, j.max_concurrent, j.overlap_policy, j.placement, j.rate_limit,
           f.concurrency_key, 'simple', '{"interval_us": 0, "repeat_count": 0}',
           CASE WHEN pause.applies OR j.mode = 'DISABLED' THEN 'PAUSED' ELSE 'WAITING' END,
           j.mode = 'DISABLED' AND NOT pause.applies,
           f.scheduled_time, true, f.scheduled_time, f.priority, 'ignore', f.attempt, f.coalesced_fire_times,
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
                        WHERE p.sched_name = :'sched'
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
        held_by_mode, next_fire_time, upcoming_is_complete, start_time, priority, misfire_instruction, attempt,
        coalesced_fire_times, job_data)
    SELECT f.sched_name, nextval('qrtz_fire_ids'), 'CONTINUATIONS', 'after_' || j.fire_id || '_' || j.place,
           j.job_group, j.job_name, j.job_type, j.max_concurrent, j.overlap_policy, j.placement, j.rate_limit,
           CASE WHEN j.concurrency_key IS NULL THEN ''
                ELSE (SELECT CASE WHEN length(k.value) <= 60 THEN k.value ELSE md5(k.value) END
                        FROM (SELECT coalesce((coalesce(j.job_data, '{}') || coalesce(j.link_data, '{}'))
                                              ->> j.concurrency_key, '') AS value) AS k) END,
           'simple', '{"interval_us": 0, "repeat_count": 0}',
           CASE WHEN pause.applies OR j.mode = 'DISABLED' THEN 'PAUSED' ELSE 'WAITING' END,
           j.mode = 'DISABLED' AND NOT pause.applies,
           :now, true, :now, f.priority, 'ignore', 1, NULL,
           jsonb_build_object(
               'QRTZ_PREDECESSOR_JOB_NAME', f.job_name,
               'QRTZ_PREDECESSOR_JOB_GROUP', f.job_group,
               'QRTZ_PREDECESSOR_FIRE_ID', f.fire_id,
               'QRTZ_PREDECESSOR_OUTCOME', f.outcome,
               'QRTZ_PREDECESSOR_RESULT', f.result::jsonb)
           || coalesce(j.link_data, '{}')
      FROM followers AS j
     CROSS JOIN LATERAL (
        SELECT EXISTS (SELECT FROM qrtz_paused_trigger_groups p
                        WHERE p.sched_name = :'sched'
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
             WHERE state = 'EXECUTING' AND epoch = ANY(:'died'::bigint[])) AS d
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row FROM qrtz_job_details o
         WHERE o.sched_name = :'sched' AND o.job_group = d.job_group AND o.job_name = d.job_name
           FOR NO KEY UPDATE SKIP LOCKED) AS died_in
     WHERE j.ctid = died_in.row
),
-- The history of executions that do not run again.
terminated AS (
    INSERT INTO qrtz_executions (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        job_type, instance_id, epoch, fired_time, scheduled_time, ended_at, outcome, error, attempt,
        trigger_data, log)
    SELECT f.fire_id, f.sched_name, f.trigger_group, f.trigger_name, f.generation, f.job_group, f.job_name, f.job_type,
           f.instance_id, f.epoch, f.fired_time, f.scheduled_time, :now, f.outcome,
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
SELECT (SELECT count(*) FROM reruns), (SELECT count(*) FROM terminated), (SELECT count(*) FROM released);

-- name: quarantine
-- A separate statement after `free`, because it changes triggers that `free` has just stored or released. A recovery
-- trigger becomes ERROR as well, and runs when somebody resets it, so that no fire is lost. The count restarts.
WITH quarantined_jobs AS (
    UPDATE qrtz_job_details j SET node_deaths = 0
      FROM (SELECT o.ctid AS row, o.node_deaths AS deaths FROM qrtz_job_details o
             WHERE o.sched_name = :'sched' AND o.node_deaths > 0 AND o.node_deaths >= :'max_deaths'::int
               FOR NO KEY UPDATE SKIP LOCKED) AS deadly
     WHERE j.ctid = deadly.row
    RETURNING j.job_group, j.job_name, deadly.deaths
),
quarantined_triggers AS (
    SELECT t.*, q.deaths
      FROM quarantined_jobs q
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.fire_id FROM qrtz_triggers o
         WHERE o.sched_name = :'sched' AND o.job_group = q.job_group AND o.job_name = q.job_name
           AND o.trigger_state || '' NOT IN ('COMPLETE', 'ERROR')
           FOR NO KEY UPDATE SKIP LOCKED) AS t
),
stopped AS (
    UPDATE qrtz_triggers t
       SET trigger_state = 'ERROR', fire_id = NULL,
           error = quarantined_triggers.deaths || ' nodes died in a row while they executed its job (max_node_deaths)'
      FROM quarantined_triggers
     WHERE t.ctid = quarantined_triggers.row
    RETURNING quarantined_triggers.fire_id
),
-- The claims on them are void; one whose row another transaction has locked stays, and never fires.
unclaimed AS (
    DELETE FROM qrtz_fired_triggers f
     USING stopped
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row FROM qrtz_fired_triggers o
         WHERE o.fire_id = stopped.fire_id AND o.state = 'ACQUIRED'
           FOR UPDATE SKIP LOCKED) AS void
     WHERE f.ctid = void.row
)
SELECT job_group, job_name FROM quarantined_jobs ORDER BY 1, 2;

-- name: stuck
-- Triggers in a state that says that something holds them, when nothing does. This is possible only by editing tables,
-- or if a step skipped a row that a transaction had locked.
-- include: stuck
SELECT t.trigger_group, t.trigger_name, t.trigger_state, t.job_group, t.job_name
  FROM qrtz_triggers t
 WHERE t.sched_name = :'sched'
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
;

-- name: anything_stuck
-- A check without a lock whether there is anything to recover; almost always there is not.
SELECT EXISTS (SELECT FROM qrtz_fired_triggers f
                WHERE f.sched_name = :'sched'
                  AND NOT EXISTS (SELECT FROM qrtz_scheduler_state s
                                   WHERE s.sched_name = f.sched_name AND s.epoch = f.epoch))
    OR EXISTS (
        -- include: stuck
        SELECT t.trigger_group, t.trigger_name, t.trigger_state, t.job_group, t.job_name
          FROM qrtz_triggers t
         WHERE t.sched_name = :'sched'
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
       );

-- name: repair
WITH stuck AS MATERIALIZED (
    -- include: stuck
    SELECT t.trigger_group, t.trigger_name, t.trigger_state, t.job_group, t.job_name
      FROM qrtz_triggers t
     WHERE t.sched_name = :'sched'
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
     WHERE t.sched_name = :'sched' AND t.trigger_group = s.trigger_group AND t.trigger_name = s.trigger_name
       AND s.trigger_state <> 'COMPLETE'
),
deleted AS (
    DELETE FROM qrtz_triggers t USING stuck s
     WHERE t.sched_name = :'sched' AND t.trigger_group = s.trigger_group AND t.trigger_name = s.trigger_name
       AND s.trigger_state = 'COMPLETE'
)
SELECT trigger_state, job_group, job_name FROM stuck;

-- name: present_epoch
-- The present epoch of an instance id that is wanted. If it is removed, it counts as dead.
SELECT epoch FROM qrtz_scheduler_state WHERE sched_name = :'sched' AND instance_id = :'instance';
