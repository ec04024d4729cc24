"""The acquire step: fires due triggers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import takewhile
from typing import TypeVar

from quartzpy.jobs.fired_trigger import FireFacts, LoadedFire
from quartzpy.states import MisfireRule, Outcome, OverlapPolicy, TriggerState
from quartzpy.store.gates import Candidate, Decision
from quartzpy.store.gates import decide as decide_all
from quartzpy.store.memory import shared_limits
from quartzpy.store.memory.rate_limits import admit, next_turn, spend
from quartzpy.store.memory.rows import FiredRow, TriggerRow, load_job, load_trigger
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

MOST_COALESCED = 1_000
"""The number of passed fire times, in addition to the next one, from which on a trigger that coalesces them is filled.

So one that fires more often than a node can compute fires all the same."""
LEAST_MET = 100
"""The least number of waiting triggers of a dispatch key that a step meets, so that a node with few free workers gets
past those of full jobs."""


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
    slots, undecided = _slots_of_keys(tables, node, available_slots, opened)
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
    met = _Met(waiting, limit, now + look_ahead, opened)
    rows = met.rows
    decisions = met.decide(limit)
    for row, decision in zip(rows, decisions, strict=True):
        match decision:
            case Decision.PARK:
                tables.move(row, TriggerState.BLOCKED)
                if row.job.overlap_policy is OverlapPolicy.CANCEL_OTHER:
                    _cancel_oldest(tables, row)
            case Decision.UNPARK:
                tables.move(row, TriggerState.WAITING)
                tables.notifications.add(Notification.SCHEDULED)
    for row, decision in zip(rows, decisions, strict=True):
        at = row.progress.next_fire_time
        assert at is not None
        match decision:
            case Decision.REFILL:
                if row.state is TriggerState.BLOCKED:
                    tables.move(row, TriggerState.WAITING)
                result.unfilled.append(_unfilled(tables, row))
            case Decision.SKIP:
                result.skipped.append(_skip(tables, node, row, *_following(row, row.upcoming, 0), now))
            case Decision.FIRE:
                passed = _passed_instants(row, now)
                if not row.upcoming.is_complete:
                    # At least one known fire time must remain for the trigger to wait for.
                    passed = passed[: len(row.upcoming.instants) - 1]
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


def decide(tables: Tables, node: Node, runs: Mapping[DispatchKey, bool]) -> bool:
    """Store which dispatch keys the node runs; see `JobStore.decide`."""
    tables.require(node)
    registered = {record.epoch for record in tables.nodes.values()}
    for epoch in tables.runs.keys() - registered:
        del tables.runs[epoch]
    tables.runs.setdefault(node.epoch, {}).update(runs)
    return True


def _slots_of_keys(
    tables: Tables, node: Node, available_slots: Sequence[AvailableSlots], opened: Collection[Gate]
) -> tuple[dict[DispatchKey, AvailableSlots], list[DispatchKey]]:
    """Return the slots for each dispatch key that the node runs, and the keys about which it has said nothing."""
    of_pool = {slots.slot_pool: slots for slots in available_slots}
    decided = tables.runs.get(node.epoch, {})
    slots_of, undecided = {}, []
    parked = {row.job.dispatch_key for gate in opened if (row := tables.first_parked(gate)) is not None}
    for key in tables.due.dispatch_keys() | parked:
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


@dataclass(frozen=True)
class _Waiting:
    """The waiting triggers that a step may look at."""

    tables: Tables
    slots_of: Mapping[DispatchKey, AvailableSlots]
    now: datetime
    threshold: timedelta
    passed_over: Collection[int]

    def rows(self, limit: int, *, least: int = 0) -> Iterator[TriggerRow]:
        """Yield them in order: as many of each dispatch key as its slots and `limit` allow, at least `least`."""
        beyond = len(self.passed_over)
        for entry in self.tables.due.on_time(
            self.slots_of, self.now, self.threshold, limit, least=least, beyond=beyond
        ):
            row = self.tables.triggers[entry.key]
            if row.generation not in self.passed_over:
                yield row


class _Met:
    """The triggers that a step has met: the front of the waiting ones, and those that are parked at open gates."""

    def __init__(self, waiting: _Waiting, limit: int, until: datetime, opened: Collection[Gate]) -> None:
        self._waiting = waiting
        self._tables = tables = waiting.tables
        self._until = until
        front = waiting.rows(limit, least=LEAST_MET) if limit else iter(())
        met = list(takewhile(lambda row: row.entry.at <= until, front))
        gates = {row.gate for row in met if row.job.limit is not None} | {*opened}
        self._running = {gate: tables.running_at(gate) for gate in gates}
        parked = [row for gate in gates for row in self._parked(gate)]
        self.rows = sorted([*met, *parked], key=_order)
        self._occupied = {
            gate for gate in gates if (first := tables.first_parked(gate)) is not None and tables.free_slots(first) == 0
        }

    def _parked(self, gate: Gate) -> Iterator[TriggerRow]:
        """Yield the soonest that are parked at a gate, as many as may run; and as many that are late."""
        first = self._tables.first_parked(gate)
        free = 0 if first is None else self._tables.free_slots(first) or 0
        if first is None or not free:
            return
        most = free if first.job.overlap_policy is OverlapPolicy.BLOCK else len(self._tables.parked[gate])
        numbers: Counter[bool] = Counter()
        for row in self._tables.parked_at(gate):
            is_late = self._is_late(row)
            numbers[is_late] += 1
            if numbers[is_late] <= most:
                yield row
            elif not is_late:
                return

    def _is_late(self, row: TriggerRow) -> bool:
        assert row.progress.next_fire_time is not None
        return row.progress.next_fire_time < row.part.earliest_on_time(self._waiting.now, self._waiting.threshold)

    def _slots(self, row: TriggerRow) -> AvailableSlots | None:
        """Return the slots for a trigger; None if this node cannot take it now."""
        slots = self._waiting.slots_of.get(row.job.dispatch_key)
        at = row.progress.next_fire_time
        assert at is not None
        if row.state is TriggerState.WAITING:
            return slots
        is_excluded = at > self._until or row.generation in self._waiting.passed_over or self._is_late(row)
        # What has a rate limit asks it first.
        return None if is_excluded or row.part.rule is MisfireRule.RATE_LIMIT else slots

    def decide(self, limit: int) -> list[Decision]:
        """Return what becomes of each trigger, if the node takes at most `limit`."""
        rows, now = self.rows, self._waiting.now
        slots = [self._slots(row) for row in rows]
        of_executor: Counter[str] = Counter()
        of_group: Counter[str] = Counter()
        taken = 0

        def takes(n: int) -> bool:
            nonlocal taken
            slot = slots[n]
            assert slot is not None
            of_executor[slot.executor] += 1
            of_group[slot.group] += 1
            if of_executor[slot.executor] > slot.workers or of_group[slot.group] > slot.group_slots or taken >= limit:
                return False
            taken += 1
            return True

        candidates = [
            Candidate(
                order=_order(row),
                gate=None if row.job.limit is None else row.gate,
                limit=row.job.limit or 0,
                policy=row.job.overlap_policy,
                is_parked=row.state is TriggerState.BLOCKED,
                is_filled=_is_filled(row, now),
                runs_here=slots[n] is not None,
                is_late=row.state is TriggerState.BLOCKED and self._is_late(row),
            )
            for n, row in enumerate(rows)
        ]
        return decide_all(candidates, self._running, self._occupied, takes)


def _is_filled(row: TriggerRow, now: datetime) -> bool:
    """Return whether a fire leaves a known fire time to wait for, or there is none."""
    instants = row.upcoming.instants
    return row.upcoming.is_complete or len(instants) > min(len(_passed_instants(row, now)), MOST_COALESCED)


def _order(row: TriggerRow) -> tuple[datetime, int, str, str]:
    at = row.progress.next_fire_time
    assert at is not None
    return at, -row.bare.priority, row.key.group, row.key.name


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
    """Fire a trigger: move it on to `progress`."""
    job = row.job
    fire_id = tables.next_number()
    execution = _fired_row(node, row, fire_id, now)
    previous = row.progress.previous_fire_time
    state = TriggerState.COMPLETE if progress.next_fire_time is None else TriggerState.WAITING
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
        gate_key=None if job.limit is None or job.overlap_policy is OverlapPolicy.SKIP else row.concurrency_key,
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
