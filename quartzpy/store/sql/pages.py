"""Queries with filters, page by page, without a lock.

The text of a query contains only the conditions that are needed, so each text has one plan, whatever its values are. A
page starts after a position (keyset pagination), never at an offset, and walks an index from there:

- jobs and triggers: the primary keys, by group and name. The triggers of one job, or of one calendar, are read through
  their own index and sorted, and so are those that are claimed, blocked or ended; those that are paused or in ERROR
  have an index by key.
- executions: the history from its end. The history of a trigger is read through its own index and sorted; exhausted
  executions have an index by their end. There is no index by job, because it would slow down each completion.
- misfires and actions: the primary key from its end, or the index of the trigger or the subject.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher, MatchOperator
from quartzpy.states import ENDED, ExecutionState, FiredState, JobMode, MisfireAction, TriggerState
from quartzpy.store.queries import (
    ActionQuery,
    AnyQuery,
    ExecutionQuery,
    JobQuery,
    MisfireQuery,
    Position,
    TriggerOrder,
    TriggerQuery,
)
from quartzpy.store.records import ActionRecord, ExecutionRecord, JobRecord, MisfireRecord, TriggerRecord
from quartzpy.store.sql import actions as audit_log
from quartzpy.store.sql.db import rows
from quartzpy.store.sql.db.session import SqlSession
from quartzpy.store.sql.lookups import (
    ENDED_COLUMNS,
    FIRED_COLUMNS,
    JOB_COLUMNS,
    TRIGGER,
    WAITING,
    execution_of,
    trigger_record,
)

_LIMIT = "LIMIT %(limit)s::int"
_CONTAINS = "strpos({column}, %(contains)s) > 0"
_GROUP = {
    MatchOperator.EQUALS: "{column} = %(group)s",
    MatchOperator.STARTS_WITH: "starts_with({column}, %(group)s)",
    MatchOperator.ENDS_WITH: "right({column}, length(%(group)s)) = %(group)s",
    MatchOperator.CONTAINS: "strpos({column}, %(group)s) > 0",
}
_JOBS = f"""
SELECT s.trigger_count, s.next_fire_time, s.previous_fire_time, j.mode, {JOB_COLUMNS}
  FROM (SELECT * FROM $job_details WHERE sched_name = %(sched)s {{conditions}}
         ORDER BY job_group, job_name {_LIMIT}) AS j
 CROSS JOIN LATERAL (
    SELECT count(*) AS trigger_count,
           min(next_fire_time) FILTER (WHERE trigger_state NOT IN ('ERROR', 'COMPLETE')) AS next_fire_time,
           max(prev_fire_time) AS previous_fire_time
      FROM $triggers t
     WHERE t.sched_name = j.sched_name AND t.job_group = j.job_group AND t.job_name = j.job_name) AS s
 ORDER BY j.job_group, j.job_name
"""
# OFFSET 0 prevents the planner from walking another index that has the order of the query.
_TRIGGERS_OF_KEY = "(SELECT * FROM $triggers WHERE sched_name = %(sched)s {of} OFFSET 0)"
# They have an index by their job, and are few.
_HELD_TRIGGERS = """
(SELECT * FROM $triggers WHERE sched_name || '' = %(sched)s AND trigger_state IN ({states}) OFFSET 0)"""
_TRIGGERS = f"""
{TRIGGER.format(source="{source}")} WHERE {{scheduler}} = %(sched)s {{conditions}} ORDER BY {{order}} {_LIMIT}
"""
_STOPPED = frozenset({TriggerState.ERROR, TriggerState.PAUSED, TriggerState.PAUSED_BLOCKED})
_HELD = frozenset({TriggerState.ACQUIRED, TriggerState.BLOCKED, TriggerState.PAUSED_BLOCKED, TriggerState.COMPLETE})
_BY_KEY = "t.trigger_group, t.trigger_name"
_NEXT = "coalesce(t.next_fire_time, 'infinity')"
_BY_NEXT_FIRE_TIME = f"{_NEXT}, -t.priority, t.trigger_group, t.trigger_name"
_AFTER_KEY = "({columns}) > (%(after_group)s, %(after_name)s)"
_AFTER_NEXT = f"""({_BY_NEXT_FIRE_TIME}) >
    (coalesce(%(after_at)s::timestamptz, 'infinity'), %(after_priority)s::int, %(after_group)s, %(after_name)s)"""

# Executions: up to three parts, each with a limit of its own if it can be long.
_ENDED = f"""
{ENDED_COLUMNS}
  FROM {{source}}
 WHERE sched_name = %(sched)s {{conditions}} ORDER BY ended_at DESC, fire_id DESC {_LIMIT}
"""
# OFFSET 0, and the scheduler's name as an expression, prevent the planner from walking the whole history instead.
_ENDED_OF_TRIGGER = """
(SELECT * FROM $executions
  WHERE sched_name || '' = %(sched)s AND trigger_group = %(trigger_group)s AND trigger_name = %(trigger_name)s
 OFFSET 0) AS of_trigger"""
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
 ORDER BY next_fire_time, trigger_group, trigger_name {_LIMIT}
"""
# The front of the due index, for each dispatch key and misfire rule.
_SCHEDULED_OF_ALL = f"""
{WAITING}
{_SCHEDULED}
  FROM waiting w
 CROSS JOIN (VALUES ('SCHEDULER'), ('OWN'), ('IGNORE'), ('RATE_LIMIT'), ('LATE'), ('SKIP'), ('ONCE'),
                   ('NEW')) AS rule(name)
 CROSS JOIN LATERAL (
    SELECT trigger_group, trigger_name, job_group, job_name, next_fire_time, attempt, job_data
    {
    _TO_COME.format(
        conditions="{conditions} AND job_type = w.job_type AND placement = w.placement AND misfire_rule = rule.name"
    )
}) AS t
 ORDER BY next_fire_time, trigger_group, trigger_name {_LIMIT}
"""
_SCHEDULED_AFTER = """next_fire_time >= %(after_at)s::timestamptz AND (next_fire_time, trigger_group, trigger_name) >
    (%(after_at)s::timestamptz, %(after_group)s, %(after_name)s)"""
_FIRED_STATES = {FiredState.ACQUIRED: ExecutionState.ENQUEUED, FiredState.EXECUTING: ExecutionState.PROCESSING}
_EXECUTIONS = f"""
SELECT *
  FROM ({{parts}}) AS e(state, fire_id, trigger_group, trigger_name, job_group, job_name, job_type, instance_id,
                      scheduled_time, fired_time, started_at, ended_at, attempt, error, trigger_data, result, retry_at)
 ORDER BY CASE state WHEN 'SCHEDULED' THEN scheduled_time END NULLS FIRST,
          coalesce(ended_at, fired_time, scheduled_time) DESC, fire_id DESC, trigger_group, trigger_name
 {_LIMIT}
"""
_MISFIRES = f"""
SELECT id, trigger_group, trigger_name, job_group, job_name, instance_id, handled_at, misfire_instruction, action,
       scheduled_time, missed, has_more, caught_up, next_fire_time
  FROM $misfires WHERE {{scheduler}} = %(sched)s {{conditions}} ORDER BY id DESC {_LIMIT}
"""


def _all_of(conditions: Iterable[object]) -> str:
    """Join the conditions that apply, for appending to another one; those that do not apply are empty or None."""
    return "".join(f"\n   AND {condition}" for condition in conditions if condition)


def _group(matcher: GroupMatcher | None, column: str) -> str | None:
    if matcher is None or matcher.operator is MatchOperator.ANYTHING:
        return None
    return _GROUP[matcher.operator].format(column=column)


def _value(matcher: GroupMatcher | None) -> str | None:
    return None if matcher is None else matcher.value


def _between(query: TriggerQuery | ExecutionQuery | MisfireQuery, column: str) -> list[str]:
    since = [f"{column} >= %(since)s::timestamptz"] if query.since else []
    return [*since, f"{column} < %(until)s::timestamptz"] if query.until else since


def _literals(names: Iterable[str]) -> str:
    """Return names of our enumerations as SQL literals, because a partial index needs conditions without parameters."""
    return ", ".join(f"'{name}'" for name in sorted(names))


# --- jobs


def jobs_text(query: JobQuery, after: Position | None) -> str:
    conditions = [
        query.job_key and "job_group = %(job_group)s AND job_name = %(job_name)s",
        _group(query.group, "job_group"),
        query.contains and _CONTAINS.format(column="job_name"),
        query.job_type and "job_type = %(job_type)s",
        query.mode and "mode = %(mode)s",
        after and _AFTER_KEY.format(columns="job_group, job_name"),
    ]
    return _JOBS.format(conditions=_all_of(conditions))


def _values_of_jobs(query: JobQuery, after: Position | None) -> dict[str, Any]:
    group, name = after or (None, None)
    return {
        "job_group": query.job_key and query.job_key.group,
        "job_name": query.job_key and query.job_key.name,
        "group": _value(query.group),
        "contains": query.contains,
        "job_type": query.job_type,
        "mode": query.mode,
        "after_group": group,
        "after_name": name,
    }


def jobs(session: SqlSession, query: JobQuery, limit: int | None, after: Position | None) -> list[JobRecord]:
    return [
        JobRecord(
            key=JobKey(name, group),
            job_type=job_type,
            load_job=partial(rows.job, name, group, job_type, *columns),
            trigger_count=triggers,
            mode=JobMode(mode),
            next_fire_time=following,
            previous_fire_time=previous,
            display_name=columns[-2],
        )
        for triggers, following, previous, mode, name, group, job_type, *columns in _rows(session, query, limit, after)
    ]


# --- triggers


def triggers_text(query: TriggerQuery, after: Position | None) -> str:
    if query.states is not None and not query.states:
        return ""
    source = "$triggers"
    if query.job_key:
        source = _TRIGGERS_OF_KEY.format(of="AND job_group = %(job_group)s AND job_name = %(job_name)s")
    elif query.calendar is not None:
        source = _TRIGGERS_OF_KEY.format(of="AND calendar_name = %(calendar)s")
    elif query.states is not None and query.states <= _HELD and not query.states <= _STOPPED:
        source = _HELD_TRIGGERS.format(states=_literals(query.states))
    by_key = query.order is TriggerOrder.KEY
    conditions = [
        _group(query.group, "t.trigger_group"),
        query.contains and _CONTAINS.format(column="t.trigger_name"),
        None if query.states is None else f"t.trigger_state IN ({_literals(query.states)})",
        None if query.calendar is None else "t.calendar_name = %(calendar)s",
        query.job_type and "t.job_type = %(job_type)s",
        query.kind and "t.kind = %(kind)s",
        *_between(query, "t.next_fire_time"),
        after and (_AFTER_KEY.format(columns=_BY_KEY) if by_key else _AFTER_NEXT),
    ]
    order = _BY_KEY if by_key else _BY_NEXT_FIRE_TIME
    # An expression, so that without statistics the planner does not prefer the primary key to the partial index.
    is_of_few = query.states is not None and query.states <= _STOPPED
    scheduler = "t.sched_name || ''" if is_of_few else "t.sched_name"
    return _TRIGGERS.format(scheduler=scheduler, source=source, conditions=_all_of(conditions), order=order)


def _values_of_triggers(query: TriggerQuery, after: Position | None) -> dict[str, Any]:
    at, priority, group, name = (None, None, *after) if after and len(after) == 2 else after or (None,) * 4
    return {
        "job_group": query.job_key and query.job_key.group,
        "job_name": query.job_key and query.job_key.name,
        "group": _value(query.group),
        "contains": query.contains,
        "calendar": query.calendar,
        "job_type": query.job_type,
        "kind": query.kind,
        "since": query.since,
        "until": query.until,
        "after_at": at,
        "after_priority": priority,
        "after_group": group,
        "after_name": name,
    }


def triggers(
    session: SqlSession, query: TriggerQuery, limit: int | None, after: Position | None
) -> list[TriggerRecord]:
    return [trigger_record(row) for row in _rows(session, query, limit, after)]


# --- executions


def executions_text(query: ExecutionQuery, after: Position | None) -> str:
    """Return a query of the parts that are needed only; a position in the SCHEDULED part excludes the others."""
    of = [
        query.job_key and "job_group = %(job_group)s AND job_name = %(job_name)s",
        _group(query.job_group, "job_group"),
        query.job_type and "job_type = %(job_type)s",
    ]
    of_trigger = "trigger_group = %(trigger_group)s AND trigger_name = %(trigger_name)s"
    of_node = query.instance_id and "instance_id = %(instance_id)s"
    fired_states = [fired for fired, state in _FIRED_STATES.items() if state in query.states]
    past = after is None or not after[0]
    parts = []
    if past and query.states & ENDED:
        ended = [
            f"outcome IN ({_literals(query.states & ENDED)})",
            "outcome = 'FAILED' AND retry_at IS NULL" if query.exhausted else None,
            *of,
            of_node,
            *_between(query, "scheduled_time"),
            after and _ENDED_AFTER,
        ]
        source = _ENDED_OF_TRIGGER if query.trigger_key else "$executions"
        parts.append(_ENDED.format(source=source, conditions=_all_of(ended)))
    if past and fired_states and not query.exhausted:
        fired = [
            f"state IN ({_literals(fired_states)})",
            *of,
            query.trigger_key and of_trigger,
            of_node,
            *_between(query, "scheduled_time"),
            after and _FIRED_AFTER,
        ]
        parts.append(_FIRED.format(conditions=_all_of(fired)))
    if ExecutionState.SCHEDULED in query.states and not query.exhausted and not query.instance_id:
        to_come = [
            *of,
            query.trigger_key and of_trigger,
            *_between(query, "next_fire_time"),
            None if past else _SCHEDULED_AFTER,
        ]
        text = _SCHEDULED + _TO_COME if query.job_key or query.trigger_key else _SCHEDULED_OF_ALL
        parts.append(text.format(conditions=_all_of(to_come)))
    return _EXECUTIONS.format(parts=" UNION ALL ".join(f"({part})" for part in parts)) if parts else ""


def _values_of_executions(query: ExecutionQuery, after: Position | None) -> dict[str, Any]:
    _, at, fire_id, group, name = after or (None,) * 5
    job, trigger = query.job_key, query.trigger_key
    return {
        "job_group": job and job.group,
        "job_name": job and job.name,
        "trigger_group": trigger and trigger.group,
        "trigger_name": trigger and trigger.name,
        "group": _value(query.job_group),
        "job_type": query.job_type,
        "instance_id": query.instance_id,
        "since": query.since,
        "until": query.until,
        "after_at": at,
        "after_id": fire_id,
        "after_group": group,
        "after_name": name,
    }


def executions(
    session: SqlSession, query: ExecutionQuery, limit: int | None, after: Position | None
) -> list[ExecutionRecord]:
    return [execution_of(*row) for row in _rows(session, query, limit, after)]


# --- misfires


def misfires_text(query: MisfireQuery, after: Position | None) -> str:
    conditions = [
        query.trigger_key and "trigger_group = %(trigger_group)s AND trigger_name = %(trigger_name)s",
        query.job_key and "job_group = %(job_group)s AND job_name = %(job_name)s",
        query.action and "action = %(action)s",
        query.instance_id and "instance_id = %(instance_id)s",
        *_between(query, "scheduled_time"),
        after and "id < %(after_id)s::bigint",
    ]
    scheduler = "sched_name || ''" if query.trigger_key else "sched_name"
    return _MISFIRES.format(scheduler=scheduler, conditions=_all_of(conditions))


def _values_of_misfires(query: MisfireQuery, after: Position | None) -> dict[str, Any]:
    job, trigger = query.job_key, query.trigger_key
    return {
        "trigger_group": trigger and trigger.group,
        "trigger_name": trigger and trigger.name,
        "job_group": job and job.group,
        "job_name": job and job.name,
        "action": query.action,
        "instance_id": query.instance_id,
        "since": query.since,
        "until": query.until,
        "after_id": after and after[0],
    }


def misfires(
    session: SqlSession, query: MisfireQuery, limit: int | None, after: Position | None
) -> list[MisfireRecord]:
    return [_misfire(row) for row in _rows(session, query, limit, after)]


def _misfire(row: Sequence[Any]) -> MisfireRecord:
    number, group, name, job_group, job_name, instance_id, handled_at, instruction, action, *rest = row
    scheduled, missed, has_more, caught_up, following = rest
    return MisfireRecord(
        misfire_id=number,
        trigger_key=TriggerKey(name, group),
        job_key=JobKey(job_name, job_group),
        instance_id=instance_id,
        handled_at=handled_at,
        misfire=instruction,
        action=MisfireAction(action),
        scheduled_fire_time=scheduled,
        missed=tuple(missed),
        has_more=has_more,
        caught_up=caught_up,
        next_fire_time=following,
    )


# --- actions


def actions(session: SqlSession, query: ActionQuery, limit: int | None, after: Position | None) -> list[ActionRecord]:
    return [audit_log.record_of(row) for row in _rows(session, query, limit, after)]


# --- all queries


def text_and_values(query: AnyQuery, after: Position | None) -> tuple[str, dict[str, Any]]:
    """Return the statement of a page and its values except the limit; an empty text if nothing can match."""
    match query:
        case JobQuery():
            return jobs_text(query, after), _values_of_jobs(query, after)
        case TriggerQuery():
            return triggers_text(query, after), _values_of_triggers(query, after)
        case ExecutionQuery():
            return executions_text(query, after), _values_of_executions(query, after)
        case MisfireQuery():
            return misfires_text(query, after), _values_of_misfires(query, after)
        case ActionQuery():
            return audit_log.text(query, after), audit_log.values(query, after)


def _rows(session: SqlSession, query: AnyQuery, limit: int | None, after: Position | None) -> list[tuple[Any, ...]]:
    text, values = text_and_values(query, after)
    return session.read_one(text, limit=limit, **values) if text else []


def count(session: SqlSession, query: AnyQuery) -> int:
    text, values = text_and_values(query, None)
    if not text:
        return 0
    [(total,)] = session.read_one(f"SELECT count(*) FROM ({text}) AS found", limit=None, **values)
    return int(total)
