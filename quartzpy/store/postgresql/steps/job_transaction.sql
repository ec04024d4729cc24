-- name: go_back
-- Restores what the job has set, which was kept in these settings.
SELECT set_config('search_path', current_setting('quartzpy.search_path'), true),
       set_config('role', current_setting('quartzpy.role'), true);

-- name: stands
-- Fails, which rolls back everything before it and the COMMIT after it, unless this execution has just been recorded.
SELECT 1 / count(*) FROM qrtz_executions
 WHERE fire_id = :'fire_id'::bigint AND instance_id = :'instance' AND outcome <> 'TERMINATED';

-- name: fire_stands
-- Locks the row of the fire until the COMMIT that follows: it waits for a recovery that has locked the row, and a
-- recovery that starts in the meantime skips it until its next pass. A request to cancel need not wait.
SELECT 1 / count(*)
  FROM (SELECT FROM qrtz_fired_triggers f
         WHERE f.fire_id = :'fire_id'::bigint AND f.epoch = :'epoch'::bigint
           AND EXISTS (SELECT FROM qrtz_scheduler_state s
                        WHERE s.sched_name = :'sched' AND s.instance_id = :'instance' AND s.epoch = f.epoch)
           FOR KEY SHARE OF f) AS fire;

-- name: hold_job
-- Waits for the job's row before taking the lock, and keeps it: under the lock, steps skip locked rows.
SELECT 1 FROM qrtz_job_details
 WHERE sched_name = :'sched' AND job_group = :'group' AND job_name = :'name'
   FOR NO KEY UPDATE;

-- name: hold_triggers
-- The same for the triggers of the job.
SELECT 1 FROM qrtz_triggers
 WHERE sched_name = :'sched' AND job_group = :'group' AND job_name = :'name'
 ORDER BY trigger_group, trigger_name
   FOR NO KEY UPDATE;

-- name: hold_followers
-- The same for the jobs that run after it.
SELECT 1
  FROM qrtz_job_details own
 CROSS JOIN LATERAL jsonb_array_elements(own.continuations) AS link(spec)
  JOIN qrtz_job_details o ON o.sched_name = :'sched' AND o.job_group = link.spec ->> 'job_group'
   AND o.job_name = link.spec ->> 'job_name'
 WHERE own.sched_name = :'sched' AND own.job_group = :'group' AND own.job_name = :'name'
 ORDER BY o.job_group, o.job_name
   FOR NO KEY UPDATE OF o;

-- name: hold_joins
-- The same for the jobs that wait for this end and others.
SELECT 1
  FROM (SELECT by.spec FROM qrtz_job_details own
         CROSS JOIN LATERAL jsonb_array_elements(own.joined_by) AS by(spec)
         WHERE own.sched_name = :'sched' AND own.job_group = :'group' AND own.job_name = :'name'
        UNION ALL
        SELECT f.trigger_data -> 'QRTZ_BATCH' FROM qrtz_fired_triggers f WHERE f.fire_id = :'fire_id'::bigint) AS waits
  JOIN qrtz_job_details o ON o.sched_name = :'sched' AND o.job_group = waits.spec ->> 'job_group'
   AND o.job_name = waits.spec ->> 'job_name'
 ORDER BY o.job_group, o.job_name
   FOR NO KEY UPDATE OF o;

-- name: hold_fire
-- Waits for an UPDATE of the fire's row (its progress, or a request to cancel), after which the statement that ends
-- the execution sees the new version of the row.
SELECT FROM qrtz_fired_triggers WHERE fire_id = :'fire_id'::bigint AND epoch = :'epoch'::bigint FOR UPDATE;
