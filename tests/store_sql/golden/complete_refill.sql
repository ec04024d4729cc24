-- Appends fire times if nothing else has: the schedule, the calendar and the last instant must be those from which they
-- were computed. The calendar is looked up by its key, because of OFFSET 0.
UPDATE qrtz_triggers t
   SET upcoming = t.upcoming || r.more::timestamptz[], upcoming_is_complete = r.is_complete
  FROM (SELECT x.row, w.more, w.is_complete
          FROM unnest(%(groups)s::text[], %(names)s::text[], %(generations)s::bigint[], %(after)s::timestamptz[],
                      %(further)s::text[], %(complete)s::bool[], %(revisions)s::bigint[])
               AS w(trigger_group, trigger_name, generation, after, more, is_complete, revision)
         CROSS JOIN LATERAL (
            SELECT o.ctid AS row, o.job_group, o.job_name
              FROM qrtz_triggers o
             WHERE o.sched_name = %(sched)s AND o.trigger_group = w.trigger_group
               AND o.trigger_name = w.trigger_name AND o.generation = w.generation
               AND coalesce(o.upcoming[cardinality(o.upcoming)], o.next_fire_time) = w.after
               AND NOT o.upcoming_is_complete
               AND (o.calendar_name IS NULL
                    OR EXISTS (SELECT FROM qrtz_calendars c
                                WHERE c.sched_name = o.sched_name AND c.calendar_name = o.calendar_name
                                  AND c.revision = w.revision
                               OFFSET 0))
               FOR NO KEY UPDATE SKIP LOCKED) AS x
       ) AS r
 WHERE t.ctid = r.row
