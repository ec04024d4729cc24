-- name: tables
SELECT o.relname::text, GREATEST(o.reltuples, coalesce(s.n_live_tup, 0))::bigint, coalesce(s.n_dead_tup, 0),
       pg_total_relation_size(o.oid), pg_indexes_size(o.oid),
       GREATEST(s.last_vacuum, s.last_autovacuum), GREATEST(s.last_analyze, s.last_autoanalyze)
  FROM (
    -- include: own_tables
    SELECT c.oid, c.relname, c.reltuples FROM pg_catalog.pg_class c
     WHERE c.relnamespace = (SELECT relnamespace FROM pg_catalog.pg_class WHERE oid = 'qrtz_triggers'::regclass)
       AND starts_with(c.relname, :'prefix') AND c.relkind IN ('r', 'p')
    -- end
  ) AS o
  LEFT JOIN pg_catalog.pg_stat_all_tables s ON s.relid = o.oid
 ORDER BY 4 DESC, 1;

-- name: locks
-- Row locks are in the rows, not in this view: a wait for one appears as a wait for the transaction that holds it. The
-- modes in which a transaction locks and writes rows do not conflict with each other, and every step takes them: they are
-- here only after a while, because such a transaction may hold the rows of triggers, which nodes then pass over.
WITH ours AS MATERIALIZED (
    -- include: own_tables
    SELECT c.oid, c.relname, c.reltuples FROM pg_catalog.pg_class c
     WHERE c.relnamespace = (SELECT relnamespace FROM pg_catalog.pg_class WHERE oid = 'qrtz_triggers'::regclass)
       AND starts_with(c.relname, :'prefix') AND c.relkind IN ('r', 'p')
    -- end
),
held AS MATERIALIZED (SELECT * FROM pg_catalog.pg_locks WHERE pid <> pg_backend_pid())
SELECT coalesce(o.relname::text, (SELECT string_agg(DISTINCT t.relname::text, ', ')
                                    FROM held l JOIN ours t ON t.oid = l.relation
                                   WHERE l.pid = h.pid AND l.mode IN ('RowShareLock', 'RowExclusiveLock'))),
       h.mode, h.granted, h.pid, coalesce(a.application_name, ''), coalesce(a.state, ''), a.xact_start,
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
