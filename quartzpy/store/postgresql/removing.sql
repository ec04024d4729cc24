-- name: void_claims
-- The claim on a trigger that was replaced, removed or paused is void.
DELETE FROM qrtz_fired_triggers f
 USING unnest(:'groups'::text[], :'names'::text[]) AS k(trigger_group, trigger_name)
 WHERE f.sched_name = :'sched' AND f.trigger_group = k.trigger_group AND f.trigger_name = k.trigger_name
   AND f.state = 'ACQUIRED'
   AND (SELECT count(*) FROM qrtz_triggers t
         WHERE t.sched_name = f.sched_name AND t.trigger_group = f.trigger_group
           AND t.trigger_name = f.trigger_name AND t.fire_id = f.fire_id) = 0;

-- name: delete_triggers
DELETE FROM qrtz_triggers t
 USING unnest(:'groups'::text[], :'names'::text[]) AS k(trigger_group, trigger_name)
 WHERE t.sched_name = :'sched' AND t.trigger_group = k.trigger_group AND t.trigger_name = k.trigger_name
RETURNING t.trigger_group, t.trigger_name, t.job_group, t.job_name,
          t.max_concurrent IS NOT NULL AND t.trigger_state IN ('WAITING', 'ACQUIRED');

-- name: delete_slice
-- Deletes a slice of the triggers of jobs, with the claims on them.
WITH went AS (
    DELETE FROM qrtz_triggers t
     USING unnest(:'groups'::text[], :'names'::text[], :'generations'::bigint[])
           AS k(trigger_group, trigger_name, generation)
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row FROM qrtz_triggers o
         WHERE o.sched_name = :'sched' AND o.trigger_group = k.trigger_group AND o.trigger_name = k.trigger_name
           AND o.generation = k.generation
           FOR UPDATE SKIP LOCKED) AS own
     WHERE t.ctid = own.row
    RETURNING t.generation, t.fire_id, t.job_group, t.job_name, t.trigger_group, t.trigger_name
),
void AS (
    DELETE FROM qrtz_fired_triggers f USING went WHERE f.fire_id = went.fire_id AND f.state = 'ACQUIRED'
)
SELECT generation, job_group, job_name, trigger_group, trigger_name FROM went;

-- name: hold_jobs
-- Locks jobs, so that nobody can add a trigger to them.
SELECT j.job_group, j.job_name
  FROM unnest(:'groups'::text[], :'names'::text[]) AS k(job_group, job_name)
  JOIN qrtz_job_details j ON j.sched_name = :'sched' AND j.job_group = k.job_group AND j.job_name = k.job_name
 ORDER BY j.job_group, j.job_name
   FOR UPDATE OF j;

-- name: delete_triggers_of_jobs
WITH went AS (
    DELETE FROM qrtz_triggers t
     USING unnest(:'groups'::text[], :'names'::text[]) AS k(job_group, job_name)
     WHERE t.sched_name = :'sched' AND t.job_group = k.job_group AND t.job_name = k.job_name
    RETURNING t.fire_id, t.job_group, t.job_name, t.trigger_group, t.trigger_name
),
void AS (
    DELETE FROM qrtz_fired_triggers f USING went WHERE f.fire_id = went.fire_id AND f.state = 'ACQUIRED'
)
SELECT job_group, job_name, trigger_group, trigger_name FROM went;

-- name: delete_jobs
DELETE FROM qrtz_job_details j
 USING unnest(:'groups'::text[], :'names'::text[]) AS k(job_group, job_name)
 WHERE j.sched_name = :'sched' AND j.job_group = k.job_group AND j.job_name = k.job_name
RETURNING j.job_group, j.job_name;

-- name: join_jobs
-- Writes into the rows of jobs which others wait for their ends. The jobs of the call are those whose `after` may have
-- changed, or that are gone. The new value is computed from the row as it is when it is locked, so that of two programs
-- that store jobs which wait for the same one, the second keeps what the first has written. Only rows that change are
-- locked.
WITH changed AS MATERIALIZED (
    SELECT d.after, jsonb_build_object('job_group', k.job_group, 'job_name', k.job_name) AS own
      FROM unnest(:'groups'::text[], :'names'::text[]) AS k(job_group, job_name)
      LEFT JOIN LATERAL (
        SELECT o.after FROM qrtz_job_details o
         WHERE o.sched_name = :'sched' AND o.job_group = k.job_group AND o.job_name = k.job_name LIMIT 1) AS d ON true
),
named AS MATERIALIZED (
    SELECT DISTINCT up.spec ->> 'job_group' AS job_group, up.spec ->> 'job_name' AS job_name
      FROM changed c
     CROSS JOIN LATERAL jsonb_array_elements(c.after -> 'jobs') AS up(spec)
),
written AS (
    UPDATE qrtz_job_details u
       SET joined_by = (
            SELECT jsonb_agg(w.spec ORDER BY w.spec ->> 'job_group', w.spec ->> 'job_name')
              FROM (SELECT earlier.spec FROM jsonb_array_elements(u.joined_by) AS earlier(spec)
                     WHERE earlier.spec NOT IN (SELECT own FROM changed)
                    UNION ALL
                    SELECT c.own FROM changed c
                     WHERE c.after -> 'jobs' @> jsonb_build_array(jsonb_build_object('job_group', u.job_group,
                                                                                     'job_name', u.job_name))
                   ) AS w),
           -- As `prepared_once` of the steps.
           placement = u.placement
      FROM (SELECT job_group, job_name FROM named
            UNION
            SELECT o.job_group, o.job_name FROM qrtz_job_details o
             WHERE o.sched_name = :'sched' AND o.joined_by IS NOT NULL
               AND EXISTS (SELECT FROM changed c WHERE o.joined_by @> jsonb_build_array(c.own))) AS r
     WHERE u.sched_name = :'sched' AND u.job_group = r.job_group AND u.job_name = r.job_name
       AND EXISTS (SELECT FROM changed c
                    WHERE coalesce(u.joined_by @> jsonb_build_array(c.own), false)
                          <> coalesce(c.after -> 'jobs' @> jsonb_build_array(
                                 jsonb_build_object('job_group', u.job_group, 'job_name', u.job_name)), false))
    RETURNING u.job_group
)
-- The jobs that are waited for and are not stored. A zone that the server does not know is refused here, because the
-- steps compute with it.
SELECT n.job_group, n.job_name
  FROM (SELECT count(:now AT TIME ZONE (c.after ->> 'time_zone')) AS zones FROM changed c) AS checked
  LEFT JOIN named n
    ON checked.zones >= 0
   AND NOT EXISTS (SELECT FROM qrtz_job_details u
                    WHERE u.sched_name = :'sched' AND u.job_group = n.job_group AND u.job_name = n.job_name OFFSET 0);

-- name: clear_triggers
DELETE FROM qrtz_triggers WHERE sched_name = :'sched';

-- name: clear_claims
DELETE FROM qrtz_fired_triggers WHERE sched_name = :'sched' AND state = 'ACQUIRED';

-- name: clear_jobs
DELETE FROM qrtz_job_details WHERE sched_name = :'sched';

-- name: clear_joins
DELETE FROM qrtz_joins WHERE sched_name = :'sched';

-- name: clear_calendars
DELETE FROM qrtz_calendars WHERE sched_name = :'sched';

-- name: clear_paused_groups
DELETE FROM qrtz_paused_trigger_groups WHERE sched_name = :'sched';

-- name: clear_windows
DELETE FROM qrtz_maintenance_windows WHERE sched_name = :'sched';

-- name: clear_owners
DELETE FROM qrtz_owners WHERE sched_name = :'sched';
