"""Looking: records of rows, as the facade, the command line and the page want them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from functools import partial
from heapq import nlargest, nsmallest
from itertools import islice
from typing import Any

from quartzpy.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.states import PUBLIC, ExecutionState, FiredState, PublicState, TriggerState
from quartzpy.store.ram.tables import PAUSED_STATES, FiredRow, Tables, TriggerRow, load_job, load_trigger
from quartzpy.store.records import (
    ExecutionQuery,
    ExecutionRecord,
    JobRecord,
    MisfireRecord,
    RunningRecord,
    TriggerRecord,
)

_NEVER = datetime.max.replace(tzinfo=UTC)


def trigger_record(row: TriggerRow) -> TriggerRecord:
    """A row as operators see it."""
    return TriggerRecord(
        key=row.key,
        job_key=row.job.key,
        load_trigger=partial(load_trigger, row.bare, row.data),
        job_type=row.job.job_type,
        state=row.state,
        progress=row.progress,
        generation=row.generation,
        upcoming=row.upcoming.instants,
        error=row.error,
        catch_up_until=row.catch_up_until,
        schedule_hash=row.schedule_hash,
    )


def jobs(tables: Tables, keys: Collection[JobKey]) -> dict[JobKey, JobDetail]:
    return {key: tables.jobs[key].load() for key in keys if key in tables.jobs}


def triggers(tables: Tables, keys: Collection[TriggerKey]) -> dict[TriggerKey, TriggerRecord]:
    return {key: trigger_record(tables.triggers[key]) for key in keys if key in tables.triggers}


def triggers_of_job(tables: Tables, key: JobKey) -> list[TriggerRecord]:
    job = tables.jobs.get(key)
    return [] if job is None else [trigger_record(job.triggers[name]) for name in sorted(job.triggers)]


def triggers_of_calendar(tables: Tables, name: str) -> list[TriggerRecord]:
    named = [row for row in tables.triggers.values() if row.bare.calendar == name]
    return [trigger_record(row) for row in sorted(named, key=lambda row: row.key)]


def trigger_states(tables: Tables, keys: Collection[TriggerKey]) -> dict[TriggerKey, PublicState]:
    rows = {key: tables.triggers.get(key) for key in keys}
    return {key: PublicState.NONE if row is None else PUBLIC[row.state] for key, row in rows.items()}


def job_keys(tables: Tables, matcher: GroupMatcher) -> set[JobKey]:
    return {key for key in tables.jobs if matcher.matches(key.group)}


def trigger_keys(tables: Tables, matcher: GroupMatcher) -> set[TriggerKey]:
    return {key for key in tables.triggers if matcher.matches(key.group)}


def groups(keys: Iterable[JobKey] | Iterable[TriggerKey]) -> list[str]:
    return sorted({key.group for key in keys})


def list_jobs(tables: Tables, limit: int) -> list[JobRecord]:
    jobs = (tables.jobs[key] for key in sorted(tables.jobs)[:limit])
    return [JobRecord(job.key, job.job_type, partial(load_job, *job.loader()), len(job.triggers)) for job in jobs]


def list_triggers(tables: Tables, limit: int) -> list[TriggerRecord]:
    return [trigger_record(row) for row in sorted(tables.triggers.values(), key=_by_fire_time)[:limit]]


def _by_fire_time(row: TriggerRow) -> tuple[datetime, int, TriggerKey]:
    return row.progress.next_fire_time or _NEVER, -row.bare.priority, row.key


def list_running(tables: Tables) -> list[RunningRecord]:
    return [_running(row) for row in sorted(tables.fired.values(), key=lambda row: (row.fire_time, row.fire_id))]


def _running(row: FiredRow) -> RunningRecord:
    return RunningRecord(
        fire_id=row.fire_id,
        trigger_key=row.trigger_key,
        job_key=row.job_key,
        instance_id=row.instance_id,
        epoch=row.epoch,
        state=row.state,
        scheduled_fire_time=row.scheduled_time,
        fire_time=row.fire_time,
        attempt=row.attempt,
        cancel_requested=row.cancel_requested,
    )


def list_executions(tables: Tables, limit: int, wanted: ExecutionQuery) -> list[ExecutionRecord]:
    begun = [*tables.history, *(row.record() for row in tables.fired.values())]
    latest = nlargest(limit, (record for record in begun if _is_wanted(record, wanted)), key=_by_latest)
    if ExecutionState.SCHEDULED not in wanted.states:
        return latest
    waiting = (_scheduled(row) for row in tables.by_state[TriggerState.WAITING].values())
    to_come = (record for record in waiting if _is_wanted(record, wanted))
    soonest = nsmallest(limit, to_come, key=lambda record: (record.scheduled_fire_time, record.trigger_key))
    return [*latest, *soonest][:limit]


def _is_wanted(record: ExecutionRecord, wanted: ExecutionQuery) -> bool:
    return (
        record.state in wanted.states
        and wanted.job_key in (None, record.job_key)
        and wanted.trigger_key in (None, record.trigger_key)
        and (wanted.since is None or record.scheduled_fire_time >= wanted.since)
        and (wanted.until is None or record.scheduled_fire_time < wanted.until)
    )


def _by_latest(record: ExecutionRecord) -> tuple[datetime, int]:
    return record.ended_at or record.fire_time or record.scheduled_fire_time, record.fire_id or 0


def _scheduled(row: TriggerRow) -> ExecutionRecord:
    return ExecutionRecord(
        state=ExecutionState.SCHEDULED,
        fire_id=None,
        trigger_key=row.key,
        job_key=row.job.key,
        job_type=row.job.job_type,
        instance_id=None,
        scheduled_fire_time=row.entry.at,
        fire_time=None,
        started_at=None,
        ended_at=None,
        attempt=row.attempt,
        error=None,
        trigger_data_text=row.data,
    )


def execution(tables: Tables, fire_id: int) -> ExecutionRecord | None:
    fired = tables.fired.get(fire_id)
    if fired is not None:
        return fired.record()
    return next((record for record in reversed(tables.history) if record.fire_id == fire_id), None)


def list_misfires(tables: Tables, limit: int, key: TriggerKey | None) -> list[MisfireRecord]:
    latest_first = reversed(tables.misfires)
    return list(islice((one for one in latest_first if key is None or one.trigger_key == key), limit))


def counts(tables: Tables) -> dict[str, Any]:
    return {
        "jobs": len(tables.jobs),
        "triggers": {str(state): len(rows) for state, rows in tables.by_state.items() if rows},
        "running": sum(row.state is FiredState.EXECUTING for row in tables.fired.values()),
    }


def paused_trigger_groups(tables: Tables) -> set[str]:
    """The groups that were paused. While all are, a group that was stored since is paused like those that were."""
    groups = set(tables.pauses.trigger_groups)
    if tables.pauses.everything:
        groups |= {key.group for state in PAUSED_STATES for key in tables.by_state[state]}
    return groups
