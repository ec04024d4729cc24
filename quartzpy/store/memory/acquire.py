"""The acquire step: fires due triggers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from quartzpy.jobs.fired_trigger import FireFacts, LoadedFire
from quartzpy.states import Outcome, OverlapPolicy, TriggerState
from quartzpy.store.gates import Decision
from quartzpy.store.memory.met import Met, Waiting, passed_instants, slots_of_keys
from quartzpy.store.memory.rows import FiredRow, JobRow, TriggerRow, load_job, load_trigger
from quartzpy.store.memory.tables import Tables
from quartzpy.store.protocol import (
    ANYTHING,
    Acquisition,
    AvailableSlots,
    DispatchKey,
    Expectation,
    FiredTrigger,
    Gate,
    Node,
    Notification,
    SkippedTrigger,
    UnfilledTrigger,
)
from quartzpy.triggers.trigger import TriggerProgress
from quartzpy.triggers.upcoming import UpcomingFireTimes


@dataclass(slots=True)
class _StepResult:
    """The triggers that a step has fired and skipped so far, and those that it has found unfilled."""

    fired: list[FiredTrigger] = field(default_factory=list)
    skipped: list[SkippedTrigger] = field(default_factory=list)
    unfilled: list[UnfilledTrigger] = field(default_factory=list)


def acquire(
    tables: Tables,
    node: Node,
    available_slots: Sequence[AvailableSlots],
    *,
    limit: int,
    look_ahead: timedelta,
    misfire_threshold: timedelta,
    passed_over: Collection[int] = (),
    opened: Collection[Gate] = (),
    expected: Expectation = ANYTHING,
) -> Acquisition:
    """Fire triggers; see `JobStore.acquire`."""

    now = tables.require(node)
    result = _StepResult()
    waiting = Waiting(tables, *slots_of_keys(tables, node, available_slots), now, misfire_threshold, passed_over)
    met = Met(waiting, limit, now + look_ahead, opened)
    met.decide(limit)
    for row, decision in met.decided:
        match decision:
            case Decision.PARK | Decision.REPLACE:
                tables.move(row, TriggerState.BLOCKED)
                if decision is Decision.REPLACE:
                    _cancel_oldest(tables, row)
            case Decision.PARK_AT_SET:
                tables.move(row, TriggerState.BLOCKED, parked_at=row.job.limits)
            case Decision.UNPARK:
                _let_wait(tables, row, now)
                tables.notifications.add(Notification.SCHEDULED)
    for row, decision in met.decided:
        at = row.progress.next_fire_time
        assert at is not None
        match decision:
            case Decision.REFILL:
                if row.state is TriggerState.BLOCKED:
                    _let_wait(tables, row, now)
                result.unfilled.append(_unfilled(tables, row))
            case Decision.SKIP:
                result.skipped.append(_skip(tables, node, row, *_following(row, row.upcoming, 0), now))
            case Decision.FIRE:
                passed = passed_instants(row, now)
                if not row.upcoming.is_complete:
                    # At least one known fire time must remain for the trigger to wait for.
                    passed = passed[: len(row.upcoming.instants) - 1]
                coalesced_fire_times = (at, *passed) if passed else ()
                to = _following(row, row.upcoming, len(passed))
                catches_up = now if _catches_up(row) else None
                result.fired.append(
                    _fire_row(tables, node, row, *to, max(now, at), coalesced_fire_times, catch_up_until=catches_up)
                )
    met.settle()
    remaining = next(waiting.rows(1), None)
    return Acquisition(
        now,
        tuple(result.fired),
        min((*tables.opens.values(), *([] if remaining is None else [remaining.entry.at])), default=None),
        tuple(result.skipped),
        waiting.undecided,
        tables.due.slot_pools,
        unfilled=tuple(result.unfilled),
    )


def _catches_up(row: TriggerRow) -> bool:
    """Return True if a rate, or a limit that others share, has held a trigger back: then nothing of it is too late."""
    return row.state is TriggerState.BLOCKED and not row.job.has_slots_alone


def _let_wait(tables: Tables, row: TriggerRow, now: datetime) -> None:
    """Let a parked trigger wait for any node."""
    catch_up_until = max(now, row.catch_up_until or now) if _catches_up(row) else None
    tables.move(row, TriggerState.WAITING, progress=row.progress, catch_up_until=catch_up_until)


def decide(tables: Tables, node: Node, runs: Mapping[DispatchKey, bool]) -> bool:
    """Store which dispatch keys the node runs; see `JobStore.decide`."""
    tables.require(node)
    registered = {record.epoch for record in tables.nodes.values()}
    for epoch in tables.runs.keys() - registered:
        del tables.runs[epoch]
    tables.runs.setdefault(node.epoch, {}).update(runs)
    return True


def _cancel_oldest(tables: Tables, row: TriggerRow) -> None:
    """Ask the execution to stop that has run longest of those that the trigger waits to replace."""
    running = [
        other
        for other in tables.fired.values()
        if other.job_key == row.job.key
        and other.concurrency_key == row.concurrency_key
        and other.counts
        and not other.cancel_requested
    ]
    if running:
        oldest = min(running, key=lambda other: (other.fire_time, other.fire_id))
        oldest.cancel_requested = True
        tables.notifications.add(Notification.CANCELLED)


def _unfilled(tables: Tables, row: TriggerRow) -> UnfilledTrigger:
    stored = tables.calendar_of(row)
    return UnfilledTrigger(
        row.key.group,
        row.key.name,
        row.progress,
        row.generation,
        partial(_value, row.bare),
        partial(_value, None if stored is None else stored.calendar),
        None if stored is None else stored.revision,
        row.job.overlap_policy,
    )


_T = TypeVar("_T")


def _value(value: _T) -> _T:
    return value


def _following(row: TriggerRow, upcoming: UpcomingFireTimes, passed: int) -> tuple[TriggerProgress, UpcomingFireTimes]:
    """Return a trigger's progress and upcoming fire times after a fire that consumes `passed` of `upcoming`."""
    next_fire_time, *later = upcoming.instants[passed:] or (None,)
    times = row.progress.times_triggered + 1 + passed
    progress = TriggerProgress(next_fire_time, row.progress.next_fire_time, times)
    return progress, UpcomingFireTimes(tuple(instant for instant in later if instant), upcoming.is_complete)


def _skip(
    tables: Tables, node: Node, row: TriggerRow, progress: TriggerProgress, upcoming: UpcomingFireTimes, now: datetime
) -> SkippedTrigger:
    """Move a trigger on without a fire, because its job is at its limit."""
    scheduled = row.progress.next_fire_time
    assert scheduled is not None
    fire_id = tables.next_number()
    tables.history.append(_fired_row(node, row, fire_id, now).ended(Outcome.SKIPPED, now))
    moved = replace(progress, previous_fire_time=row.progress.previous_fire_time)
    over = progress.next_fire_time is None
    state = TriggerState.COMPLETE if over else TriggerState.WAITING
    row.coalesced_fire_times = ()
    tables.move(row, state, progress=moved, upcoming=upcoming, fire_id=fire_id if over else None)
    return SkippedTrigger(row.key, row.job.key, scheduled, moved.next_fire_time)


def _fire_row(
    tables: Tables,
    node: Node,
    row: TriggerRow,
    progress: TriggerProgress,
    upcoming: UpcomingFireTimes,
    now: datetime,
    coalesced_fire_times: tuple[datetime, ...] = (),
    *,
    catch_up_until: datetime | None = None,
) -> FiredTrigger:
    """Fire a trigger: move it on to `progress`."""
    job = row.job
    fire_id = tables.next_number()
    execution = _fired_row(node, row, fire_id, now)
    previous = row.progress.previous_fire_time
    state = TriggerState.COMPLETE if progress.next_fire_time is None else TriggerState.WAITING
    last = fire_id if state is TriggerState.COMPLETE else None
    tables.move(row, state, progress=progress, upcoming=upcoming, fire_id=last, catch_up_until=catch_up_until)
    calendar = tables.calendar_of(row)
    few = upcoming.if_few()
    facts = FireFacts(
        fire_id=fire_id,
        fire_time=now,
        trigger_group=row.key.group,
        trigger_name=row.key.name,
        job_group=job.key.group,
        job_name=job.key.name,
        job_type=job.job_type,
        generation=row.generation,
        scheduled_fire_time=execution.scheduled_time,
        previous_fire_time=previous,
        next_fire_time=progress.next_fire_time,
        times_triggered=progress.times_triggered,
        attempt=row.attempt,
        placement=job.dispatch_key.placement,
        definition=job.definition,
        persists_data=bool(job.detail.persist_data),
        job_data=job.data,
        trigger_data=row.data,
        calendar_revision=None if calendar is None else calendar.revision,
        upcoming_instants=None if few is None else few.instants,
        upcoming_is_complete=upcoming.is_complete,
        coalesced=_coalesced(row.coalesced_fire_times, coalesced_fire_times),
        pause_after_failures=job.detail.pause_after_failures,
        continuations=job.detail.continuations_text,
        max_concurrent=job.limit,
        limits=job.limits,
        is_joined=bool(tables.jobs_after(job.key)),
        gate_key=row.concurrency_key if _may_wait_for_slots(job) else None,
    )
    execution.fired = LoadedFire.of(
        facts,
        load_trigger=partial(load_trigger, row.bare, row.data),
        load_job=partial(load_job, *job.loader()),
        load_calendar=partial(_value, None if calendar is None else calendar.calendar),
    )
    row.coalesced_fire_times = ()
    tables.start(execution)
    return execution.fired


def _may_wait_for_slots(job: JobRow) -> bool:
    """Return True if triggers may be parked for an end of the job. One that skips is parked for its rate alone."""
    return job.limit is not None and (job.overlap_policy is not OverlapPolicy.SKIP or job.rate_limit is not None)


def _coalesced(missed: tuple[datetime, ...], passed: tuple[datetime, ...]) -> tuple[datetime, ...]:
    """Return the coalesced instants of a fire: those of a misfire, and those that passed while the trigger waited."""
    return (*missed, *passed[1:]) if missed and passed else missed or passed


def _fired_row(node: Node, row: TriggerRow, fire_id: int, now: datetime) -> FiredRow:
    scheduled = row.progress.next_fire_time
    assert scheduled is not None
    return FiredRow(
        fire_id=fire_id,
        trigger_key=row.key,
        generation=row.generation,
        job_key=row.job.key,
        job_type=row.job.job_type,
        instance_id=node.instance_id,
        epoch=node.epoch,
        fire_time=now,
        scheduled_time=scheduled,
        priority=row.bare.priority,
        limited=row.job.limit is not None,
        limits=row.job.limits,
        concurrency_key=row.concurrency_key,
        requests_recovery=row.job.detail.requests_recovery,
        attempt=row.attempt,
        trigger_data=row.data,
    )
