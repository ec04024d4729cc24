"""Queries with filters, page by page, without a lock.

The text of a query contains only the conditions that are needed, so each text has one plan, whatever its values are. A
page starts after a position (keyset pagination), never at an offset, and walks an index from there:

- jobs: the primary key, by group and name.
- triggers: see `trigger_pages`.
- executions: see `execution_pages`. Exhausted executions have an index by their end. There is no index by job, because
  it would slow down each completion.
- misfires and actions: the primary key from its end, or the index of the trigger or the subject.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from quartzpy.keys import JobKey
from quartzpy.states import JobMode
from quartzpy.store.queries import (
    ActionQuery,
    AnyQuery,
    BoundedQuery,
    ExecutionQuery,
    JobQuery,
    MisfireQuery,
    Position,
    TriggerQuery,
)
from quartzpy.store.records import ActionRecord, ExecutionRecord, JobRecord, MisfireRecord, TriggerRecord
from quartzpy.store.sql import actions as audit_log
from quartzpy.store.sql import execution_pages
from quartzpy.store.sql.conditions import (
    AFTER_KEY,
    AMONG,
    CONTAINS,
    LAST,
    LIMIT,
    WALK,
    all_of,
    group_value,
    in_group,
)
from quartzpy.store.sql.db import rows
from quartzpy.store.sql.db.session import SqlSession
from quartzpy.store.sql.execution_pages import executions_text, values_of_executions
from quartzpy.store.sql.lookups import JOB_COLUMNS, execution_of, trigger_record
from quartzpy.store.sql.misfire_pages import (
    LAST_MISFIRE,
    misfire_of,
    misfires_text,
    values_of_misfires,
    walked_misfires,
)
from quartzpy.store.sql.trigger_pages import last_text, triggers_text, values_of_triggers

_JOBS = f"""
SELECT s.trigger_count, s.next_fire_time, s.previous_fire_time, j.mode, {JOB_COLUMNS}
  FROM (SELECT * FROM {{source}} WHERE sched_name = %(sched)s {{conditions}}
         ORDER BY job_group, job_name {LIMIT}) AS j
 CROSS JOIN LATERAL (
    SELECT count(*) AS trigger_count,
           min(next_fire_time) FILTER (WHERE trigger_state NOT IN ('ERROR', 'COMPLETE')) AS next_fire_time,
           max(prev_fire_time) AS previous_fire_time
      FROM (SELECT next_fire_time, prev_fire_time, trigger_state FROM $triggers t
             WHERE t.sched_name || '' = %(sched)s AND t.job_group = j.job_group AND t.job_name = j.job_name
             LIMIT %(most_triggers)s::int + 1) AS t) AS s
 ORDER BY j.job_group, j.job_name
"""
# --- jobs


def jobs_text(query: JobQuery, after: Position | None) -> str:
    if query.walk is None:
        return _JOBS.format(source="$job_details", conditions=_job_conditions(query, after))
    examined = _walked_jobs(query.walk, after, "*", AMONG)
    return _JOBS.format(source=f"({examined}) AS examined", conditions=_job_conditions(query, None))


def _walked_jobs(walk: JobQuery, after: Position | None, columns: str, limit: str) -> str:
    """Return the query of the jobs that a page examines, up to a limit."""
    return WALK.format(
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
            query.contains and CONTAINS.format(column="job_name"),
            query.job_type and "job_type = %(job_type)s",
            query.mode and "mode = %(mode)s",
            after and AFTER_KEY.format(columns="job_group, job_name"),
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
        "most_triggers": query.most_triggers,
        "after_group": group,
        "after_name": name,
        "among": query.among,
    }


def jobs(session: SqlSession, query: JobQuery, limit: int | None, after: Position | None) -> list[JobRecord]:
    return [_job(row, query.most_triggers) for row in _rows(session, query, limit, after)]


def _job(row: Sequence[Any], most_triggers: int | None) -> JobRecord:
    triggers, following, previous, mode, name, group, job_type, *columns = row
    has_more = most_triggers is not None and triggers > most_triggers
    return JobRecord(
        key=JobKey(name, group),
        job_type=job_type,
        load_job=partial(rows.job, name, group, job_type, *columns),
        trigger_count=triggers - has_more,
        mode=JobMode(mode),
        next_fire_time=None if has_more else following,
        previous_fire_time=None if has_more else previous,
        display_name=columns[-2],
        has_more_triggers=has_more,
    )


# --- triggers


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
            return triggers_text(query, after), values_of_triggers(query, after)
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
            text = _walked_jobs(of_jobs, after, "job_group, job_name", LAST)
            values = _values_of_jobs(query, after)
        case TriggerQuery(walk=TriggerQuery() as of_triggers) if query.states is None or query.states:
            text, values = last_text(query, of_triggers, after), values_of_triggers(query, after)
        case MisfireQuery(walk=MisfireQuery() as of_misfires):
            text, values = walked_misfires(LAST_MISFIRE, of_misfires, after), values_of_misfires(query, after)
        case ActionQuery(walk=ActionQuery() as of_actions):
            text, values = audit_log.walked(of_actions, after, "id", LAST), audit_log.values(query, after)
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
