"""The acquire step: fires due triggers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from quartzpy.jobs.fired_trigger import FireFacts, LoadedFire
from quartzpy.keys import JobKey
from quartzpy.states import Outcome, OverlapPolicy, TriggerState
from quartzpy.store.memory import shared_limits
from quartzpy.store.memory.rate_limits import admit, next_turn, spend
from quartzpy.store.memory.rows import FiredRow, TriggerRow, load_job, load_trigger
from quartzpy.store.memory.tables import Tables
from quartzpy.store.protocol import (
    Acquisition,
    AvailableSlots,
    DispatchKey,
    FiredTrigger,
    Node,
    Notification,
    SkippedTrigger,
    UnfilledTrigger,
)
from quartzpy.triggers.trigger import TriggerProgress
from quartzpy.triggers.upcoming import UpcomingFireTimes

MOST_COALESCED = 1_000
"""The number of passed fire times, in addition to the next one, from which on a trigger that coalesces them is filled.

So one that fires more often than a node can compute fires all the same."""

_BLOCKING = {
    TriggerState.WAITING: TriggerState.BLOCKED,
    TriggerState.PAUSED: TriggerState.PAUSED_BLOCKED,
}


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
    reads_first: bool = False,
) -> Acquisition:
    """Fire triggers; see `JobStore.acquire`."""

    now = tables.require(node)
    result = _StepResult()
    overlaps = _Overlaps(tables, node, now, result)
    slots, undecided = _slots_of_keys(tables, node, available_slots)
    admitted = admit(
        tables,
        slots,
        now,
        limit=limit,
        misfire_threshold=misfire_threshold,
        passed_over=passed_over,
    )
    sharing = shared_limits.admit(
        tables, slots, now, limit=limit, misfire_threshold=misfire_threshold, passed_over=passed_over
    )
    waiting = _Waiting(tables, slots, now, misfire_threshold, passed_over)
    eligible = _eligible(waiting, limit, now + look_ahead)
    for row, passed in _newest_first([(row, _passed_instants(row, now)) for row in eligible]):
        at = row.progress.next_fire_time
        assert at is not None
        if tables.is_blocked(row):
            tables.move(row, TriggerState.BLOCKED)
            continue
        if not row.upcoming.is_complete and len(row.upcoming.instants) <= min(len(passed), MOST_COALESCED):
            # Its fire would leave no known fire time to wait for.
            result.unfilled.append(_unfilled(tables, row))
            continue
        if not row.upcoming.is_complete:
            # At least one known fire time must remain for the trigger to wait for.
            passed = passed[: len(row.upcoming.instants) - 1]
        if overlaps.may_fire(row, *_following(row, row.upcoming, 0)):
            coalesced_fire_times = (at, *passed) if passed else ()
            to = _following(row, row.upcoming, len(passed))
            result.fired.append(_fire_row(tables, node, row, *to, max(now, at), coalesced_fire_times))
    spend(tables, admitted, now)
    taken = {fired.trigger_key: fired.fire_id for fired in result.fired}
    shared_limits.charge(tables, sharing, taken, now)
    turns = (
        next_turn(tables, slots, passed_over),
        shared_limits.next_turn(tables, slots, now, misfire_threshold=misfire_threshold, passed_over=passed_over),
    )
    remaining = next(waiting.rows(1), None)
    return Acquisition(
        now,
        tuple(result.fired),
        min((at for at in (remaining and remaining.entry.at, *turns) if at), default=None),
        tuple(result.skipped),
        undecided,
        tables.due.slot_pools,
        unfilled=tuple(result.unfilled),
    )


def decide(tables: Tables, node: Node, runs: Mapping[DispatchKey, bool]) -> None:
    """Store which dispatch keys the node runs; see `JobStore.decide`."""
    tables.require(node)
    registered = {record.epoch for record in tables.nodes.values()}
    for epoch in tables.node_keys.keys() - registered:
        del tables.node_keys[epoch]
    tables.node_keys.setdefault(node.epoch, {}).update(runs)


def _slots_of_keys(
    tables: Tables, node: Node, available_slots: Sequence[AvailableSlots]
) -> tuple[dict[DispatchKey, AvailableSlots], list[DispatchKey]]:
    """Return the slots for each dispatch key that the node runs, and the keys about which it has said nothing."""
    of_pool = {slots.slot_pool: slots for slots in available_slots}
    decided = tables.node_keys.get(node.epoch, {})
    slots_of, undecided = {}, []
    for key in tables.due.dispatch_keys():
        slots = of_pool.get(key.slot_pool)
        if slots is None:
            continue
        if key not in decided:
            undecided.append(key)
        elif decided[key]:
            slots_of[key] = slots
    return slots_of, undecided


def _passed_instants(row: TriggerRow, now: datetime) -> tuple[datetime, ...]:
    """Return the passed instants that a fire coalesces with the next one, if the job's overlap policy asks for it."""
    if not row.job.overlap_policy.coalesces:
        return ()
    return tuple(instant for instant in row.upcoming.instants if instant <= now)


_Extra = TypeVar("_Extra")


def _newest_first(rows: Sequence[tuple[TriggerRow, _Extra]]) -> list[tuple[TriggerRow, _Extra]]:
    """These rows, which come in order, with those of jobs whose newest fire takes the place of others turned round."""
    replacing: dict[tuple[JobKey, str], list[tuple[TriggerRow, _Extra]]] = {}
    for row, other in rows:
        if row.job.overlap_policy is OverlapPolicy.CANCEL_OTHER:
            replacing.setdefault((row.job.key, row.concurrency_key), []).append((row, other))
    if not replacing:
        return list(rows)
    for some in replacing.values():
        # pop() takes the last one first, so the highest priority among equals comes last.
        some.sort(key=lambda pair: (pair[0].entry.at, pair[0].bare.priority))
    ordered = []
    for row, other in rows:
        same_limit = replacing.get((row.job.key, row.concurrency_key))
        ordered.append(same_limit.pop() if same_limit else (row, other))
    return ordered


class _Overlaps:
    """Applies the overlap policies SKIP, BUFFER_ONE and CANCEL_OTHER to due fires of jobs at their limits."""

    def __init__(self, tables: Tables, node: Node, now: datetime, result: _StepResult) -> None:
        self._tables = tables
        self._node = node
        self._now = now
        self._result = result
        self._places: Counter[tuple[JobKey, str]] = Counter()

    def may_fire(self, row: TriggerRow, progress: TriggerProgress, upcoming: UpcomingFireTimes) -> bool:
        """Return True if the trigger may fire; otherwise block it, or skip the fire and move it on to `progress`."""
        job = row.job
        place = job.key, row.concurrency_key
        self._places[place] += 1
        if self._tables.free_slots(row) != 0:
            return True
        if job.overlap_policy is OverlapPolicy.CANCEL_OTHER and self._places[place] <= (job.limit or 0):
            self._tables.move(row, TriggerState.BLOCKED)
            self._cancel_oldest(row)
        elif job.overlap_policy is OverlapPolicy.BUFFER_ONE and not any(
            other.state is TriggerState.BLOCKED and other.concurrency_key == row.concurrency_key
            for other in job.triggers.values()
        ):
            self._tables.move(row, TriggerState.BLOCKED)
        else:
            self._result.skipped.append(_skip(self._tables, self._node, row, progress, upcoming, self._now))
        return False

    def _cancel_oldest(self, row: TriggerRow) -> None:
        running = [
            other
            for other in self._tables.fired.values()
            if other.job_key == row.job.key
            and other.concurrency_key == row.concurrency_key
            and other.counts
            and not other.cancel_requested
        ]
        if running:
            oldest = min(running, key=lambda other: (other.fire_time, other.fire_id))
            oldest.cancel_requested = True
            self._tables.notifications.add(Notification.CANCELLED)


@dataclass(frozen=True)
class _Waiting:
    """The waiting triggers that a step may look at."""

    tables: Tables
    slots_of: Mapping[DispatchKey, AvailableSlots]
    now: datetime
    threshold: timedelta
    passed_over: Collection[int]

    def rows(self, limit: int) -> Iterator[TriggerRow]:
        """Yield them in order, at least `limit` of each dispatch key if there are as many."""
        beyond = len(self.passed_over)
        for entry in self.tables.due.on_time(self.slots_of, self.now, self.threshold, limit, beyond=beyond):
            row = self.tables.triggers[entry.key]
            if row.generation not in self.passed_over:
                yield row


def _eligible(waiting: _Waiting, limit: int, until: datetime) -> list[TriggerRow]:
    tables = waiting.tables
    chosen: list[TriggerRow] = []
    taken: Counter[tuple[JobKey, str]] = Counter()
    of_executor: Counter[str] = Counter()
    of_group: Counter[str] = Counter()
    for row in waiting.rows(limit):
        if row.entry.at > until:
            break
        slot = waiting.slots_of[row.job.dispatch_key]
        of_executor[slot.executor] += 1
        of_group[slot.group] += 1
        if of_executor[slot.executor] > slot.workers or of_group[slot.group] > slot.group_slots:
            continue
        slots = tables.free_slots(row) if row.job.overlap_policy is OverlapPolicy.BLOCK else None
        if slots is not None:
            # Of one that is full, one trigger: it finds the job full, and is blocked.
            counted = row.job.key, row.concurrency_key
            if taken[counted] >= max(slots, 1):
                continue
            taken[counted] += 1
        chosen.append(row)
        if len(chosen) >= limit:
            break
    return chosen


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
) -> FiredTrigger:
    """Fire a trigger: move it on to `progress`, and block the other triggers of the job if it reaches its limit."""
    job = row.job
    fire_id = tables.next_number()
    execution = _fired_row(node, row, fire_id, now)
    fills_job = job.overlap_policy is OverlapPolicy.BLOCK and tables.free_slots(row) == 1
    previous = row.progress.previous_fire_time
    if progress.next_fire_time is None:
        state = TriggerState.COMPLETE
    else:
        state = TriggerState.BLOCKED if fills_job else TriggerState.WAITING
    last = fire_id if state is TriggerState.COMPLETE else None
    tables.move(row, state, progress=progress, upcoming=upcoming, fire_id=last)
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
        retry=job.retry,
        timeout=job.detail.timeout,
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
        capture_logs=job.detail.capture_logs,
        limits=job.limits,
        is_joined=bool(tables.jobs_after(job.key)),
    )
    execution.fired = LoadedFire.of(
        facts,
        load_trigger=partial(load_trigger, row.bare, row.data),
        load_job=partial(load_job, *job.loader()),
        load_calendar=partial(_value, None if calendar is None else calendar.calendar),
    )
    row.coalesced_fire_times = ()
    tables.start(execution)
    if fills_job:
        for sibling in job.triggers.values():
            if sibling is not row and sibling.state in _BLOCKING and sibling.concurrency_key == row.concurrency_key:
                tables.move(sibling, _BLOCKING[sibling.state])
    return execution.fired


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
        concurrency_key=row.concurrency_key,
        requests_recovery=row.job.detail.requests_recovery,
        attempt=row.attempt,
        trigger_data=row.data,
    )
