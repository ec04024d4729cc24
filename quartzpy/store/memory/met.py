"""What an acquire step meets, and what becomes of it by its limits and by the room of the node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from math import inf

from quartzpy.jobs.shared_limit import names_from_text
from quartzpy.states import OverlapPolicy, TriggerState
from quartzpy.store.gates import Candidate, Decision, Free
from quartzpy.store.gates import decide as decide_all
from quartzpy.store.memory.limits import ask_again, charge, free, limits_of
from quartzpy.store.memory.rows import TriggerRow, shared_gate
from quartzpy.store.memory.tables import Tables
from quartzpy.store.protocol import AvailableSlots, DispatchKey, Gate, Node

NO_GATE = Gate("", "", "")
MAX_COALESCED = 1_000
"""The number of passed fire times, in addition to the next one, from which on a trigger that coalesces them is filled.

So one that fires more often than a node can compute fires all the same."""
LEAST_MET = 100
"""The least number of waiting triggers of a dispatch key that a step meets, so that a node with few free workers gets
past those of full jobs."""


def slots_of_keys(
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


@dataclass(frozen=True)
class Waiting:
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


class Met:
    """The triggers that a step has met: the front of the waiting ones, and those that are parked at open gates."""

    def __init__(self, waiting: Waiting, limit: int, until: datetime, opened: Collection[Gate]) -> None:
        self._waiting = waiting
        self._tables = tables = waiting.tables
        self._until = until
        front = list(
            takewhile(lambda row: row.entry.at <= until, waiting.rows(limit, least=LEAST_MET) if limit else ())
        )
        by_time = [gate for gate, at in tables.opens.items() if at <= waiting.now]
        gates = (_gate(row) for row in front)
        self._free: dict[Gate, Free] = {}
        """What each limit that the step has asked allows."""
        self._ask(*gates, *opened, *by_time)
        own = [limit for limit in self._free if limit.job_name]
        parked = [row for gate in own for row in self._parked(gate)]
        # What one limit has opened for may need others.
        self._ask(*map(_gate, parked))
        sets = [gate for gate in tables.parked if gate.limits and not self._free.keys().isdisjoint(limits_of(gate))]
        self._ask(*sets)
        parked += (row for gate in sets for row in self._parked(gate))
        self._ask(*map(_gate, parked))
        self.rows = sorted([*front, *parked], key=_order)
        self._occupied = {gate for gate in own if gate in tables.parked and self._free[gate].places <= 0}
        self.decided: list[tuple[TriggerRow, Decision]] = []

    def _ask(self, *gates: Gate) -> None:
        for limit in {limit for gate in gates for limit in limits_of(gate)} - self._free.keys():
            self._free[limit] = free(self._tables, limit)

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
        ask_again(self._tables, self._free, used[Decision.UNPARK], at_once)


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
    return row.upcoming.is_complete or len(instants) > min(len(passed_instants(row, now)), MAX_COALESCED)


def _order(row: TriggerRow) -> tuple[datetime, int, str, str]:
    at = row.progress.next_fire_time
    assert at is not None
    return at, -row.bare.priority, row.key.group, row.key.name


def passed_instants(row: TriggerRow, now: datetime) -> tuple[datetime, ...]:
    """Return the passed instants that a fire coalesces with the next one, if the job's overlap policy asks for it."""
    if not row.job.overlap_policy.coalesces:
        return ()
    return tuple(instant for instant in row.upcoming.instants if instant <= now)
