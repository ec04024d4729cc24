"""Aggregates of the history: throughput and lateness by minute, and the last executions of triggers and jobs.

Each query walks an index from its end and stops after a number of rows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, TypeVar

from quartzpy.keys import JobKey, Key, TriggerKey
from quartzpy.states import Outcome
from quartzpy.store.postgresql.admin.records import (
    CellRecord,
    CountedExecutions,
    FailingJob,
    Health,
    Lanes,
    LastRun,
    LoneExecution,
    LostExecution,
    MinuteRecord,
    Minutes,
    MisfireCell,
)
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.lookups import read_execution
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.records import ExecutionRecord

_Key = TypeVar("_Key", JobKey, TriggerKey)
_SQL = SqlFile("admin/history.sql")
LAST = _SQL("last")
LAST_OF_JOB = _SQL("last_of_job")
FAILING_JOBS = _SQL("failing_jobs")
JOB_HEALTH, TRIGGER_HEALTH = (_SQL("health", of_jobs=of_jobs) for of_jobs in (True, False))
ATTEMPTS = _SQL("attempts")


def minutes(session: SqlSession, since: datetime, *, most: int) -> Minutes:
    rows = session.read_one(_SQL.minutes, since=since, most=most)
    records = []
    for at, number, others, p50, p99, _ in rows:
        outcomes = Counter(map(Outcome, others or ()))
        if succeeded := number - outcomes.total():
            outcomes[Outcome.SUCCEEDED] = succeeded
        records.append(MinuteRecord(at, outcomes, p50, p99))
    return Minutes(records, rows[0][-1] if rows else since)


def last_executions(
    session: SqlSession, keys: Collection[TriggerKey], limit: int
) -> dict[TriggerKey, list[ExecutionRecord]]:
    values = {"groups": [key.group for key in keys], "names": [key.name for key in keys], "limit": limit}
    records: dict[TriggerKey, list[ExecutionRecord]] = {}
    for row in session.read_one(LAST, **values):
        record = read_execution(row)
        records.setdefault(record.trigger_key, []).append(record)
    return records


def last_executions_of_job(session: SqlSession, key: JobKey, limit: int, *, among: int) -> list[ExecutionRecord]:
    rows = session.read_one(LAST_OF_JOB, group=key.group, name=key.name, limit=limit, among=among)
    return [read_execution(row) for row in rows]


def failing_jobs(session: SqlSession, limit: int, *, among: int, recent: int, fewest: int) -> list[FailingJob]:
    """Return the jobs of which at least `fewest` executions failed for good among the latest `among` of all jobs.

    `recent` is the number of the latest executions of each job by which its share of failures is judged.
    """
    jobs = []
    for row in session.read_one(FAILING_JOBS, limit=limit, among=among, recent=recent, fewest=fewest):
        group, name, *values, errors, complete_since = row
        values += [tuple(json.loads(errors or "[]")), complete_since]
        jobs.append(FailingJob(JobKey(name, group), *values))
    return jobs


def lost_executions(session: SqlSession, limit: int) -> list[LostExecution]:
    """Return the executions that ended with their nodes within a day and that nothing repeats, the oldest first."""
    return [
        LostExecution(node, fire_id, TriggerKey(name, group), JobKey(job_name, job_group), scheduled, ended, is_stored)
        for node, fire_id, group, name, job_group, job_name, scheduled, ended, is_stored in session.read_one(
            _SQL.lost_executions, limit=limit
        )
    ]


MAX_RUNS = 100
"""The largest number of the last runs of a job by which its health is judged."""
_OF_EACH_TRIGGER = 50
_TRIGGERS = 4
"""The largest number of triggers of a job whose own executions are looked up."""
_SHOWN = 20
_RECENT = timedelta(days=1)
_MAX_LOOKED_UP = 40_000
"""The largest number of executions that are looked up for all jobs together: those of 200 jobs."""


def job_health(session: SqlSession, keys: Collection[JobKey], *, among: int) -> dict[JobKey, Health]:
    """Return how the last runs of jobs went: among the latest `among` executions of all jobs, and of some triggers."""
    return _health(session, JOB_HEALTH, keys, among)


def trigger_health(session: SqlSession, keys: Collection[TriggerKey]) -> dict[TriggerKey, Health]:
    """Return how the last runs of triggers went, their retries included."""
    return _health(session, TRIGGER_HEALTH, keys, 0)


def _health(session: SqlSession, text: str, keys: Collection[_Key], among: int) -> dict[_Key, Health]:
    if not keys:
        return {}
    kind = type(next(iter(keys)))
    health = {}
    for group, name, *values, outcomes, durations in session.read_one(text, **values_of_health(keys, among)):
        last = tuple(
            LastRun(outcome, None if seconds is None else timedelta(seconds=seconds))
            for outcome, seconds in zip(outcomes, durations, strict=True)
        )
        values.append(last)
        health[kind(name, group)] = Health(*values)
    return health


def values_of_health(keys: Collection[Key], among: int) -> dict[str, Any]:
    most_of_each = min(_OF_EACH_TRIGGER, max(1, _MAX_LOOKED_UP // (_TRIGGERS * len(keys))))
    return {
        "groups": [key.group for key in keys],
        "names": [key.name for key in keys],
        "among": among,
        "most_triggers": _TRIGGERS,
        "most_of_each": most_of_each,
        # A retry of each of them.
        "most_examined": 2 * _TRIGGERS * most_of_each * len(keys),
        "most_runs": MAX_RUNS,
        "shown": _SHOWN,
        "within": _RECENT,
    }


def attempts(session: SqlSession, fire_ids: Collection[int], limit: int) -> dict[int, list[ExecutionRecord]]:
    chains: dict[int, list[ExecutionRecord]] = {}
    for root, _, *row in session.read_one(ATTEMPTS, fire_ids=list(fire_ids), limit=limit):
        chains.setdefault(root, []).append(read_execution(row))
    return {root: chain[:limit] for root, chain in chains.items()}


def executions_in_cells(
    session: SqlSession,
    start: datetime,
    end: datetime,
    *,
    by: Lanes,
    cells: int,
    lanes: int,
    bars: int,
    limit: int,
    margin: timedelta,
    most_after: int,
    group: str | None = None,
) -> CountedExecutions:
    """Count the executions that overlap a span, by lane, by part of the span and by outcome.

    An execution is counted in the cell in which it ended, and one that ended after the span in the last cell.

    Args:
        start: the beginning of the span.
        end: its end, which does not belong to it.
        by: what has a lane.
        cells: the number of equal parts of the span.
        lanes: at most so many lanes are returned, those with the most executions.
        bars: at most so many executions that are alone in their count are returned in full, the latest ones.
        limit: at most so many executions are counted: those that ended last.
        margin: an execution that ended later than this after the span is not found.
        most_after: nor is one before whose end more than so many others ended after the span.
        group: only the executions of jobs of this group.
    """
    values = {"start": start, "end": end, "cells": cells, "lanes": lanes, "bars": bars, "limit": limit}
    of_group = {} if group is None else {"group": group}
    after = {"margin": margin, "most_after": most_after}
    rows = session.read_one(cells_text(by, in_group=group is not None), **values, **after, **of_group)
    if not rows:
        return CountedExecutions((), start, 0)
    records = tuple(
        CellRecord(lane_group, lane_name, Outcome(outcome), cell, number, _alone(bar) if bar[0] is not None else None)
        for _, _, lane_group, lane_name, outcome, its_cells, numbers, *bar in rows
        for cell, number in zip(its_cells, numbers, strict=True)
    )
    return CountedExecutions(records, rows[0][0], rows[0][1])


def misfires_in_cells(
    session: SqlSession, start: datetime, end: datetime, *, by: Lanes, cells: int, limit: int, group: str | None = None
) -> list[MisfireCell]:
    """Count the misfires that were handled within a span, by lane and by part of the span, among the latest `limit`."""
    values = {"start": start, "end": end, "cells": cells, "limit": limit}
    of_group = {} if group is None else {"group": group}
    rows = session.read_one(misfires_text(by, in_group=group is not None), **values, **of_group)
    return [MisfireCell(*row) for row in rows]


def misfires_text(by: Lanes, *, in_group: bool) -> str:
    return _SQL("misfires", by_node=by is Lanes.NODE, by_group=by is Lanes.GROUP, in_group=in_group)


def cells_text(by: Lanes, *, in_group: bool) -> str:
    switches = {"by_node": by is Lanes.NODE, "by_group": by is Lanes.GROUP, "has_many_lanes": by is Lanes.JOB}
    return _SQL("cells", **switches, in_group=in_group)


def _alone(row: list[Any]) -> LoneExecution:
    fire_id, group, name, job_group, job_name, instance_id, scheduled, began, ended = row
    return LoneExecution(
        fire_id, TriggerKey(name, group), JobKey(job_name, job_group), instance_id, scheduled, began, ended
    )
