"""Who passes on the places of limits: a small pure model of gates, which the explorer visits in full.

Each trigger's job has a limit of its own, or shares one with the others, or both. An acquire step has two moments: its
snapshot, under the lock, and its commit. Ends take no lock, so they commit at any moment, between these two as well,
and change nothing but their own row. A node that has ended executions names their gates to its next acquire step
(`opened`), which decides, by the function of the stores, for what is parked there together with the front: it fires,
parks at the job's own limit or at the shared one, lets a trigger wait for other nodes again (UNPARK), or leaves it.

A user may hold a row, pause a trigger or delete it; a node may crash, and a round trip may be lost. Each of these costs
one fault. The net is the look of a check-in: a parked trigger beside a free place opens the gate anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Any, NamedTuple

from quartzpy.store.gates import Candidate, Decision, Free, decide
from tests.protocol.explored_state import Edge

WAITING, PARKED, PARKED_AT_SET, PAUSED, OVER = "W", "B", "S", "P", "-"
"""States of a trigger; one whose execution runs has the number of the node."""
NUMBERS = "012"
SHARED = "shared"
_PARKED = {PARKED: Decision.PARK, PARKED_AT_SET: Decision.PARK_AT_SET}
_BECOMES = {
    Decision.PARK: PARKED,
    Decision.PARK_AT_SET: PARKED_AT_SET,
    Decision.UNPARK: WAITING,
}


class Needs(NamedTuple):
    """The limits of a trigger's job, and where it can run."""

    own: str | None = "own"
    shares: bool = False
    only: int | None = None
    """The only node that runs it; None: all do."""

    @property
    def limits(self) -> frozenset[str]:
        return frozenset(([self.own] if self.own else []) + ([SHARED] if self.shares else []))


@dataclass(frozen=True)
class GateGuards:
    """What keeps a parked trigger from being left beside a free place; each can be taken out."""

    names_ends: bool = True
    """A node names what its ends have opened to its next acquire step."""
    names_shared: bool = True
    """It names the shared limits of those, too."""
    names_until_answered: bool = True
    """It does so again until a step has answered, and for what has ended since that step was sent."""
    reads_under_lock: bool = True
    """The snapshot of a step is taken after it has got the lock."""
    net: bool = True
    """A check-in looks for parked triggers beside a free place."""


@dataclass(frozen=True)
class GateScope:
    """How much is explored."""

    triggers: tuple[Needs, ...] = (Needs(),) * 3
    slots: int = 1
    """Of each job."""
    shared_slots: int = 1
    workers: int = 1
    """Of each node."""
    nodes: int = 2
    faults: int = 0
    kinds: frozenset[str] = frozenset({"lost", "crash", "user"})
    """The faults that there are: a round trip is lost, a node crashes, a user takes a trigger away."""


class GateNode(NamedTuple):
    """A node's process; `opened`: the limits of what has ended there since the last acquire step that answered."""

    up: bool = True
    registered: bool = True
    opened: frozenset[str] = frozenset()


class Flight(NamedTuple):
    """An acquire step between its snapshot and its commit."""

    node: int
    snapshot: tuple[str, ...]
    held: tuple[bool, ...]
    opened: frozenset[str]


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
        self._has_names = any(needs.only is not None for needs in scope.triggers)

    def first(self) -> GateState:
        number = len(self.scope.triggers)
        nodes = (GateNode(),) * self.scope.nodes
        return GateState((WAITING,) * number, (False,) * number, nodes, (), self.scope.faults)

    def canonical(self, state: GateState) -> GateState:
        """Nodes are alike, unless they run different jobs."""
        if self._has_names:
            return state
        return min((_renamed(state, order) for order in permutations(range(self.scope.nodes))), key=_in_order)

    def edges(self, state: GateState) -> Iterator[Edge]:
        for number, node in enumerate(state.nodes):
            if node.up:
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
                    lost = _with_node(lost, flight.node, opened=frozenset())
                yield Edge(f"the acquire step of node {flight.node} is lost", False, lost)
        yield from self._users(state)

    def _acquire(self, state: GateState, number: int) -> Iterator[Edge]:
        node = state.nodes[number]
        has_lock = not state.flights
        under_way = any(flight.node == number for flight in state.flights)
        if under_way or not node.registered or not (has_lock or not self.guards.reads_under_lock):
            return
        is_free = state.triggers.count(str(number)) < self.scope.workers
        is_due = any(
            one == WAITING and not held and needs.only in (None, number)
            for one, held, needs in zip(state.triggers, state.held, self.scope.triggers, strict=True)
        )
        if node.opened or (is_free and is_due):
            flight = Flight(number, state.triggers, state.held, node.opened)
            yield Edge(f"node {number} acquires", True, state._replace(flights=(*state.flights, flight)))

    def _free(self, triggers: tuple[str, ...]) -> dict[str, int]:
        """What the limits have left."""
        free = {needs.own: self.scope.slots for needs in self.scope.triggers if needs.own}
        free[SHARED] = self.scope.shared_slots
        for one, needs in zip(triggers, self.scope.triggers, strict=True):
            for limit in needs.limits if one in NUMBERS else ():
                free[limit] -= 1
        return free

    def _met(self, flight: Flight, *, has_room: bool) -> list[int]:
        """The triggers that a step meets, in the order of their fire times, which is that of their numbers."""
        free = self._free(flight.snapshot)
        free_ones = [at for at, held in enumerate(flight.held) if not held]
        front = [
            at
            for at in free_ones
            if flight.snapshot[at] == WAITING and has_room and self.scope.triggers[at].only in (None, flight.node)
        ]
        gates = flight.opened.union(*(self.scope.triggers[at].limits for at in front))
        met = [*front]
        for limit in gates:
            there = PARKED_AT_SET if limit == SHARED else PARKED
            parked = [
                at for at in free_ones if flight.snapshot[at] == there and limit in self.scope.triggers[at].limits
            ]
            met += parked[: max(free[limit], 0)]
        return sorted(met)

    def _committed(self, state: GateState, flight: Flight) -> GateState:
        triggers = list(state.triggers)
        room = self.scope.workers - state.triggers.count(str(flight.node))
        met = self._met(flight, has_room=room > 0)

        def takes(_: int) -> bool:
            nonlocal room
            room -= 1
            return room >= 0

        candidates = []
        for at in met:
            needs, one = self.scope.triggers[at], flight.snapshot[at]
            candidates.append(
                Candidate(
                    (at,),
                    needs.own,
                    self.scope.slots,
                    (SHARED,) if needs.shares else (),
                    parked=_PARKED.get(one),
                    runs_here=needs.only in (None, flight.node),
                )
            )
        free = {limit: Free(number) for limit, number in self._free(flight.snapshot).items()}
        for at, decision in zip(met, decide(candidates, free, (), takes), strict=True):
            if decision is Decision.FIRE:
                triggers[at] = str(flight.node)
            else:
                triggers[at] = _BECOMES.get(decision, triggers[at])
        after = state._replace(
            triggers=tuple(triggers),
            flights=tuple(other for other in state.flights if other != flight),
        )
        has_ended_since = [
            needs
            for before, one, needs in zip(flight.snapshot, state.triggers, self.scope.triggers, strict=True)
            if before == str(flight.node) and one == OVER
        ]
        keeps = frozenset[str]()
        if self.guards.names_until_answered:
            keeps = keeps.union(*map(self._named, has_ended_since))
        return _with_node(after, flight.node, opened=keeps) if flight.opened else after

    def _named(self, needs: Needs) -> frozenset[str]:
        """What a node names after an end."""
        if not self.guards.names_ends:
            return frozenset()
        return needs.limits if self.guards.names_shared else needs.limits - {SHARED}

    def _end(self, state: GateState, number: int) -> Iterator[Edge]:
        for at, one in enumerate(state.triggers):
            if one == str(number):
                opened = state.nodes[number].opened | self._named(self.scope.triggers[at])
                yield Edge(
                    f"node {number} ends t{at}", True, _with_node(_with_trigger(state, at, OVER), number, opened=opened)
                )

    def _watch(self, state: GateState, number: int) -> Iterator[Edge]:
        for dead, other in enumerate(state.nodes):
            if other.registered and not other.up:
                after = _with_node(state, dead, registered=False)
                opened = state.nodes[number].opened
                for at, one in enumerate(state.triggers):
                    if one == str(dead):
                        after = _with_trigger(after, at, OVER)
                        opened |= self.scope.triggers[at].limits
                after = _with_node(after, number, opened=opened)
                after = after._replace(flights=tuple(one for one in after.flights if one.node != dead))
                yield Edge(f"node {number} recovers node {dead}", True, after)
        opened = state.nodes[number].opened
        if self.guards.net and not opened and (beside := self._beside_free_places(state)):
            yield Edge(f"node {number} looks at its check-in", True, _with_node(state, number, opened=beside))

    def _beside_free_places(self, state: GateState) -> frozenset[str]:
        free = self._free(state.triggers)
        parked = {
            SHARED if one == PARKED_AT_SET else needs.own
            for one, held, needs in zip(state.triggers, state.held, self.scope.triggers, strict=True)
            if one in (PARKED, PARKED_AT_SET) and not held
        }
        return frozenset(limit for limit in parked if limit is not None and free[limit] > 0)

    def _users(self, state: GateState) -> Iterator[Edge]:
        has_faults = state.faults > 0 and "user" in self.scope.kinds
        for at, one in enumerate(state.triggers):
            if state.held[at]:
                yield Edge(f"the user lets t{at} go", True, _with_hold(state, at, held=False))
            elif one == PAUSED:
                yield Edge(f"the user resumes t{at}", True, _with_trigger(state, at, WAITING))
            # A step locks the rows that it decides about, so users wait for its commit.
            elif has_faults and not state.flights and one in (WAITING, PARKED, PARKED_AT_SET):
                less = state._replace(faults=state.faults - 1)
                yield Edge(f"the user holds t{at}", False, _with_hold(less, at, held=True))
                yield Edge(f"the user pauses t{at}", False, _with_trigger(less, at, PAUSED))
                yield Edge(f"the user deletes t{at}", False, _with_trigger(less, at, OVER))
        if state.faults and "crash" in self.scope.kinds and sum(node.up for node in state.nodes) > 1:
            for number, node in enumerate(state.nodes):
                if node.up:
                    less = state._replace(faults=state.faults - 1)
                    crashed = _with_node(less, number, up=False, opened=frozenset())
                    yield Edge(f"node {number} crashes", False, crashed)

    def violation(self, state: GateState) -> str | None:
        if any(free < 0 for free in self._free(state.triggers).values()):
            return "S3: more executions than slots"
        return None

    def is_at_rest(self, state: GateState) -> bool:
        return all(one == OVER for one in state.triggers)


def _with_trigger(state: GateState, at: int, one: str) -> GateState:
    return state._replace(triggers=(*state.triggers[:at], one, *state.triggers[at + 1 :]))


def _with_hold(state: GateState, at: int, *, held: bool) -> GateState:
    return state._replace(held=(*state.held[:at], held, *state.held[at + 1 :]))


def _with_node(state: GateState, number: int, **values: object) -> GateState:
    nodes = list(state.nodes)
    nodes[number] = nodes[number]._replace(**values)  # type: ignore[arg-type]
    return state._replace(nodes=tuple(nodes))


def _renamed(state: GateState, order: tuple[int, ...]) -> GateState:
    """Give each node the number that it has in this order."""
    other = str.maketrans("".join(map(str, order)), NUMBERS[: len(order)])
    return state._replace(
        triggers=tuple(one.translate(other) for one in state.triggers),
        nodes=tuple(state.nodes[number] for number in order),
        flights=tuple(
            flight._replace(
                node=order.index(flight.node), snapshot=tuple(one.translate(other) for one in flight.snapshot)
            )
            for flight in state.flights
        ),
    )


def _in_order(state: GateState) -> Any:
    """Sets have an order of their own, which is not one."""
    return (
        state.triggers,
        [(node.up, node.registered, sorted(node.opened)) for node in state.nodes],
        [(flight.node, flight.snapshot) for flight in state.flights],
    )
