"""Pages of executions: of the history, of those that run, and of those that are to come.

The history is walked from its end. Where a query bounds the scheduled time, the walk is bounded too: an execution ends
at most an hour after its scheduled time, or it is among the few of a partial index. The history of a trigger is read
through its own index, which has the order of scheduled times: the executions that end last are among those that were
scheduled last, or scheduled at most an hour before these, or again among the few.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quartzpy.states import ENDED, ExecutionState, FiredState
from quartzpy.store.queries import ExecutionQuery, Position
from quartzpy.store.sql.conditions import LIMIT, all_of, between, group_value, in_group, literals
from quartzpy.store.sql.db.session import SqlSession
from quartzpy.store.sql.lookups import ENDED_COLUMNS, FIRED_COLUMNS, MISFIRE_RULES, WAITING
from quartzpy.store.sql.trigger_pages import COUNT_FEW, FEW, OF_JOB

# Executions: up to four parts, each with a limit of its own if it can be long.
_ENDED = f"""
{ENDED_COLUMNS}
  FROM {{source}}
 WHERE {{scheduler}} = %(sched)s {{conditions}} ORDER BY ended_at DESC, fire_id DESC {LIMIT}
"""
# An execution that took longer than this from its scheduled time to its end is in the index `executions_long`. The
# clocks of nodes, which tell the end, may be a minute wrong.
_LONG = "ended_at - scheduled_time > interval '1 hour'"
_MARGIN = "interval '61 minutes'"
_OF_TRIGGER = "trigger_group = %(trigger_group)s AND trigger_name = %(trigger_name)s"
# OFFSET 0 keeps all other conditions away, so that only the partial index can serve for the long ones.
# Only fires up to the cursor can have ended before it. With an upper bound the planner also expects few rows.
_UP_TO = "coalesce(%(after_at)s::timestamptz + interval '1 minute', 'infinity')"
_ENDED_OF_TRIGGER = f"""
(WITH last AS MATERIALIZED (
    SELECT scheduled_time FROM $executions
     WHERE sched_name = %(sched)s AND {_OF_TRIGGER} AND scheduled_time <= {_UP_TO} {{conditions}}
     ORDER BY generation DESC, scheduled_time DESC {LIMIT}),
  since AS MATERIALIZED (
    SELECT CASE WHEN count(*) = %(limit)s::int THEN min(scheduled_time) - {_MARGIN}
                ELSE '-infinity' END AS instant FROM last)
 SELECT * FROM (
    SELECT * FROM $executions
     WHERE sched_name || '' = %(sched)s AND {_OF_TRIGGER} AND scheduled_time >= (SELECT instant FROM since)
       AND scheduled_time <= {_UP_TO} OFFSET 0) AS soon
  UNION ALL
 SELECT * FROM (SELECT * FROM $executions WHERE {_LONG} AND scheduled_time < (SELECT instant FROM since) OFFSET 0) AS l
  WHERE sched_name = %(sched)s AND {_OF_TRIGGER})
 AS of_trigger"""
_SOON_AFTER = f"ended_at < %(until)s::timestamptz + {_MARGIN}"
_ENDED_LATER = f"""
(SELECT * FROM (SELECT * FROM $executions WHERE {_LONG} AND scheduled_time < %(until)s::timestamptz OFFSET 0) AS l
  WHERE ended_at >= %(until)s::timestamptz + {_MARGIN}) AS later"""
_ENDED_SINCE = "ended_at >= %(since)s::timestamptz - interval '1 minute'"
_EXAMINED = """
(SELECT * FROM $executions
  WHERE sched_name = %(sched)s {conditions} ORDER BY ended_at DESC, fire_id DESC LIMIT %(among)s::int) AS examined"""
_LAST_EXAMINED = """
SELECT ended_at, fire_id FROM $executions
 WHERE sched_name = %(sched)s {conditions}
 ORDER BY ended_at DESC, fire_id DESC OFFSET %(among)s::int - 1 LIMIT 1
"""
_ENDED_AFTER = """
ended_at <= %(after_at)s::timestamptz AND (ended_at, fire_id) < (%(after_at)s::timestamptz, %(after_id)s::bigint)"""
_FIRED = f"{FIRED_COLUMNS} FROM $fired_triggers WHERE sched_name = %(sched)s {{conditions}}"
_FIRED_AT = "CASE state WHEN 'EXECUTING' THEN fired_time ELSE scheduled_time END"
_FIRED_AFTER = f"({_FIRED_AT}, fire_id) < (%(after_at)s::timestamptz, %(after_id)s::bigint)"
_SCHEDULED = """
SELECT 'SCHEDULED', NULL::bigint, trigger_group, trigger_name, job_group, job_name, job_type, NULL::text,
       next_fire_time, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, attempt, NULL::text, job_data::text,
       NULL::text, NULL::timestamptz
"""
_TO_COME = f"""
  FROM $triggers
 WHERE sched_name = %(sched)s AND trigger_state = 'WAITING' {{conditions}}
 ORDER BY next_fire_time, trigger_group, trigger_name {LIMIT}
"""
# The front of the due index, for each dispatch key and misfire rule.
_SCHEDULED_OF_ALL = f"""
{WAITING}
{_SCHEDULED}
  FROM waiting w
 CROSS JOIN (VALUES {MISFIRE_RULES}) AS rule(name)
 CROSS JOIN LATERAL (
    SELECT trigger_group, trigger_name, job_group, job_name, next_fire_time, attempt, job_data
    {
    _TO_COME.format(
        conditions="{conditions} AND job_type = w.job_type AND placement = w.placement AND misfire_rule = rule.name"
    )
}) AS t
 ORDER BY next_fire_time, trigger_group, trigger_name {LIMIT}
"""
# Up to a number, the waiting triggers of a job are sorted.
_SCHEDULED_OF_JOB = f"""
{COUNT_FEW.format(most=FEW, few=OF_JOB)}
(SELECT * FROM ({_SCHEDULED} {
    _TO_COME.format(conditions="{conditions}").replace("sched_name =", "sched_name || '' =")
}) AS t WHERE (SELECT holds FROM few))
UNION ALL
(SELECT * FROM ({_SCHEDULED_OF_ALL}) AS t WHERE NOT (SELECT holds FROM few))
"""
_SCHEDULED_AFTER = """next_fire_time >= %(after_at)s::timestamptz AND (next_fire_time, trigger_group, trigger_name) >
    (%(after_at)s::timestamptz, %(after_group)s, %(after_name)s)"""
_OF_NODE = "instance_id = %(instance_id)s"
_FIRED_STATES = {FiredState.ACQUIRED: ExecutionState.ENQUEUED, FiredState.EXECUTING: ExecutionState.PROCESSING}
_EXECUTIONS = f"""
SELECT *
  FROM ({{parts}}) AS e(state, fire_id, trigger_group, trigger_name, job_group, job_name, job_type, instance_id,
                      scheduled_time, fired_time, started_at, ended_at, attempt, error, trigger_data, result, retry_at)
 ORDER BY CASE state WHEN 'SCHEDULED' THEN scheduled_time END NULLS FIRST,
          coalesce(ended_at, fired_time, scheduled_time) DESC, fire_id DESC, trigger_group, trigger_name
 {LIMIT}
"""


def executions_text(query: ExecutionQuery, after: Position | None) -> str:
    """Return a query of the parts that are needed only; a position in the SCHEDULED part excludes the others."""
    of = [
        query.job_key and "job_group = %(job_group)s AND job_name = %(job_name)s",
        in_group(query.job_group, "job_group"),
        query.job_type and "job_type = %(job_type)s",
    ]
    of_node = query.instance_id and _OF_NODE
    fired_states = [fired for fired, state in _FIRED_STATES.items() if state in query.states]
    past = after is None or not after[0]
    parts = []
    if past and query.states & ENDED:
        parts += _ended(query, after, of)
    if past and fired_states and not query.exhausted:
        fired = [
            f"state IN ({literals(fired_states)})",
            *of,
            query.trigger_key and _OF_TRIGGER,
            of_node,
            *between(query, "scheduled_time"),
            after and _FIRED_AFTER,
        ]
        parts.append(_FIRED.format(conditions=all_of(fired)))
    if ExecutionState.SCHEDULED in query.states and not query.exhausted and not query.instance_id:
        to_come = [
            *of,
            query.trigger_key and _OF_TRIGGER,
            *between(query, "next_fire_time"),
            None if past else _SCHEDULED_AFTER,
        ]
        text = _SCHEDULED_OF_JOB if query.job_key else _SCHEDULED_OF_ALL
        if query.trigger_key:
            text = _SCHEDULED + _TO_COME
        parts.append(text.format(conditions=all_of(to_come)))
    return _EXECUTIONS.format(parts=" UNION ALL ".join(f"({part})" for part in parts)) if parts else ""


def _ended(query: ExecutionQuery, after: Position | None, of: Sequence[object]) -> list[str]:
    """Return the parts of the history."""
    conditions = all_of(
        [
            f"outcome IN ({literals(query.states & ENDED)})",
            "outcome = 'FAILED' AND retry_at IS NULL" if query.exhausted else None,
            *of,
            query.instance_id and _OF_NODE,
            *between(query, "scheduled_time"),
            after and _ENDED_AFTER,
        ]
    )
    # The subqueries, except that of the walk, name the scheduler only here, so that no other index serves for them.
    elsewhere = "sched_name || ''"
    if query.trigger_key:
        source = _ENDED_OF_TRIGGER.format(conditions=conditions)
        return [_ENDED.format(source=source, scheduler=elsewhere, conditions=conditions)]
    walked = _walked(query, after)
    if query.among is None:
        parts = [_ENDED.format(source="$executions", scheduler="sched_name", conditions=conditions + walked)]
    else:
        source = _EXAMINED.format(conditions=walked)
        parts = [_ENDED.format(source=source, scheduler=elsewhere, conditions=conditions)]
    if query.until:
        parts.append(_ENDED.format(source=_ENDED_LATER, scheduler=elsewhere, conditions=conditions))
    return parts


def _walked(query: ExecutionQuery, after: Position | None) -> str:
    """Return the bounds of the walk through the history."""
    return all_of([query.since and _ENDED_SINCE, query.until and _SOON_AFTER, after and _ENDED_AFTER])


def last_examined(session: SqlSession, query: ExecutionQuery, after: Position | None) -> Position | None:
    """Return the position of the last execution that a query examines; None if it examines all that are left."""
    if query.among is None or (after is not None and after[0]):
        return None
    text = _LAST_EXAMINED.format(conditions=_walked(query, after))
    found = session.read_one(text, **values_of_executions(query, after))
    return (False, *found[0], "", "") if found else None


def values_of_executions(query: ExecutionQuery, after: Position | None) -> dict[str, Any]:
    _, at, fire_id, group, name = after or (None,) * 5
    job, trigger = query.job_key, query.trigger_key
    return {
        "job_group": job and job.group,
        "job_name": job and job.name,
        "trigger_group": trigger and trigger.group,
        "trigger_name": trigger and trigger.name,
        "group": group_value(query.job_group),
        "job_type": query.job_type,
        "instance_id": query.instance_id,
        "since": query.since,
        "until": query.until,
        "after_at": at,
        "after_id": fire_id,
        "after_group": group,
        "after_name": name,
        "among": query.among,
    }
