-- The planner is steered here: see docs/planner.md.

-- name: refill
-- Appends fire times if nothing else has: the schedule, the calendar and the last instant must be those from which they
-- were computed. The calendar is looked up by its key, because of OFFSET 0.
UPDATE qrtz_triggers t
   SET upcoming = t.upcoming || r.more::timestamptz[], upcoming_is_complete = r.is_complete,
       -- include: prepared_once
  FROM (SELECT x.row, e.more, e.is_complete
          FROM unnest(:'groups'::text[], :'names'::text[], :'generations'::bigint[], :'after'::timestamptz[],
                      :'further'::text[], :'complete'::bool[], :'revisions'::bigint[])
               AS e(trigger_group, trigger_name, generation, after, more, is_complete, revision)
         -- include: newest
         CROSS JOIN LATERAL (
            SELECT o.ctid AS row, o.job_group, o.job_name
              FROM qrtz_triggers o
             WHERE o.ctid = newest.row AND o.generation = e.generation
               AND coalesce(o.upcoming[cardinality(o.upcoming)], o.next_fire_time) = e.after
               AND NOT o.upcoming_is_complete
               AND (o.calendar_name IS NULL
                    OR EXISTS (SELECT FROM qrtz_calendars c
                                WHERE c.sched_name = o.sched_name AND c.calendar_name = o.calendar_name
                                  AND c.revision = e.revision
                               OFFSET 0))
               FOR NO KEY UPDATE SKIP LOCKED) AS x
       ) AS r
 WHERE t.ctid = r.row;

-- name: move_by_end
-- Moves triggers whose next fire follows from the end of the execution. One that was moved in the meantime does not
-- change. The execution ends only if its trigger's row is free, so no row is skipped here whose execution has ended.
UPDATE qrtz_triggers t
   SET next_fire_time = a.next_fire_time,
       trigger_state = CASE WHEN a.next_fire_time IS NULL THEN 'COMPLETE'
                            -- Its gate is asked again at the other instant.
                            WHEN t.trigger_state = 'BLOCKED' THEN 'WAITING' ELSE t.trigger_state END,
       -- include: prepared_once
  FROM unnest(:'fire_ids'::bigint[], :'expected'::timestamptz[], :'next'::timestamptz[])
           AS a(fire_id, expected, next_fire_time)
 -- include: own_record
 -- include: newest
 CROSS JOIN LATERAL (
    SELECT o.ctid AS row FROM qrtz_triggers o
     WHERE o.ctid = newest.row AND o.generation = e.generation AND o.next_fire_time = a.expected
       AND o.trigger_state || '' <> 'COMPLETE'
       FOR NO KEY UPDATE SKIP LOCKED) AS own
 WHERE t.ctid = own.row;
