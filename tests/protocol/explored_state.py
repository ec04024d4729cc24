"""The states of the explored protocol: what its tables hold, what its nodes know, and which states are one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

NODES = (0, 1)
NOBODY = -1
"""The owner of a row that an epoch wrote which is no longer registered."""


@dataclass(frozen=True)
class Cures:
    """What the protocol does about its faults; each can be taken out."""

    settles: bool = True
    """C1: after a lost answer a node fires nothing before it has asked what its epoch holds."""
    ends_abandoned: bool = True
    """C2: a connection that was given up is ended on the server before its process sends anything else."""
    compares: bool = True
    """At each check-in a node compares what it has in hand with what the database says that its epoch holds."""
    compares_in_turn: bool = True
    """The thread that compares is the one that fires, so that no answer is under way meanwhile."""
    checks_lease: bool = True
    """S5: no job body starts on a node whose lease has run out."""
    guards_epoch: bool = True
    """S4: a step of an epoch that is not registered changes nothing."""
    guards_misfires: bool = True
    """S2: a misfire is handled only where the trigger is still as it was read."""
    refills_first: bool = True
    """S2: a trigger whose stored fire times are used up does not fire before a node has stored more."""
    guards_refills: bool = True
    """S1: fire times are stored only where the trigger is still as it was when they were computed."""
    frees_owned: bool = True
    """S8: recovery frees what the dead node held."""
    looks_at_gates: bool = True
    """A check-in finds a trigger that is parked beside a free slot; see `explored_gates`."""


ALL_CURES = Cures()


@dataclass(frozen=True)
class Scope:
    """How much is explored."""

    triggers: int = 1
    instants: int = 1
    faults: int = 2
    serial: bool = False
    """Whether the triggers are of one job that disallows concurrent execution."""
    nodes: int = 2
    """The number of nodes that are up; the other one of two has left."""


class Trigger(NamedTuple):
    """A row of `triggers`: WAITING, BLOCKED, PAUSED or COMPLETE by its first letter."""

    state: str = "W"
    next: int = 0
    following: int = 0
    """The instant that is stored as the one after `next`; 0: the stored fire times are used up."""
    held: bool = False


class Unfilled(NamedTuple):
    """A trigger that could not fire at this instant, because its stored fire times were used up."""

    trigger: int
    instant: int


class Fired(NamedTuple):
    """A row of `fired_triggers`."""

    fire_id: int
    trigger: int
    instant: int
    owner: int


class Node(NamedTuple):
    """What a node's process knows; `registered` is what the database says of its epoch."""

    up: bool = True
    registered: bool = True
    trusted: bool = True
    unsettled: bool = False
    opened: bool = False
    """Executions of the job have ended since the last acquire step was sent."""
    named: bool = False
    """Some had ended before, and no step has answered since."""
    unfilled: tuple[Unfilled, ...] = ()
    hand: tuple[Fired, ...] = ()
    done: tuple[Fired, ...] = ()
    answer: tuple = ()


class Pipeline(NamedTuple):
    """A transaction that a node sent: what it does, on whose behalf, to what."""

    step: str
    owner: int
    about: tuple = ()


class Fate(NamedTuple):
    """What became of one instant of one trigger."""

    fires: int = 0
    skips: int = 0
    runs: int = 0
    ends: int = 0
    lost: bool = False


class State(NamedTuple):
    """All that exists. `late` are misfires that a node read and has not moved yet."""

    triggers: tuple[Trigger, ...]
    fired: tuple[Fired, ...]
    nodes: tuple[Node, ...]
    abandoned: tuple[Pipeline, ...]
    late: tuple[tuple[int, int], ...]
    fates: tuple[tuple[Fate, ...], ...]
    faults: int
    zombie: bool = False


class Edge(NamedTuple):
    """A step from a state: what happened, whether it needs no fault, and where it leads."""

    label: str
    is_progress: bool
    to: Any


def first(scope: Scope) -> State:
    fates = ((Fate(),) * scope.instants,) * scope.triggers
    nodes = (Node(), Node() if scope.nodes > 1 else Node(up=False, registered=False, trusted=False))
    return State((Trigger(),) * scope.triggers, (), nodes, (), (), fates, scope.faults)


def fire_ids_of(answer: tuple) -> list[int]:
    """The fire_ids within an answer or the arguments of a round trip."""
    found: list[int] = []
    for part in answer:
        if isinstance(part, Fired):
            found.append(part.fire_id)
        elif isinstance(part, tuple) and not isinstance(part, Unfilled):
            found += fire_ids_of(part)
        elif isinstance(part, int):
            found.append(part)
    return found


def _renamed(part: object, fire_ids: dict[int, int]) -> object:
    if isinstance(part, Fired):
        return part._replace(fire_id=fire_ids[part.fire_id])
    if isinstance(part, Unfilled):
        return part
    if isinstance(part, tuple):
        return tuple(_renamed(one, fire_ids) for one in part)
    return fire_ids[part] if isinstance(part, int) else part


def _is_about_fire_ids(pipeline: Pipeline) -> bool:
    return pipeline.step not in ("acquire", "refill")


def canonical(state: State) -> State:
    """The one state that stands for all that differ by the numbers of fire_ids and the order of nodes only."""
    numbers = {row.fire_id for row in state.fired} | {0}
    for node in state.nodes:
        numbers.update(row.fire_id for row in node.hand)
        numbers.update(row.fire_id for row in node.done)
        numbers.update(fire_ids_of(node.answer))
    for pipeline in state.abandoned:
        if _is_about_fire_ids(pipeline):
            numbers.update(fire_ids_of(pipeline.about))
    if max(numbers) >= len(numbers):
        new = {old: rank for rank, old in enumerate(sorted(numbers))}
        state = state._replace(
            fired=_renamed(state.fired, new),
            nodes=tuple(
                node._replace(
                    hand=_renamed(node.hand, new),
                    done=_renamed(node.done, new),
                    answer=_renamed(node.answer, new),
                )
                for node in state.nodes
            ),
            abandoned=tuple(
                pipeline._replace(about=_renamed(pipeline.about, new)) if _is_about_fire_ids(pipeline) else pipeline
                for pipeline in state.abandoned
            ),
        )
    return min(state, _swapped(state))


def _swapped(state: State) -> State:
    def other(owner: int) -> int:
        return owner if owner == NOBODY else 1 - owner

    def rows(of: tuple[Fired, ...]) -> tuple[Fired, ...]:
        return tuple(sorted(row._replace(owner=other(row.owner)) for row in of))

    def answer(of: tuple) -> tuple:
        return tuple(
            rows(part) if isinstance(part, tuple) and part and isinstance(part[0], Fired) else part for part in of
        )

    if not state.fired and not state.abandoned and state.nodes[0] == state.nodes[1]:
        return state
    nodes = tuple(
        node._replace(hand=rows(node.hand), done=rows(node.done), answer=answer(node.answer))
        for node in reversed(state.nodes)
    )
    abandoned = tuple(sorted(pipeline._replace(owner=other(pipeline.owner)) for pipeline in state.abandoned))
    return state._replace(fired=rows(state.fired), nodes=nodes, abandoned=abandoned)
