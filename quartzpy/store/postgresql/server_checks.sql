-- name: facts
SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on',
       current_setting('server_version_num')::int, current_setting('server_version'),
       (SELECT pg_encoding_to_char(encoding) FROM pg_catalog.pg_database WHERE datname = current_database()),
       current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on',
       (SELECT setting::int FROM pg_catalog.pg_settings WHERE name = 'lock_timeout'),
       pg_backend_pid(), current_user::text,
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
           - coalesce(current_setting('reserved_connections', true)::int, 0),
       (SELECT count(*)::int FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend'),
       (SELECT rolconnlimit FROM pg_catalog.pg_roles WHERE rolname = current_user);

-- name: other_writers
-- What lets other servers write into a table: extensions, and subscriptions that are enabled.
SELECT 'extension ' || extname FROM pg_catalog.pg_extension WHERE extname IN ('bdr', 'spock')
UNION ALL
SELECT 'subscription ' || s.subname
  FROM pg_catalog.pg_subscription_rel r
  JOIN pg_catalog.pg_subscription s ON s.oid = r.srsubid AND s.subenabled
 WHERE r.srrelid = to_regclass(:'table')
 ORDER BY 1;
