-- A batch of late triggers, without a lock.
WITH node AS MATERIALIZED (SELECT clock_timestamp() AS at)
SELECT node.at, late.*
  FROM node
 CROSS JOIN unnest(%(job_types)s::text[], %(placements)s::text[]) AS known(job_type, placement)
 CROSS JOIN (VALUES ('SCHEDULER'), ('OWN'), ('LATE'), ('SKIP'), ('ONCE')) AS rule(name)
 CROSS JOIN LATERAL (
    SELECT t.trigger_group, t.trigger_name, t.job_group, t.job_name, t.kind, t.schedule::text, t.description,
           t.start_time, t.end_time, t.priority, t.misfire_instruction, t.misfire_threshold, t.calendar_name,
           t.job_data::text, t.next_fire_time, t.prev_fire_time, t.times_triggered, t.generation,
           c.calendar::text, c.revision, t.coalesced_fire_times IS NOT NULL, t.ctid::text, t.misfire_rule,
           CASE t.misfire_rule WHEN 'SKIP' THEN t.resumed_at END
      FROM qrtz_triggers t
      LEFT JOIN qrtz_calendars c ON c.sched_name = t.sched_name AND c.calendar_name = t.calendar_name
     WHERE t.sched_name = %(sched)s AND t.job_type = known.job_type AND t.placement = known.placement
       AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
       AND t.next_fire_time < CASE rule.name WHEN 'SCHEDULER' THEN node.at - %(threshold)s::interval ELSE node.at END
       AND (rule.name <> 'OWN' OR t.next_fire_time < node.at - t.misfire_threshold)
       AND t.generation <> ALL(%(left)s::bigint[])
     ORDER BY t.next_fire_time, t.priority DESC
     LIMIT %(limit)s::int
 ) AS late
 ORDER BY late.next_fire_time, late.priority DESC
 LIMIT %(limit)s::int
