"""Queries by key and by group, and totals; `pages` has the queries with filters and pages."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from heapq import nlargest, nsmallest
from itertools import islice, takewhile
from typing import Any, TypeVar, cast

from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.shared_limit import names_from_text
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.placement import placement_from_text
from quartzpy.states import FiredState, HeldBy, TriggerState
from quartzpy.store.memory.limits import limits_of
from quartzpy.store.memory.rows import FiredRow, TriggerRow, load_trigger
from quartzpy.store.memory.tables import Tables
from quartzpy.store.node_states import states_of
from quartzpy.store.protocol import NO_NOTE, DispatchKey, NameKind
from quartzpy.store.records import (
    LATE_AFTER,
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

_Key = TypeVar("_Key", JobKey, TriggerKey)


def trigger_record(tables: Tables, row: TriggerRow) -> TriggerRecord:
    """Return the record of a trigger's row."""
    paused_at, note = row.pause if row.pause and row.state is TriggerState.PAUSED else (None, NO_NOTE)
    own = row.own_pause if row.state is TriggerState.PAUSED else None
    state, waits_for = tables.seen_state(row), None
    if state is TriggerState.BLOCKED:
        waits_for = held_by(is_full=tables.free_slots(row) == 0, parked_at=row.parked_at, has_rate=row.job.has_rate)
    return TriggerRecord(
        key=row.key,
        job_key=row.job.key,
        load_trigger=partial(load_trigger, row.bare, row.data),
        job_type=row.job.job_type,
        state=state,
        progress=row.progress,
        generation=row.generation,
        upcoming=row.upcoming.instants,
        error=row.error,
        catch_up_until=row.catch_up_until,
        held_by=waits_for,
        shared_limits=names_from_text(row.parked_at) if waits_for is HeldBy.SHARED else (),
        opens_at=None if waits_for in (None, HeldBy.SLOT) else _opens_at(tables, row),
        resumed_at=row.resumed_at,
        kind=row.bare.kind,
        calendar=row.bare.calendar,
        priority=row.bare.priority,
        description=row.bare.description,
        schedule_hash=row.schedule_hash,
        paused_at=paused_at,
        paused_by=note.by,
        pause_reason=note.reason,
        paused_until=None if own is None else own.until,
        pause_missed=None if own is None else own.missed,
    )


def jobs(tables: Tables, keys: Collection[JobKey]) -> dict[JobKey, JobDetail]:
    return {key: tables.jobs[key].load() for key in keys if key in tables.jobs}


def triggers(tables: Tables, keys: Collection[TriggerKey]) -> dict[TriggerKey, TriggerRecord]:
    return {key: trigger_record(tables, tables.triggers[key]) for key in keys if key in tables.triggers}


def _opens_at(tables: Tables, row: TriggerRow) -> datetime | None:
    """Return the instant at which the rate for which a trigger is parked admits the next fire; of several, the last."""
    return max((at for limit in limits_of(row.place) if (at := tables.opens.get(limit)) is not None), default=None)


def ahead(tables: Tables, key: TriggerKey) -> int:
    """See `QueryStore.ahead`."""
    row = tables.triggers.get(key)
    if row is None or row.state is not TriggerState.BLOCKED:
        return 0
    before = takewhile(lambda other: other is not row, tables.parked_at(row.place))
    return len(list(islice(before, MAX_WAITING)))


def job_headers(tables: Tables, keys: Collection[JobKey]) -> dict[JobKey, JobHeader]:
    rows = (tables.jobs[key] for key in keys if key in tables.jobs)
    return {
        row.key: JobHeader(
            row.key, row.job_type, row.mode, placement_from_text(row.dispatch_key.placement), row.detail.timeout
        )
        for row in rows
    }


def keys(tables: Tables, kind: type[_Key], matcher: GroupMatcher) -> set[_Key]:
    return {key for key in _all_keys(tables, kind) if matcher.matches(key.group)}


def _all_keys(tables: Tables, kind: type[_Key]) -> Iterable[_Key]:
    every: Any = tables.jobs if kind is JobKey else tables.triggers
    return cast("Iterable[_Key]", every)


def names(tables: Tables, kind: NameKind) -> list[str]:
    if kind is NameKind.CALENDARS:
        return sorted(tables.calendars)
    return sorted({key.group for key in (tables.jobs if kind is NameKind.JOB_GROUPS else tables.triggers)})


def pauses(tables: Tables) -> Pauses:
    """See `QueryStore.pauses`."""
    stored = tables.pauses
    groups = _paused_trigger_groups(tables)
    marks = (
        PausedGroup(
            *place, mark.at, mark.note.by, mark.note.reason, mark.note.until, mark.note.missed, mark.note.window
        )
        for place, mark in sorted(stored.marks.items())
    )
    return Pauses(
        stored.everything,
        frozenset(groups),
        frozenset(stored.groups("JOB")),
        is_manual=stored.manual,
        groups=tuple(marks),
    )


def waiting_dispatch_keys(tables: Tables) -> set[DispatchKey]:
    return tables.due.dispatch_keys()


def near_keys(tables: Tables, key: _Key, limit: int) -> set[_Key]:
    """See `JobStore.near_keys`."""
    keys = [*tables.jobs] if isinstance(key, JobKey) else [*tables.triggers]
    of_group: dict[str, list[str]] = {}
    for stored in keys:
        of_group.setdefault(stored.group, []).append(stored.name)
    near = {(first.group, first.name) for first in nsmallest(limit, keys)}
    for group in nsmallest(limit, of_group):
        near |= {(group, name) for name in _beside(of_group[group], key.name, 1)}
    own: list[str] = of_group.get(key.group, [])
    near |= {(key.group, name) for name in [*nsmallest(limit, own), *_beside(own, key.name, limit)]}
    if key.group in of_group.get(key.name, ()):
        near.add((key.name, key.group))
    return {type(key)(name, group) for group, name in near}


def _beside(names: list[str], name: str, limit: int) -> list[str]:
    before = nlargest(limit, (other for other in names if other < name))
    return before + nsmallest(limit + 1, (other for other in names if other >= name))


def list_running(tables: Tables) -> list[RunningRecord]:
    unrecorded = {
        (node.epoch, fire_id)
        for node in tables.nodes.values()
        for problem in node.problems
        for fire_id in problem.fire_ids
    }
    rows = sorted(tables.fired.values(), key=lambda row: (row.fire_time, row.fire_id))
    now = tables.now()
    return [_running(row, now, is_unrecorded=(row.epoch, row.fire_id) in unrecorded) for row in rows]


def _running(row: FiredRow, now: datetime, *, is_unrecorded: bool) -> RunningRecord:
    return RunningRecord(
        fire_id=row.fire_id,
        trigger_key=row.trigger_key,
        job_key=row.job_key,
        instance_id=row.instance_id,
        epoch=row.epoch,
        state=FiredState.ACQUIRED if row.fire_time > now else FiredState.EXECUTING,
        scheduled_fire_time=row.scheduled_time,
        fire_time=row.fire_time,
        attempt=row.attempt,
        cancel_requested=row.cancel_requested,
        progress=None if row.progress is None else row.progress.fraction,
        progress_message=None if row.progress is None else row.progress.message,
        triggered_by=row.record().triggered_by,
        is_unrecorded=is_unrecorded,
    )


def execution(tables: Tables, fire_id: int) -> ExecutionRecord | None:
    fired = tables.fired.get(fire_id)
    if fired is not None:
        return replace(fired.record(tables.now()), log_is_read=True)
    ended = next((record for record in reversed(tables.history) if record.fire_id == fire_id), None)
    return None if ended is None else replace(ended, log_is_read=True)


def cluster_load(tables: Tables) -> ClusterLoad:
    now = tables.now()
    by_state = tables.by_state
    scheduled = [*by_state[TriggerState.WAITING].values(), *by_state[TriggerState.BLOCKED].values()]
    waiting = [at for row in scheduled if (at := _next(row)) <= now and tables.seen_state(row) is TriggerState.WAITING]
    claimed = sum(row.fire_time > now for row in tables.fired.values())
    alive = sum(state.is_alive for state in states_of(tables.nodes.values(), now).values())
    return ClusterLoad(
        due=len(waiting),
        late=sum(_next(row) < now - LATE_AFTER for row in scheduled),
        longest_due=now - min(waiting) if waiting else None,
        in_error=len(by_state[TriggerState.ERROR]),
        claimed=claimed,
        executing=len(tables.fired) - claimed,
        nodes_alive=alive,
        nodes_silent=len(tables.nodes) - alive,
    )


def _next(row: TriggerRow) -> datetime:
    return row.progress.next_fire_time or datetime.max.replace(tzinfo=UTC)


def _paused_trigger_groups(tables: Tables) -> set[str]:
    """Return the paused groups. Under `pause_all`, a group that was first stored later is paused as well."""
    groups = tables.pauses.groups("TRIGGER")
    if tables.pauses.everything:
        groups |= {key.group for key in tables.by_state[TriggerState.PAUSED]}
    return groups
