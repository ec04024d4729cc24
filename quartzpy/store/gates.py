"""What an acquire step does with each trigger that it meets, by the places that its gate has.

A trigger's gate is the limit that holds for it: that of its job, for a value of its concurrency key. What finds no
place there is parked: it leaves the index of due triggers, and the step after an end takes it from there. The in-memory
store decides by this function, and the PostgreSQL store by the same rules in SQL (the parts `placed` and `decisions`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from quartzpy.states import OverlapPolicy


class Decision(StrEnum):
    """What becomes of a trigger in a step."""

    FIRE = "FIRE"
    REFILL = "REFILL"
    """As FIRE, but its stored fire times are used up: the node computes more first."""
    PARK = "PARK"
    """It finds no place: it waits at its gate."""
    UNPARK = "UNPARK"
    """It has a place, and this node cannot take it: it waits for any node."""
    SKIP = "SKIP"
    """It moves on without a fire."""
    LEAVE = "LEAVE"
    """It stays as it is: parked, or waiting."""


class Candidate(NamedTuple):
    """A trigger that a step has met; without a gate, nothing holds it."""

    order: Any
    """Its place among all others: by fire time, then by priority."""
    gate: Hashable | None = None
    limit: int = 0
    """The number of executions that its gate admits."""
    policy: OverlapPolicy = OverlapPolicy.BLOCK
    is_parked: bool = False
    is_filled: bool = True
    """True if a fire time is stored that follows the fire, or none follows."""
    runs_here: bool = True
    is_late: bool = False
    """True if it is the misfire step's: it is behind all others of its gate."""


def decide(
    candidates: Sequence[Candidate],
    running: Mapping[Any, int],
    occupied: Collection[Hashable],
    takes: Callable[[int], bool],
) -> list[Decision]:
    """Return what becomes of each of these triggers.

    Args:
        candidates: the front of the due triggers, and those that are parked at the gates that have opened, in order.
        running: the number of executions at each gate.
        occupied: the gates without a free place at which a trigger is parked, so that it is no candidate.
        takes: says, in order, of each candidate that may fire here or be skipped whether the node has room for it.
    """
    wishes = [
        _wish(candidate, place, running, occupied)
        for candidate, place in zip(candidates, _places(candidates), strict=True)
    ]
    taken = [
        candidate.runs_here and wish is not Decision.PARK and takes(n)
        for n, (candidate, wish) in enumerate(zip(candidates, wishes, strict=True))
    ]
    decided = list(zip(candidates, wishes, taken, strict=True))
    fires = Counter(
        candidate.gate
        for candidate, wish, is_taken in decided
        if wish is Decision.FIRE and is_taken and candidate.is_filled
    )
    decisions = []
    for candidate, wish, is_taken in decided:
        if wish is Decision.FIRE and is_taken:
            decision = Decision.FIRE if candidate.is_filled else Decision.REFILL
        elif wish is Decision.FIRE:
            decision = Decision.UNPARK if candidate.is_parked else Decision.LEAVE
        elif running[candidate.gate] + fires[candidate.gate] < candidate.limit:
            # A place is left after this step, and the next step decides.
            decision = Decision.LEAVE
        elif wish is Decision.PARK:
            decision = Decision.LEAVE if candidate.is_parked else Decision.PARK
        else:
            decision = Decision.SKIP if is_taken else Decision.LEAVE
        decisions.append(decision)
    return decisions


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


def _wish(candidate: Candidate, place: int, running: Mapping[Any, int], occupied: Collection[Hashable]) -> Decision:
    """Return FIRE, PARK or SKIP, by its place alone."""
    free = 0 if candidate.gate is None else candidate.limit - running[candidate.gate]
    if candidate.gate is None or place <= free:
        return Decision.FIRE
    match candidate.policy:
        case OverlapPolicy.BLOCK:
            return Decision.PARK
        case _ if not candidate.is_filled:
            return Decision.FIRE
        case OverlapPolicy.CANCEL_OTHER if place <= candidate.limit:
            return Decision.PARK
        case OverlapPolicy.BUFFER_ONE if (
            candidate.gate not in occupied and place == max(candidate.limit - running[candidate.gate], 0) + 1
        ):
            return Decision.PARK
        case _:
            return Decision.SKIP
