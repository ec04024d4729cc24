"""Queries by key and by group, and totals, without a lock. `pages` has the queries with filters and pages."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher, MatchOperator
from quartzpy.states import PAUSED_STATES, PUBLIC, ExecutionState, PublicState, TriggerState
from quartzpy.store.postgresql.db.rows import JobColumns, TriggerColumns
from quartzpy.store.postgresql.db.session import SqlSession
from quartzpy.store.postgresql.db.sql_files import SqlFile
from quartzpy.store.protocol import DispatchKey
from quartzpy.store.records import ExecutionRecord, Pauses, RunningRecord, TriggerRecord
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
    found = [JobColumns._make(row).job() for row in session.read_one(JOBS, **_listed(keys))]
    return {job.key: job for job in found}


class TriggerProgressColumns(NamedTuple):
    """The columns of a stored trigger beside those of which it is built, after which they are selected."""

    job_type: str
    trigger_state: str
    next_fire_time: datetime | None
    prev_fire_time: datetime | None
    times_triggered: int
    generation: int
    upcoming: Sequence[datetime]
    error: str | None
    catch_up_until: datetime | None
    schedule_hash: int | None
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None
    rate_limited_until: datetime | None


STORED_TRIGGER = (*TriggerColumns._fields, *TriggerProgressColumns._fields)
"""The columns of a stored trigger, in their order."""


def trigger_record(row: tuple[Any, ...]) -> TriggerRecord:
    """Return a row of `TRIGGERS` as a record."""
    built_of = len(TriggerColumns._fields)
    columns, stored = TriggerColumns._make(row[:built_of]), TriggerProgressColumns._make(row[built_of:])
    state = TriggerState(stored.trigger_state)
    is_paused = state in PAUSED_STATES
    return TriggerRecord(
        key=TriggerKey(columns.trigger_name, columns.trigger_group),
        job_key=JobKey(columns.job_name, columns.job_group),
        load_trigger=columns.trigger,
        job_type=stored.job_type,
        state=state,
        progress=TriggerProgress(stored.next_fire_time, stored.prev_fire_time, stored.times_triggered),
        generation=stored.generation,
        upcoming=tuple(stored.upcoming),
        error=stored.error,
        catch_up_until=stored.catch_up_until,
        kind=columns.kind,
        calendar=columns.calendar_name,
        priority=columns.priority,
        description=columns.description,
        schedule_hash=stored.schedule_hash,
        paused_at=stored.paused_at if is_paused else None,
        paused_by=stored.paused_by if is_paused else None,
        pause_reason=stored.pause_reason if is_paused else None,
        rate_limited_until=stored.rate_limited_until,
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


class RunningColumns(NamedTuple):
    """The columns of a claim or a running execution."""

    fire_id: int
    trigger_group: str
    trigger_name: str
    job_group: str
    job_name: str
    instance_id: str
    epoch: int
    state: str
    scheduled_time: datetime
    fired_time: datetime
    attempt: int
    cancel_requested: bool
    progress: float | None
    progress_message: str | None

    def record(self) -> RunningRecord:
        return RunningRecord(
            fire_id=self.fire_id,
            trigger_key=TriggerKey(self.trigger_name, self.trigger_group),
            job_key=JobKey(self.job_name, self.job_group),
            instance_id=self.instance_id,
            epoch=self.epoch,
            state=self.state,
            scheduled_fire_time=self.scheduled_time,
            fire_time=self.fired_time,
            attempt=self.attempt,
            cancel_requested=self.cancel_requested,
            progress=self.progress,
            progress_message=self.progress_message,
        )


def list_running(session: SqlSession) -> list[RunningRecord]:
    return [RunningColumns._make(row).record() for row in session.read_one(RUNNING)]


class ExecutionColumns(NamedTuple):
    """The columns of an execution at any stage."""

    state: str
    fire_id: int | None
    trigger_group: str
    trigger_name: str
    job_group: str
    job_name: str
    job_type: str
    instance_id: str | None
    scheduled_time: datetime
    fired_time: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    attempt: int
    error: str | None
    trigger_data: str | None
    result: str | None
    retry_at: datetime | None

    def record(self) -> ExecutionRecord:
        return ExecutionRecord(
            state=ExecutionState(self.state),
            fire_id=self.fire_id,
            trigger_key=TriggerKey(self.trigger_name, self.trigger_group),
            job_key=JobKey(self.job_name, self.job_group),
            job_type=self.job_type,
            instance_id=self.instance_id,
            scheduled_fire_time=self.scheduled_time,
            fire_time=self.fired_time,
            started_at=self.started_at,
            ended_at=self.ended_at,
            attempt=self.attempt,
            error=self.error,
            trigger_data_text=self.trigger_data,
            result_text=self.result,
            retry_at=self.retry_at,
        )


def execution(session: SqlSession, fire_id: int) -> ExecutionRecord | None:
    for *columns, log in session.read_one(EXECUTION, fire_id=fire_id):
        return replace(ExecutionColumns._make(columns).record(), log_text=log, log_is_read=True)
    return None


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
