-- A separate statement after `free`, because it changes triggers that `free` has just stored or released. A recovery
-- trigger becomes ERROR as well, and runs when somebody resets it, so that no fire is lost. The count restarts.
WITH poison AS (
    UPDATE qrtz_job_details j SET node_deaths = 0
      FROM (SELECT o.ctid AS row, o.node_deaths AS deaths FROM qrtz_job_details o
             WHERE o.sched_name = %(sched)s AND o.node_deaths > 0 AND o.node_deaths >= %(max_deaths)s::int
               FOR NO KEY UPDATE SKIP LOCKED) AS deadly
     WHERE j.ctid = deadly.row
    RETURNING j.job_group, j.job_name, deadly.deaths
),
of_poison AS (
    SELECT t.*, p.deaths
      FROM poison p
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.fire_id FROM qrtz_triggers o
         WHERE o.sched_name = %(sched)s AND o.job_group = p.job_group AND o.job_name = p.job_name
           AND o.trigger_state || '' NOT IN ('COMPLETE', 'ERROR')
           FOR NO KEY UPDATE SKIP LOCKED) AS t
),
stopped AS (
    UPDATE qrtz_triggers t
       SET trigger_state = 'ERROR', fire_id = NULL,
           error = of_poison.deaths || ' nodes died in a row while they executed its job (max_node_deaths)'
      FROM of_poison
     WHERE t.ctid = of_poison.row
    RETURNING of_poison.fire_id
),
-- The claims on them are void; one whose row another transaction has locked stays, and never fires.
unclaimed AS (
    DELETE FROM qrtz_fired_triggers f
     USING stopped
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row FROM qrtz_fired_triggers o
         WHERE o.fire_id = stopped.fire_id AND o.state = 'ACQUIRED'
           FOR UPDATE SKIP LOCKED) AS void
     WHERE f.ctid = void.row
)
SELECT job_group, job_name FROM poison ORDER BY 1, 2
