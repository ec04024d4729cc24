-- name: holders
-- The sessions that hold locks of our rows and wait for nobody, the oldest first. A session that holds or awaits a row
-- lock of these tables has this lock of the table; one that waits is blocked.
SELECT a.pid, a.usename::text, a.application_name, a.client_addr::text, a.state,
       extract(epoch FROM clock_timestamp() - a.xact_start)::float8
  FROM pg_catalog.pg_stat_activity a
 WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND cardinality(pg_blocking_pids(a.pid)) = 0
   AND EXISTS (SELECT FROM pg_catalog.pg_locks l
                WHERE l.pid = a.pid AND l.granted AND l.locktype = 'relation'
                  AND l.relation IN ('qrtz_locks'::regclass, 'qrtz_triggers'::regclass, 'qrtz_job_details'::regclass)
                  AND l.mode <> 'AccessShareLock')
 ORDER BY a.xact_start
 LIMIT 3;

-- name: end_stalled
-- Terminates sessions of ours in the middle of a transaction whose client has stopped sending, or receiving. The server
-- considers them active, so its idle timeouts do not apply, nor does that of a statement. Their client has given up or
-- soon will, and the cluster waits for their locks.
SELECT a.pid, a.application_name, pg_terminate_backend(a.pid)
  FROM pg_catalog.pg_stat_activity a
 WHERE a.datname = current_database() AND a.usename = current_user AND a.pid <> pg_backend_pid()
   AND a.application_name LIKE 'quartzpy:%' AND a.application_name NOT LIKE '%:jobs'
   AND a.state = 'active' AND a.wait_event IN ('ClientRead', 'ClientWrite')
   AND a.state_change < clock_timestamp() - :'patience'::interval;
