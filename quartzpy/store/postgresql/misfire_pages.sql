-- The planner is steered here: see docs/planner.md.

-- name: page
-- The misfires that match all filters, the latest first; with `examined` those among the first `among`, or of the
-- trigger. The scheduler as an expression leaves only the index of the trigger.
\if :count
SELECT count(*) FROM (
\endif
SELECT id, trigger_group, trigger_name, job_group, job_name, instance_id, handled_at, misfire_instruction, action,
       scheduled_time, missed, has_more, caught_up, next_fire_time
  FROM (SELECT * FROM qrtz_misfires
\if :of_trigger
         WHERE sched_name || '' = :'sched' AND trigger_group = :'trigger_group' AND trigger_name = :'trigger_name'
\else
         WHERE sched_name = :'sched'
\endif
\if :after
           AND id < :'after_id'::bigint
\endif
\if :examined
         ORDER BY id DESC LIMIT :'among'::int
\endif
       ) AS walked
 WHERE true
\if :of_job
   AND job_group = :'job_group' AND job_name = :'job_name'
\endif
\if :of_action
   AND action = :'action'
\endif
\if :of_node
   AND instance_id = :'node'
\endif
   -- include: in_span
 ORDER BY id DESC LIMIT :'limit'::int
\if :count
) AS matching
\endif
;

-- name: last
-- The last misfire that a page examines, unless those that follow it were handled too long ago.
SELECT id
  FROM (SELECT id, handled_at FROM qrtz_misfires
\if :of_trigger
         WHERE sched_name || '' = :'sched' AND trigger_group = :'trigger_group' AND trigger_name = :'trigger_name'
\else
         WHERE sched_name = :'sched'
\endif
\if :after
           AND id < :'after_id'::bigint
\endif
         ORDER BY id DESC OFFSET :'among'::int - 1 LIMIT 1) AS last
 WHERE handled_at >= coalesce(:'since'::timestamptz - :'margin'::interval, '-infinity');

-- name: recent
-- The number of misfires that were handled within a span, among the latest ones.
SELECT count(*) FROM (SELECT handled_at FROM qrtz_misfires
                       WHERE sched_name = :'sched' ORDER BY id DESC LIMIT :'most'::int + 1) AS latest
 WHERE handled_at >= :now - :'within'::interval;
