"""The load of the cluster: a few numbers from one read whose cost does not grow with the tables."""

from __future__ import annotations

from quartzpy.store.records import LATE_AFTER, MOST_COUNTED, ClusterLoad
from quartzpy.store.sql.db.session import SqlSession
from quartzpy.store.sql.lookups import MISFIRE_RULES, WAITING

_LATE = "next_fire_time < clock.at - %(late_after)s::interval"
# The first limit keeps the planner to a range of the due index, whose order it has, and OFFSET 0 from joining in
# another order. The second limit bounds the sum of all ranges.
LOAD = f"""
{WAITING},
clock AS MATERIALIZED (SELECT $now AS at),
dispatched AS MATERIALIZED (
    SELECT w.job_type, w.placement, rule.name AS misfire_rule
      FROM waiting w CROSS JOIN (VALUES {MISFIRE_RULES}) AS rule(name)
),
due AS (
    SELECT of_key.*
      FROM clock
     CROSS JOIN dispatched d
     CROSS JOIN LATERAL (
        SELECT t.next_fire_time, t.rate_limited_until FROM $triggers t
         WHERE t.sched_name = %(sched)s AND t.trigger_state = 'WAITING' AND t.job_type = d.job_type
           AND t.placement = d.placement AND t.misfire_rule = d.misfire_rule AND t.next_fire_time <= clock.at
         ORDER BY t.next_fire_time LIMIT %(most)s::int OFFSET 0) AS of_key
     LIMIT %(most)s::int
),
earliest AS (
    SELECT min(of_key.next_fire_time) AS next_fire_time
      FROM dispatched d
     CROSS JOIN LATERAL (
        SELECT t.next_fire_time FROM $triggers t
         WHERE t.sched_name = %(sched)s AND t.trigger_state = 'WAITING' AND t.job_type = d.job_type
           AND t.placement = d.placement AND t.misfire_rule = d.misfire_rule
         ORDER BY t.next_fire_time LIMIT 1) AS of_key
)
SELECT waiting_due.due, waiting_due.late + held.late,
       (SELECT clock.at - e.next_fire_time FROM earliest e, clock WHERE e.next_fire_time <= clock.at),
       in_error.number, fired.claimed, fired.executing, nodes.alive, nodes.silent
  FROM (SELECT count(*) FILTER (WHERE rate_limited_until IS NULL OR rate_limited_until <= clock.at) AS due,
               count(*) FILTER (WHERE {_LATE}) AS late
          FROM due, clock) AS waiting_due,
       (SELECT count(*) FILTER (WHERE trigger_state IN ('ACQUIRED', 'BLOCKED') AND {_LATE}) AS late
          FROM (SELECT trigger_state, next_fire_time FROM $triggers
                 WHERE sched_name || '' = %(sched)s
                   AND trigger_state IN ('ACQUIRED', 'BLOCKED', 'PAUSED_BLOCKED', 'COMPLETE')
                 LIMIT %(most)s::int) AS held_row, clock) AS held,
       (SELECT count(*) AS number
          FROM (SELECT FROM $triggers
                 WHERE sched_name || '' = %(sched)s AND trigger_state = 'ERROR'
                 LIMIT %(most)s::int) AS error_row) AS in_error,
       (SELECT count(*) FILTER (WHERE state = 'ACQUIRED') AS claimed,
               count(*) FILTER (WHERE state = 'EXECUTING') AS executing
          FROM $fired_triggers WHERE sched_name = %(sched)s) AS fired,
       (SELECT count(*) FILTER (WHERE last_checkin >= clock.at - failure_window) AS alive,
               count(*) FILTER (WHERE last_checkin < clock.at - failure_window) AS silent
          FROM $scheduler_state, clock WHERE sched_name = %(sched)s) AS nodes
"""


def cluster_load(session: SqlSession) -> ClusterLoad:
    [row] = session.read_one(LOAD, most=MOST_COUNTED, late_after=LATE_AFTER)
    return ClusterLoad(*row)
