"""Pages of jobs, along the primary key."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from quartzpy.jobs.shared_limit import names_from_text
from quartzpy.keys import JobKey
from quartzpy.states import HeldBy, JobMode, TriggerState
from quartzpy.store.postgresql.page_filters import switches_of, values_of
from quartzpy.store.postgresql.schema.rows import JobColumns
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.queries import JobQuery, Position
from quartzpy.store.records import JobRecord, held_by_of_job, next_fire_of

_SQL = SqlFile("job_pages.sql")


def jobs_text(query: JobQuery, after: Position | None, *, count: bool = False) -> str:
    """Return the statement of a page."""
    return _SQL(
        "page",
        count=count,
        examined=query.walk is not None,
        of_job=query.job_key is not None,
        after=after is not None,
        **switches_of(query),
    )


def last_text(query: JobQuery, after: Position | None) -> str:
    """Return the statement that finds the last job that a page examines."""
    return _SQL("last", in_group=switches_of(query)["in_group"], after=after is not None)


def values_of_jobs(query: JobQuery, after: Position | None) -> dict[str, Any]:
    group, name = after or (None, None)
    return {
        "job_group": query.job_key and query.job_key.group,
        "job_name": query.job_key and query.job_key.name,
        "most_triggers": query.most_triggers,
        "after_group": group,
        "after_name": name,
        **values_of(query),
    }


class JobSummaryColumns(NamedTuple):
    """What a page says of a job's triggers, and its mode; the columns of the job follow."""

    trigger_count: int
    next_waiting: datetime | None
    next_blocked: datetime | None
    next_paused: datetime | None
    parked_at: str | None
    has_error: bool
    previous_fire_time: datetime | None
    mode: str


JOB_OF_PAGE = (*JobSummaryColumns._fields, *JobColumns._fields)
"""The columns of a page of jobs, in their order."""


def job_of(row: Sequence[Any], most_triggers: int | None) -> JobRecord:
    summarised = len(JobSummaryColumns._fields)
    about, columns = JobSummaryColumns._make(row[:summarised]), JobColumns._make(row[summarised:])
    has_more = most_triggers is not None and about.trigger_count > most_triggers
    fires = {
        TriggerState.WAITING: about.next_waiting,
        TriggerState.BLOCKED: about.next_blocked,
        TriggerState.PAUSED: about.next_paused,
    }
    at, state = (None, None) if has_more else next_fire_of(fires, has_error=about.has_error)
    waits_for = None
    if state is TriggerState.BLOCKED:
        has_slots, has_rate = columns.max_concurrent is not None, columns.has_rate
        waits_for = held_by_of_job(parked_at=about.parked_at, has_slots=has_slots, has_rate=has_rate)
    return JobRecord(
        key=JobKey(columns.job_name, columns.job_group),
        job_type=columns.job_type,
        load_job=columns.job,
        trigger_count=about.trigger_count - has_more,
        mode=JobMode(about.mode),
        next_fire_time=at,
        next_state=state,
        held_by=waits_for,
        shared_limits=names_from_text(about.parked_at) if waits_for is HeldBy.SHARED else (),
        previous_fire_time=None if has_more else about.previous_fire_time,
        has_more_triggers=has_more,
    )
