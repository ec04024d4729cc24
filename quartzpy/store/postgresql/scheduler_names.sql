-- name: names
-- A loose index scan of each table: it steps from one name to the next, so its cost does not depend on the number of
-- rows. The table of locks is left out, because even a query with a mistyped scheduler name inserts rows there.
(WITH RECURSIVE named AS (
    (SELECT sched_name FROM qrtz_job_details ORDER BY sched_name LIMIT 1)
    UNION ALL
    SELECT (SELECT t.sched_name FROM qrtz_job_details t
             WHERE t.sched_name > n.sched_name ORDER BY t.sched_name LIMIT 1)
      FROM named n WHERE n.sched_name IS NOT NULL
) SELECT sched_name FROM named WHERE sched_name IS NOT NULL)
UNION
(WITH RECURSIVE named AS (
    (SELECT sched_name FROM qrtz_executions ORDER BY sched_name LIMIT 1)
    UNION ALL
    SELECT (SELECT t.sched_name FROM qrtz_executions t
             WHERE t.sched_name > n.sched_name ORDER BY t.sched_name LIMIT 1)
      FROM named n WHERE n.sched_name IS NOT NULL
) SELECT sched_name FROM named WHERE sched_name IS NOT NULL)
UNION
(WITH RECURSIVE named AS (
    (SELECT sched_name FROM qrtz_calendars ORDER BY sched_name LIMIT 1)
    UNION ALL
    SELECT (SELECT t.sched_name FROM qrtz_calendars t
             WHERE t.sched_name > n.sched_name ORDER BY t.sched_name LIMIT 1)
      FROM named n WHERE n.sched_name IS NOT NULL
) SELECT sched_name FROM named WHERE sched_name IS NOT NULL)
UNION
(WITH RECURSIVE named AS (
    (SELECT sched_name FROM qrtz_scheduler_state ORDER BY sched_name LIMIT 1)
    UNION ALL
    SELECT (SELECT t.sched_name FROM qrtz_scheduler_state t
             WHERE t.sched_name > n.sched_name ORDER BY t.sched_name LIMIT 1)
      FROM named n WHERE n.sched_name IS NOT NULL
) SELECT sched_name FROM named WHERE sched_name IS NOT NULL)
 ORDER BY 1;
