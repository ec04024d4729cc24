-- Parts that several statements for operators include.
-- The planner is steered here: see docs/planner.md.

-- part: breach
kind, trigger_group, trigger_name, job_group, job_name, scheduled_time, what, why::text, id, found_at, in_a_row,
since, over_at

-- part: cell
-- Not `extract`, whose numeric result takes several times as long.
least(floor(date_part('epoch', at - :'start'::timestamptz) * :'cells'::int
            / date_part('epoch', :'end'::timestamptz - :'start'::timestamptz)),
      :'cells'::int - 1)::int AS cell,

-- part: lane
\if :by_node
''::text AS lane_group, instance_id::text AS lane_name,
\else
job_group::text AS lane_group,
\if :by_group
''
\else
job_name
\endif
::text AS lane_name,
\endif

-- part: any_execution
SELECT outcome AS state, fire_id, trigger_group, trigger_name, job_group, job_name, job_type, instance_id::text,
       scheduled_time, fired_time, started_at, ended_at, attempt, error, trigger_data::text, result::text,
       retry_at
  FROM qrtz_executions WHERE fire_id = root.fire_id AND sched_name || '' = :'sched'
UNION ALL
SELECT CASE WHEN fired_time > :now THEN 'ENQUEUED' ELSE 'PROCESSING' END, fire_id, trigger_group, trigger_name,
       job_group, job_name, job_type, instance_id::text, scheduled_time,
       CASE WHEN fired_time <= :now THEN fired_time END,
       NULL::timestamptz, NULL::timestamptz, attempt, NULL::text, trigger_data::text, NULL::text,
       NULL::timestamptz
  FROM qrtz_fired_triggers WHERE fire_id = root.fire_id AND sched_name = :'sched'
 LIMIT 1

-- part: own_tables
SELECT c.oid, c.relname, c.reltuples FROM pg_catalog.pg_class c
 WHERE c.relnamespace = (SELECT relnamespace FROM pg_catalog.pg_class WHERE oid = 'qrtz_triggers'::regclass)
   AND starts_with(c.relname, :'prefix') AND c.relkind IN ('r', 'p')

-- part: first_paused
-- Of the triggers that are paused although they are due, those that have waited longest.
SELECT * FROM qrtz_triggers
 WHERE sched_name || '' = :'sched' AND trigger_state || '' = 'PAUSED' AND next_fire_time < (SELECT :now)
 ORDER BY next_fire_time LIMIT :'most'::int + 1
