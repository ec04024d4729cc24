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
           -- As `prepared_once`.
           placement = j.placement
           -- end
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
           -- As the job computes it now: it may have another one than when the execution began.
           CASE WHEN j.concurrency_key IS NULL THEN ''
                ELSE (SELECT CASE WHEN length(k.value) <= 60 THEN k.value ELSE md5(k.value) END
                        FROM (SELECT coalesce((coalesce(j.job_data, '{}') || coalesce(f.trigger_data, '{}'))
                                              ->> j.concurrency_key, '') AS value) AS k) END
           -- end
           , 'simple', '{"interval_us": 0, "repeat_count": 0}',
           CASE WHEN pause.applies OR j.mode = 'DISABLED' THEN 'PAUSED' ELSE 'WAITING' END,
           j.mode = 'DISABLED' AND NOT pause.applies,
           :now + f.retry_after, true, :now + f.retry_after, f.priority, 'ignore',
           CASE WHEN f.is_handed_back AND j.rate_limit IS NOT NULL THEN 'CHARGED' END,
           f.attempt + (f.outcome = 'FAILED')::int, f.coalesced_fire_times,
           -- Before PostgreSQL 14, `extract` returns a float, which is exact for these two parts but not for their sum.
           jsonb_build_object(
               'QRTZ_RETRIED_TRIGGER_NAME', f.trigger_name,
               'QRTZ_RETRIED_TRIGGER_GROUP', f.trigger_group,
               'QRTZ_RETRIED_SCHEDULED_FIRETIME_IN_MILLISECONDS_AS_STRING',
               trim_scale(extract(epoch FROM date_trunc('minute', f.scheduled_time))::numeric * 1000
                          + extract(microseconds FROM f.scheduled_time)::numeric / 1000)::text)
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
      JOIN done AS f USING (fire_id)
    RETURNING trigger_state, next_fire_time
),
\endif
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
