"""Queries with filters, page by page, without a lock.

The text of a query contains only the conditions that are needed, so each text has one plan, whatever its values are. A
page starts after a position (keyset pagination), never at an offset, and walks an index from there:

- jobs and triggers: the primary keys, by group and name. The triggers of one job, or of one calendar, are read through
  their own index and sorted, and so are those that are claimed, blocked or ended; those that are paused or in ERROR
  have an index by key.
- executions: see `execution_pages`. Exhausted executions have an index by their end. There is no index by job, because
  it would slow down each completion.
- misfires and actions: the primary key from its end, or the index of the trigger or the subject.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from quartzpy.keys import JobKey
from quartzpy.states import JobMode, TriggerState
from quartzpy.store.queries import (
    HELD,
    STOPPED,
    ActionQuery,
    AnyQuery,
    BoundedQuery,
    ExecutionQuery,
    JobQuery,
    MisfireQuery,
    Position,
    TriggerOrder,
    TriggerQuery,
)
from quartzpy.store.records import ActionRecord, ExecutionRecord, JobRecord, MisfireRecord, TriggerRecord
from quartzpy.store.sql import actions as audit_log
from quartzpy.store.sql import execution_pages
from quartzpy.store.sql.conditions import LIMIT, all_of, between, group_value, in_group, literals
from quartzpy.store.sql.db import rows
from quartzpy.store.sql.db.session import SqlSession
from quartzpy.store.sql.execution_pages import executions_text, values_of_executions
from quartzpy.store.sql.lookups import (
    JOB_COLUMNS,
    MISFIRE_RULES,
    TRIGGER,
    WAITING,
    execution_of,
    trigger_record,
)
from quartzpy.store.sql.misfire_pages import (
    LAST_MISFIRE,
    misfire_of,
    misfires_text,
    values_of_misfires,
    walked_misfires,
)

_CONTAINS = "strpos({column}, %(contains)s) > 0"
_JOBS = f"""
SELECT s.trigger_count, s.next_fire_time, s.previous_fire_time, j.mode, {JOB_COLUMNS}
  FROM (SELECT * FROM {{source}} WHERE sched_name = %(sched)s {{conditions}}
         ORDER BY job_group, job_name {LIMIT}) AS j
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
# The front of the due index for each dispatch key and misfire rule, in the order of the next fire times.
_WAITING_TRIGGERS = f"""
{WAITING}
SELECT t.*
  FROM waiting w
 CROSS JOIN (VALUES {MISFIRE_RULES}) AS rule(name)
 CROSS JOIN LATERAL (
    SELECT * FROM $triggers t
     WHERE t.sched_name = %(sched)s AND t.trigger_state = 'WAITING' AND t.job_type = w.job_type
       AND t.placement = w.placement AND t.misfire_rule = rule.name {{conditions}}
     ORDER BY t.next_fire_time, t.priority DESC, t.trigger_group, t.trigger_name {LIMIT}) AS t
"""
# The keys are found in the index of the primary key, which is much smaller than the table.
_NAMED_TRIGGERS = f"""
(SELECT t.*
   FROM (SELECT trigger_group, trigger_name FROM $triggers t
          WHERE sched_name = %(sched)s {{conditions}} ORDER BY trigger_group, trigger_name {LIMIT}) AS k
   JOIN $triggers t USING (trigger_group, trigger_name)
  WHERE t.sched_name = %(sched)s OFFSET 0)"""
# The keys that are examined are read from that index, too.
_NAMED_AMONG = f"""
(SELECT t.*
   FROM (SELECT trigger_group, trigger_name FROM ({{examined}}) AS t WHERE true {{conditions}}
          ORDER BY trigger_group, trigger_name {LIMIT}) AS k
   JOIN $triggers t USING (trigger_group, trigger_name)
  WHERE t.sched_name = %(sched)s OFFSET 0)"""
_AMONG = "LIMIT %(among)s::int"
_LAST = "OFFSET %(among)s::int - 1 LIMIT 1"
_WALK = "SELECT {columns} FROM {source} t WHERE {scheduler} = %(sched)s {conditions} ORDER BY {order} {limit}"
_TRIGGERS = f"""
{TRIGGER.format(source="{source}")} WHERE {{scheduler}} = %(sched)s {{conditions}} ORDER BY {{order}} {LIMIT}
"""
_BY_KEY = "t.trigger_group, t.trigger_name"
_NEXT = "coalesce(t.next_fire_time, 'infinity')"
_BY_NEXT_FIRE_TIME = f"{_NEXT}, -t.priority, t.trigger_group, t.trigger_name"
_AFTER_KEY = "({columns}) > (%(after_group)s, %(after_name)s)"
_WAITING_AFTER = "t.next_fire_time >= coalesce(%(after_at)s::timestamptz, 'infinity')"
_AFTER_NEXT = f"""({_BY_NEXT_FIRE_TIME}) >
    (coalesce(%(after_at)s::timestamptz, 'infinity'), %(after_priority)s::int, %(after_group)s, %(after_name)s)"""

# --- jobs


def jobs_text(query: JobQuery, after: Position | None) -> str:
    if query.walk is None:
        return _JOBS.format(source="$job_details", conditions=_job_conditions(query, after))
    examined = _walked_jobs(query.walk, after, "*", _AMONG)
    return _JOBS.format(source=f"({examined}) AS examined", conditions=_job_conditions(query, None))


def _walked_jobs(walk: JobQuery, after: Position | None, columns: str, limit: str) -> str:
    """Return the query of the jobs that a page examines, up to a limit."""
    return _WALK.format(
        columns=columns,
        source="$job_details",
        scheduler="sched_name",
        conditions=_job_conditions(walk, after),
        order="job_group, job_name",
        limit=limit,
    )


def _job_conditions(query: JobQuery, after: Position | None) -> str:
    return all_of(
        [
            query.job_key and "job_group = %(job_group)s AND job_name = %(job_name)s",
            in_group(query.group, "job_group"),
            query.contains and _CONTAINS.format(column="job_name"),
            query.job_type and "job_type = %(job_type)s",
            query.mode and "mode = %(mode)s",
            after and _AFTER_KEY.format(columns="job_group, job_name"),
        ]
    )


def _values_of_jobs(query: JobQuery, after: Position | None) -> dict[str, Any]:
    group, name = after or (None, None)
    return {
        "job_group": query.job_key and query.job_key.group,
        "job_name": query.job_key and query.job_key.name,
        "group": group_value(query.group),
        "contains": query.contains,
        "job_type": query.job_type,
        "mode": query.mode,
        "after_group": group,
        "after_name": name,
        "among": query.among,
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
    if query.walk is not None:
        source = _among(query, query.walk, after)
        conditions, scheduler = _trigger_conditions(query, None), "t.sched_name"
    else:
        source, scheduler = _trigger_source(query, after)
        conditions = _trigger_conditions(query, after)
    order = _BY_KEY if query.order is TriggerOrder.KEY else _BY_NEXT_FIRE_TIME
    return _TRIGGERS.format(scheduler=scheduler, source=source, conditions=conditions, order=order)


def _among(query: TriggerQuery, walk: TriggerQuery, after: Position | None) -> str:
    """Return the triggers that a page examines, or those of them whose keys match, as one subquery."""
    keys_of = TriggerQuery(group=query.group, contains=query.contains, among=query.among)
    if query == keys_of:
        examined = _walked_triggers(walk, after, _BY_KEY, _AMONG)
        return _NAMED_AMONG.format(examined=examined, conditions=_trigger_conditions(query, None))
    return f"({_walked_triggers(walk, after, 't.*', _AMONG)})"


def _walked_triggers(walk: TriggerQuery, after: Position | None, columns: str, limit: str) -> str:
    """Return the query of the triggers that a page examines, up to a limit."""
    source, scheduler = _trigger_source(walk, after)
    return _WALK.format(
        columns=columns,
        source=source.replace(LIMIT, _AMONG),
        scheduler=scheduler,
        conditions=_trigger_conditions(walk, after),
        order=_BY_KEY if walk.order is TriggerOrder.KEY else _BY_NEXT_FIRE_TIME,
        limit=limit,
    )


def _trigger_conditions(query: TriggerQuery, after: Position | None) -> str:
    by_key = query.order is TriggerOrder.KEY
    filters = [
        in_group(query.group, "t.trigger_group"),
        query.contains and _CONTAINS.format(column="t.trigger_name"),
        None if query.states is None else f"t.trigger_state IN ({literals(query.states)})",
        None if query.calendar is None else "t.calendar_name = %(calendar)s",
        query.job_type and "t.job_type = %(job_type)s",
        query.kind and "t.kind = %(kind)s",
        *between(query, "t.next_fire_time"),
        after and (_AFTER_KEY.format(columns=_BY_KEY) if by_key else _AFTER_NEXT),
    ]
    return all_of(filters)


def _trigger_source(query: TriggerQuery, after: Position | None) -> tuple[str, str]:
    """Return the table or subquery in which triggers are found, and the column that has their scheduler's name."""
    by_key = query.order is TriggerOrder.KEY
    conditions = _trigger_conditions(query, after)
    source = "$triggers"
    if query.job_key:
        source = _TRIGGERS_OF_KEY.format(of="AND job_group = %(job_group)s AND job_name = %(job_name)s")
    elif query.calendar is not None:
        source = _TRIGGERS_OF_KEY.format(of="AND calendar_name = %(calendar)s")
    elif not by_key:
        source = _soonest(query.states, conditions, after)
    elif query.states is not None and query.states <= HELD and not query.states <= STOPPED:
        source = _HELD_TRIGGERS.format(states=literals(query.states))
    elif query.contains and query == TriggerQuery(group=query.group, contains=query.contains):
        source = _NAMED_TRIGGERS.format(conditions=conditions)
    # An expression, so that without statistics the planner does not prefer the primary key to the partial index.
    is_of_few = query.states is not None and query.states <= STOPPED
    return source, "t.sched_name || ''" if is_of_few else "t.sched_name"


def _soonest(states: frozenset[TriggerState] | None, conditions: str, after: Position | None) -> str:
    """Return the triggers of some states from which the soonest are taken, as one subquery."""
    wanted = frozenset(TriggerState) if states is None else states
    held = wanted & HELD
    waiting = conditions + all_of([after and _WAITING_AFTER])
    branches = [_WAITING_TRIGGERS.format(conditions=waiting)] if TriggerState.WAITING in wanted else []
    branches += [
        f"SELECT * FROM $triggers WHERE sched_name || '' = %(sched)s AND trigger_state IN ({literals(some)})"
        for some in (held, wanted - held - {TriggerState.WAITING})
        if some
    ]
    return f"({' UNION ALL '.join(f'({branch})' for branch in branches)})"


def _values_of_triggers(query: TriggerQuery, after: Position | None) -> dict[str, Any]:
    at, priority, group, name = (None, None, *after) if after and len(after) == 2 else after or (None,) * 4
    return {
        "job_group": query.job_key and query.job_key.group,
        "job_name": query.job_key and query.job_key.name,
        "group": group_value(query.group),
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
        "among": query.among,
    }


def triggers(
    session: SqlSession, query: TriggerQuery, limit: int | None, after: Position | None
) -> list[TriggerRecord]:
    return [trigger_record(row) for row in _rows(session, query, limit, after)]


# --- executions


def executions(
    session: SqlSession, query: ExecutionQuery, limit: int | None, after: Position | None
) -> list[ExecutionRecord]:
    return [execution_of(*row) for row in _rows(session, query, limit, after)]


# --- misfires


def misfires(
    session: SqlSession, query: MisfireQuery, limit: int | None, after: Position | None
) -> list[MisfireRecord]:
    return [misfire_of(row) for row in _rows(session, query, limit, after)]


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
            return executions_text(query, after), values_of_executions(query, after)
        case MisfireQuery():
            return misfires_text(query, after), values_of_misfires(query, after)
        case ActionQuery():
            return audit_log.text(query, after), audit_log.values(query, after)


def last_examined(session: SqlSession, query: BoundedQuery, after: Position | None) -> Position | None:
    """See `OperationsStore.last_examined`."""
    match query:
        case ExecutionQuery():
            return execution_pages.last_examined(session, query, after)
        case JobQuery(walk=JobQuery() as of_jobs):
            text = _walked_jobs(of_jobs, after, "job_group, job_name", _LAST)
            values = _values_of_jobs(query, after)
        case TriggerQuery(walk=TriggerQuery() as of_triggers) if query.states is None or query.states:
            by_key = query.order is TriggerOrder.KEY
            columns = _BY_KEY if by_key else "t.next_fire_time, -t.priority, t.trigger_group, t.trigger_name"
            text = _walked_triggers(of_triggers, after, columns, _LAST)
            values = _values_of_triggers(query, after)
        case MisfireQuery(walk=MisfireQuery() as of_misfires):
            text, values = walked_misfires(LAST_MISFIRE, of_misfires, after), values_of_misfires(query, after)
        case ActionQuery(walk=ActionQuery() as of_actions):
            text, values = audit_log.walked(of_actions, after, "id", _LAST), audit_log.values(query, after)
        case _:
            return None
    found = session.read_one(text, **values)
    return tuple(found[0]) if found else None


def _rows(session: SqlSession, query: AnyQuery, limit: int | None, after: Position | None) -> list[tuple[Any, ...]]:
    text, values = text_and_values(query, after)
    return session.read_one(text, limit=limit, **values) if text else []


def count(session: SqlSession, query: AnyQuery) -> int:
    text, values = text_and_values(query, None)
    if not text:
        return 0
    [(total,)] = session.read_one(f"SELECT count(*) FROM ({text}) AS found", limit=None, **values)
    return int(total)
