-- name: owned_jobs
SELECT job_group, job_name FROM qrtz_job_details WHERE sched_name = :'sched' AND owner = :'owner';

-- name: owned_triggers
SELECT trigger_group, trigger_name FROM qrtz_triggers WHERE sched_name = :'sched' AND owner = :'owner';

-- name: owned_calendars
SELECT calendar_name FROM qrtz_calendars WHERE sched_name = :'sched' AND owner = :'owner';

-- name: version_of_owner
SELECT version FROM qrtz_owners WHERE sched_name = :'sched' AND owner = :'owner';

-- name: keep_version
INSERT INTO qrtz_owners (sched_name, owner, version) VALUES (:'sched', :'owner', :'version')
    ON CONFLICT (sched_name, owner) DO UPDATE SET version = excluded.version;

-- name: own_jobs
UPDATE qrtz_job_details j
   SET owner = :'owner',
       -- include: prepared_once_of_job
  FROM unnest(:'groups'::text[], :'names'::text[]) AS k(job_group, job_name)
 WHERE j.sched_name = :'sched' AND j.job_group = k.job_group AND j.job_name = k.job_name;

-- name: own_triggers
UPDATE qrtz_triggers t
   SET owner = :'owner',
       -- include: prepared_once
  FROM unnest(:'groups'::text[], :'names'::text[]) AS k(trigger_group, trigger_name)
 WHERE t.sched_name = :'sched' AND t.trigger_group = k.trigger_group AND t.trigger_name = k.trigger_name;

-- name: own_calendars
UPDATE qrtz_calendars SET owner = :'owner'
 WHERE sched_name = :'sched' AND calendar_name = ANY(:'names'::text[]);
