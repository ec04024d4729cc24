"""The acquire step: fires due triggers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import takewhile
from math import inf
from typing import TypeVar

from quartzpy.jobs.fired_trigger import FireFacts, LoadedFire
from quartzpy.jobs.shared_limit import names_from_text
from quartzpy.states import Outcome, OverlapPolicy, TriggerState
from quartzpy.store.gates import Candidate, Decision
from quartzpy.store.gates import decide as decide_all
from quartzpy.store.memory.limits import ask_again, charge, free, limits_of
from quartzpy.store.memory.rows import FiredRow, JobRow, TriggerRow, load_job, load_trigger, shared_gate
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

NO_GATE = Gate("", "", "")
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
    waiting = _Waiting(tables, *_slots_of_keys(tables, node, available_slots), now, misfire_threshold, passed_over)
    met = _Met(waiting, limit, now + look_ahead, opened)
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
                passed = _passed_instants(row, now)
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


def _slots_of_keys(
    tables: Tables, node: Node, available_slots: Sequence[AvailableSlots]
) -> tuple[Callable[[DispatchKey], AvailableSlots | None], set[DispatchKey]]:
    """Return how to look up the slots for a dispatch key, None where the node cannot take it; and the keys about which
    the node has said nothing, of those that were looked up."""
    of_pool = {slots.slot_pool: slots for slots in available_slots}
    decided = tables.runs.get(node.epoch, {})
    undecided: set[DispatchKey] = set()

    def slots_of(key: DispatchKey) -> AvailableSlots | None:
        slots = of_pool.get(key.slot_pool)
        if slots is not None and key not in decided:
            undecided.add(key)
        return slots if decided.get(key) else None

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
    slots_of: Callable[[DispatchKey], AvailableSlots | None]
    undecided: Collection[DispatchKey]
    now: datetime
    threshold: timedelta
    passed_over: Collection[int]

    def rows(self, limit: int, *, least: int = 0) -> Iterator[TriggerRow]:
        """Yield them in order: as many of each dispatch key as its slots and `limit` allow, at least `least`."""
        slots_of = {key: slots for key in self.tables.due.dispatch_keys() if (slots := self.slots_of(key)) is not None}
        for entry in self.tables.due.on_time(
            slots_of, self.now, self.threshold, limit, least=least, beyond=len(self.passed_over)
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
        front = list(
            takewhile(lambda row: row.entry.at <= until, waiting.rows(limit, least=LEAST_MET) if limit else ())
        )
        by_time = [gate for gate, at in tables.opens.items() if at <= waiting.now]
        gates = (_gate(row) for row in front)
        self._asked: set[Gate] = set()
        self._ask(*gates, *opened, *by_time)
        own = [gate for gate in self._asked if gate.job_name]
        parked = [row for gate in own for row in self._parked(gate)]
        # What one limit has opened for may need others.
        self._ask(*map(_gate, parked))
        sets = [gate for gate in tables.parked if gate.limits and not self._asked.isdisjoint(limits_of(gate))]
        self._ask(*sets)
        parked += (row for gate in sets for row in self._parked(gate))
        self._ask(*map(_gate, parked))
        self.rows = sorted([*front, *parked], key=_order)
        self._occupied = {gate for gate in own if gate in tables.parked and self._free[gate].places <= 0}
        self.decided: list[tuple[TriggerRow, Decision]] = []

    def _ask(self, *gates: Gate) -> None:
        self._asked.update(limit for gate in gates for limit in limits_of(gate))
        self._free = {limit: free(self._tables, limit) for limit in self._asked}

    def _parked(self, gate: Gate) -> Iterator[TriggerRow]:
        """Yield the soonest that are parked at a gate, as many as may run; and as many that are late.

        The first that waits for several limits is met even if they do not allow it, once it is overdue.
        """
        first = self._tables.first_parked(gate)
        if first is None:
            return
        places = min(self._free[limit].places for limit in limits_of(gate))
        if places > 0 and not gate.limits and first.job.overlap_policy is not OverlapPolicy.BLOCK:
            places = inf
        most = max(places, self._is_overdue(first)) if gate.limits else places
        numbers: Counter[bool] = Counter()
        for row in self._tables.parked_at(gate):
            is_late = self._is_late(row)
            numbers[is_late] += 1
            if numbers[is_late] <= most:
                yield row
            elif not is_late:
                return

    def _is_late(self, row: TriggerRow) -> bool:
        """Return True if the misfire step takes a parked trigger."""
        assert row.progress.next_fire_time is not None
        earliest = row.part.earliest_on_time(self._waiting.now, self._waiting.threshold)
        return row.job.has_slots_alone and row.progress.next_fire_time < earliest

    def _is_overdue(self, row: TriggerRow) -> bool:
        """Return True if a trigger has waited for longer than the misfire threshold, and a live node runs it."""
        assert row.progress.next_fire_time is not None
        if row.progress.next_fire_time >= self._waiting.now - self._waiting.threshold:
            return False
        epochs = {record.epoch for record in self._tables.nodes.values()}
        runs = self._tables.runs
        return any(runs.get(epoch, {}).get(row.job.dispatch_key, False) for epoch in epochs)

    def _slots(self, row: TriggerRow) -> AvailableSlots | None:
        """Return the slots for a trigger; None if this node cannot take it now."""
        slots = self._waiting.slots_of(row.job.dispatch_key)
        at = row.progress.next_fire_time
        assert at is not None
        if row.state is TriggerState.WAITING:
            return slots
        is_excluded = at > self._until or row.generation in self._waiting.passed_over or self._is_late(row)
        return None if is_excluded else slots

    def decide(self, limit: int) -> None:
        """Decide what becomes of each trigger, if the node takes at most `limit`."""
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
                gate=row.gate if row.job.has_own_limit else None,
                slots=row.job.limit,
                shares=tuple(map(shared_gate, names_from_text(row.job.limits))),
                policy=row.job.overlap_policy,
                parked=_where_parked(row),
                is_filled=_is_filled(row, now),
                runs_here=slots[n] is not None,
                is_late=row.state is TriggerState.BLOCKED and self._is_late(row),
                is_overdue=row.job.limits is not None and self._is_overdue(row),
            )
            for n, row in enumerate(rows)
        ]
        self.decided = list(zip(rows, decide_all(candidates, self._free, self._occupied, takes), strict=True))
        self._moved = [
            shared_gate(row.parked_at)
            for row, decision in self.decided
            if row.parked_at is not None and decision in (Decision.PARK, Decision.REPLACE)
        ]

    def settle(self) -> None:
        """Charge the limits for what has fired, and note when they are to be asked again."""
        used: dict[Decision, Counter[Gate]] = {Decision.FIRE: Counter(), Decision.UNPARK: Counter()}
        for row, decision in self.decided:
            if decision in used:
                used[decision].update(limits_of(_gate(row)))
        charge(self._tables, used[Decision.FIRE])
        # As many of a set were met as may run. Where one of them waits for its job's own limit instead, others follow.
        at_once = [limit for gate in self._moved if gate in self._tables.parked for limit in limits_of(gate)]
        ask_again(self._tables, self._asked, used[Decision.UNPARK], at_once)


def _gate(row: TriggerRow) -> Gate:
    """Return the limits that hold for a trigger."""
    own = row.gate if row.job.has_own_limit else NO_GATE
    return own._replace(limits=row.job.limits or "")


def _where_parked(row: TriggerRow) -> Decision | None:
    if row.state is not TriggerState.BLOCKED:
        return None
    return Decision.PARK if row.parked_at is None else Decision.PARK_AT_SET


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
