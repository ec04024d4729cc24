"""Queries with filters, page by page, without a lock.

The text of a query contains only the conditions that are needed, so each text has one plan, whatever its values are. A
page starts after a position (keyset pagination), never at an offset, and walks an index from there:

- jobs: see `job_pages`.
- triggers: see `trigger_pages`.
- executions: see `execution_pages`. Exhausted executions have an index by their end. There is no index by job, because
  it would slow down each completion.
- misfires and actions: the primary key from its end, or the index of the trigger or the subject.
- incidents that are over: their index by end, from its end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

from quartzpy.store.postgresql import (
    action_pages,
    execution_pages,
    incident_pages,
    job_pages,
    join_pages,
    misfire_pages,
    trigger_pages,
)
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.lookups import read_execution, trigger_record
from quartzpy.store.queries import (
    ActionQuery,
    AnyQuery,
    ExecutionQuery,
    IncidentQuery,
    JobQuery,
    JoinQuery,
    MisfireQuery,
    Position,
    RecordQuery,
    TriggerQuery,
)

_Record = TypeVar("_Record")


def find(
    session: SqlSession, query: RecordQuery[_Record], limit: int | None, after: Position | None = None
) -> list[_Record]:
    """See `QueryStore.find`; of a database also actions of the audit log, and incidents."""
    decode: Callable[[Any], Any]
    match query:
        case JobQuery():
            decode = partial(job_pages.job_of, most_triggers=query.most_triggers)
        case TriggerQuery():
            decode = trigger_record
        case ExecutionQuery():
            decode = read_execution
        case MisfireQuery():
            decode = misfire_pages.read_misfire
        case JoinQuery():
            decode = join_pages.join_of
        case ActionQuery():
            decode = action_pages.read_action
        case IncidentQuery():
            decode = incident_pages.record_of
        case _:
            raise AssertionError("no other query has records")
    text, values = text_and_values(query, after, limit)
    records = [decode(row) for row in session.read_one(text, **values)] if text else []
    return cast("list[_Record]", records)


def text_and_values(
    query: AnyQuery, after: Position | None, limit: int | None, *, count: bool = False
) -> tuple[str, dict[str, Any]]:
    """Return the statement of a page, or of the count, and its values; an empty text if nothing can match."""
    match query:
        case JobQuery():
            text, values = job_pages.jobs_text(query, after, count=count), job_pages.values_of_jobs(query, after)
        case TriggerQuery():
            text = trigger_pages.triggers_text(query, after, count=count)
            values = trigger_pages.values_of_triggers(query, after)
            values["walked"] = query.among if trigger_pages.is_examined(query) else limit
        case ExecutionQuery():
            text = execution_pages.executions_text(query, after, count=count)
            values = execution_pages.values_of_executions(query, after)
        case MisfireQuery():
            text = misfire_pages.misfires_text(query, after, count=count)
            values = misfire_pages.values_of_misfires(query, after)
        case JoinQuery():
            text, values = join_pages.joins_text(query, after, count=count), join_pages.values_of_joins(query, after)
        case ActionQuery():
            text, values = action_pages.text(query, after, count=count), action_pages.values(query, after)
        case IncidentQuery():
            text, values = incident_pages.text(query, after, count=count), incident_pages.values(query, after)
    return text, {**values, "limit": limit}


def last_examined(session: SqlSession, query: AnyQuery, after: Position | None) -> Position | None:
    """See `Admin.last_examined`."""
    match query:
        case ExecutionQuery():
            return execution_pages.last_examined(session, query, after)
        case JobQuery(walk=JobQuery()):
            text, values = job_pages.last_text(query, after), job_pages.values_of_jobs(query, after)
        case TriggerQuery() if trigger_pages.is_examined(query):
            text = trigger_pages.triggers_text(query, after, last=True)
            values = trigger_pages.values_of_triggers(query, after)
            values["walked"] = query.among
        case MisfireQuery(walk=MisfireQuery()):
            text, values = misfire_pages.last_text(query, after), misfire_pages.values_of_misfires(query, after)
        case ActionQuery(walk=ActionQuery()):
            text, values = action_pages.text(query, after, last=True), {**action_pages.values(query, after), "limit": 1}
        case IncidentQuery(walk=IncidentQuery()):
            text = incident_pages.text(query, after, last=True)
            values = {**incident_pages.values(query, after), "limit": 1}
        case _:
            return None
    rows = session.read_one(text, **values) if text else []
    return tuple(rows[0]) if rows else None


def count(session: SqlSession, query: AnyQuery) -> int:
    text, values = text_and_values(query, None, None, count=True)
    if not text:
        return 0
    [(total,)] = session.read_one(text, **values)
    return int(total)
