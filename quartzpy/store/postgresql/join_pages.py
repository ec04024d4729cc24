"""Pages of joins and batches: what the jobs that run after several ends wait for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from quartzpy.jobs.join import predecessors_from_json
from quartzpy.keys import JobKey
from quartzpy.states import JoinState, Outcome
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.page_filters import switches_of, values_of
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.queries import JoinQuery, Position
from quartzpy.store.records import JoinRecord

_SQL = SqlFile("join_pages.sql")


def joins_text(query: JoinQuery, after: Position | None, *, count: bool = False) -> str:
    """Return the statement of a page."""
    return _SQL(
        "page",
        **switches_of(query),
        count=count,
        of_occasion=query.occasion is not None,
        after=after is not None,
    )


def values_of_joins(query: JoinQuery, after: Position | None) -> dict[str, Any]:
    return {
        **values_of(query),
        "occasion": query.occasion,
        "after_at": after and after[0],
        "after_group": after and after[1],
        "after_name": after and after[2],
        "after_occasion": after and after[3],
    }


def join_of(row: Sequence[Any]) -> JoinRecord:
    group, name, occasion, state, opened_at, last_end_at, total, ended, succeeded, failed, removed, fire_id = row
    return JoinRecord(
        job_key=JobKey(name, group),
        occasion=occasion,
        state=JoinState(state),
        opened_at=opened_at,
        last_end_at=last_end_at,
        total=total,
        ended=predecessors_from_json(json.loads(ended or "{}").values()),
        succeeded=succeeded,
        failed=failed,
        removed=removed,
        fire_id=fire_id,
    )


def waiting_jobs(session: SqlSession, key: JobKey, limit: int) -> list[tuple[JobKey, Outcome | None]]:
    """Return the jobs that run after this one and others, with its outcome for their latest occasion, if any."""
    rows = session.read_one(_SQL("waiting_jobs"), group=key.group, name=key.name, limit=limit)
    return [(JobKey(name, group), None if outcome is None else Outcome(outcome)) for group, name, outcome in rows]
