"""What an acquire step does with each trigger that it meets, by what its limits allow.

A limit has slots for executions, or a rate of fires, or both. A job may have one of its own, for each value of its
concurrency key, and may share others, each of which has a name. What finds no place is parked, at the job's own limit
or at the set of those that it shares: it leaves the index of due triggers, and a step takes it from there once an end
or time has opened the limit. The in-memory store decides by these functions, and the PostgreSQL store by the same rules
in SQL (the parts `placed` and `decisions`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from math import inf
from typing import Any, NamedTuple

from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.states import OverlapPolicy


class Decision(StrEnum):
    """What becomes of a trigger in a step."""

    FIRE = "FIRE"
    REFILL = "REFILL"
    """As FIRE, but its stored fire times are used up: the node computes more first."""
    PARK = "PARK"
    """It finds no place at its job's own limit, and waits there."""
    REPLACE = "REPLACE"
    """As PARK, and the execution that has run longest is asked to stop."""
    PARK_AT_SET = "PARK_AT_SET"
    """It waits for the limits that its job shares."""
    UNPARK = "UNPARK"
    """It was parked, and something is free that this node does not take: it waits for any node."""
    SKIP = "SKIP"
    """It moves on without a fire."""
    LEAVE = "LEAVE"
    """It stays as it is: parked, or waiting."""


class Free(NamedTuple):
    """What a limit allows in a step."""

    slots: float = inf
    fires: float = inf
    """The number of fires that its rate admits now."""

    @property
    def places(self) -> float:
        return min(self.slots, self.fires)


NO_LIMIT = Free()


class Candidate(NamedTuple):
    """A trigger that a step has met; where its job has no limit, nothing holds it."""

    order: Any
    """Its place among all others: by fire time, then by priority."""
    gate: Hashable | None = None
    """The limit of its job's own."""
    slots: int | None = None
    """The number of executions that this limit admits."""
    shares: tuple[Hashable, ...] = ()
    """The limits that its job shares with others."""
    policy: OverlapPolicy = OverlapPolicy.BLOCK
    parked: Decision | None = None
    """PARK or PARK_AT_SET: where it is parked."""
    is_filled: bool = True
    """True if a fire time is stored that follows the fire, or none follows."""
    runs_here: bool = True
    is_late: bool = False
    """True if it is the misfire step's: it is behind all others of its gate."""
    is_overdue: bool = False
    """True if it has waited for longer than the misfire threshold, and a live node runs it."""


def decide(
    candidates: Sequence[Candidate],
    free: Mapping[Any, Free],
    occupied: Collection[Hashable],
    takes: Callable[[int], bool],
) -> list[Decision]:
    """Return what becomes of each of these triggers.

    Args:
        candidates: the front of the due triggers, and those that are parked where limits have opened, in order.
        free: what the limits allow, by the gates of jobs and the names of shared ones.
        occupied: the gates without a free place at which a trigger is parked, so that it is no candidate.
        takes: says, in order, of each candidate that may fire here or be skipped whether the node has room for it.
    """
    wishes = [
        _wish(candidate, place, free.get(candidate.gate, NO_LIMIT), occupied)
        for candidate, place in zip(candidates, _places(candidates), strict=True)
    ]
    has_all, reserved = _at_shared_limits(candidates, wishes, free)
    taken = [
        candidate.runs_here and (has_all[n] or wishes[n] is Decision.SKIP) and takes(n)
        for n, candidate in enumerate(candidates)
    ]
    fires = Counter(
        limit
        for n, candidate in enumerate(candidates)
        if has_all[n] and taken[n] and candidate.is_filled
        for limit in (candidate.gate, *candidate.shares)
    )
    decisions = []
    for n, candidate in enumerate(candidates):
        own = free.get(candidate.gate, NO_LIMIT)
        if has_all[n] and taken[n]:
            decision = Decision.FIRE if candidate.is_filled else Decision.REFILL
        elif has_all[n]:
            decision = Decision.UNPARK
        elif wishes[n] is Decision.SKIP and own.slots <= fires[candidate.gate]:
            decision = Decision.SKIP if taken[n] else Decision.LEAVE
        elif own.places <= fires[candidate.gate]:
            decision = Decision.REPLACE if wishes[n] is Decision.REPLACE else Decision.PARK
        elif any(free.get(name, NO_LIMIT).places <= fires[name] + reserved[name] for name in candidate.shares):
            decision = Decision.PARK_AT_SET
        else:
            # Something is left everywhere after this step, and the next step decides.
            decision = Decision.UNPARK
        is_there = decision is candidate.parked or (decision is Decision.REPLACE and candidate.parked is Decision.PARK)
        has_nothing_to_leave = decision is Decision.UNPARK and candidate.parked is None
        decisions.append(Decision.LEAVE if is_there or has_nothing_to_leave else decision)
    return decisions


def opens_at(rate: RateLimit, tat: datetime | None, at: datetime, unparked: int) -> datetime | None:
    """Return when a rate admits a fire, after those that this step has let wait for any node; None: at once.

    Where it admits one at once, what is parked there waits for something else, which an end opens.
    """
    opens = rate.after(tat, at, unparked) - rate.tolerance
    return opens if opens > at else None


def _places(candidates: Sequence[Candidate]) -> list[int]:
    """Return the place of each candidate at its gate, from 1. What is filled is counted apart, unless it waits."""
    at_gates: dict[Hashable, list[int]] = {}
    for n, candidate in enumerate(candidates):
        if candidate.gate is not None:
            is_apart = candidate.policy is not OverlapPolicy.BLOCK and candidate.is_filled
            at_gates.setdefault((candidate.gate, is_apart), []).append(n)
    places = [0] * len(candidates)
    for numbers in at_gates.values():
        if candidates[numbers[0]].policy is OverlapPolicy.CANCEL_OTHER:
            # The newest replaces the others; of those with the same fire time, the first in order.
            numbers.sort(key=lambda n: candidates[n].order[0], reverse=True)
        else:
            numbers.sort(key=lambda n: candidates[n].is_late)
        for place, n in enumerate(numbers, start=1):
            places[n] = place
    return places


def _wish(candidate: Candidate, place: int, own: Free, occupied: Collection[Hashable]) -> Decision:
    """Return FIRE, PARK, REPLACE or SKIP, by its place at its job's own limit alone."""
    if candidate.gate is None or (candidate.policy is not OverlapPolicy.BLOCK and not candidate.is_filled):
        return Decision.FIRE
    if place <= own.slots:
        # No rate lets a fire be skipped.
        return Decision.FIRE if place <= own.fires else Decision.PARK
    match candidate.policy:
        case OverlapPolicy.BLOCK:
            return Decision.PARK
        case OverlapPolicy.CANCEL_OTHER if candidate.slots is not None and place <= candidate.slots:
            return Decision.REPLACE
        case OverlapPolicy.BUFFER_ONE if candidate.gate not in occupied and place == max(own.slots, 0) + 1:
            return Decision.PARK
        case _:
            return Decision.SKIP


def _at_shared_limits(
    candidates: Sequence[Candidate], wishes: Sequence[Decision], free: Mapping[Any, Free]
) -> tuple[list[bool], Counter[Hashable]]:
    """Return which candidates get a place at each of their limits, and how many places are kept for others.

    A set of which one limit has nothing takes no places of the others. But if the first of it is overdue, all that is
    free is kept for that one, so that it is not passed over for ever by those that need one of its limits alone.
    """
    has_all = [False] * len(candidates)
    taken: Counter[Hashable] = Counter()
    reserved: Counter[Hashable] = Counter()
    met: set[tuple[Hashable, ...]] = set()
    for n, candidate in enumerate(candidates):
        if wishes[n] is not Decision.FIRE:
            continue
        names = candidate.shares
        is_first = names not in met
        met.add(names)
        if all(free.get(name, NO_LIMIT).places > 0 for name in names):
            taken.update(names)
            has_all[n] = all(taken[name] <= free.get(name, NO_LIMIT).places for name in names)
        elif is_first and len(names) > 1 and candidate.is_overdue:
            taken.update(names)
            reserved.update(names)
    return has_all, reserved
