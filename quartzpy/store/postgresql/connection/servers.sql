-- name: who
-- The name of the current WAL file contains the timeline; the control file is updated only later after a promotion.
SELECT pg_is_in_recovery(),
       CASE WHEN NOT pg_is_in_recovery()
            THEN ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int END,
       (SELECT system_identifier FROM pg_control_system());

-- name: standby
SELECT pg_is_in_recovery(), NULL::int, NULL::bigint;
