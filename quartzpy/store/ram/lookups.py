"""Looking: records of rows, as the facade, the command line and the page want them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from heapq import nlargest
from itertools import islice
from typing import Any

from quartzpy.keys import RECOVERING_JOBS, JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.states import PUBLIC, FiredState, PublicState
from quartzpy.store.protocol import ExecutionRecord, JobRecord, MisfireRecord, RunningRecord, TriggerRecord
from quartzpy.store.ram.tables import PAUSED_STATES, FiredRow, Tables, TriggerRow

_NEVER = datetime.max.replace(tzinfo=UTC)


def _record(row: TriggerRow) -> TriggerRecord:
    return TriggerRecord(
        trigger=row.load(),
        job_type=row.job.job_type,
        state=row.state,
        progress=row.progress,
        generation=row.generation,
        upcoming=row.pending.instants,
        error=row.error,
        catch_up_until=row.catch_up_until,
    )


def trigger(tables: Tables, key: TriggerKey) -> TriggerRecord | None:
    row = tables.triggers.get(key)
    return None if row is None else _record(row)


def triggers_of_job(tables: Tables, key: JobKey) -> list[TriggerRecord]:
    job = tables.jobs.get(key)
    return [] if job is None else [_record(job.triggers[name]) for name in sorted(job.triggers)]


def triggers_of_calendar(tables: Tables, name: str) -> list[TriggerRecord]:
    named = [row for row in tables.triggers.values() if row.bare.calendar == name]
    return [_record(row) for row in sorted(named, key=lambda row: row.key)]


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
    return [JobRecord(job.load(), len(job.triggers)) for job in jobs]


def list_triggers(tables: Tables, limit: int) -> list[TriggerRecord]:
    return [_record(row) for row in sorted(tables.triggers.values(), key=_by_fire_time)[:limit]]


def _by_fire_time(row: TriggerRow) -> tuple[datetime, int, TriggerKey]:
    return row.progress.next_fire_time or _NEVER, -row.bare.priority, row.key


def list_running(tables: Tables) -> list[RunningRecord]:
    return [_running(row) for row in sorted(tables.fired.values(), key=lambda row: (row.fire_time, row.fence))]


def _running(row: FiredRow) -> RunningRecord:
    return RunningRecord(
        fence=row.fence,
        trigger_key=row.trigger_key,
        job_key=row.job_key,
        instance_id=row.instance_id,
        epoch=row.epoch,
        state=row.state,
        scheduled_fire_time=row.scheduled_time,
        fire_time=row.fire_time,
        recovering=row.trigger_key.group == RECOVERING_JOBS,
        attempt=row.attempt,
        cancel_requested=row.cancel_requested,
    )


def list_executions(tables: Tables, limit: int) -> list[ExecutionRecord]:
    return nlargest(limit, tables.history, key=lambda record: (record.ended_at, record.fence))


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
