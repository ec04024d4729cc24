"""The acquire step: claims due triggers, and fires those that are due already; with what every fire does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.states import FiredState, Outcome, TriggerState
from quartzpy.store.protocol import AcquiredTrigger, Acquisition, FiredTrigger, Node, SkippedTrigger
from quartzpy.store.ram.tables import FiredRow, Tables, TriggerRow, load_job, load_trigger
from quartzpy.triggers.horizon import Horizon
from quartzpy.triggers.trigger import TriggerProgress

_BLOCKING = {
    TriggerState.WAITING: TriggerState.BLOCKED,
    TriggerState.ACQUIRED: TriggerState.BLOCKED,
    TriggerState.PAUSED: TriggerState.PAUSED_BLOCKED,
}


def acquire(
    tables: Tables,
    node: Node,
    job_types: Sequence[str],
    *,
    limit: int,
    look_ahead: timedelta,
    misfire_threshold: timedelta,
) -> Acquisition:
    """Claim, and fire what is due; see `JobStore.acquire`."""
    now = tables.require(node)
    fired: list[FiredTrigger] = []
    acquired: list[AcquiredTrigger] = []
    skipped: list[SkippedTrigger] = []
    for row in _eligible(tables, job_types, now, limit, now + look_ahead, misfire_threshold):
        at = row.progress.next_fire_time
        assert at is not None
        if tables.is_full(row.job):
            tables.move(row, TriggerState.BLOCKED)
        elif row.job.skips and tables.free_slots(row.job) == 0 and at <= now and _moves_on_by_itself(row):
            skipped.append(skip_row(tables, node, row, *_following(row), now))
        elif at <= now and _moves_on_by_itself(row):
            fired.append(_fire_by_itself(tables, node, row, now))
        else:
            acquired.append(_claim(tables, node, row, now))
    left = next(iter(tables.due.on_time(job_types, now, misfire_threshold)), None)
    return Acquisition(now, tuple(fired), tuple(acquired), None if left is None else left.at, tuple(skipped))


def _moves_on_by_itself(row: TriggerRow) -> bool:
    return bool(row.pending.instants or row.pending.is_complete)


def _eligible(
    tables: Tables, job_types: Iterable[str], now: datetime, limit: int, until: datetime, threshold: timedelta
) -> list[TriggerRow]:
    chosen: list[TriggerRow] = []
    taken: Counter[JobKey] = Counter()
    for entry in tables.due.on_time(job_types, now, threshold):
        if len(chosen) >= limit or entry.at > until:
            break
        row = tables.triggers[TriggerKey(entry.group, entry.name)]
        slots = None if row.job.skips else tables.free_slots(row.job)
        if slots is not None:
            # Of one that is full, one trigger: it finds the job full, and is blocked.
            if taken[row.job.key] >= max(slots, 1):
                continue
            taken[row.job.key] += 1
        chosen.append(row)
    return chosen


def _claim(tables: Tables, node: Node, row: TriggerRow, now: datetime) -> AcquiredTrigger:
    fence = tables.next_number()
    tables.claim(_fired_row(node, row, fence, FiredState.ACQUIRED, now))
    tables.move(row, TriggerState.ACQUIRED, fence=fence)
    stored = tables.calendar_of(row)
    return AcquiredTrigger(fence, row.load(), row.progress, row.generation, None if stored is None else stored.calendar)


def _following(row: TriggerRow) -> tuple[TriggerProgress, Horizon]:
    following, *later = row.pending.instants or (None,)
    progress = TriggerProgress(following, row.progress.next_fire_time, row.progress.times_triggered + 1)
    return progress, Horizon(tuple(instant for instant in later if instant), row.pending.is_complete)


def _fire_by_itself(tables: Tables, node: Node, row: TriggerRow, now: datetime) -> FiredTrigger:
    return fire_row(tables, node, row, tables.next_number(), *_following(row), now)


def skip_row(
    tables: Tables, node: Node, row: TriggerRow, progress: TriggerProgress, pending: Horizon, now: datetime
) -> SkippedTrigger:
    """Move a trigger on without a fire, as its job asks when it is at its limit."""
    scheduled = row.progress.next_fire_time
    assert scheduled is not None
    fence = tables.next_number()
    tables.history.append(_fired_row(node, row, fence, FiredState.EXECUTING, now).ended(Outcome.SKIPPED, now))
    moved = replace(progress, previous_fire_time=row.progress.previous_fire_time)
    over = progress.next_fire_time is None
    state = TriggerState.COMPLETE if over else TriggerState.WAITING
    tables.move(row, state, progress=moved, pending=pending, fence=fence if over else None)
    return SkippedTrigger(row.key, row.job.key, scheduled)


def fire_row(
    tables: Tables,
    node: Node,
    row: TriggerRow,
    fence: int,
    progress: TriggerProgress,
    pending: Horizon,
    now: datetime,
) -> FiredTrigger:
    """Fire a trigger: it moves on to `progress`, and the other triggers of a serial job are blocked."""
    job = row.job
    execution = _fired_row(node, row, fence, FiredState.EXECUTING, now)
    fills_job = not job.skips and tables.free_slots(job) == 1
    previous = row.progress.previous_fire_time
    if progress.next_fire_time is None:
        state = TriggerState.COMPLETE
    else:
        state = TriggerState.BLOCKED if fills_job else TriggerState.WAITING
    last = fence if state is TriggerState.COMPLETE else None
    tables.move(row, state, progress=progress, pending=pending, fence=last)
    calendar = tables.calendar_of(row)
    execution.fired = FiredTrigger(
        fence=fence,
        trigger_group=row.key.group,
        trigger_name=row.key.name,
        job_group=job.key.group,
        job_name=job.key.name,
        job_type=job.job_type,
        generation=row.generation,
        fire_time=now,
        scheduled_fire_time=execution.scheduled_time,
        previous_fire_time=previous,
        next_fire_time=progress.next_fire_time,
        pending=pending,
        times_triggered=progress.times_triggered,
        attempt=row.attempt,
        covers=row.covers,
        retry=job.retry,
        timeout=job.timeout,
        persists_data=job.persists_data,
        job_data=job.data,
        trigger_data=row.data,
        calendar_revision=None if calendar is None else calendar.revision,
        load_calendar=lambda: None if calendar is None else calendar.calendar,
        load_trigger=partial(load_trigger, row.bare, row.data),
        load_job=partial(load_job, *job.loader()),
    )
    row.covers = ()
    tables.claim(execution)
    if fills_job:
        for sibling in job.triggers.values():
            if sibling is not row and sibling.state in _BLOCKING:
                tables.move(sibling, _BLOCKING[sibling.state])
    return execution.fired


def _fired_row(node: Node, row: TriggerRow, fence: int, state: FiredState, now: datetime) -> FiredRow:
    scheduled = row.progress.next_fire_time
    assert scheduled is not None
    return FiredRow(
        fence=fence,
        trigger_key=row.key,
        generation=row.generation,
        job_key=row.job.key,
        job_type=row.job.job_type,
        instance_id=node.instance_id,
        epoch=node.epoch,
        state=state,
        fire_time=now,
        scheduled_time=scheduled,
        priority=row.bare.priority,
        limited=row.job.limit is not None,
        requests_recovery=row.job.requests_recovery,
        attempt=row.attempt,
        trigger_data=row.data,
    )
