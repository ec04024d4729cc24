"""Who passes on the slot of a limit: a small pure model of gates, which the explorer visits in full.

Triggers share one limit. An acquire step has two moments: its snapshot, under the lock, and its commit. Ends take no
lock, so they commit at any moment, between these two as well, and change nothing but their own row. A node that has
ended executions names their gate to its next acquire step (`opened`), which decides for what is parked there together
with the front: it fires, parks, lets a trigger wait for other nodes again (UNPARK), or leaves it.

A user may hold a row, pause a trigger or delete it; a node may crash, and a round trip may be lost. Each of these costs
one fault. The net is the look of a check-in: a parked trigger beside a free slot opens the gate anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.protocol.explored_state import Edge

WAITING, PARKED, PAUSED, OVER = "W", "B", "P", "-"
"""States of a trigger; one whose execution runs has the number of the node."""
NODES = (0, 1)


@dataclass(frozen=True)
class GateGuards:
    """What keeps a parked trigger from being left beside a free slot; each can be taken out."""

    names_ends: bool = True
    """A node names what its ends have opened to its next acquire step."""
    names_until_answered: bool = True
    """It does so again until a step has answered, and for what has ended since that step was sent."""
    reads_under_lock: bool = True
    """The snapshot of a step is taken after it has got the lock."""
    net: bool = True
    """A check-in looks for parked triggers beside a free slot."""


@dataclass(frozen=True)
class GateScope:
    """How much is explored."""

    triggers: int = 3
    slots: int = 1
    workers: int = 1
    """Of each node."""
    faults: int = 0
    kinds: frozenset[str] = frozenset({"lost", "crash", "user"})
    """The faults that there are: a round trip is lost, a node crashes, a user takes a trigger away."""


class GateNode(NamedTuple):
    """A node's process; `opened`: it has ended executions of the gate since the last acquire step that answered."""

    up: bool = True
    registered: bool = True
    opened: bool = False


class Flight(NamedTuple):
    """An acquire step between its snapshot and its commit."""

    node: int
    snapshot: tuple[str, ...]
    held: tuple[bool, ...]
    opened: bool


class GateState(NamedTuple):
    """All that exists."""

    triggers: tuple[str, ...]
    held: tuple[bool, ...]
    """Whether a user's transaction holds the row."""
    nodes: tuple[GateNode, ...]
    flights: tuple[Flight, ...]
    faults: int


class GateModel:
    """What may happen next, in a scope and with these guards."""

    def __init__(self, scope: GateScope, guards: GateGuards) -> None:
        self.scope = scope
        self.guards = guards

    def first(self) -> GateState:
        number = self.scope.triggers
        return GateState((WAITING,) * number, (False,) * number, (GateNode(),) * 2, (), self.scope.faults)

    @staticmethod
    def canonical(state: GateState) -> GateState:
        """Nodes are alike."""
        return min(state, _swapped(state))

    def edges(self, state: GateState) -> Iterator[Edge]:
        for number in NODES:
            if state.nodes[number].up:
                yield from self._acquire(state, number)
                yield from self._end(state, number)
                yield from self._watch(state, number)
        for flight in state.flights:
            yield Edge(f"the acquire step of node {flight.node} commits", True, self._committed(state, flight))
            if state.faults and "lost" in self.scope.kinds:
                lost = state._replace(
                    flights=tuple(other for other in state.flights if other != flight), faults=state.faults - 1
                )
                if not self.guards.names_until_answered:
                    lost = _with_node(lost, flight.node, opened=False)
                yield Edge(f"the acquire step of node {flight.node} is lost", False, lost)
        yield from self._users(state)

    def _acquire(self, state: GateState, number: int) -> Iterator[Edge]:
        node = state.nodes[number]
        has_lock = not state.flights
        under_way = any(flight.node == number for flight in state.flights)
        if under_way or not node.registered or not (has_lock or not self.guards.reads_under_lock):
            return
        free = self.scope.workers - state.triggers.count(str(number))
        if node.opened or (free > 0 and _some(state, WAITING)):
            flight = Flight(number, state.triggers, state.held, node.opened)
            yield Edge(f"node {number} acquires", True, state._replace(flights=(*state.flights, flight)))

    def _committed(self, state: GateState, flight: Flight) -> GateState:
        triggers = list(state.triggers)
        free_slots = self.scope.slots - sum(one in "01" for one in flight.snapshot)
        workers = self.scope.workers - state.triggers.count(str(flight.node))
        reads_front = workers > 0
        # In the order of their fire times, which is that of their numbers.
        candidates = [
            number
            for number, one in enumerate(flight.snapshot)
            if not flight.held[number]
            and ((one == WAITING and reads_front) or (one == PARKED and (flight.opened or _some(state, WAITING))))
        ]
        for place, number in enumerate(candidates, 1):
            if place <= free_slots:
                if workers > 0:
                    workers -= 1
                    triggers[number] = str(flight.node)
                else:
                    triggers[number] = WAITING
            elif flight.snapshot[number] == WAITING:
                triggers[number] = PARKED
        after = state._replace(
            triggers=tuple(triggers), flights=tuple(other for other in state.flights if other != flight)
        )
        has_ended_since = any(
            before == str(flight.node) and one == OVER
            for before, one in zip(flight.snapshot, state.triggers, strict=True)
        )
        keeps = has_ended_since and self.guards.names_until_answered
        return _with_node(after, flight.node, opened=keeps) if flight.opened and not keeps else after

    def _end(self, state: GateState, number: int) -> Iterator[Edge]:
        for at, one in enumerate(state.triggers):
            if one == str(number):
                ended = _with_trigger(state, at, OVER)
                if self.guards.names_ends:
                    ended = _with_node(ended, number, opened=True)
                yield Edge(f"node {number} ends t{at}", True, ended)

    def _watch(self, state: GateState, number: int) -> Iterator[Edge]:
        other = state.nodes[1 - number]
        if other.registered and not other.up:
            after = _with_node(state, 1 - number, registered=False)
            lost = [at for at, one in enumerate(state.triggers) if one == str(1 - number)]
            for at in lost:
                after = _with_trigger(after, at, OVER)
            if lost:
                after = _with_node(after, number, opened=True)
            after = after._replace(flights=tuple(one for one in after.flights if one.node != 1 - number))
            yield Edge(f"node {number} recovers node {1 - number}", True, after)
        if self.guards.net and not state.nodes[number].opened and self._is_beside_free_slot(state):
            yield Edge(f"node {number} looks at its check-in", True, _with_node(state, number, opened=True))

    def _is_beside_free_slot(self, state: GateState) -> bool:
        return _some(state, PARKED) and sum(one in "01" for one in state.triggers) < self.scope.slots

    def _users(self, state: GateState) -> Iterator[Edge]:
        has_faults = state.faults > 0 and "user" in self.scope.kinds
        for at, one in enumerate(state.triggers):
            if state.held[at]:
                yield Edge(f"the user lets t{at} go", True, _with_hold(state, at, held=False))
            elif one == PAUSED:
                yield Edge(f"the user resumes t{at}", True, _with_trigger(state, at, WAITING))
            # A step locks the rows that it decides about, so users wait for its commit.
            elif has_faults and not state.flights and one in (WAITING, PARKED):
                less = state._replace(faults=state.faults - 1)
                yield Edge(f"the user holds t{at}", False, _with_hold(less, at, held=True))
                yield Edge(f"the user pauses t{at}", False, _with_trigger(less, at, PAUSED))
                yield Edge(f"the user deletes t{at}", False, _with_trigger(less, at, OVER))
        if state.faults and "crash" in self.scope.kinds and all(node.up for node in state.nodes):
            for number in NODES:
                less = state._replace(faults=state.faults - 1)
                yield Edge(f"node {number} crashes", False, _with_node(less, number, up=False, opened=False))

    def violation(self, state: GateState) -> str | None:
        if sum(one in "01" for one in state.triggers) > self.scope.slots:
            return "S3: more executions than slots"
        return None

    def is_at_rest(self, state: GateState) -> bool:
        return all(one == OVER for one in state.triggers)


def _some(state: GateState, wanted: str) -> bool:
    return any(one == wanted and not held for one, held in zip(state.triggers, state.held, strict=True))


def _with_trigger(state: GateState, at: int, one: str) -> GateState:
    return state._replace(triggers=(*state.triggers[:at], one, *state.triggers[at + 1 :]))


def _with_hold(state: GateState, at: int, *, held: bool) -> GateState:
    return state._replace(held=(*state.held[:at], held, *state.held[at + 1 :]))


def _with_node(state: GateState, number: int, **values: bool) -> GateState:
    nodes = list(state.nodes)
    nodes[number] = nodes[number]._replace(**values)
    return state._replace(nodes=tuple(nodes))


def _swapped(state: GateState) -> GateState:
    other = str.maketrans("01", "10")
    return state._replace(
        triggers=tuple(one.translate(other) for one in state.triggers),
        nodes=tuple(reversed(state.nodes)),
        flights=tuple(
            flight._replace(node=1 - flight.node, snapshot=tuple(one.translate(other) for one in flight.snapshot))
            for flight in state.flights
        ),
    )
