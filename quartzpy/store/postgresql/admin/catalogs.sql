-- name: tables
SELECT o.relname::text, GREATEST(o.reltuples, coalesce(s.n_live_tup, 0))::bigint, coalesce(s.n_dead_tup, 0),
       pg_total_relation_size(o.oid), pg_indexes_size(o.oid),
       GREATEST(s.last_vacuum, s.last_autovacuum), GREATEST(s.last_analyze, s.last_autoanalyze)
  FROM (
    -- include: own_tables
  ) AS o
  LEFT JOIN pg_catalog.pg_stat_all_tables s ON s.relid = o.oid
 ORDER BY 4 DESC, 1;

-- name: locks
-- Row locks are in the rows, not in this view: a wait for one appears as a wait for the transaction that holds it. The
-- modes in which a transaction locks and writes rows do not conflict with each other, and every step takes them: they are
-- here only after a while, because such a transaction may hold the rows of triggers, which nodes then pass over.
WITH ours AS MATERIALIZED (
    -- include: own_tables
),
held AS MATERIALIZED (SELECT * FROM pg_catalog.pg_locks WHERE pid <> pg_backend_pid())
SELECT coalesce(o.relname::text, (SELECT string_agg(DISTINCT t.relname::text, ', ')
                                    FROM held l JOIN ours t ON t.oid = l.relation
                                   WHERE l.pid = h.pid AND l.mode IN ('RowShareLock', 'RowExclusiveLock'))),
       h.mode, h.granted, h.pid,
       coalesce(nullif(a.application_name, ''), nullif(a.backend_type, 'client backend'), ''), coalesce(a.state, ''),
       a.xact_start,
       CASE WHEN h.granted THEN '{}'::int[] ELSE pg_blocking_pids(h.pid) END
  FROM held h
  JOIN pg_catalog.pg_stat_activity a ON a.pid = h.pid AND a.datname = current_database()
  LEFT JOIN ours o ON o.oid = h.relation
 WHERE (o.oid IS NOT NULL AND h.locktype = 'relation'
        AND (NOT h.granted OR h.mode NOT IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock')
             OR (h.mode <> 'AccessShareLock' AND a.xact_start < clock_timestamp() - :'long'::interval)))
    OR (h.locktype <> 'relation' AND NOT h.granted
        AND EXISTS (SELECT FROM held l JOIN ours t ON t.oid = l.relation WHERE l.pid = h.pid))
 ORDER BY h.granted, a.xact_start, h.pid LIMIT :'limit'::int;

-- name: other_schedulers
-- A loose index scan of the nodes and of the jobs, from one scheduler's name to the next.
WITH RECURSIVE of_nodes AS (
    (SELECT sched_name FROM qrtz_scheduler_state ORDER BY sched_name LIMIT 1)
    UNION ALL
    SELECT (SELECT s.sched_name FROM qrtz_scheduler_state s
             WHERE s.sched_name > n.sched_name ORDER BY s.sched_name LIMIT 1)
      FROM of_nodes n WHERE n.sched_name IS NOT NULL
),
of_jobs AS (
    (SELECT sched_name FROM qrtz_job_details ORDER BY sched_name LIMIT 1)
    UNION ALL
    SELECT (SELECT j.sched_name FROM qrtz_job_details j
             WHERE j.sched_name > n.sched_name ORDER BY j.sched_name LIMIT 1)
      FROM of_jobs n WHERE n.sched_name IS NOT NULL
)
SELECT sched_name,
       ARRAY(SELECT s.instance_id || ' on ' || s.host FROM qrtz_scheduler_state s
              WHERE s.sched_name = named.sched_name AND s.last_checkin >= :now - s.failure_window
              ORDER BY s.instance_id LIMIT 10),
       EXISTS (SELECT FROM of_jobs j WHERE j.sched_name = named.sched_name)
  FROM (SELECT sched_name FROM of_nodes UNION SELECT sched_name FROM of_jobs) AS named
 WHERE sched_name <> :'sched'
 ORDER BY sched_name LIMIT :'limit'::int;

-- name: old_snapshots
-- Who holds the oldest snapshot of this database, and since when, where dead rows stay: until it ends, no VACUUM removes a
-- version of a row that is newer. A standby says so by its feedback, and a replication slot keeps what nobody may read any
-- more.
SELECT who, held FROM (
SELECT 'pid ' || a.pid || ' (user ' || coalesce(a.usename, '?') || ', application '
       || coalesce(nullif(a.application_name, ''), '-') || ', ' || coalesce(a.state, a.backend_type, 'unknown')
       || coalesce(', since ' || date_trunc('second', a.xact_start)::text, '') || ')'
       || CASE WHEN a.backend_type = 'walsender' THEN ', the feedback of a standby' ELSE '' END AS who,
       age(a.backend_xmin) AS held
  FROM pg_catalog.pg_stat_activity a
 WHERE a.backend_xmin IS NOT NULL AND a.pid <> pg_backend_pid() AND a.backend_type <> 'autovacuum worker'
   AND (a.datname = current_database() OR a.backend_type = 'walsender')
   AND (a.xact_start IS NULL OR a.xact_start < clock_timestamp() - :'old'::interval)
UNION ALL
SELECT 'prepared transaction ' || quote_literal(gid) || ' of ' || owner || ' since ' || date_trunc('second', prepared),
       age(transaction)
  FROM pg_catalog.pg_prepared_xacts
 WHERE database = current_database() AND prepared < clock_timestamp() - :'old'::interval
UNION ALL
SELECT 'replication slot ' || slot_name || CASE WHEN active THEN '' ELSE ', which nobody reads' END, age(xmin)
  FROM pg_catalog.pg_replication_slots WHERE xmin IS NOT NULL AND (database IS NULL OR database = current_database())) AS holder
 WHERE EXISTS (
    SELECT FROM pg_catalog.pg_stat_user_tables s
      JOIN pg_catalog.pg_class c ON c.oid = s.relid
     WHERE c.relnamespace = (SELECT relnamespace FROM pg_catalog.pg_class WHERE oid = 'qrtz_triggers'::regclass)
       AND starts_with(s.relname, :'prefix')
       AND (s.n_dead_tup > 10000 AND s.n_dead_tup > s.n_live_tup / 2
            OR 'autovacuum_enabled=false' = ANY(c.reloptions)))
 ORDER BY held DESC LIMIT 10;
