-- The planner is steered here: see docs/planner.md.

-- name: lock_rows
SELECT lock_name FROM qrtz_locks WHERE sched_name = :'sched';

-- name: copies
SELECT t.trigger_group || '.' || t.trigger_name
  FROM qrtz_triggers t
  JOIN qrtz_job_details j ON j.sched_name = t.sched_name AND j.job_group = t.job_group AND j.job_name = t.job_name
 WHERE t.sched_name = :'sched'
   AND
       -- include: other_job
 ORDER BY 1;

-- name: repair_copies
-- What is parked asks its limits anew, and so does a WAITING trigger when the next acquire step meets it.
UPDATE qrtz_triggers t
   SET
       -- include: becomes_of_j
       , parked_at = NULL,
       trigger_state = CASE WHEN t.trigger_state = 'BLOCKED' THEN 'WAITING' ELSE t.trigger_state END
  FROM (SELECT t.ctid AS row,
               -- include: copied_of_j
          FROM qrtz_triggers t
          JOIN qrtz_job_details j
            ON j.sched_name = t.sched_name AND j.job_group = t.job_group AND j.job_name = t.job_name
         WHERE t.sched_name = :'sched'
           AND
               -- include: other_job
           FOR NO KEY UPDATE OF t, j SKIP LOCKED) AS j
 WHERE t.ctid = j.row;

-- name: overdue
-- The front of the due index, for each slot pool and misfire rule.
WITH RECURSIVE waiting AS (
    -- include: waiting
),
bound AS MATERIALIZED (SELECT :now - :'patience'::interval AS instant)
SELECT t.job_type, t.placement, count(*)::int, min(t.next_fire_time)
  FROM bound
 CROSS JOIN waiting w
 CROSS JOIN
    -- include: each_rule
 CROSS JOIN LATERAL (
    SELECT t.next_fire_time, t.job_type, t.placement FROM qrtz_triggers t
     WHERE t.sched_name = :'sched' AND t.trigger_state = 'WAITING' AND t.slot_pool = w.slot_pool
       AND t.misfire_rule = rule.name AND t.next_fire_time < bound.instant
    OFFSET 0) AS t
 GROUP BY 1, 2
 ORDER BY 4;

-- name: missing_limits
-- Jobs that share a limit which is not stored. They do not fire.
SELECT j.job_group || '.' || j.job_name || ' shares ' || n.name
  FROM qrtz_job_details j
 CROSS JOIN unnest(string_to_array(j.limits, ',')) AS n(name)
 WHERE j.sched_name = :'sched' AND (j.rate_limit IS NOT NULL OR j.limits IS NOT NULL)
   AND NOT EXISTS (SELECT FROM qrtz_limits l
                    WHERE l.sched_name = j.sched_name AND l.limit_name = n.name OFFSET 0)
 ORDER BY 1;

-- name: executors
-- The executors that jobs name, each with one of its jobs. In a stored placement, the executor is the first entry.
SELECT j.placement::jsonb ->> 'executor', count(*)::int, min(j.job_group || '.' || j.job_name)
  FROM qrtz_job_details j
 WHERE j.sched_name = :'sched' AND j.placement LIKE '{"executor":%'
 GROUP BY 1
 ORDER BY 1;

-- name: worker_roles
-- The roles that may take a ticket, and may not end an execution.
SELECT r.rolname FROM pg_roles r
 WHERE has_column_privilege(r.oid, 'qrtz_fired_triggers', 'worker', 'UPDATE')
   AND NOT has_table_privilege(r.oid, 'qrtz_fired_triggers', 'DELETE');

-- name: in_error
-- The last line of a traceback has the error itself.
SELECT (SELECT count(*) FROM qrtz_triggers WHERE sched_name = :'sched' AND trigger_state = 'ERROR'),
       trigger_group || '.' || trigger_name
           || coalesce(': ' || left(substring(rtrim(error, E' \n') FROM '[^\n]*$'), 200), '')
  FROM qrtz_triggers WHERE sched_name = :'sched' AND trigger_state = 'ERROR'
 ORDER BY trigger_group, trigger_name LIMIT :'limit'::int;

-- name: indexes
SELECT c.relname::text, i.indisvalid AND i.indisready
  FROM pg_catalog.pg_index i
  JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
  JOIN pg_catalog.pg_class t ON t.oid = i.indrelid
 WHERE t.relnamespace = (SELECT relnamespace FROM pg_catalog.pg_class WHERE oid = 'qrtz_triggers'::regclass)
   AND starts_with(t.relname, :'prefix');

-- name: constraints
SELECT o.conname::text, o.convalidated
  FROM pg_catalog.pg_constraint o
  JOIN pg_catalog.pg_class t ON t.oid = o.conrelid
 WHERE t.relnamespace = (SELECT relnamespace FROM pg_catalog.pg_class WHERE oid = 'qrtz_triggers'::regclass)
   AND starts_with(t.relname, :'prefix');

-- name: dead
SELECT s.relname::text, s.n_dead_tup, s.n_live_tup, s.last_autovacuum::text
  FROM pg_catalog.pg_stat_user_tables s
  JOIN pg_catalog.pg_class c ON c.oid = s.relid
 WHERE c.relnamespace = (SELECT relnamespace FROM pg_catalog.pg_class WHERE oid = 'qrtz_triggers'::regclass)
   AND starts_with(s.relname, :'prefix')
   AND (s.n_dead_tup > 10000 AND s.n_dead_tup > s.n_live_tup / 2
        OR 'autovacuum_enabled=false' = ANY(c.reloptions))
 ORDER BY s.n_dead_tup DESC;

-- name: autovacuum
SELECT current_setting('autovacuum');

-- name: notifications
-- The share of the server's queue of notifications that is used, and the session that probably holds it up: the one
-- whose transaction is the oldest, first of those whose last statement was LISTEN.
SELECT pg_notification_queue_usage(),
       (SELECT 'pid ' || pid || ' (user ' || coalesce(usename, '?') || ', application '
               || coalesce(nullif(application_name, ''), '-') || ', database ' || coalesce(datname, '?') || ', '
               || coalesce(state, 'unknown') || ', since ' || date_trunc('second', xact_start)::text || ')'
          FROM pg_catalog.pg_stat_activity
         WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND xact_start IS NOT NULL
         ORDER BY (query ILIKE '%listen%') DESC, xact_start LIMIT 1);

-- name: transactions
SELECT 'pid ' || pid || ' (user ' || coalesce(usename, '?') || ', application '
       || coalesce(nullif(application_name, ''), '-') || ', ' || coalesce(state, 'unknown')
       || ', since ' || date_trunc('second', xact_start)::text || ')'
  FROM pg_catalog.pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
   AND xact_start < clock_timestamp() - :'long'::interval
UNION ALL
SELECT 'prepared transaction ' || quote_literal(gid) || ' of ' || owner || ' since ' || date_trunc('second', prepared)
  FROM pg_catalog.pg_prepared_xacts
 WHERE database = current_database() AND prepared < clock_timestamp() - :'long'::interval;
