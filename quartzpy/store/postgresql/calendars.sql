-- The planner is steered here: see docs/planner.md.

-- name: put
-- Returns no row if the calendar exists and may not be replaced.
INSERT INTO qrtz_calendars AS c (sched_name, calendar_name, calendar, revision)
VALUES (:'sched', :'name', :'calendar'::jsonb, nextval('qrtz_fire_ids'))
    ON CONFLICT (sched_name, calendar_name) DO UPDATE
   SET calendar = excluded.calendar, revision = excluded.revision, owner = NULL
 WHERE :'replace'::bool
RETURNING revision;

-- name: hold_triggers
-- Locks all triggers that use the calendar, also those of which nothing is computed: an end that appends fire times to
-- one of them has done so by then, and the next statement sees it, or passes over the row.
SELECT count(*)
  FROM (SELECT FROM qrtz_triggers t
         WHERE t.sched_name = :'sched' AND t.calendar_name = :'name' AND t.trigger_state <> 'COMPLETE'
           FOR NO KEY UPDATE) AS held;

-- name: clear_upcoming
UPDATE qrtz_triggers t
   -- include: cleared
 WHERE t.sched_name = :'sched' AND t.calendar_name = :'name'
   AND
       -- include: is_computed
;

-- name: clear_slice
-- The same for a slice of very many triggers.
UPDATE qrtz_triggers t
   -- include: cleared
  FROM unnest(:'groups'::text[], :'names'::text[], :'generations'::bigint[])
       AS k(trigger_group, trigger_name, generation)
 CROSS JOIN LATERAL (
    SELECT t.ctid AS row FROM qrtz_triggers t
     WHERE t.sched_name = :'sched' AND t.trigger_group = k.trigger_group AND t.trigger_name = k.trigger_name
       AND t.generation = k.generation
       AND
           -- include: is_computed
       FOR NO KEY UPDATE SKIP LOCKED) AS own
 WHERE t.ctid = own.row
RETURNING t.generation;

-- name: delete
DELETE FROM qrtz_calendars WHERE sched_name = :'sched' AND calendar_name = :'name' RETURNING calendar_name;

-- name: calendars
SELECT calendar_name, calendar::text, revision FROM qrtz_calendars
 WHERE sched_name = :'sched' AND calendar_name = ANY(:'names'::text[]);

-- name: hold
-- Transactions that store triggers share this lock; one that replaces or removes a calendar waits for them.
SELECT calendar_name, revision FROM qrtz_calendars
 WHERE sched_name = :'sched' AND calendar_name = ANY(:'names'::text[])
   FOR SHARE;

-- name: move
WITH affected AS MATERIALIZED (
    SELECT w.*
      FROM unnest(:'groups'::text[], :'names'::text[], :'generations'::bigint[], :'expected'::timestamptz[],
                  :'next'::timestamptz[], :'previous'::timestamptz[], :'upcoming'::text[], :'complete'::bool[],
                  :'times'::bigint[])
           AS w(trigger_group, trigger_name, generation, expected, next_fire_time, prev_fire_time, upcoming, is_complete,
                times)
      JOIN qrtz_triggers t
        ON t.sched_name = :'sched' AND t.trigger_group = w.trigger_group AND t.trigger_name = w.trigger_name
       AND t.generation = w.generation AND t.next_fire_time = w.expected
       AND t.trigger_state <> 'COMPLETE'
       FOR UPDATE OF t
),
moved AS (
    UPDATE qrtz_triggers t
       SET next_fire_time = h.next_fire_time, prev_fire_time = h.prev_fire_time, upcoming = h.upcoming::timestamptz[],
           upcoming_is_complete = h.is_complete, times_triggered = h.times,
           -- A catch-up ends with the fire times before its end.
           missed_policy = CASE WHEN h.next_fire_time = h.expected THEN t.missed_policy END,
           catch_up_until = CASE WHEN t.catch_up_until >= h.next_fire_time THEN t.catch_up_until END
      FROM affected h
     WHERE t.sched_name = :'sched' AND t.trigger_group = h.trigger_group AND t.trigger_name = h.trigger_name
       AND h.next_fire_time IS NOT NULL
    RETURNING t.trigger_group, t.trigger_name
),
over AS (
    UPDATE qrtz_triggers t
       SET trigger_state = 'COMPLETE', next_fire_time = NULL, prev_fire_time = h.prev_fire_time, upcoming = '{}',
           upcoming_is_complete = true, times_triggered = h.times, fire_id = NULL,
           -- include: prepared_once
      FROM affected h
     WHERE t.sched_name = :'sched' AND t.trigger_group = h.trigger_group AND t.trigger_name = h.trigger_name
       AND h.next_fire_time IS NULL
    RETURNING t.trigger_group, t.trigger_name
)
SELECT * FROM moved UNION ALL SELECT * FROM over;
