-- The planner is steered here: see docs/planner.md.

-- name: store_data
-- Stores the data of jobs whose executions end. Where several executions of a job end, the last one counts.
WITH
-- include: ended
latest AS (
    SELECT DISTINCT ON (e.job_group, e.job_name) e.job_group, e.job_name, a.new_data
      FROM unnest(:'fire_ids'::bigint[], :'data'::text[]) WITH ORDINALITY AS a(fire_id, new_data, place)
      JOIN ended e USING (fire_id)
     ORDER BY e.job_group, e.job_name, a.place DESC
)
UPDATE qrtz_job_details j
   SET job_data = nullif(own.new_data, '{}')::jsonb,
       -- include: prepared_once_of_job
  FROM (SELECT o.row, d.new_data
          FROM latest d
         CROSS JOIN LATERAL (
            SELECT o.ctid AS row FROM qrtz_job_details o
             WHERE o.sched_name = :'sched' AND o.job_group = d.job_group AND o.job_name = d.job_name
               FOR NO KEY UPDATE) AS o) AS own
 WHERE j.ctid = own.row;

-- name: reset_node_deaths
-- Resets the node deaths of jobs of which an execution has now succeeded.
UPDATE qrtz_job_details j
   SET node_deaths = 0,
       -- include: prepared_once_of_job
  FROM (SELECT DISTINCT e.job_group, e.job_name
          FROM unnest(:'fire_ids'::bigint[]) AS a(fire_id)
         -- include: own_record
         WHERE e.outcome = 'SUCCEEDED') AS d
 CROSS JOIN LATERAL (
    SELECT o.ctid AS row FROM qrtz_job_details o
     WHERE o.sched_name = :'sched' AND o.job_group = d.job_group AND o.job_name = d.job_name
       AND NOT o.is_stopping
       FOR NO KEY UPDATE SKIP LOCKED) AS survivor
 WHERE j.ctid = survivor.row;
