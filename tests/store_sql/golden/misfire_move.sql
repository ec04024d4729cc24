-- Writes a batch back, and records its misfires. Rows are looked up by the ctid with which they were read: an index
-- scan might use another index than the primary key, and after an outage all late triggers may have the same fire time.
-- A row that was updated in the meantime has moved elsewhere, and is skipped.
WITH
-- include: node
-- The guard of the step. It is empty if this epoch is no longer registered, and then all that follows is empty, too.
-- `at` is the one instant by which the whole step decides.
node AS MATERIALIZED (
    SELECT clock_timestamp() AS at FROM qrtz_scheduler_state
     WHERE sched_name = %(sched)s AND instance_id = %(instance)s AND epoch = %(epoch)s::bigint
),
-- end
-- The new values of each trigger, with those that were read.
moves AS (
    SELECT * FROM unnest(%(rows)s::tid[], %(groups)s::text[], %(names)s::text[], %(generations)s::bigint[],
                         %(seen)s::timestamptz[], %(next)s::timestamptz[], %(previous)s::timestamptz[],
                         %(times)s::bigint[], %(starts)s::timestamptz[], %(schedules)s::text[], %(upcoming)s::text[],
                         %(complete)s::bool[], %(revisions)s::bigint[], %(missed_times)s::text[], %(more)s::bool[],
                         %(caught_up)s::bigint[], %(actions)s::text[], %(coalesces)s::bool[])
        AS m(row, trigger_group, trigger_name, generation, seen, next_fire_time, prev_fire_time, times_triggered,
             start_time, schedule, upcoming, is_complete, revision, missed, has_more, caught_up, action, coalesces)
),
-- The triggers that have not changed since they were read; rows that another transaction has locked are left.
late AS MATERIALIZED (
    SELECT m.*, mine.*
      FROM node
     CROSS JOIN moves m
     CROSS JOIN LATERAL (
        SELECT t.job_group, t.job_name, t.misfire_instruction
          FROM qrtz_triggers t
         WHERE t.ctid = m.row
           AND t.sched_name = %(sched)s AND t.trigger_group = m.trigger_group AND t.trigger_name = m.trigger_name
           AND t.generation = m.generation AND t.next_fire_time = m.seen AND t.trigger_state = 'WAITING'
           AND t.catch_up_until IS NULL
           AND (t.calendar_name IS NULL
                OR EXISTS (SELECT FROM qrtz_calendars c WHERE c.sched_name = t.sched_name
                              AND c.calendar_name = t.calendar_name AND c.revision = m.revision OFFSET 0))
           FOR UPDATE SKIP LOCKED) AS mine
),
-- Those that have another fire time.
moved AS (
    UPDATE qrtz_triggers t
       SET next_fire_time = l.next_fire_time, prev_fire_time = l.prev_fire_time,
           times_triggered = l.times_triggered, start_time = l.start_time, schedule = l.schedule::jsonb,
           upcoming = l.upcoming::timestamptz[], upcoming_is_complete = l.is_complete,
           coalesced_fire_times = CASE WHEN l.coalesces
                         THEN (coalesce(t.coalesced_fire_times, '{}') || l.missed::timestamptz[])[:1000] END,
           misfire_rule = CASE WHEN l.caught_up > 0 AND t.rate_limit IS NULL THEN 'IGNORE' ELSE
                          -- include: usual_rule
                          -- The regular rule of a trigger that was resumed with a `missed` policy, or is new. Outside
                          -- of the acquire step, only a trigger that repeats a fire which was admitted and handed back
                          -- has a rate limit and the rule IGNORE. It keeps it.
                          CASE WHEN t.rate_limit IS NOT NULL AND t.misfire_rule <> 'IGNORE' THEN 'RATE_LIMIT'
                               WHEN t.misfire_rule NOT IN ('SKIP', 'ONCE', 'NEW', 'HELD') THEN t.misfire_rule
                               WHEN t.misfire_instruction = 'ignore' THEN 'IGNORE'
                               WHEN t.misfire_threshold IS NULL THEN 'SCHEDULER' ELSE 'OWN' END
                          -- end
                          END,
           catch_up_until = CASE WHEN l.caught_up > 0 THEN %(at)s::timestamptz END
      FROM late l
     WHERE t.ctid = l.row AND l.next_fire_time IS NOT NULL
    RETURNING l.*
),
-- Those that have no fire time left.
finalized AS (
    UPDATE qrtz_triggers t
       SET trigger_state = 'COMPLETE', next_fire_time = NULL, upcoming = '{}', upcoming_is_complete = true
      FROM late l
     WHERE t.ctid = l.row AND l.next_fire_time IS NULL
    RETURNING l.*
),
-- The record of the misfires.
recorded AS (
    INSERT INTO qrtz_misfires (id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        instance_id, handled_at, misfire_instruction, action, scheduled_time, missed, has_more, caught_up,
        next_fire_time)
    SELECT nextval('qrtz_fire_ids'), %(sched)s, trigger_group, trigger_name, generation, job_group, job_name,
           %(instance)s, %(at)s::timestamptz, misfire_instruction, action, seen, missed::timestamptz[], has_more,
           caught_up, next_fire_time
      FROM (SELECT * FROM moved UNION ALL SELECT * FROM finalized) AS handled
)
SELECT trigger_group, trigger_name FROM moved UNION ALL SELECT trigger_group, trigger_name FROM finalized
