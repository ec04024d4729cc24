"""Queries by key, by group and for totals; `pages` has those by filters and pages."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from typing import Any

from quartzpy.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.states import PUBLIC, FiredState, PublicState
from quartzpy.store.ram.tables import PAUSED_STATES, FiredRow, Tables, TriggerRow, load_trigger
from quartzpy.store.records import ExecutionRecord, RunningRecord, TriggerRecord


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
        kind=row.bare.kind,
        calendar=row.bare.calendar,
        priority=row.bare.priority,
        description=row.bare.description,
        schedule_hash=row.schedule_hash,
    )


def jobs(tables: Tables, keys: Collection[JobKey]) -> dict[JobKey, JobDetail]:
    return {key: tables.jobs[key].load() for key in keys if key in tables.jobs}


def triggers(tables: Tables, keys: Collection[TriggerKey]) -> dict[TriggerKey, TriggerRecord]:
    return {key: trigger_record(tables.triggers[key]) for key in keys if key in tables.triggers}


def triggers_of_job(tables: Tables, key: JobKey) -> list[TriggerRecord]:
    job = tables.jobs.get(key)
    return [] if job is None else [trigger_record(job.triggers[name]) for name in sorted(job.triggers)]


def trigger_states(tables: Tables, keys: Collection[TriggerKey]) -> dict[TriggerKey, PublicState]:
    rows = {key: tables.triggers.get(key) for key in keys}
    return {key: PublicState.NONE if row is None else PUBLIC[row.state] for key, row in rows.items()}


def job_keys(tables: Tables, matcher: GroupMatcher) -> set[JobKey]:
    return {key for key in tables.jobs if matcher.matches(key.group)}


def trigger_keys(tables: Tables, matcher: GroupMatcher) -> set[TriggerKey]:
    return {key for key in tables.triggers if matcher.matches(key.group)}


def groups(keys: Iterable[JobKey] | Iterable[TriggerKey]) -> list[str]:
    return sorted({key.group for key in keys})


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


def execution(tables: Tables, fire_id: int) -> ExecutionRecord | None:
    fired = tables.fired.get(fire_id)
    if fired is not None:
        return fired.record()
    return next((record for record in reversed(tables.history) if record.fire_id == fire_id), None)


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
