"""Pages of executions: of the history, of those that run, and of those that are to come.

The history is walked from its end. Where a query bounds the scheduled time, the walk is bounded too: an execution ends
at most an hour after its scheduled time, or it is among the few of a partial index. The history of a trigger is read
through its own index, which has the order of scheduled times: the executions that end last are among those that were
scheduled last, or scheduled at most an hour before these, or again among the few.
"""

from __future__ import annotations

from typing import Any

from quartzpy.states import ENDED, ExecutionState, FiredState
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.lookups import read_execution
from quartzpy.store.postgresql.page_filters import switches_of, values_of
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.trigger_pages import FEW
from quartzpy.store.queries import ExecutionQuery, Position, Rank
from quartzpy.store.records import ExecutionRecord

_SQL = SqlFile("execution_pages.sql")


_FIRED_STATES = {FiredState.ACQUIRED: ExecutionState.ENQUEUED, FiredState.EXECUTING: ExecutionState.PROCESSING}


def executions_text(query: ExecutionQuery, after: Position | None, *, count: bool = False) -> str:
    """Return a statement of the parts that are needed only; a position in the SCHEDULED part excludes the others.

    It is empty if nothing can match.
    """
    past = after is None or not after[0]
    ended = query.states & (frozenset({ExecutionState.FAILED}) if query.exhausted else ENDED)
    parts = {
        "ended": past and bool(ended),
        "fired": past and bool(_fired_states(query)) and not (query.exhausted or query.error),
        "to_come": (
            ExecutionState.SCHEDULED in query.states and not (query.exhausted or query.error) and not query.instance_id
        ),
    }
    if not any(parts.values()):
        return ""
    return _SQL(
        "page",
        **parts,
        **switches_of(query),
        count=count,
        examined=query.among is not None,
        after=past and after is not None,
        after_scheduled=not past,
    )


def ranked_text(query: ExecutionQuery, by: Rank, after: Position | None = None) -> str:
    """Return the statement of the executions that rank highest among those that the query examines."""
    return _SQL("ranked", **switches_of(query), by_duration=by is Rank.DURATION, after=after is not None)


def ranked(
    session: SqlSession, query: ExecutionQuery, by: Rank, limit: int, after: Position | None, *, among: int
) -> list[ExecutionRecord]:
    """Return the ended executions that match a query and rank highest, the highest first.

    They are found among the latest `among` executions, or the latest ones after a position.
    """
    if not query.states & ENDED:
        return []
    values = {**values_of_executions(query, after), "among": among, "limit": limit}
    rows = session.read_one(ranked_text(query, by, after), **values)
    return [read_execution(row) for row in rows]


def _fired_states(query: ExecutionQuery) -> list[str]:
    return [fired for fired, state in _FIRED_STATES.items() if state in query.states]


def last_examined(session: SqlSession, query: ExecutionQuery, after: Position | None) -> Position | None:
    """Return the position of the last execution that a query examines; None if it examines all that are left."""
    if query.among is None or (after is not None and after[0]):
        return None
    text = _SQL("last", since=query.since is not None, until=query.until is not None, after=after is not None)
    rows = session.read_one(text, **values_of_executions(query, after))
    return (False, *rows[0], "", "") if rows else None


def values_of_executions(query: ExecutionQuery, after: Position | None) -> dict[str, Any]:
    _, at, fire_id, group, name = after or (None,) * 5
    return {
        "outcomes": sorted(query.states & ENDED),
        "fired_states": _fired_states(query),
        **values_of(query),
        "after_at": at,
        "after_id": fire_id,
        "after_group": group,
        "after_name": name,
        "most_few": FEW,
    }
