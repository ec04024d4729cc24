"""The load of the cluster: a few numbers from one read whose cost does not grow with the tables."""

from __future__ import annotations

from quartzpy.store.records import LATE_AFTER, MOST_COUNTED, ClusterLoad
from quartzpy.store.sql.db.session import SqlSession
from quartzpy.store.sql.lookups import WAITING

_LATE = "next_fire_time < clock.at - %(late_after)s::interval"
# The limits apply to each range of an index, and OFFSET 0 keeps the planner from joining in another order.
LOAD = f"""
{WAITING},
clock AS MATERIALIZED (SELECT $now AS at),
due AS (
    SELECT of_key.*
      FROM clock
     CROSS JOIN waiting w
     CROSS JOIN (VALUES ('SCHEDULER'), ('OWN'), ('IGNORE'), ('RATE_LIMIT'), ('LATE'), ('SKIP'), ('ONCE'),
                       ('NEW')) AS rule(name)
     CROSS JOIN LATERAL (
        SELECT t.next_fire_time, t.rate_limited_until FROM $triggers t
         WHERE t.sched_name = %(sched)s AND t.trigger_state = 'WAITING' AND t.job_type = w.job_type
           AND t.placement = w.placement AND t.misfire_rule = rule.name AND t.next_fire_time <= clock.at
         ORDER BY t.next_fire_time LIMIT %(most)s::int OFFSET 0) AS of_key
)
SELECT waiting_due.due, waiting_due.late + held.late, waiting_due.longest, stopped.in_error, fired.claimed,
       fired.executing, nodes.alive, nodes.silent
  FROM (SELECT count(*) FILTER (WHERE rate_limited_until IS NULL OR rate_limited_until <= clock.at) AS due,
               count(*) FILTER (WHERE {_LATE}) AS late, max(clock.at - next_fire_time) AS longest
          FROM due, clock) AS waiting_due,
       (SELECT count(*) FILTER (WHERE {_LATE}) AS late
          FROM (SELECT next_fire_time FROM $triggers
                 WHERE sched_name || '' = %(sched)s AND trigger_state IN ('ACQUIRED', 'BLOCKED')
                 LIMIT %(most)s::int) AS held_row, clock) AS held,
       (SELECT count(*) FILTER (WHERE trigger_state = 'ERROR') AS in_error
          FROM (SELECT trigger_state FROM $triggers
                 WHERE sched_name || '' = %(sched)s AND trigger_state IN ('ERROR', 'PAUSED', 'PAUSED_BLOCKED')
                 LIMIT %(most)s::int) AS stopped_row) AS stopped,
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
