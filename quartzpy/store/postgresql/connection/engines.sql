-- name: made_settings
-- The settings of a new session that RESET ALL loses: those that were made after the connection was opened.
SELECT name, setting FROM pg_settings WHERE source = 'session'
UNION ALL
SELECT 'role', current_setting('role') WHERE current_setting('role') <> 'none';
