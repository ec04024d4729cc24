"""Numbers of rows, groups and the use of limits. Each number is counted up to a maximum, along an index."""

from __future__ import annotations

from collections.abc import Collection

from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.keys import JobKey
from quartzpy.placement import Placement, placement_from_text
from quartzpy.states import TriggerState
from quartzpy.store.protocol import GroupTally, RateUsage, SlotUsage, Tallies
from quartzpy.store.queries import HELD, STOPPED
from quartzpy.store.sql.conditions import literals
from quartzpy.store.sql.db.session import SqlSession

# The conditions are those of the partial indexes on `triggers`.
_COUNT = "(SELECT count(*) FROM (SELECT FROM {source} WHERE {condition} LIMIT %(most)s::int + 1) AS counted)"


def _count(source: str, condition: str) -> str:
    return _COUNT.format(source=source, condition=condition)


def _in_state(state: TriggerState) -> str:
    # With the scheduler as an expression, only the partial index of the held triggers can serve.
    scheduler = "sched_name || ''" if state in _FEW else "sched_name"
    counted = _count("$triggers", f"{scheduler} = %(sched)s AND trigger_state = '{state}'")
    if state not in _FEW:
        return counted
    return f"""
       CASE WHEN (SELECT seen FROM all_held) THEN (SELECT count(*) FROM held WHERE trigger_state = '{state}')
            ELSE {counted} END"""


# Their index does not distinguish these states, so all of them are read once, if they are as few as usual.
_FEW = HELD - STOPPED
# The paused triggers that are overdue are looked for among the first ones by key.
TALLIES = f"""
WITH held AS MATERIALIZED (
    SELECT trigger_state FROM $triggers
     WHERE sched_name || '' = %(sched)s AND trigger_state IN ({literals(HELD)}) LIMIT 2 * %(most)s::int + 1),
all_held AS (SELECT count(*) <= 2 * %(most)s::int AS seen FROM held)
SELECT {_count("$job_details", "sched_name = %(sched)s")},
       {_count("$fired_triggers", "sched_name = %(sched)s AND state = 'ACQUIRED'")},
       {_count("$fired_triggers", "sched_name = %(sched)s AND state = 'EXECUTING'")},
       (SELECT count(*)
          FROM (SELECT next_fire_time FROM $triggers
                 WHERE sched_name = %(sched)s AND trigger_state = 'PAUSED'
                 ORDER BY trigger_group, trigger_name LIMIT %(most)s::int + 1) AS paused
         WHERE next_fire_time < $now),
       {",".join(map(_in_state, TriggerState))}
"""
SLOTS = """
SELECT job_group, job_name, concurrency_key, max(max_concurrent), sum(executing)::int, sum(blocked)::int
  FROM (SELECT job_group, job_name, concurrency_key, max_concurrent, 1 AS executing, 0 AS blocked
          FROM $fired_triggers
         WHERE sched_name = %(sched)s AND state = 'EXECUTING' AND max_concurrent IS NOT NULL
         UNION ALL
        (SELECT job_group, job_name, concurrency_key, max_concurrent, 0, 1
           FROM $triggers
          WHERE sched_name || '' = %(sched)s AND trigger_state IN ('BLOCKED', 'PAUSED_BLOCKED')
            AND max_concurrent IS NOT NULL
          LIMIT 10000)) AS used
 GROUP BY job_group, job_name, concurrency_key
 ORDER BY job_group, job_name, concurrency_key LIMIT %(limit)s::int
"""
PLACEMENTS = """
SELECT j.job_group, j.job_name, j.placement
  FROM unnest(%(groups)s::text[], %(names)s::text[]) AS k(job_group, job_name)
  JOIN $job_details j ON j.sched_name = %(sched)s AND j.job_group = k.job_group AND j.job_name = k.job_name
"""
RATES = """
SELECT r.job_group, r.job_name, r.concurrency_key, j.rate_limit::text, r.tat, r.queued_until
  FROM $rate_limits r
  JOIN $job_details j USING (sched_name, job_group, job_name)
 WHERE r.sched_name = %(sched)s AND r.tat > $now AND j.rate_limit IS NOT NULL
 ORDER BY r.job_group, r.job_name, r.concurrency_key LIMIT %(limit)s::int
"""
# A loose index scan: one step per group.
_GROUPS = """
WITH RECURSIVE groups AS (
    (SELECT {column} AS name, 1 AS number FROM {table}
      WHERE sched_name = %(sched)s AND {column} > %(after)s ORDER BY {column} LIMIT 1)
    UNION ALL
    SELECT following.name, g.number + 1
      FROM groups g
     CROSS JOIN LATERAL (
        SELECT {column} AS name FROM {table}
         WHERE sched_name = %(sched)s AND {column} > g.name ORDER BY {column} LIMIT 1) AS following
     WHERE g.number < %(limit)s::int)
SELECT name, {counts} FROM groups g ORDER BY name
"""
_OF_GROUP = "sched_name = %(sched)s AND trigger_group = g.name"
TRIGGER_GROUPS = _GROUPS.format(
    column="trigger_group",
    table="$triggers",
    counts=", ".join(
        (
            _count("$triggers", _OF_GROUP),
            _count("$triggers", f"{_OF_GROUP} AND trigger_state IN ('PAUSED', 'PAUSED_BLOCKED')"),
            _count("$triggers", f"{_OF_GROUP} AND trigger_state = 'ERROR'"),
        )
    ),
)
JOB_GROUPS = _GROUPS.format(
    column="job_group",
    table="$job_details",
    counts=f"{_count('$job_details', 'sched_name = %(sched)s AND job_group = g.name')}, 0, 0",
)


def tallies(session: SqlSession, most: int) -> Tallies:
    [(jobs, claimed, executing, overdue, *of_states)] = session.read_one(TALLIES, most=most)
    numbers = {state: number for state, number in zip(TriggerState, of_states, strict=True) if number}
    return Tallies(jobs, numbers, claimed, executing, overdue)


def slot_usage(session: SqlSession, limit: int) -> list[SlotUsage]:
    return [SlotUsage(JobKey(name, group), *values) for group, name, *values in session.read_one(SLOTS, limit=limit)]


def placements(session: SqlSession, keys: Collection[JobKey]) -> dict[JobKey, Placement]:
    found = session.read_one(PLACEMENTS, groups=[key.group for key in keys], names=[key.name for key in keys])
    return {JobKey(name, group): placement_from_text(text) for group, name, text in found}


def rate_usage(session: SqlSession, limit: int) -> list[RateUsage]:
    return [
        RateUsage(JobKey(name, group), of_key, RateLimit.from_text(text), tat, queued_until)
        for group, name, of_key, text, tat, queued_until in session.read_one(RATES, limit=limit)
    ]


def group_tallies(session: SqlSession, text: str, limit: int, after: str | None, most: int) -> list[GroupTally]:
    """Return groups by `TRIGGER_GROUPS` or `JOB_GROUPS`."""
    return [GroupTally(*row) for row in session.read_one(text, limit=limit, after=after or "", most=most)]
