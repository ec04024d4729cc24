-- name: end_abandoned
-- Process ids are reused: a session that started later than ours is a different one.
SELECT count(pg_terminate_backend(a.pid))
  FROM unnest(:'pids'::int[], :'ages'::interval[]) AS gone(pid, age)
  JOIN pg_stat_activity a ON a.pid = gone.pid AND a.backend_start <= clock_timestamp() - gone.age
 WHERE a.usename = current_user
   -- In a copy of the database, the rows name sessions of the original.
   AND a.datname = current_database();
