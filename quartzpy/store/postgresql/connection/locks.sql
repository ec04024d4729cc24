-- name: lock
-- If the row is missing, the statement fails, so that nothing that follows runs without the lock. The planner cannot
-- fold the expression into a constant, because it depends on the count.
-- include: lock
;

-- name: no_lock
-- Takes no lock. A lock until the commit of the caller's transaction would stop the cluster.
SELECT 1 WHERE :'lock' <> '';

-- name: make
INSERT INTO qrtz_locks (sched_name, lock_name)
SELECT :'sched', name FROM unnest(:'names'::text[]) AS name
    ON CONFLICT DO NOTHING;

-- name: made
SELECT count(*)::int FROM qrtz_locks WHERE sched_name = :'sched';
