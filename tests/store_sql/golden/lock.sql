-- If the row is missing, the statement fails, so that nothing that follows runs without the lock. The planner cannot
-- fold the expression into a constant, because it depends on the count.
-- include: lock
WITH held AS MATERIALIZED (
    SELECT FROM qrtz_locks WHERE sched_name = %(sched)s AND lock_name = %(lock)s FOR UPDATE
)
SELECT CASE count(*) WHEN 1 THEN 1
       ELSE repeat('quartzpy: the row of a lock is missing', 1 + count(*)::int)::int END
  FROM held
-- end
