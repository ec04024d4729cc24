"""Queries by key and by group, and totals, without a lock. `pages` has the queries with filters and pages."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher, MatchOperator
from quartzpy.states import PAUSED_STATES, PUBLIC, ExecutionState, PublicState, TriggerState
from quartzpy.store.protocol import DispatchKey
from quartzpy.store.records import ExecutionRecord, Pauses, RunningRecord, TriggerRecord
from quartzpy.store.sql.db import rows
from quartzpy.store.sql.db.session import SqlSession
from quartzpy.store.sql.db.sql_files import SqlFile
from quartzpy.triggers.trigger import TriggerProgress

_SQL = SqlFile("lookups.sql")
JOBS = _SQL("jobs")
TRIGGERS = _SQL("triggers")
TRIGGERS_OF_JOB = _SQL("triggers_of_job")
TRIGGERS_OF_JOBS = _SQL("triggers_of_jobs")
STATES = _SQL("states")
JOB_KEYS = _SQL("job_keys")
TRIGGER_KEYS = _SQL("trigger_keys")
JOB_GROUPS = _SQL("job_groups")
TRIGGER_GROUPS = _SQL("trigger_groups")
WAITING_DISPATCH_KEYS = _SQL("waiting_dispatch_keys")
PAUSED = _SQL("paused")
RUNNING = _SQL("running")
EXECUTION = _SQL("execution")
COUNTS = _SQL("counts")


def _listed(keys: Collection[JobKey] | Collection[TriggerKey]) -> dict[str, list[str]]:
    return {"groups": [key.group for key in keys], "names": [key.name for key in keys]}


def match_values(matcher: GroupMatcher) -> dict[str, str]:
    """Return the values of a matcher, as statements take them."""
    return {"operator": str(matcher.operator), "value": matcher.value}


def jobs(session: SqlSession, keys: Collection[JobKey]) -> dict[JobKey, JobDetail]:
    found = [rows.job(*row) for row in session.read_one(JOBS, **_listed(keys))]
    return {job.key: job for job in found}


def trigger_record(row: tuple[Any, ...]) -> TriggerRecord:
    """Return a row of `TRIGGERS` as a record."""
    name, group, job_group, job_name, *columns = row[:14]
    job_type, state, following, previous, times, generation, upcoming, error, catch_up_until, schedule_hash = row[14:24]
    is_paused = TriggerState(state) in PAUSED_STATES
    paused_at, paused_by, pause_reason = row[24:27] if is_paused else (None, None, None)
    return TriggerRecord(
        key=TriggerKey(name, group),
        job_key=JobKey(job_name, job_group),
        load_trigger=partial(rows.trigger, name, group, job_group, job_name, *columns),
        job_type=job_type,
        state=TriggerState(state),
        progress=TriggerProgress(following, previous, times),
        generation=generation,
        upcoming=tuple(upcoming),
        error=error,
        catch_up_until=catch_up_until,
        kind=columns[0],
        calendar=columns[8],
        priority=columns[5],
        description=columns[2],
        schedule_hash=schedule_hash,
        paused_at=paused_at,
        paused_by=paused_by,
        pause_reason=pause_reason,
        rate_limited_until=row[27],
    )


def triggers(session: SqlSession, keys: Collection[TriggerKey]) -> dict[TriggerKey, TriggerRecord]:
    found = [trigger_record(row) for row in session.read_one(TRIGGERS, **_listed(keys))]
    return {record.key: record for record in found}


def triggers_of_job(session: SqlSession, key: JobKey) -> list[TriggerRecord]:
    return [trigger_record(row) for row in session.read_one(TRIGGERS_OF_JOB, group=key.group, name=key.name)]


def triggers_of_jobs(session: SqlSession, keys: Collection[JobKey]) -> dict[JobKey, list[TriggerRecord]]:
    found: dict[JobKey, list[TriggerRecord]] = {}
    for row in session.read_one(TRIGGERS_OF_JOBS, **_listed(keys)):
        record = trigger_record(row)
        found.setdefault(record.job_key, []).append(record)
    return found


def trigger_states(session: SqlSession, keys: Collection[TriggerKey]) -> Mapping[TriggerKey, PublicState]:
    found = session.read_one(STATES, **_listed(keys))
    states = {TriggerKey(name, group): PUBLIC[TriggerState(state)] for group, name, state in found}
    return {key: states.get(key, PublicState.NONE) for key in keys}


def job_keys(session: SqlSession, matcher: GroupMatcher) -> set[JobKey]:
    return {JobKey(row[1], row[0]) for row in session.read_one(JOB_KEYS, **match_values(matcher))}


def trigger_keys(session: SqlSession, matcher: GroupMatcher) -> set[TriggerKey]:
    return {TriggerKey(row[1], row[0]) for row in session.read_one(TRIGGER_KEYS, **match_values(matcher))}


def column(session: SqlSession, text: str) -> list[str]:
    """Return the first column of a query without values."""
    return [row[0] for row in session.read_one(text)]


def pauses(session: SqlSession) -> Pauses:
    """See `JobStore.pauses`."""
    found = session.read_one(PAUSED)
    groups = {scope: frozenset(name for of, name in found if of == scope) for scope in ("TRIGGER", "JOB")}
    return Pauses(any(scope == "ALL" for scope, _ in found), groups["TRIGGER"], groups["JOB"])


def paused(session: SqlSession, scope: str) -> set[str]:
    return {name for found, name in session.read_one(PAUSED) if found == scope}


def waiting_dispatch_keys(session: SqlSession) -> set[DispatchKey]:
    return {DispatchKey(*row) for row in session.read_one(WAITING_DISPATCH_KEYS)}


def list_running(session: SqlSession) -> list[RunningRecord]:
    return [
        RunningRecord(fire_id, TriggerKey(name, group), JobKey(job_name, job_group), *columns)
        for fire_id, group, name, job_group, job_name, *columns in session.read_one(RUNNING)
    ]


def execution(session: SqlSession, fire_id: int) -> ExecutionRecord | None:
    found = session.read_one(EXECUTION, fire_id=fire_id)
    return replace(execution_of(*found[0][:-1]), log_text=found[0][-1], log_is_read=True) if found else None


def execution_of(
    state: str, fire_id: int | None, group: str, name: str, job_group: str, job_name: str, *columns: Any
) -> ExecutionRecord:
    return ExecutionRecord(
        ExecutionState(state), fire_id, TriggerKey(name, group), JobKey(job_name, job_group), *columns
    )


def counts(session: SqlSession) -> dict[str, Any]:
    [(jobs, triggers, running)] = session.read_one(COUNTS)
    return {"jobs": jobs, "triggers": json.loads(triggers), "running": running}


def group_matcher(matcher: GroupMatcher | None) -> GroupMatcher | None:
    """Return the filter by group of a page; None if it matches every group."""
    return None if matcher is None or matcher.operator is MatchOperator.ANYTHING else matcher


def matched_groups(matcher: GroupMatcher, groups: Sequence[str]) -> set[str]:
    """Return the groups that match; a group that is named by EQUALS need not exist yet."""
    named = {matcher.value} if matcher.operator is MatchOperator.EQUALS else set()
    return named | {group for group in groups if matcher.matches(group)}


def job(session: SqlSession, key: JobKey) -> JobDetail | None:
    """See `QueryStore.job`."""
    return jobs(session, [key]).get(key)


def trigger(session: SqlSession, key: TriggerKey) -> TriggerRecord | None:
    """See `QueryStore.trigger`."""
    return triggers(session, [key]).get(key)


def job_group_names(session: SqlSession) -> list[str]:
    """See `QueryStore.job_group_names`."""
    return column(session, JOB_GROUPS)


def trigger_group_names(session: SqlSession) -> list[str]:
    """See `QueryStore.trigger_group_names`."""
    return column(session, TRIGGER_GROUPS)
