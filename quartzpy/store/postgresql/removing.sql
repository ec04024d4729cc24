-- The planner is steered here: see docs/planner.md.

-- name: delete_triggers
DELETE FROM qrtz_triggers t
 USING unnest(:'groups'::text[], :'names'::text[]) AS k(trigger_group, trigger_name)
 WHERE t.sched_name = :'sched' AND t.trigger_group = k.trigger_group AND t.trigger_name = k.trigger_name
RETURNING t.trigger_group, t.trigger_name, t.job_group, t.job_name;

-- name: delete_slice
-- Deletes a slice of the triggers of jobs.
DELETE FROM qrtz_triggers t
 USING unnest(:'groups'::text[], :'names'::text[], :'generations'::bigint[])
       AS k(trigger_group, trigger_name, generation)
 CROSS JOIN LATERAL (
    SELECT o.ctid AS row FROM qrtz_triggers o
     WHERE o.sched_name = :'sched' AND o.trigger_group = k.trigger_group AND o.trigger_name = k.trigger_name
       AND o.generation = k.generation
       FOR UPDATE SKIP LOCKED) AS own
 WHERE t.ctid = own.row
RETURNING t.generation, t.job_group, t.job_name, t.trigger_group, t.trigger_name;

-- name: hold_jobs
-- Locks jobs, so that nobody can add a trigger to them.
SELECT j.job_group, j.job_name
  FROM (SELECT job_group, job_name FROM unnest(:'groups'::text[], :'names'::text[]) AS k(job_group, job_name)
         ORDER BY job_group, job_name) AS k
 CROSS JOIN LATERAL (
    SELECT o.job_group, o.job_name FROM qrtz_job_details o
     WHERE o.sched_name = :'sched' AND o.job_group = k.job_group AND o.job_name = k.job_name
       FOR UPDATE) AS j;

-- name: delete_triggers_of_jobs
DELETE FROM qrtz_triggers t
 USING unnest(:'groups'::text[], :'names'::text[]) AS k(job_group, job_name)
 WHERE t.sched_name = :'sched' AND t.job_group = k.job_group AND t.job_name = k.job_name
RETURNING t.job_group, t.job_name, t.trigger_group, t.trigger_name;

-- name: delete_jobs
-- After `hold_jobs`: a row that is locked is where the snapshot has it.
DELETE FROM qrtz_job_details j
 USING unnest(:'groups'::text[], :'names'::text[]) AS k(job_group, job_name)
 CROSS JOIN LATERAL (
    SELECT o.ctid AS row FROM qrtz_job_details o
     WHERE o.sched_name = :'sched' AND o.job_group = k.job_group AND o.job_name = k.job_name LIMIT 1) AS own
 WHERE j.ctid = own.row
RETURNING j.job_group, j.job_name;

-- name: hold_upstreams
-- Locks the jobs whose ends others wait for, or no longer wait for, because of the jobs of the call: those whose `after`
-- may have changed, or that are gone. So the next statement reads what other programs have stored about them.
WITH
-- include: upstreams
SELECT count(*)
  FROM (SELECT job_group, job_name FROM upstreams ORDER BY job_group, job_name) AS u
 CROSS JOIN LATERAL (
    SELECT FROM qrtz_job_details o
     WHERE o.sched_name = :'sched' AND o.job_group = u.job_group AND o.job_name = u.job_name
       FOR NO KEY UPDATE) AS held;

-- name: join_jobs
-- Writes which jobs the jobs of the call wait for, and into the row of each of those which jobs wait for it.
WITH
-- include: upstreams
,
removed AS (
    DELETE FROM qrtz_job_upstreams u
     USING former f
     WHERE u.ctid = f.row
       AND (f.by_group, f.by_name, f.job_group, f.job_name) NOT IN (SELECT * FROM named)
),
added AS (
    INSERT INTO qrtz_job_upstreams (sched_name, job_group, job_name, upstream_group, upstream_name)
    SELECT :'sched', n.* FROM named n
        ON CONFLICT DO NOTHING
),
written AS (
    UPDATE qrtz_job_details u
       SET joined_by = r.joined_by,
           -- As `prepared_once` of the steps.
           placement = u.placement
      FROM (SELECT o.row, (
                SELECT jsonb_agg(w.spec ORDER BY w.spec ->> 'job_group', w.spec ->> 'job_name')
                  FROM (SELECT jsonb_build_object('job_group', e.job_group, 'job_name', e.job_name) AS spec
                          FROM qrtz_job_upstreams e
                         WHERE e.sched_name || '' = :'sched' AND e.upstream_group || '' = s.job_group
                           AND e.upstream_name || '' = s.job_name
                           AND (e.job_group, e.job_name) NOT IN (SELECT job_group, job_name FROM changed)
                        UNION ALL
                        SELECT own.spec FROM jsonb_array_elements(s.named_by) AS own(spec)) AS w) AS joined_by
              FROM upstreams s
             CROSS JOIN LATERAL (
                SELECT o.ctid AS row FROM qrtz_job_details o
                 WHERE o.sched_name = :'sched' AND o.job_group = s.job_group AND o.job_name = s.job_name
                 LIMIT 1) AS o) AS r
     WHERE u.ctid = r.row
)
-- The jobs that are waited for and are not stored. A zone that the server does not know is refused here, because the
-- steps compute with it.
SELECT DISTINCT n.job_group, n.job_name
  FROM (SELECT count(:now AT TIME ZONE (c.after ->> 'time_zone')) AS zones FROM changed c) AS checked
  LEFT JOIN named n
    ON checked.zones >= 0
   AND NOT EXISTS (SELECT FROM qrtz_job_details u
                    WHERE u.sched_name = :'sched' AND u.job_group = n.job_group AND u.job_name = n.job_name OFFSET 0);

-- name: clear_triggers
DELETE FROM qrtz_triggers WHERE sched_name = :'sched';

-- name: clear_jobs
DELETE FROM qrtz_job_details WHERE sched_name = :'sched';

-- name: clear_upstreams
DELETE FROM qrtz_job_upstreams WHERE sched_name = :'sched';

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
