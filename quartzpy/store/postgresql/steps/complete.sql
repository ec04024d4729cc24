-- The planner is steered here: see docs/planner.md.

-- A row is looked up by LATERAL with a lock or a limit: a plain join may be planned as a scan of the whole table for
-- each execution. EXISTS ends with OFFSET 0, so that it looks its row up by the key, once for each row: a plan that was
-- made for a small table may else read the whole table into a hash.

-- name: complete
-- Ends executions by fire_id, if their claims still belong to this epoch. What only some executions need has a switch:
-- asks (their jobs give instructions, or their ends move triggers), stores (job data), retries, counts (failures for
-- pause_after_failures), continues (other jobs run after theirs), joins (jobs wait for their ends and others), captures
-- (log lines), may_halt (their ends may change all triggers of a job), tolerates (the history has the instant of one of
-- them). Most completions have no log lines, and their statement does not mention them.
WITH ended AS MATERIALIZED (
\if :retries
    -- An execution that somebody has asked to stop does not run again: one that was snoozed, by its job or because it
    -- was handed back, is CANCELLED, and a failure remains one without a further attempt. Nor does one whose job is
    -- gone: this is its end, for those who wait for it as well.
    SELECT e.fire_id, e.started_at, e.ended_at,
           CASE WHEN own.asked_to_stop AND e.outcome = 'SNOOZED' THEN 'CANCELLED' ELSE e.outcome END AS outcome,
           CASE WHEN own.asked_to_stop AND e.is_handed_back THEN NULL ELSE e.error END AS error,
           e.stores_data, e.is_last,
           CASE WHEN NOT own.asked_to_stop AND own.has_job THEN e.retry_after END AS retry_after, e.result,
\if :captures
           e.log,
\endif
           e.is_handed_back, own.asked_to_stop
\else
    SELECT *
\endif
      FROM unnest(:'fire_ids'::bigint[], :'started'::timestamptz[], :'ended'::timestamptz[], :'outcomes'::text[],
                  :'errors'::text[], :'stores_data'::bool[], :'last'::bool[], :'retry_after'::interval[],
                  :'results'::text[]
\if :captures
                  , :'logs'::text[]
\endif
\if :retries
                  , :'handed_back'::bool[]
\endif
                 ) AS e(fire_id, started_at, ended_at, outcome, error, stores_data, is_last, retry_after, result
\if :captures
                        , log
\endif
\if :retries
                        , is_handed_back
\endif
                       )
\if :retries
     CROSS JOIN LATERAL (
        SELECT r.cancel_requested AS asked_to_stop,
               EXISTS (SELECT FROM qrtz_job_details j
                        WHERE j.sched_name = r.sched_name AND j.job_group = r.job_group AND j.job_name = r.job_name
                       OFFSET 0) AS has_job
          FROM qrtz_fired_triggers r
         WHERE r.fire_id = e.fire_id AND r.epoch = :'epoch'::bigint AND r.state = 'EXECUTING' LIMIT 1) AS own
\endif
),
\if :may_halt
-- The executions whose ends change more triggers than one statement may under the lock: a transaction of their own ends
-- them (see `halts`).
of_large_jobs AS MATERIALIZED (
    SELECT running.fire_id
      FROM (SELECT a.failures, f.*
              FROM unnest(:'halt_fire_ids'::bigint[], :'failures'::int[]) AS a(fire_id, failures)
             CROSS JOIN LATERAL (
                SELECT r.fire_id, r.job_group, r.job_name FROM qrtz_fired_triggers r
                 WHERE r.fire_id = a.fire_id AND r.epoch = :'epoch'::bigint AND r.state = 'EXECUTING' LIMIT 1) AS f
           ) AS running
     CROSS JOIN LATERAL (
        SELECT FROM qrtz_job_details o
         WHERE o.sched_name = :'sched' AND o.job_group = running.job_group AND o.job_name = running.job_name
           AND (running.failures IS NULL OR o.consecutive_failures + running.failures >= o.pause_after_failures)
         LIMIT 1) AS changing
     WHERE (SELECT count(*)
              FROM (SELECT FROM qrtz_triggers t
                     WHERE t.sched_name = :'sched' AND t.job_group = running.job_group
                       AND t.job_name = running.job_name
                     LIMIT :'most'::int + 1) AS first_of_job) > :'most'::int
),
\endif
\if :asks
-- The triggers to which the instructions of jobs apply, or which an end moves.
requests AS MATERIALIZED (
    SELECT a.fire_id, about.trigger_group, about.trigger_name, f.job_group, f.job_name
      FROM unnest(:'ask_fire_ids'::bigint[], :'ask_all'::bool[]) AS a(fire_id, all_triggers)
     CROSS JOIN LATERAL (
        SELECT r.job_group, r.job_name, r.trigger_group, r.trigger_name, r.generation FROM qrtz_fired_triggers r
         WHERE r.fire_id = a.fire_id AND r.epoch = :'epoch'::bigint AND r.state = 'EXECUTING'
\if :may_halt
           AND r.fire_id NOT IN (SELECT fire_id FROM of_large_jobs)
\endif
         LIMIT 1) AS f
     CROSS JOIN LATERAL (
        SELECT o.trigger_group, o.trigger_name FROM qrtz_triggers o
         WHERE a.all_triggers AND o.sched_name = :'sched' AND o.job_group = f.job_group AND o.job_name = f.job_name
        UNION ALL
        SELECT o.trigger_group, o.trigger_name FROM qrtz_triggers o
         WHERE NOT a.all_triggers AND o.sched_name = :'sched' AND o.trigger_group = f.trigger_group
           AND o.trigger_name = f.trigger_name AND o.generation = f.generation) AS about
),
-- The executions that must wait, because such a trigger is locked, or its job. The trigger may be updated twice, here
-- and by a later statement; then its foreign key is checked, although the key does not change, and the check would wait
-- for the job.
must_wait AS MATERIALIZED (
    SELECT a.fire_id
      FROM requests a
      LEFT JOIN LATERAL (
        SELECT true AS is_free FROM qrtz_triggers o
         WHERE o.sched_name = :'sched' AND o.trigger_group = a.trigger_group AND o.trigger_name = a.trigger_name
           FOR NO KEY UPDATE SKIP LOCKED) AS t ON true
      LEFT JOIN LATERAL (
        SELECT true AS is_free FROM qrtz_job_details o
         WHERE o.sched_name = :'sched' AND o.job_group = a.job_group AND o.job_name = a.job_name
           FOR NO KEY UPDATE SKIP LOCKED) AS j ON true
     WHERE t.is_free IS NULL OR j.is_free IS NULL
),
\endif
\if :counts
-- Jobs whose failures are counted: an execution waits where somebody else holds its job's row.
countable AS MATERIALIZED (
    SELECT f.job_group, f.job_name
      FROM unnest(:'count_fire_ids'::bigint[]) AS e(fire_id)
     CROSS JOIN LATERAL (
        SELECT r.sched_name, r.job_group, r.job_name FROM qrtz_fired_triggers r
         WHERE r.fire_id = e.fire_id AND r.epoch = :'epoch'::bigint AND r.state = 'EXECUTING' LIMIT 1) AS f
     CROSS JOIN LATERAL (
        SELECT FROM qrtz_job_details o
         WHERE o.sched_name = f.sched_name AND o.job_group = f.job_group AND o.job_name = f.job_name
           FOR NO KEY UPDATE SKIP LOCKED) AS j
),
\endif
\if :continues
-- The jobs to run after the executions that end for good (a failure that is retried is no end yet). Their rows are held
-- for the same reason as those of the jobs that run again; an execution with more links than followers is ended by a
-- later try.
links AS MATERIALIZED (
    SELECT e.fire_id, link.place, target.row, link.spec -> 'data' AS link_data
      FROM (SELECT e.fire_id, f.job_group, f.job_name, e.outcome
              FROM ended e
             CROSS JOIN LATERAL (
                SELECT r.job_group, r.job_name FROM qrtz_fired_triggers r
                 WHERE r.fire_id = e.fire_id AND r.epoch = :'epoch'::bigint AND r.state = 'EXECUTING' LIMIT 1) AS f
             WHERE e.retry_after IS NULL) AS e
-- include: followers
\endif
\if :joins
-- The ends for good, as for `links`.
bare_ends AS MATERIALIZED (
    SELECT e.fire_id, f.*
      FROM ended e
     CROSS JOIN LATERAL (
        SELECT r.job_group, r.job_name, r.trigger_group, r.scheduled_time, r.coalesced_fire_times, r.trigger_data
          FROM qrtz_fired_triggers r
         WHERE r.fire_id = e.fire_id AND r.epoch = :'epoch'::bigint AND r.state = 'EXECUTING' LIMIT 1) AS f
     WHERE e.retry_after IS NULL
),
-- include: joins
\endif
\if :retries
-- The jobs that run again, without those that another transaction has locked. A trigger that is stored refers to its
-- job, which would wait under the lock for any open transaction that deletes or redefines the job. So the job's row is
-- locked first. The lock is stronger than the foreign key requires, because the check of the key would wait for a row
-- that was updated and then locked.
repeatable AS MATERIALIZED (
    SELECT e.fire_id, j.*
      FROM ended e
     CROSS JOIN LATERAL (
        SELECT r.job_group, r.job_name FROM qrtz_fired_triggers r
         WHERE r.fire_id = e.fire_id AND r.epoch = :'epoch'::bigint AND r.state = 'EXECUTING' LIMIT 1) AS f
     CROSS JOIN LATERAL (
        SELECT o.job_type, o.max_concurrent, o.overlap_policy, o.placement, o.rate_limit, o.limits, o.mode,
               o.concurrency_key, o.job_data
          FROM qrtz_job_details o
         WHERE o.sched_name = :'sched' AND o.job_group = f.job_group AND o.job_name = f.job_name
           FOR NO KEY UPDATE SKIP LOCKED) AS j
     WHERE e.retry_after IS NOT NULL
),
\endif
\if :stores
-- The rows of the jobs whose data is stored.
storable AS MATERIALIZED (
    SELECT j.row, f.job_group, f.job_name, e.place, e.new_data
      FROM unnest(:'data_fire_ids'::bigint[], :'data'::text[]) WITH ORDINALITY AS e(fire_id, new_data, place)
     CROSS JOIN LATERAL (
        SELECT r.sched_name, r.job_group, r.job_name FROM qrtz_fired_triggers r
         WHERE r.fire_id = e.fire_id AND r.epoch = :'epoch'::bigint AND r.state = 'EXECUTING'
\if :may_halt
           AND r.fire_id NOT IN (SELECT fire_id FROM of_large_jobs)
\endif
         LIMIT 1) AS f
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row FROM qrtz_job_details o
         WHERE o.sched_name = f.sched_name AND o.job_group = f.job_group AND o.job_name = f.job_name
           FOR NO KEY UPDATE SKIP LOCKED) AS j
),
-- Updates the row that was locked. If another transaction has committed a newer version, which this statement does not
-- see, nothing is updated, and the execution is completed at the next try. A row that this statement has changed can no
-- longer be held by it: what is to be held is held before, which the counts see to.
stored AS (
    UPDATE qrtz_job_details j
       SET job_data = nullif(s.new_data, '{}')::jsonb,
           -- include: prepared_once_of_job
      FROM (SELECT DISTINCT ON (job_group, job_name) row, new_data
              FROM storable ORDER BY job_group, job_name, place DESC) AS s
     WHERE j.ctid = s.row
\if :asks
       AND (SELECT count(*) FROM must_wait) >= 0
\endif
\if :continues
       AND (SELECT count(*) FROM followers) >= 0
\endif
\if :joins
       AND (SELECT count(*) FROM joins_held) >= 0
\endif
\if :retries
       AND (SELECT count(*) FROM repeatable) >= 0
\endif
\if :counts
       AND (SELECT count(*) FROM countable) >= 0
\endif
    RETURNING j.job_group, j.job_name
),
\endif
-- The end of the executions: everything that follows depends on these rows. An execution whose job no longer exists
-- does not need its job's row.
done AS (
    DELETE FROM qrtz_fired_triggers f
     USING ended e
     CROSS JOIN LATERAL (
        SELECT r.ctid AS row FROM qrtz_fired_triggers r
         WHERE r.fire_id = e.fire_id AND r.epoch = :'epoch'::bigint AND r.state = 'EXECUTING' LIMIT 1
           FOR UPDATE SKIP LOCKED) AS own
     WHERE f.ctid = own.row
       AND (true
\if :stores
            AND (NOT e.stores_data OR (f.job_group, f.job_name) IN (SELECT job_group, job_name FROM stored))
\endif
\if :retries
            AND (e.retry_after IS NULL OR e.fire_id IN (SELECT fire_id FROM repeatable))
\endif
\if :counts
            AND (e.fire_id <> ALL(:'count_fire_ids'::bigint[])
                 OR (f.job_group, f.job_name) IN (SELECT job_group, job_name FROM countable))
\endif
            OR NOT EXISTS (SELECT FROM qrtz_job_details j
                            WHERE j.sched_name = f.sched_name AND j.job_group = f.job_group AND j.job_name = f.job_name
                           OFFSET 0))
\if :asks
       AND e.fire_id NOT IN (SELECT fire_id FROM must_wait)
\endif
\if :continues
       AND e.fire_id NOT IN (SELECT fire_id FROM links EXCEPT ALL SELECT fire_id FROM followers)
\endif
\if :joins
       AND e.fire_id NOT IN (SELECT fire_id FROM joins_held)
\endif
\if :may_halt
       AND e.fire_id NOT IN (SELECT fire_id FROM of_large_jobs)
\endif
\if :retries
       -- Somebody may have asked meanwhile: such a row is left to the next try.
       AND f.cancel_requested = e.asked_to_stop
\endif
    RETURNING f.*, e.started_at, e.ended_at, e.outcome, e.error, e.is_last, e.retry_after, e.result
\if :captures
              , e.log
\endif
\if :retries
              , e.is_handed_back, e.asked_to_stop
\endif
),
-- A second record of the same instant, which only a bug can cause, is refused by a unique index. The statement is then
-- sent again with `tolerates`, which reports it: ON CONFLICT costs another look into each unique index and a record of
-- the log for each row. The instants are estimates of the node, limited to the time between the fire and now by the
-- store's clock. Estimates of two nodes differ by up to a round trip: without the limits, the history could show that an
-- execution began before the previous one of a serial job had ended.
history AS (
    INSERT INTO qrtz_executions (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        job_type, instance_id, fired_time, scheduled_time, started_at, ended_at, outcome, error, attempt,
        trigger_data, result, retry_at
\if :captures
        , log
\endif
        )
    SELECT fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name, job_type, instance_id,
           fired_time, scheduled_time, least(greatest(started_at, fired_time), :now),
           least(greatest(ended_at, fired_time), :now), outcome, error, attempt, trigger_data, result::jsonb,
\if :retries
           CASE WHEN fire_id IN (SELECT fire_id FROM repeatable) THEN :now + retry_after END
\else
           NULL
\endif
\if :captures
           , log
\endif
      FROM done
\if :tolerates
        ON CONFLICT DO NOTHING
\endif
    RETURNING fire_id
),
-- The executions that ended, of each job with a limit.
ends AS (
    SELECT job_group, job_name, concurrency_key, count(*) AS number
      FROM done WHERE max_concurrent IS NOT NULL
     GROUP BY job_group, job_name, concurrency_key
),
-- include: freed
-- include: released
,
\if :retries
-- A one-shot trigger for each execution that runs again, with the key and the time of the original; one that is
-- repeated again keeps those of the first original. One that was snoozed has not used up an attempt. The rate limit is
-- not asked again about one that was handed back, because it was charged for that run already.
retried AS (
    INSERT INTO qrtz_triggers (sched_name, generation, trigger_group, trigger_name, job_group, job_name, job_type,
        max_concurrent, overlap_policy, placement, rate_limit, limits, concurrency_key, kind, schedule, trigger_state,
        held_by_mode, next_fire_time, upcoming_is_complete, start_time, priority, misfire_instruction, admission,
        attempt, coalesced_fire_times, job_data)
    SELECT f.sched_name, nextval('qrtz_fire_ids'), 'RETRYING_JOBS', 'retry_' || f.attempt || '_' || f.fire_id,
           f.job_group, f.job_name, j.job_type, j.max_concurrent, j.overlap_policy, j.placement, j.rate_limit, j.limits,
           -- include: key_of_repeated
           , 'simple', '{"interval_us": 0, "repeat_count": 0}',
           CASE WHEN pause.applies OR j.mode = 'DISABLED' THEN 'PAUSED' ELSE 'WAITING' END,
           j.mode = 'DISABLED' AND NOT pause.applies,
           :now + f.retry_after, true, :now + f.retry_after, f.priority, 'ignore',
           CASE WHEN f.is_handed_back AND j.rate_limit IS NOT NULL THEN 'CHARGED' END,
           f.attempt + (f.outcome = 'FAILED')::int, f.coalesced_fire_times,
           jsonb_build_object(
               'QRTZ_RETRIED_TRIGGER_NAME', f.trigger_name,
               'QRTZ_RETRIED_TRIGGER_GROUP', f.trigger_group,
               'QRTZ_RETRIED_SCHEDULED_FIRETIME_IN_MILLISECONDS_AS_STRING',
               trim_scale(extract(epoch FROM f.scheduled_time) * 1000)::text)
           || coalesce(f.trigger_data, '{}')
      FROM (SELECT * FROM done WHERE retry_after IS NOT NULL) AS f
      JOIN repeatable AS j USING (fire_id)
     CROSS JOIN LATERAL (
        SELECT EXISTS (SELECT FROM qrtz_paused_trigger_groups p
                        WHERE p.sched_name = :'sched'
                          AND (p.scope = 'ALL' OR (p.scope = 'TRIGGER' AND p.group_name = 'RETRYING_JOBS')
                               OR (p.scope = 'JOB' AND p.group_name = f.job_group))) AS applies) AS pause
    RETURNING trigger_state, next_fire_time
),
\endif
\if :joins
done_ends AS MATERIALIZED (SELECT fire_id, outcome, result FROM done WHERE retry_after IS NULL),
-- include: joined
\endif
\if :continues
\if :joins
successors AS (
    SELECT fire_id, place::text AS place, NULL::timestamptz AS instant, link_data, job_group, job_name, job_type,
           max_concurrent, overlap_policy, placement, mode, rate_limit, limits, concurrency_key, job_data
      FROM followers
    UNION ALL
    SELECT fire_id, place, instant, link_data, job_group, job_name, job_type, max_concurrent, overlap_policy, placement,
           mode, rate_limit, limits, concurrency_key, job_data
      FROM joined
),
\else
successors AS (SELECT *, NULL::timestamptz AS instant FROM followers),
\endif
-- A one-shot trigger for each job that runs after one of these executions. A second one of the same name, which only a
-- bug can cause, fails the statement: what is recorded as a start is one.
continued AS (
    -- include: continued
      JOIN done AS f USING (fire_id)
    RETURNING trigger_state, next_fire_time
),
\endif
-- include: ended_triggers
-- The node takes the triggers that wait again; it notifies the others if it takes no more work.
waiting AS (
    SELECT next_fire_time
      FROM (SELECT next_fire_time FROM released
            UNION ALL SELECT next_fire_time FROM freed_by_policy WHERE trigger_state = 'WAITING'
\if :retries
            UNION ALL SELECT next_fire_time FROM retried WHERE trigger_state = 'WAITING'
\endif
\if :continues
            UNION ALL SELECT next_fire_time FROM continued WHERE trigger_state = 'WAITING'
\endif
           ) AS w
)
SELECT :now,
       ARRAY(SELECT fire_id FROM done),
\if :tolerates
       ARRAY(SELECT fire_id FROM done EXCEPT SELECT fire_id FROM history),
\else
       '{}'::bigint[],
\endif
       (SELECT min(next_fire_time) FROM waiting),
       (SELECT count(pg_notify(:'channel', 'scheduled'))
          FROM (SELECT FROM waiting WHERE :'wakes_others'::bool LIMIT 1) AS any_waiting)
\if :retries
       , ARRAY(SELECT fire_id FROM done WHERE asked_to_stop)
\endif
\if :counts
       , set_config('quartzpy.ended', ARRAY(SELECT fire_id FROM done)::text, true)
\endif
\if :may_halt
       , ARRAY(SELECT fire_id FROM of_large_jobs)
\endif
;

-- name: unfinished
-- Executions that did not end: still this epoch's (a row was locked), or recorded by a call whose answer was lost.
SELECT ARRAY(SELECT fire_id FROM qrtz_fired_triggers
              WHERE fire_id = ANY(:'fire_ids'::bigint[]) AND epoch = :'epoch'::bigint),
       ARRAY(SELECT fire_id FROM qrtz_executions
              WHERE fire_id = ANY(:'fire_ids'::bigint[]) AND instance_id = :'instance' AND outcome <> 'TERMINATED');
