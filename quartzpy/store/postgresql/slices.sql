-- name: affected
-- A page of the triggers that a change of many concerns, without a lock: the soonest first, after the last one of the
-- page before. What is paused or deleted first then is what would fire first.
SELECT page.at::text, page.generation, page.trigger_group, page.trigger_name
  FROM (SELECT coalesce(t.next_fire_time, 'infinity') AS at, t.generation, t.trigger_group, t.trigger_name
          FROM qrtz_triggers t
         WHERE t.sched_name = :'sched'
           -- include: is_chosen
\if :held_by_mode
           AND t.held_by_mode
\endif
\if :by_calendar
           AND t.calendar_name = :'calendar_name'
           AND
               -- include: is_computed
\endif
\if :pauses
           AND
               -- include: may_be_paused
\endif
\if :resumes
           AND t.trigger_state = 'PAUSED' AND t.next_fire_time IS NOT NULL
\endif
\if :stops
           AND t.trigger_state NOT IN ('COMPLETE', 'ERROR')
\endif
\if :ended
           AND t.pause_missed IS NULL AND NOT t.held_by_mode
\endif
\if :from_start
           AND t.next_fire_time >= :'starts_at'::timestamptz
\endif
           AND (coalesce(t.next_fire_time, 'infinity'), t.generation) > (:'after_at'::timestamptz, :'after_id'::bigint)
         ORDER BY 1, 2
         LIMIT :'limit'::int) AS page
 ORDER BY page.at, page.generation;

-- name: hold
-- Waits for the triggers of a slice, in the order of their keys. A statement that waits for a row and finds it by its
-- place does not change it: who held it may have written another version of it. The next statement sees that version.
SELECT held.generation
  FROM unnest(:'groups'::text[], :'names'::text[], :'generations'::bigint[])
       AS k(trigger_group, trigger_name, generation)
 CROSS JOIN LATERAL (
    SELECT t.generation FROM qrtz_triggers t
     WHERE t.sched_name = :'sched' AND t.trigger_group = k.trigger_group AND t.trigger_name = k.trigger_name
       AND t.generation = k.generation
       FOR NO KEY UPDATE) AS held;
