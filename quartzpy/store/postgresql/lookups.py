"""Queries by key and by group, and totals, without a lock. `pages` has the queries with filters and pages."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from quartzpy.errors import InvalidJobError
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.shared_limit import names_from_text
from quartzpy.jobs.stored_options import stored_option
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher, MatchOperator
from quartzpy.placement import placement_from_text
from quartzpy.states import PAUSED_STATES, ExecutionState, HeldBy, JobMode, Missed, TriggerState
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.row_reader import Reader
from quartzpy.store.postgresql.schema.rows import JobColumns, TriggerColumns, key_columns
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps import checkin
from quartzpy.store.protocol import DispatchKey, NameKind
from quartzpy.store.records import (
    LATE_AFTER,
    MAX_COUNTED,
    MAX_WAITING,
    ClusterLoad,
    ExecutionRecord,
    JobHeader,
    PausedGroup,
    Pauses,
    RunningRecord,
    TriggerRecord,
    held_by,
)
from quartzpy.triggers.trigger import TriggerProgress

_SQL = SqlFile("lookups.sql")
JOBS = _SQL("jobs")
TRIGGERS = _SQL("triggers")
JOB_GROUPS = _SQL("job_groups")
TRIGGER_GROUPS = _SQL("trigger_groups")
WAITING_DISPATCH_KEYS = _SQL("waiting_dispatch_keys")
PAUSED = _SQL("paused")
RUNNING = _SQL("running")
EXECUTION = _SQL("execution")
AHEAD = _SQL("ahead")
NEAR_JOBS = _SQL("near_jobs")
NEAR_TRIGGERS = _SQL("near_triggers")
LOAD = _SQL("load")
NAMES = {
    NameKind.JOB_GROUPS: JOB_GROUPS,
    NameKind.TRIGGER_GROUPS: TRIGGER_GROUPS,
    NameKind.CALENDARS: _SQL.calendar_names,
}
_Key = TypeVar("_Key", JobKey, TriggerKey)


def match_values(matcher: GroupMatcher) -> dict[str, str]:
    """Return the values of a matcher, as statements take them."""
    return {"operator": str(matcher.operator), "group": matcher.value}


def jobs(session: SqlSession, keys: Collection[JobKey]) -> dict[JobKey, JobDetail]:
    details = [JobColumns._make(row).job() for row in session.read_one(JOBS, **key_columns(keys))]
    return {job.key: job for job in details}


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
    pause_until: datetime | None
    pause_missed: str | None
    resumed_at: datetime | None
    is_full: bool
    parked_at: str | None
    has_rate: bool
    opens_at: datetime | None


STORED_TRIGGER = (*TriggerColumns._fields, *TriggerProgressColumns._fields)
"""The columns of a stored trigger, in their order."""


def trigger_record(row: tuple[Any, ...]) -> TriggerRecord:
    """Return a row of `TRIGGERS` as a record."""
    built_of = len(TriggerColumns._fields)
    columns, stored = TriggerColumns._make(row[:built_of]), TriggerProgressColumns._make(row[built_of:])
    state = TriggerState(stored.trigger_state)
    is_paused = state in PAUSED_STATES
    waits_for = None
    if state is TriggerState.BLOCKED:
        waits_for = held_by(is_full=stored.is_full, parked_at=stored.parked_at, has_rate=stored.has_rate)
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
        paused_until=stored.pause_until if is_paused else None,
        pause_missed=None if stored.pause_missed is None or not is_paused else Missed(stored.pause_missed),
        held_by=waits_for,
        shared_limits=names_from_text(stored.parked_at) if waits_for is HeldBy.SHARED else (),
        opens_at=None if waits_for in (None, HeldBy.SLOT) else stored.opens_at,
        resumed_at=stored.resumed_at,
    )


def triggers(session: SqlSession, keys: Collection[TriggerKey]) -> dict[TriggerKey, TriggerRecord]:
    records = [trigger_record(row) for row in session.read_one(TRIGGERS, **key_columns(keys))]
    return {record.key: record for record in records}


def ahead(session: SqlSession, key: TriggerKey) -> int:
    """See `QueryStore.ahead`."""
    [(number,)] = session.read_one(AHEAD, group=key.group, name=key.name, most=MAX_WAITING)
    return int(number)


def job_headers(session: SqlSession, keys: Collection[JobKey]) -> dict[JobKey, JobHeader]:
    rows = session.read_one(_SQL.job_headers, **key_columns(keys))
    headers = (
        JobHeader(JobKey(name, group), job_type, JobMode(mode), placement_from_text(placement), _timeout(definition))
        for group, name, job_type, mode, placement, definition in rows
    )
    return {header.key: header for header in headers}


def _timeout(definition: str | None) -> timedelta | None:
    # A row that cannot be read must not hide the others.
    with suppress(InvalidJobError):
        timeout: timedelta | None = stored_option(definition, "timeout")
        return timeout
    return None


def keys(session: SqlSession, kind: type[_Key], matcher: GroupMatcher) -> set[_Key]:
    rows = session.read_one(_SQL.job_keys if kind is JobKey else _SQL.trigger_keys, **match_values(matcher))
    return {kind(name, group) for group, name in rows}


def near_keys(session: SqlSession, key: _Key, limit: int) -> set[_Key]:
    """See `QueryStore.near_keys`."""
    text = NEAR_JOBS if isinstance(key, JobKey) else NEAR_TRIGGERS
    rows = session.read_one(text, group=key.group, name=key.name, limit=limit)
    return {type(key)(name, group) for group, name in rows}


def names(session: SqlSession, kind: NameKind) -> list[str]:
    return column(session, NAMES[kind])


def column(session: SqlSession, text: str) -> list[str]:
    """Return the first column of a query without values."""
    return [row[0] for row in session.read_one(text)]


def pauses(session: SqlSession) -> Pauses:
    """See `QueryStore.pauses`."""
    rows = session.read_one(PAUSED)
    groups = {scope: frozenset(row[1] for row in rows if row[0] == scope) for scope in ("TRIGGER", "JOB")}
    scopes = {row[0] for row in rows}
    return Pauses(
        "ALL" in scopes,
        groups["TRIGGER"],
        groups["JOB"],
        is_manual="MANUAL" in scopes,
        groups=tuple(
            PausedGroup(scope, name, at, by, reason, until, Missed(missed), window)
            for scope, name, at, by, reason, until, missed, window in rows
            if at is not None and scope != "MANUAL"
        ),
    )


def waiting_dispatch_keys(session: SqlSession) -> set[DispatchKey]:
    return {DispatchKey(*row) for row in session.read_one(WAITING_DISPATCH_KEYS)}


read_running = Reader(RunningRecord)


def list_running(session: SqlSession) -> list[RunningRecord]:
    return [read_running(row) for row in session.read_one(RUNNING)]


read_execution = Reader(ExecutionRecord, without=("log_text", "log_is_read"), state=ExecutionState)


def execution(session: SqlSession, fire_id: int) -> ExecutionRecord | None:
    for *columns, log in session.read_one(EXECUTION, fire_id=fire_id):
        return replace(read_execution(columns), log_text=log, log_is_read=True)
    return None


def group_matcher(matcher: GroupMatcher | None) -> GroupMatcher | None:
    """Return the filter by group of a page; None if it matches every group."""
    return None if matcher is None or matcher.operator is MatchOperator.ANYTHING else matcher


def matched_groups(matcher: GroupMatcher, groups: Sequence[str]) -> set[str]:
    """Return the groups that match; a group that is named by EQUALS need not exist yet."""
    named = {matcher.value} if matcher.operator is MatchOperator.EQUALS else set()
    return named | {group for group in groups if matcher.matches(group)}


def cluster_load(session: SqlSession) -> ClusterLoad:
    load, *nodes = session.read(
        session.bind(LOAD, most=MAX_COUNTED, late_after=LATE_AFTER), *checkin.nodes_statements(session)
    )
    states = checkin.nodes_of(session, nodes).states().values()
    alive = sum(state.is_alive for state in states)
    return ClusterLoad(*(*load.rows[0], alive, len(states) - alive))
