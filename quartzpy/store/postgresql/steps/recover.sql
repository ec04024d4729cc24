-- EXISTS ends with OFFSET 0 where it looks its row up by the key, once for each row: a plan that was made for a small
-- table may else read the whole table into a hash.

-- name: guard
-- No row means that the epoch is no longer registered.
SELECT :now FROM qrtz_scheduler_state
 WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint;

-- name: record_lost
-- What the nodes that are removed next have held, for the operators who ask later. An execution that was asked to stop
-- does not run again, and none whose job is gone.
INSERT INTO qrtz_audit (id, sched_name, at, ended_at, actor, role, action, subject, reason, state, count, before, after)
SELECT nextval('qrtz_fire_ids'), s.sched_name, :now, :now, :'instance', 'node', 'lost', left('node ' || s.instance_id, 500),
       '', 'SUCCEEDED', held.released + held.repeated + held.lost,
       jsonb_build_object('host', s.host, 'pid', s.pid, 'epoch', s.epoch, 'last_checkin', s.last_checkin),
       jsonb_build_object('released', held.released, 'repeated', held.repeated, 'lost', held.lost)
  FROM unnest(:'instances'::text[], :'epochs'::bigint[], :'counts'::bigint[]) AS d(instance_id, epoch, checkin_count)
  JOIN qrtz_scheduler_state s
    ON s.sched_name = :'sched' AND s.instance_id = d.instance_id AND s.epoch = d.epoch
   AND s.checkin_count = d.checkin_count
 CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE c.state = 'ACQUIRED') AS released,
           count(*) FILTER (WHERE c.state = 'EXECUTING' AND c.runs_again) AS repeated,
           count(*) FILTER (WHERE c.state = 'EXECUTING' AND NOT c.runs_again) AS lost
      FROM (SELECT o.state, o.epoch,
                   o.requests_recovery AND o.cancel_requested IS FALSE
                   AND EXISTS (SELECT FROM qrtz_job_details j
                                WHERE j.sched_name = o.sched_name AND j.job_group = o.job_group
                                  AND j.job_name = o.job_name OFFSET 0) AS runs_again
              FROM qrtz_fired_triggers o WHERE o.sched_name = :'sched') AS c
     WHERE c.epoch = s.epoch) AS held;

-- name: record_left
-- A node that ends by itself has nothing left to lose.
INSERT INTO qrtz_audit (id, sched_name, at, ended_at, actor, role, action, subject, reason, state, count, before, after)
SELECT nextval('qrtz_fire_ids'), s.sched_name, :now, :now, s.instance_id, 'node', 'left', left('node ' || s.instance_id, 500),
       '', 'SUCCEEDED', 0,
       jsonb_build_object('host', s.host, 'pid', s.pid, 'epoch', s.epoch, 'last_checkin', s.last_checkin),
       jsonb_build_object('released', 0, 'repeated', 0, 'lost', 0)
  FROM qrtz_scheduler_state s
 WHERE s.sched_name = :'sched' AND s.instance_id = :'instance' AND s.epoch = :'epoch'::bigint;

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
-- Their claims and executions. An execution that was asked to stop does not run again, and none whose job is gone.
abandoned AS MATERIALIZED (
    SELECT o.fire_id, o.job_group, o.job_name, o.state,
           o.state = 'EXECUTING' AND o.requests_recovery AND NOT o.cancel_requested
           AND EXISTS (SELECT FROM qrtz_job_details j
                        WHERE j.sched_name = o.sched_name AND j.job_group = o.job_group AND j.job_name = o.job_name
                       OFFSET 0) AS runs_again
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
    SELECT a.fire_id, j.*
      FROM abandoned a
     CROSS JOIN LATERAL (
        SELECT o.job_type, o.max_concurrent, o.overlap_policy, o.placement, o.rate_limit, o.limits, o.mode,
               o.concurrency_key, o.job_data
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
               o.rate_limit, o.limits, o.concurrency_key, o.job_data
          FROM qrtz_job_details o
         WHERE o.ctid = l.row
           FOR NO KEY UPDATE SKIP LOCKED) AS j
),
-- end
bare_ends AS MATERIALIZED (
    SELECT r.fire_id, r.job_group, r.job_name, r.trigger_group, r.scheduled_time, r.coalesced_fire_times, r.trigger_data
      FROM abandoned a
     CROSS JOIN LATERAL (SELECT o.* FROM qrtz_fired_triggers o WHERE o.fire_id = a.fire_id LIMIT 1) AS r
     WHERE a.state = 'EXECUTING' AND NOT a.runs_again
),
-- include: joins
-- What each of these ends means to the jobs that wait for several: one row for each job that names the job of the
-- execution, and one for the batch of its trigger. A job that was deleted while it ran is still waited for. A run by hand
-- is no part of a batch: it has the data of a trigger that has been counted.
arrivals AS MATERIALIZED (
    SELECT e.fire_id, e.job_group AS ended_group, e.job_name AS ended_name, waits.*
      FROM (SELECT f.*,
                   -- include: nominal_of_f
                   -- The instant for which an execution counts: the last of those that it makes up for, that of the
                   -- original for one that repeats another, and that of its predecessors for one that follows others.
                   -- An entry that cannot be read, which only somebody else can have written, is none.
                   CASE WHEN cardinality(f.coalesced_fire_times) > 0
                        THEN f.coalesced_fire_times[cardinality(f.coalesced_fire_times)]
                        WHEN f.trigger_group
                             IN ('MANUAL_TRIGGERS', 'RECOVERING_JOBS', 'RETRYING_JOBS', 'CONTINUATIONS')
                        THEN coalesce((jsonb_path_query_first(f.trigger_data, '
                                               $.QRTZ_NOMINAL_FIRE_TIME ? (@ like_regex "^[0-9]{4}-")
                                                .datetime("YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"")', '{}', true)
                                                   #>> '{}')::timestamp AT TIME ZONE 'UTC',
                                      least(f.scheduled_time,
                                            timestamptz 'epoch' + substring(f.trigger_data ->>
                                            'QRTZ_RETRIED_SCHEDULED_FIRETIME_IN_MILLISECONDS_AS_STRING'
                                            FROM '^(?:-\d{1,13}|\d{1,15})(?:\.\d{1,6})?$')::numeric
                                            * 1000 * interval '1 microsecond',
                                            timestamptz 'epoch' + substring(f.trigger_data ->>
                                            'QRTZ_FAILED_JOB_ORIG_TRIGGER_SCHEDULED_FIRETIME_IN_MILLISECONDS_AS_STRING'
                                            FROM '^(?:-\d{1,13}|\d{1,15})(?:\.\d{1,6})?$')::numeric
                                            * 1000 * interval '1 microsecond'))
                        ELSE f.scheduled_time END
                   -- end
                   AS instant
              FROM bare_ends f) AS e
     CROSS JOIN LATERAL (
        SELECT d.row, d.job_group, d.job_name, d.after,
               CASE d.after ->> 'per'
                    WHEN 'day' THEN to_char(e.instant AT TIME ZONE (d.after ->> 'time_zone'), 'YYYY-MM-DD')
                    ELSE to_char(e.instant AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END AS occasion
          FROM (SELECT u.job_group, u.job_name FROM qrtz_job_upstreams u
                 WHERE u.sched_name || '' = :'sched' AND u.upstream_group || '' = e.job_group
                   AND u.upstream_name || '' = e.job_name) AS by
         CROSS JOIN LATERAL (
            SELECT o.ctid AS row, o.job_group, o.job_name, o.after FROM qrtz_job_details o
             WHERE o.sched_name = :'sched' AND o.job_group = by.job_group AND o.job_name = by.job_name LIMIT 1) AS d
         WHERE d.after -> 'jobs' @> jsonb_build_array(jsonb_build_object('job_group', e.job_group,
                                                                         'job_name', e.job_name))
        UNION ALL
        SELECT d.row, d.job_group, d.job_name, NULL, e.trigger_data -> 'QRTZ_BATCH' ->> 'batch'
          FROM (SELECT o.ctid AS row, o.job_group, o.job_name FROM qrtz_job_details o
                 WHERE o.sched_name = :'sched' AND e.trigger_group <> 'MANUAL_TRIGGERS'
                   AND o.job_group = e.trigger_data -> 'QRTZ_BATCH' ->> 'job_group'
                   AND o.job_name = e.trigger_data -> 'QRTZ_BATCH' ->> 'job_name' LIMIT 1) AS d) AS waits
),
-- The joins and batches that they concern, with the rows locked that change: that of the join, and of the job if it may
-- be started. Each is one row, however large the batch is. The lock of the step orders all that count.
joins AS MATERIALIZED (
    SELECT a.*, stored.row AS join_row, stored.state, stored.ended, stored.total, stored.outcomes, stored.succeeded,
           stored.failed, stored.removed,
           job.is_free IS NULL AND stored.state IS DISTINCT FROM 'FIRED' OR stored.row IS DISTINCT FROM own.row AS is_held,
           job.job_type, job.max_concurrent, job.overlap_policy, job.placement, job.mode, job.rate_limit,
           job.limits, job.concurrency_key, job.job_data
      FROM (SELECT DISTINCT job_group, job_name, occasion, row, after FROM arrivals) AS a
      LEFT JOIN LATERAL (
        SELECT o.ctid AS row, o.state, o.ended, o.total, o.outcomes, o.succeeded, o.failed, o.removed
          FROM qrtz_joins o
         WHERE o.sched_name = :'sched' AND o.job_group = a.job_group AND o.job_name = a.job_name
           AND o.occasion = a.occasion LIMIT 1) AS stored ON true
      LEFT JOIN LATERAL (
        -- A version that is newer than what was read: somebody has removed a trigger of the batch meanwhile.
        SELECT o.ctid AS row FROM qrtz_joins o WHERE o.ctid = stored.row FOR UPDATE SKIP LOCKED) AS own ON true
      LEFT JOIN LATERAL (
        SELECT true AS is_free, o.job_type, o.max_concurrent, o.overlap_policy, o.placement, o.mode, o.rate_limit,
               o.limits, o.concurrency_key, o.job_data
          FROM qrtz_job_details o
         WHERE o.ctid = a.row AND stored.state IS DISTINCT FROM 'FIRED'
           FOR NO KEY UPDATE SKIP LOCKED) AS job ON true
     -- A batch that is no longer stored was purged, or removed with everything else.
     WHERE a.after IS NOT NULL OR stored.row IS NOT NULL
),
-- The executions that wait for such a row.
joins_held AS MATERIALIZED (
    SELECT a.fire_id FROM arrivals a JOIN joins j USING (job_group, job_name, occasion) WHERE j.is_held
),
-- end
-- The rows go, unless somebody holds the row of a job that must be stored with them.
removed AS (
    DELETE FROM qrtz_fired_triggers f USING abandoned o
     WHERE f.fire_id = o.fire_id
       AND (NOT o.runs_again OR f.fire_id IN (SELECT fire_id FROM repeatable))
       AND f.fire_id NOT IN (SELECT fire_id FROM links EXCEPT ALL SELECT fire_id FROM followers)
       AND f.fire_id NOT IN (SELECT fire_id FROM joins_held)
    RETURNING f.*, o.runs_again, 'TERMINATED' AS outcome, NULL::text AS result
),
-- The triggers of claims wait again.
unclaimed AS (
    UPDATE qrtz_triggers t
       SET trigger_state = 'WAITING', fire_id = NULL,
           -- include: prepared_once
           -- PostgreSQL 18 prepares the generated columns for each row anew, unless a column that they depend on is set.
           admission = t.admission
           -- end
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
-- The executions that ended, of each job with a limit.
ends AS (
    SELECT job_group, job_name, concurrency_key, count(*) AS number
      FROM removed WHERE max_concurrent IS NOT NULL AND state = 'EXECUTING'
     GROUP BY job_group, job_name, concurrency_key
),
-- include: freed
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
           AND r.concurrency_key = ends.concurrency_key AND r.state = 'EXECUTING' AND r.max_concurrent IS NOT NULL
     ) AS before
),
-- The few triggers that wait by another overlap policy: all of them.
freed_by_policy AS (
    UPDATE qrtz_triggers t
       SET trigger_state = CASE waiting.trigger_state WHEN 'BLOCKED' THEN 'WAITING' ELSE 'PAUSED' END,
           -- include: prepared_once
           -- PostgreSQL 18 prepares the generated columns for each row anew, unless a column that they depend on is set.
           admission = t.admission
           -- end
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
-- end
-- include: released
-- As many of the triggers that wait as there are slots, the soonest first, for each misfire rule by which the acquire
-- step takes a trigger.
in_time AS MATERIALIZED (
    SELECT open.job_group, open.job_name, open.concurrency_key, waiting.row
      FROM (SELECT * FROM freed WHERE NOT frees_all AND slots > 0) AS open
     CROSS JOIN (VALUES ('NODE'), ('OWN'), ('IGNORE'), ('RATE_LIMIT')) AS rule(name)
     CROSS JOIN LATERAL (
        SELECT s.ctid AS row FROM qrtz_triggers s
         WHERE s.sched_name || '' = :'sched' AND s.job_group || '' = open.job_group
           AND s.job_name || '' = open.job_name AND s.concurrency_key || '' = open.concurrency_key
           AND s.trigger_state = 'BLOCKED'
           AND s.misfire_rule = rule.name
           AND s.next_fire_time >= CASE rule.name
                   WHEN 'NODE' THEN open.at - :'misfire_threshold'::interval ELSE '-infinity' END
           AND (rule.name <> 'OWN' OR s.next_fire_time >= open.at - s.misfire_threshold)
         ORDER BY s.next_fire_time, s.priority DESC
         LIMIT open.slots
           FOR NO KEY UPDATE SKIP LOCKED) AS waiting
),
-- Where too few are in time, the soonest of those that are late: these are the misfire step's, which handles the others
-- of the job with them. One that is released in vain is blocked again.
released AS (
    UPDATE qrtz_triggers t
       SET trigger_state = 'WAITING',
           -- include: keeps_old_entries
           -- PostgreSQL does not search the full pages of `qrtz_triggers_job` for old versions (decision 65).
           concurrency_key = t.concurrency_key,
           -- end
           -- include: prepared_once
           -- PostgreSQL 18 prepares the generated columns for each row anew, unless a column that they depend on is set.
           admission = t.admission
           -- end
      FROM (SELECT row FROM in_time
            UNION ALL
            SELECT waiting.row
              FROM (SELECT f.*, f.slots - (SELECT count(*) FROM in_time i
                                            WHERE i.job_group = f.job_group AND i.job_name = f.job_name
                                              AND i.concurrency_key = f.concurrency_key) AS rest
                      FROM freed f WHERE NOT f.frees_all) AS open
             CROSS JOIN (VALUES ('NODE'), ('OWN'), ('LATE')) AS rule(name)
             CROSS JOIN LATERAL (
                SELECT s.ctid AS row FROM qrtz_triggers s
                 WHERE s.sched_name || '' = :'sched' AND s.job_group || '' = open.job_group
                   AND s.job_name || '' = open.job_name AND s.concurrency_key || '' = open.concurrency_key
                   AND s.trigger_state = 'BLOCKED'
                   AND s.misfire_rule = rule.name
                   AND s.next_fire_time < CASE rule.name
                           WHEN 'NODE' THEN open.at - :'misfire_threshold'::interval ELSE 'infinity' END
                   AND (rule.name <> 'OWN' OR s.next_fire_time < open.at - s.misfire_threshold)
                 ORDER BY s.next_fire_time, s.priority DESC
                 LIMIT greatest(open.rest, 0)
                   FOR NO KEY UPDATE SKIP LOCKED) AS waiting
             WHERE open.rest > 0) AS waiting
     WHERE t.ctid = waiting.row
    RETURNING t.next_fire_time
)
-- end
,
-- A one-shot trigger for each execution that runs again, with the key and the times of the original, under Quartz's
-- names; one that is repeated again keeps those of the first original. A rate limit is charged anew, because nobody
-- knows whether the job had begun.
reruns AS (
    INSERT INTO qrtz_triggers (sched_name, generation, trigger_group, trigger_name, job_group, job_name, job_type,
        max_concurrent, overlap_policy, placement, rate_limit, limits, concurrency_key, kind, schedule, trigger_state,
        held_by_mode, next_fire_time, upcoming_is_complete, start_time, priority, misfire_instruction, attempt,
        coalesced_fire_times, job_data)
    SELECT f.sched_name, nextval('qrtz_fire_ids'), 'RECOVERING_JOBS',
           'recover_' || left(f.instance_id, 150) || '_' || f.fire_id,
           f.job_group, f.job_name, j.job_type, j.max_concurrent, j.overlap_policy, j.placement, j.rate_limit, j.limits,
           -- include: key_of_repeated
           -- As the job computes it now: it may have another one than when the execution began.
           CASE WHEN j.concurrency_key IS NULL THEN ''
                ELSE (SELECT CASE WHEN length(k.value) <= 60 THEN k.value ELSE md5(k.value) END
                        FROM (SELECT coalesce((coalesce(j.job_data, '{}') || coalesce(f.trigger_data, '{}'))
                                              ->> j.concurrency_key, '') AS value) AS k) END
           -- end
           , 'simple', '{"interval_us": 0, "repeat_count": 0}',
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
      FROM (SELECT * FROM removed WHERE runs_again) AS f
      JOIN repeatable AS j USING (fire_id)
     CROSS JOIN LATERAL (
        SELECT EXISTS (SELECT FROM qrtz_paused_trigger_groups p
                        WHERE p.sched_name = :'sched'
                          AND (p.scope = 'ALL' OR (p.scope = 'TRIGGER' AND p.group_name = 'RECOVERING_JOBS')
                               OR (p.scope = 'JOB' AND p.group_name = f.job_group))) AS applies) AS pause
    RETURNING trigger_name
),
done_ends AS MATERIALIZED (
    SELECT fire_id, outcome, result FROM removed
     WHERE state = 'EXECUTING' AND NOT runs_again
),
-- include: joined
-- What the ends add to each join. An execution that counts is not replaced by one of the same job that does not.
added AS MATERIALIZED (
    SELECT j.job_group, j.job_name, j.occasion, max(d.fire_id) AS fire_id,
           jsonb_object_agg(
               jsonb_build_array(a.ended_group, a.ended_name)::text,
               jsonb_build_object('job_group', a.ended_group, 'job_name', a.ended_name, 'fire_id', d.fire_id,
                                  'outcome', d.outcome, 'result', d.result::jsonb)
               ORDER BY jsonb_exists(j.after -> 'outcomes', d.outcome), d.fire_id)
               FILTER (WHERE j.after IS NOT NULL
                         AND (jsonb_exists(j.after -> 'outcomes', d.outcome)
                              OR NOT coalesce(jsonb_exists(j.after -> 'outcomes',
                                  j.ended -> jsonb_build_array(a.ended_group, a.ended_name)::text ->> 'outcome'),
                                  false))) AS ended,
           count(*) FILTER (WHERE d.outcome = 'SUCCEEDED') AS succeeded,
           count(*) FILTER (WHERE d.outcome <> 'SUCCEEDED') AS failed
      FROM done_ends d
      JOIN arrivals a USING (fire_id)
      JOIN joins j USING (job_group, job_name, occasion)
     GROUP BY j.job_group, j.job_name, j.occasion
),
decided AS MATERIALIZED (
    SELECT s.*,
           CASE WHEN s.former = 'FIRED' OR (s.former = 'UNMET' AND s.after IS NULL) THEN s.former
                WHEN s.after IS NOT NULL
                THEN CASE WHEN (SELECT count(*)
                                  FROM jsonb_array_elements(s.after -> 'jobs') AS up(spec)
                                 WHERE jsonb_exists(s.after -> 'outcomes',
                                           s.ended -> jsonb_build_array(up.spec ->> 'job_group',
                                                                        up.spec ->> 'job_name')::text ->> 'outcome')
                               ) >= (s.after ->> 'needed')::int THEN 'FIRED' ELSE 'WAITING' END
                WHEN s.succeeded + s.failed + s.removed < s.total THEN 'WAITING'
                WHEN jsonb_exists(s.outcomes, 'FAILED')
                     AND (s.failed + s.removed > 0 OR jsonb_exists(s.outcomes, 'SUCCEEDED'))
                     OR s.failed + s.removed = 0 AND jsonb_exists(s.outcomes, 'SUCCEEDED') THEN 'FIRED'
                ELSE 'UNMET' END AS state
      FROM (SELECT j.job_group, j.job_name, j.occasion, j.join_row, j.after, j.state AS former, j.total, j.outcomes,
                   CASE WHEN j.after IS NOT NULL
                        THEN coalesce(j.ended, '{}') || coalesce(a.ended, '{}') END AS ended,
                   coalesce(j.succeeded, 0) + a.succeeded AS succeeded, coalesce(j.failed, 0) + a.failed AS failed,
                   coalesce(j.removed, 0) AS removed, a.fire_id, j.job_type, j.max_concurrent,
                   j.overlap_policy, j.placement, j.mode, j.rate_limit, j.limits, j.concurrency_key, j.job_data
              FROM added a
              JOIN joins j USING (job_group, job_name, occasion)) AS s
),
counted AS (
    UPDATE qrtz_joins j
       SET state = d.state, ended = d.ended, succeeded = d.succeeded, failed = d.failed, last_end_at = :now,
           fire_id = CASE WHEN d.state = 'FIRED' AND d.former <> 'FIRED' THEN d.fire_id ELSE j.fire_id END,
           due_at = CASE WHEN d.state = 'WAITING' THEN j.due_at END
      FROM decided d
     WHERE j.ctid = d.join_row
),
opened AS (
    INSERT INTO qrtz_joins (sched_name, job_group, job_name, occasion, state, opened_at, last_end_at, ended, succeeded,
                            failed, fire_id, due_at)
    SELECT :'sched', d.job_group, d.job_name, d.occasion, d.state, :now, :now, d.ended, d.succeeded, d.failed,
           CASE WHEN d.state = 'FIRED' THEN d.fire_id END,
           CASE WHEN d.state = 'WAITING'
                THEN :now + (d.after ->> 'within_us')::bigint * interval '1 microsecond' END
      FROM decided d
     WHERE d.join_row IS NULL
),
-- The jobs that are started by these ends: each follows the last of them. Those that follow the same one are numbered,
-- so that each has a trigger of its own. A job that runs after others counts for the instant of the occasion, or for the
-- beginning of the day; the end of a batch has no instant but its own.
joined AS MATERIALIZED (
    SELECT d.fire_id,
           CASE WHEN d.after IS NULL THEN 'batch_' ELSE 'join_' END
               || row_number() OVER (PARTITION BY d.fire_id ORDER BY d.job_group, d.job_name, d.occasion) AS place,
           CASE d.after ->> 'per'
                WHEN 'instant' THEN d.occasion::timestamptz
                WHEN 'day' THEN d.occasion::timestamp AT TIME ZONE (d.after ->> 'time_zone')
                ELSE :now END AS instant,
           jsonb_build_object('QRTZ_JOINED', jsonb_build_object(
               'occasion', d.occasion, 'succeeded', d.succeeded, 'failed', d.failed, 'removed', d.removed,
               'ended', coalesce((SELECT jsonb_agg(entry.value) FROM jsonb_each(d.ended) AS entry), '[]')))
               AS link_data,
           d.job_group, d.job_name, d.job_type, d.max_concurrent, d.overlap_policy, d.placement, d.mode, d.rate_limit,
           d.limits, d.concurrency_key, d.job_data
      FROM decided d
     WHERE d.state = 'FIRED' AND d.former IS DISTINCT FROM 'FIRED'
),
-- end
successors AS (
    SELECT fire_id, place::text AS place, NULL::timestamptz AS instant, link_data, job_group, job_name, job_type,
           max_concurrent, overlap_policy, placement, mode, rate_limit, limits, concurrency_key, job_data
      FROM followers
    UNION ALL
    SELECT fire_id, place, instant, link_data, job_group, job_name, job_type, max_concurrent, overlap_policy, placement,
           mode, rate_limit, limits, concurrency_key, job_data
      FROM joined
),
-- A one-shot trigger for each job that runs after one of these executions. A second one of the same name, which only a
-- bug can cause, fails the statement: what is recorded as a start is one.
continued AS (
    -- include: continued
    INSERT INTO qrtz_triggers (sched_name, generation, trigger_group, trigger_name, job_group, job_name, job_type,
        max_concurrent, overlap_policy, placement, rate_limit, limits, concurrency_key, kind, schedule, trigger_state,
        held_by_mode, next_fire_time, upcoming_is_complete, start_time, priority, misfire_instruction, attempt,
        coalesced_fire_times, job_data)
    SELECT f.sched_name, nextval('qrtz_fire_ids'), 'CONTINUATIONS', 'after_' || j.fire_id || '_' || j.place,
           j.job_group, j.job_name, j.job_type, j.max_concurrent, j.overlap_policy, j.placement, j.rate_limit, j.limits,
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
           || jsonb_build_object('QRTZ_NOMINAL_FIRE_TIME', to_char(
               coalesce(j.instant,
                        -- include: nominal_of_f
                        -- The instant for which an execution counts: the last of those that it makes up for, that of the
                        -- original for one that repeats another, and that of its predecessors for one that follows others.
                        -- An entry that cannot be read, which only somebody else can have written, is none.
                        CASE WHEN cardinality(f.coalesced_fire_times) > 0
                             THEN f.coalesced_fire_times[cardinality(f.coalesced_fire_times)]
                             WHEN f.trigger_group
                                  IN ('MANUAL_TRIGGERS', 'RECOVERING_JOBS', 'RETRYING_JOBS', 'CONTINUATIONS')
                             THEN coalesce((jsonb_path_query_first(f.trigger_data, '
                                                    $.QRTZ_NOMINAL_FIRE_TIME ? (@ like_regex "^[0-9]{4}-")
                                                     .datetime("YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"")', '{}', true)
                                                        #>> '{}')::timestamp AT TIME ZONE 'UTC',
                                           least(f.scheduled_time,
                                                 timestamptz 'epoch' + substring(f.trigger_data ->>
                                                 'QRTZ_RETRIED_SCHEDULED_FIRETIME_IN_MILLISECONDS_AS_STRING'
                                                 FROM '^(?:-\d{1,13}|\d{1,15})(?:\.\d{1,6})?$')::numeric
                                                 * 1000 * interval '1 microsecond',
                                                 timestamptz 'epoch' + substring(f.trigger_data ->>
                                                 'QRTZ_FAILED_JOB_ORIG_TRIGGER_SCHEDULED_FIRETIME_IN_MILLISECONDS_AS_STRING'
                                                 FROM '^(?:-\d{1,13}|\d{1,15})(?:\.\d{1,6})?$')::numeric
                                                 * 1000 * interval '1 microsecond'))
                             ELSE f.scheduled_time END
                        -- end
                       ) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
      FROM successors AS j
     CROSS JOIN LATERAL (
        SELECT EXISTS (SELECT FROM qrtz_paused_trigger_groups p
                        WHERE p.sched_name = :'sched'
                          AND (p.scope = 'ALL' OR (p.scope = 'TRIGGER' AND p.group_name = 'CONTINUATIONS')
                               OR (p.scope = 'JOB' AND p.group_name = j.job_group))) AS applies) AS pause
    -- end
      JOIN removed AS f USING (fire_id)
),
-- The jobs that were running on nodes that died.
deaths AS (
    UPDATE qrtz_job_details j
       SET node_deaths = j.node_deaths + 1,
           -- include: prepared_once_of_job
           -- As `prepared_once`.
           placement = j.placement
           -- end
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
        job_type, instance_id, fired_time, scheduled_time, ended_at, outcome, error, attempt,
        trigger_data, log)
    SELECT f.fire_id, f.sched_name, f.trigger_group, f.trigger_name, f.generation, f.job_group, f.job_name, f.job_type,
           f.instance_id, f.fired_time, f.scheduled_time, :now, f.outcome,
           'its node stopped while executing it', f.attempt, f.trigger_data, f.recent_log
      FROM removed f
     WHERE f.state = 'EXECUTING' AND NOT f.runs_again
        ON CONFLICT DO NOTHING
    RETURNING fire_id
)
SELECT (SELECT count(*) FROM reruns), (SELECT count(*) FROM terminated), (SELECT count(*) FROM unclaimed);

-- name: quarantine
-- A separate statement after `free`, because it changes triggers that `free` has just stored or released. A recovery
-- trigger becomes ERROR as well, and runs when somebody resets it, so that no fire is lost. The count restarts.
-- Few triggers change here, under the lock. If there are more, only the recovery triggers do, which nobody may fire; the
-- jobs are marked, and the others follow in slices: see `stop_slice`.
WITH deadly AS MATERIALIZED (
    SELECT o.ctid AS row, o.job_group, o.job_name, o.node_deaths AS deaths FROM qrtz_job_details o
     WHERE o.sched_name = :'sched' AND o.node_deaths > 0 AND o.node_deaths >= :'max_deaths'::int AND NOT o.is_stopping
       FOR NO KEY UPDATE SKIP LOCKED
),
-- So many of their triggers that it shows whether there are too many.
some_triggers AS MATERIALIZED (
    SELECT t.row, t.trigger_state, d.deaths
      FROM deadly d
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.trigger_state FROM qrtz_triggers o
         WHERE o.sched_name = :'sched' AND o.job_group = d.job_group AND o.job_name = d.job_name
         LIMIT :'most'::int + 1) AS t
     LIMIT :'most'::int + 1
),
number AS MATERIALIZED (SELECT count(*) <= :'most'::int AS is_small FROM some_triggers),
affected AS MATERIALIZED (
    SELECT s.row, s.deaths FROM some_triggers s
     WHERE s.trigger_state NOT IN ('COMPLETE', 'ERROR') AND (SELECT is_small FROM number)
    UNION ALL
    SELECT r.row, d.deaths
      FROM (SELECT o.ctid AS row, o.job_group, o.job_name FROM qrtz_triggers o
             WHERE o.sched_name = :'sched' AND o.trigger_group = 'RECOVERING_JOBS'
               AND o.trigger_state || '' NOT IN ('COMPLETE', 'ERROR') AND NOT (SELECT is_small FROM number)
            OFFSET 0) AS r
      JOIN deadly d USING (job_group, job_name)
),
stopped AS (
    UPDATE qrtz_triggers t
       SET trigger_state = 'ERROR', fire_id = NULL,
           error = own.deaths || ' nodes died in a row while they executed its job (max_node_deaths)',
           -- include: prepared_once
           -- PostgreSQL 18 prepares the generated columns for each row anew, unless a column that they depend on is set.
           admission = t.admission
           -- end
      FROM (SELECT a.row, a.deaths, free.fire_id
              FROM affected a
             CROSS JOIN LATERAL (
                SELECT o.fire_id FROM qrtz_triggers o WHERE o.ctid = a.row FOR NO KEY UPDATE SKIP LOCKED) AS free) AS own
     WHERE t.ctid = own.row
    RETURNING own.fire_id
),
-- The claims on them are void; one whose row another transaction has locked stays, and never fires.
unclaimed AS (
    DELETE FROM qrtz_fired_triggers f
     USING stopped AS changed
     -- include: void_claims
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row FROM qrtz_fired_triggers o
         WHERE o.fire_id = changed.fire_id AND o.state = 'ACQUIRED'
           FOR UPDATE SKIP LOCKED) AS void
     WHERE f.ctid = void.row
     -- end
),
-- A trigger whose row another transaction holds follows in a slice.
result AS MATERIALIZED (
    SELECT is_small AND (SELECT count(*) FROM stopped) = (SELECT count(*) FROM affected) AS is_whole FROM number
),
quarantined_jobs AS (
    UPDATE qrtz_job_details j
       SET node_deaths = CASE WHEN result.is_whole THEN 0 ELSE j.node_deaths END, is_stopping = NOT result.is_whole,
           -- include: prepared_once_of_job
           -- As `prepared_once`.
           placement = j.placement
           -- end
      FROM deadly, result
     WHERE j.ctid = deadly.row
    RETURNING j.job_group, j.job_name, j.is_stopping
)
SELECT job_group, job_name, is_stopping FROM quarantined_jobs ORDER BY 1, 2;

-- name: stopping
SELECT job_group, job_name FROM qrtz_job_details
 WHERE sched_name = :'sched' AND node_deaths > 0 AND is_stopping;

-- name: stop_slice
-- Sets a slice of the triggers of jobs that are stopping to ERROR, with the claims on them. What others hold is passed
-- over, and the jobs stay marked.
WITH stopped AS (
    UPDATE qrtz_triggers t
       SET trigger_state = 'ERROR', fire_id = NULL,
           error = own.deaths || ' nodes died in a row while they executed its job (max_node_deaths)',
           -- include: prepared_once
           -- PostgreSQL 18 prepares the generated columns for each row anew, unless a column that they depend on is set.
           admission = t.admission
           -- end
      FROM (SELECT o.row, o.fire_id, job.deaths
              FROM unnest(:'groups'::text[], :'names'::text[], :'generations'::bigint[])
                   AS k(trigger_group, trigger_name, generation)
             CROSS JOIN LATERAL (
                SELECT c.ctid AS row, c.fire_id, c.job_group, c.job_name FROM qrtz_triggers c
                 WHERE c.sched_name = :'sched' AND c.trigger_group = k.trigger_group AND c.trigger_name = k.trigger_name
                   AND c.generation = k.generation AND c.trigger_state || '' NOT IN ('COMPLETE', 'ERROR')
                   FOR NO KEY UPDATE SKIP LOCKED) AS o
             CROSS JOIN LATERAL (
                SELECT j.node_deaths AS deaths FROM qrtz_job_details j
                 WHERE j.sched_name = :'sched' AND j.job_group = o.job_group AND j.job_name = o.job_name AND j.is_stopping
                 LIMIT 1) AS job) AS own
     WHERE t.ctid = own.row
    RETURNING t.generation, own.fire_id
),
unclaimed AS (
    DELETE FROM qrtz_fired_triggers f
     USING stopped AS changed
     -- include: void_claims
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row FROM qrtz_fired_triggers o
         WHERE o.fire_id = changed.fire_id AND o.state = 'ACQUIRED'
           FOR UPDATE SKIP LOCKED) AS void
     WHERE f.ctid = void.row
     -- end
)
SELECT generation FROM stopped;

-- name: all_stopped
-- Removes the mark of jobs of which no trigger is left to stop.
UPDATE qrtz_job_details j
   SET node_deaths = 0, is_stopping = false,
       -- include: prepared_once_of_job
       -- As `prepared_once`.
       placement = j.placement
       -- end
  FROM unnest(:'groups'::text[], :'names'::text[]) AS k(job_group, job_name)
 WHERE j.sched_name = :'sched' AND j.job_group = k.job_group AND j.job_name = k.job_name AND j.is_stopping
   AND NOT EXISTS (SELECT FROM qrtz_triggers t
                    WHERE t.sched_name = :'sched' AND t.job_group = k.job_group AND t.job_name = k.job_name
                      AND t.trigger_state || '' NOT IN ('COMPLETE', 'ERROR') OFFSET 0);

-- name: stuck
WITH RECURSIVE
-- include: stuck
-- The jobs and keys that hold triggers, by a loose index scan: however many triggers of a job wait for a slot, it makes
-- one step for all of them.
held AS (
    (SELECT job_group, job_name, concurrency_key FROM qrtz_triggers
      WHERE sched_name || '' = :'sched' AND trigger_state IN ('ACQUIRED', 'BLOCKED', 'PAUSED_BLOCKED', 'COMPLETE')
      ORDER BY job_group || '', job_name || '', concurrency_key || '' LIMIT 1)
    UNION ALL
    SELECT other.job_group, other.job_name, other.concurrency_key
      FROM held h
     CROSS JOIN LATERAL (
        SELECT t.job_group, t.job_name, t.concurrency_key FROM qrtz_triggers t
         WHERE t.sched_name || '' = :'sched' AND t.trigger_state IN ('ACQUIRED', 'BLOCKED', 'PAUSED_BLOCKED', 'COMPLETE')
           AND (t.job_group || '', t.job_name || '', t.concurrency_key || '')
               > (h.job_group, h.job_name, h.concurrency_key)
         ORDER BY t.job_group || '', t.job_name || '', t.concurrency_key || '' LIMIT 1) AS other
),
-- Triggers in a state that says that something holds them, when nothing does. This is possible only by editing tables,
-- or if a step skipped a row that a transaction had locked. Where triggers wait for a slot of a job that has one, the
-- next check-in releases them; see `pass_on`.
stuck AS (
    SELECT t.*
      FROM held h
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.trigger_group, o.trigger_name, o.trigger_state, o.job_group, o.job_name
          FROM qrtz_triggers o
         WHERE o.sched_name || '' = :'sched' AND o.job_group || '' = h.job_group AND o.job_name || '' = h.job_name
           AND o.concurrency_key || '' = h.concurrency_key AND o.trigger_state = 'ACQUIRED'
           AND NOT EXISTS (SELECT FROM qrtz_fired_triggers f
                            WHERE f.fire_id = o.fire_id AND f.state = 'ACQUIRED' OFFSET 0)
        UNION ALL
        SELECT o.ctid AS row, o.trigger_group, o.trigger_name, o.trigger_state, o.job_group, o.job_name
          FROM qrtz_triggers o
         WHERE o.sched_name || '' = :'sched' AND o.job_group || '' = h.job_group AND o.job_name || '' = h.job_name
           AND o.concurrency_key || '' = h.concurrency_key AND o.trigger_state = 'COMPLETE'
           AND o.fire_id IS NOT NULL AND o.owner IS NULL
           AND NOT EXISTS (SELECT FROM qrtz_fired_triggers f WHERE f.fire_id = o.fire_id OFFSET 0)
        UNION ALL
        SELECT o.ctid AS row, o.trigger_group, o.trigger_name, o.trigger_state, o.job_group, o.job_name
          FROM (
            SELECT b.job_group, b.job_name, b.concurrency_key, b.max_concurrent, b.overlap_policy
              FROM qrtz_triggers b
             WHERE b.sched_name || '' = :'sched' AND b.job_group || '' = h.job_group AND b.job_name || '' = h.job_name
               AND b.concurrency_key || '' = h.concurrency_key AND b.trigger_state IN ('BLOCKED', 'PAUSED_BLOCKED')
             LIMIT 1) AS any_one
         CROSS JOIN LATERAL (
            SELECT b.ctid, b.* FROM qrtz_triggers b
             WHERE b.sched_name || '' = :'sched' AND b.job_group || '' = any_one.job_group
               AND b.job_name || '' = any_one.job_name AND b.concurrency_key || '' = any_one.concurrency_key
               AND b.trigger_state IN ('BLOCKED', 'PAUSED_BLOCKED') OFFSET 0) AS o
         WHERE any_one.max_concurrent IS NULL OR any_one.overlap_policy = 'skip'
            OR (any_one.overlap_policy <> 'block' AND any_one.max_concurrent > (
                SELECT count(*) FROM qrtz_fired_triggers f
                 WHERE f.sched_name = :'sched' AND f.job_group = h.job_group AND f.job_name = h.job_name
                   AND f.concurrency_key = h.concurrency_key
                   AND f.state = 'EXECUTING' AND f.max_concurrent IS NOT NULL))) AS t
)
-- end
,
-- include: blocked
-- The jobs and keys of which triggers wait for a slot, by a loose index scan.
blocked AS (
    (SELECT job_group, job_name, concurrency_key, max_concurrent, overlap_policy FROM qrtz_triggers
      WHERE sched_name || '' = :'sched' AND trigger_state = 'BLOCKED'
      ORDER BY job_group || '', job_name || '', concurrency_key || '' LIMIT 1)
    UNION ALL
    SELECT other.*
      FROM blocked b
     CROSS JOIN LATERAL (
        SELECT t.job_group, t.job_name, t.concurrency_key, t.max_concurrent, t.overlap_policy FROM qrtz_triggers t
         WHERE t.sched_name || '' = :'sched' AND t.trigger_state = 'BLOCKED'
           AND (t.job_group || '', t.job_name || '', t.concurrency_key || '')
               > (b.job_group, b.job_name, b.concurrency_key)
         ORDER BY t.job_group || '', t.job_name || '', t.concurrency_key || '' LIMIT 1) AS other
),
-- end
-- include: open_slots
-- The slots that nothing takes: neither an execution, nor a claimed trigger. Without a limit, or where what finds none
-- is skipped, nothing waits for one.
freed AS MATERIALIZED (
    SELECT :now AS at, b.job_group, b.job_name, b.concurrency_key,
           CASE WHEN b.max_concurrent IS NULL OR b.overlap_policy = 'skip' THEN 2147483647
                ELSE b.max_concurrent - executions.running - claims.number END AS slots, false AS frees_all
      FROM blocked b
     CROSS JOIN LATERAL (
        SELECT count(*) AS running FROM qrtz_fired_triggers r
         WHERE r.sched_name = :'sched' AND r.job_group = b.job_group AND r.job_name = b.job_name
           AND r.concurrency_key = b.concurrency_key AND r.state = 'EXECUTING' AND r.max_concurrent IS NOT NULL
     ) AS executions
     CROSS JOIN LATERAL (
        SELECT count(*) AS number FROM qrtz_triggers c
         WHERE c.sched_name || '' = :'sched' AND c.job_group || '' = b.job_group AND c.job_name || '' = b.job_name
           AND c.concurrency_key || '' = b.concurrency_key AND c.trigger_state = 'ACQUIRED') AS claims
     WHERE b.max_concurrent IS NULL OR b.overlap_policy = 'skip'
        OR (b.overlap_policy = 'block' AND b.max_concurrent > executions.running + claims.number)
)
-- end
SELECT trigger_group, trigger_name, trigger_state, job_group, job_name FROM stuck
UNION ALL
-- Those that wait for a slot which no other trigger of the job is about to take; some of them for each job and key.
SELECT waiting.trigger_group, waiting.trigger_name, 'BLOCKED', freed.job_group, freed.job_name
  FROM freed
 CROSS JOIN LATERAL (
    SELECT t.trigger_group, t.trigger_name FROM qrtz_triggers t
     WHERE t.sched_name || '' = :'sched' AND t.job_group || '' = freed.job_group AND t.job_name || '' = freed.job_name
       AND t.concurrency_key || '' = freed.concurrency_key AND t.trigger_state = 'BLOCKED'
     LIMIT 100) AS waiting
 WHERE NOT EXISTS (SELECT FROM qrtz_triggers s
                    WHERE s.sched_name = :'sched' AND s.job_group = freed.job_group AND s.job_name = freed.job_name
                      AND s.concurrency_key = freed.concurrency_key AND s.trigger_state = 'WAITING'
                      AND s.next_fire_time <= freed.at OFFSET 0);

-- name: anything_stuck
-- A check without a lock whether there is anything to recover, and whether a slot is to be passed on; almost always
-- there is neither.
WITH RECURSIVE
-- include: stuck
-- The jobs and keys that hold triggers, by a loose index scan: however many triggers of a job wait for a slot, it makes
-- one step for all of them.
held AS (
    (SELECT job_group, job_name, concurrency_key FROM qrtz_triggers
      WHERE sched_name || '' = :'sched' AND trigger_state IN ('ACQUIRED', 'BLOCKED', 'PAUSED_BLOCKED', 'COMPLETE')
      ORDER BY job_group || '', job_name || '', concurrency_key || '' LIMIT 1)
    UNION ALL
    SELECT other.job_group, other.job_name, other.concurrency_key
      FROM held h
     CROSS JOIN LATERAL (
        SELECT t.job_group, t.job_name, t.concurrency_key FROM qrtz_triggers t
         WHERE t.sched_name || '' = :'sched' AND t.trigger_state IN ('ACQUIRED', 'BLOCKED', 'PAUSED_BLOCKED', 'COMPLETE')
           AND (t.job_group || '', t.job_name || '', t.concurrency_key || '')
               > (h.job_group, h.job_name, h.concurrency_key)
         ORDER BY t.job_group || '', t.job_name || '', t.concurrency_key || '' LIMIT 1) AS other
),
-- Triggers in a state that says that something holds them, when nothing does. This is possible only by editing tables,
-- or if a step skipped a row that a transaction had locked. Where triggers wait for a slot of a job that has one, the
-- next check-in releases them; see `pass_on`.
stuck AS (
    SELECT t.*
      FROM held h
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.trigger_group, o.trigger_name, o.trigger_state, o.job_group, o.job_name
          FROM qrtz_triggers o
         WHERE o.sched_name || '' = :'sched' AND o.job_group || '' = h.job_group AND o.job_name || '' = h.job_name
           AND o.concurrency_key || '' = h.concurrency_key AND o.trigger_state = 'ACQUIRED'
           AND NOT EXISTS (SELECT FROM qrtz_fired_triggers f
                            WHERE f.fire_id = o.fire_id AND f.state = 'ACQUIRED' OFFSET 0)
        UNION ALL
        SELECT o.ctid AS row, o.trigger_group, o.trigger_name, o.trigger_state, o.job_group, o.job_name
          FROM qrtz_triggers o
         WHERE o.sched_name || '' = :'sched' AND o.job_group || '' = h.job_group AND o.job_name || '' = h.job_name
           AND o.concurrency_key || '' = h.concurrency_key AND o.trigger_state = 'COMPLETE'
           AND o.fire_id IS NOT NULL AND o.owner IS NULL
           AND NOT EXISTS (SELECT FROM qrtz_fired_triggers f WHERE f.fire_id = o.fire_id OFFSET 0)
        UNION ALL
        SELECT o.ctid AS row, o.trigger_group, o.trigger_name, o.trigger_state, o.job_group, o.job_name
          FROM (
            SELECT b.job_group, b.job_name, b.concurrency_key, b.max_concurrent, b.overlap_policy
              FROM qrtz_triggers b
             WHERE b.sched_name || '' = :'sched' AND b.job_group || '' = h.job_group AND b.job_name || '' = h.job_name
               AND b.concurrency_key || '' = h.concurrency_key AND b.trigger_state IN ('BLOCKED', 'PAUSED_BLOCKED')
             LIMIT 1) AS any_one
         CROSS JOIN LATERAL (
            SELECT b.ctid, b.* FROM qrtz_triggers b
             WHERE b.sched_name || '' = :'sched' AND b.job_group || '' = any_one.job_group
               AND b.job_name || '' = any_one.job_name AND b.concurrency_key || '' = any_one.concurrency_key
               AND b.trigger_state IN ('BLOCKED', 'PAUSED_BLOCKED') OFFSET 0) AS o
         WHERE any_one.max_concurrent IS NULL OR any_one.overlap_policy = 'skip'
            OR (any_one.overlap_policy <> 'block' AND any_one.max_concurrent > (
                SELECT count(*) FROM qrtz_fired_triggers f
                 WHERE f.sched_name = :'sched' AND f.job_group = h.job_group AND f.job_name = h.job_name
                   AND f.concurrency_key = h.concurrency_key
                   AND f.state = 'EXECUTING' AND f.max_concurrent IS NOT NULL))) AS t
)
-- end
,
-- include: blocked
-- The jobs and keys of which triggers wait for a slot, by a loose index scan.
blocked AS (
    (SELECT job_group, job_name, concurrency_key, max_concurrent, overlap_policy FROM qrtz_triggers
      WHERE sched_name || '' = :'sched' AND trigger_state = 'BLOCKED'
      ORDER BY job_group || '', job_name || '', concurrency_key || '' LIMIT 1)
    UNION ALL
    SELECT other.*
      FROM blocked b
     CROSS JOIN LATERAL (
        SELECT t.job_group, t.job_name, t.concurrency_key, t.max_concurrent, t.overlap_policy FROM qrtz_triggers t
         WHERE t.sched_name || '' = :'sched' AND t.trigger_state = 'BLOCKED'
           AND (t.job_group || '', t.job_name || '', t.concurrency_key || '')
               > (b.job_group, b.job_name, b.concurrency_key)
         ORDER BY t.job_group || '', t.job_name || '', t.concurrency_key || '' LIMIT 1) AS other
),
-- end
-- include: open_slots
-- The slots that nothing takes: neither an execution, nor a claimed trigger. Without a limit, or where what finds none
-- is skipped, nothing waits for one.
freed AS MATERIALIZED (
    SELECT :now AS at, b.job_group, b.job_name, b.concurrency_key,
           CASE WHEN b.max_concurrent IS NULL OR b.overlap_policy = 'skip' THEN 2147483647
                ELSE b.max_concurrent - executions.running - claims.number END AS slots, false AS frees_all
      FROM blocked b
     CROSS JOIN LATERAL (
        SELECT count(*) AS running FROM qrtz_fired_triggers r
         WHERE r.sched_name = :'sched' AND r.job_group = b.job_group AND r.job_name = b.job_name
           AND r.concurrency_key = b.concurrency_key AND r.state = 'EXECUTING' AND r.max_concurrent IS NOT NULL
     ) AS executions
     CROSS JOIN LATERAL (
        SELECT count(*) AS number FROM qrtz_triggers c
         WHERE c.sched_name || '' = :'sched' AND c.job_group || '' = b.job_group AND c.job_name || '' = b.job_name
           AND c.concurrency_key || '' = b.concurrency_key AND c.trigger_state = 'ACQUIRED') AS claims
     WHERE b.max_concurrent IS NULL OR b.overlap_policy = 'skip'
        OR (b.overlap_policy = 'block' AND b.max_concurrent > executions.running + claims.number)
)
-- end
SELECT EXISTS (SELECT FROM qrtz_fired_triggers f
                WHERE f.sched_name = :'sched'
                  AND NOT EXISTS (SELECT FROM qrtz_scheduler_state s
                                   WHERE s.sched_name = f.sched_name AND s.epoch = f.epoch))
    OR EXISTS (SELECT FROM stuck),
       EXISTS (SELECT FROM freed),
       EXISTS (SELECT FROM qrtz_job_details j WHERE j.sched_name = :'sched' AND j.node_deaths > 0 AND j.is_stopping);

-- name: repair
WITH RECURSIVE
-- include: stuck
-- The jobs and keys that hold triggers, by a loose index scan: however many triggers of a job wait for a slot, it makes
-- one step for all of them.
held AS (
    (SELECT job_group, job_name, concurrency_key FROM qrtz_triggers
      WHERE sched_name || '' = :'sched' AND trigger_state IN ('ACQUIRED', 'BLOCKED', 'PAUSED_BLOCKED', 'COMPLETE')
      ORDER BY job_group || '', job_name || '', concurrency_key || '' LIMIT 1)
    UNION ALL
    SELECT other.job_group, other.job_name, other.concurrency_key
      FROM held h
     CROSS JOIN LATERAL (
        SELECT t.job_group, t.job_name, t.concurrency_key FROM qrtz_triggers t
         WHERE t.sched_name || '' = :'sched' AND t.trigger_state IN ('ACQUIRED', 'BLOCKED', 'PAUSED_BLOCKED', 'COMPLETE')
           AND (t.job_group || '', t.job_name || '', t.concurrency_key || '')
               > (h.job_group, h.job_name, h.concurrency_key)
         ORDER BY t.job_group || '', t.job_name || '', t.concurrency_key || '' LIMIT 1) AS other
),
-- Triggers in a state that says that something holds them, when nothing does. This is possible only by editing tables,
-- or if a step skipped a row that a transaction had locked. Where triggers wait for a slot of a job that has one, the
-- next check-in releases them; see `pass_on`.
stuck AS (
    SELECT t.*
      FROM held h
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.trigger_group, o.trigger_name, o.trigger_state, o.job_group, o.job_name
          FROM qrtz_triggers o
         WHERE o.sched_name || '' = :'sched' AND o.job_group || '' = h.job_group AND o.job_name || '' = h.job_name
           AND o.concurrency_key || '' = h.concurrency_key AND o.trigger_state = 'ACQUIRED'
           AND NOT EXISTS (SELECT FROM qrtz_fired_triggers f
                            WHERE f.fire_id = o.fire_id AND f.state = 'ACQUIRED' OFFSET 0)
        UNION ALL
        SELECT o.ctid AS row, o.trigger_group, o.trigger_name, o.trigger_state, o.job_group, o.job_name
          FROM qrtz_triggers o
         WHERE o.sched_name || '' = :'sched' AND o.job_group || '' = h.job_group AND o.job_name || '' = h.job_name
           AND o.concurrency_key || '' = h.concurrency_key AND o.trigger_state = 'COMPLETE'
           AND o.fire_id IS NOT NULL AND o.owner IS NULL
           AND NOT EXISTS (SELECT FROM qrtz_fired_triggers f WHERE f.fire_id = o.fire_id OFFSET 0)
        UNION ALL
        SELECT o.ctid AS row, o.trigger_group, o.trigger_name, o.trigger_state, o.job_group, o.job_name
          FROM (
            SELECT b.job_group, b.job_name, b.concurrency_key, b.max_concurrent, b.overlap_policy
              FROM qrtz_triggers b
             WHERE b.sched_name || '' = :'sched' AND b.job_group || '' = h.job_group AND b.job_name || '' = h.job_name
               AND b.concurrency_key || '' = h.concurrency_key AND b.trigger_state IN ('BLOCKED', 'PAUSED_BLOCKED')
             LIMIT 1) AS any_one
         CROSS JOIN LATERAL (
            SELECT b.ctid, b.* FROM qrtz_triggers b
             WHERE b.sched_name || '' = :'sched' AND b.job_group || '' = any_one.job_group
               AND b.job_name || '' = any_one.job_name AND b.concurrency_key || '' = any_one.concurrency_key
               AND b.trigger_state IN ('BLOCKED', 'PAUSED_BLOCKED') OFFSET 0) AS o
         WHERE any_one.max_concurrent IS NULL OR any_one.overlap_policy = 'skip'
            OR (any_one.overlap_policy <> 'block' AND any_one.max_concurrent > (
                SELECT count(*) FROM qrtz_fired_triggers f
                 WHERE f.sched_name = :'sched' AND f.job_group = h.job_group AND f.job_name = h.job_name
                   AND f.concurrency_key = h.concurrency_key
                   AND f.state = 'EXECUTING' AND f.max_concurrent IS NOT NULL))) AS t
)
-- end
,
locked AS MATERIALIZED (
    SELECT s.*
      FROM stuck s
     CROSS JOIN LATERAL (
        SELECT FROM qrtz_triggers o
         WHERE o.ctid = s.row AND o.trigger_state || '' = s.trigger_state FOR UPDATE SKIP LOCKED) AS free
),
freed AS (
    UPDATE qrtz_triggers t
       SET trigger_state = CASE l.trigger_state WHEN 'PAUSED_BLOCKED' THEN 'PAUSED' ELSE 'WAITING' END, fire_id = NULL,
           -- include: prepared_once
           -- PostgreSQL 18 prepares the generated columns for each row anew, unless a column that they depend on is set.
           admission = t.admission
           -- end
      FROM locked l
     WHERE t.ctid = l.row AND l.trigger_state <> 'COMPLETE'
),
deleted AS (
    -- One of a batch that was skipped is counted first; see `leave`.
    DELETE FROM qrtz_triggers t USING locked l
     WHERE t.ctid = l.row AND l.trigger_state = 'COMPLETE'
       AND NOT (t.prev_fire_time IS NULL AND jsonb_exists(coalesce(t.job_data, '{}'), 'QRTZ_BATCH')
                AND NOT jsonb_exists(t.job_data -> 'QRTZ_BATCH', 'left'))
)
SELECT trigger_state, job_group, job_name FROM locked;

-- name: present_epoch
-- The present epoch of an instance id that is wanted. If it is removed, it counts as dead.
SELECT epoch FROM qrtz_scheduler_state WHERE sched_name = :'sched' AND instance_id = :'instance';
