"""When nodes look, and for what, as a small pure model: what each has said about dispatch keys, floors and turns.

The other model lets each node take each waiting trigger at any moment. Here a node takes only what its look reads: it
rests until the soonest fire time that it has read or was told of, reads nothing below its floor, passes over the keys
that it has refused, and takes only keys of which it has said that it runs them. A trigger may be stored, paused and
resumed at any moment. The two nodes do not run the same keys, so neither can count on the other.

The nets under all this, looks of idle nodes and full reads every few seconds, are left out unless `nets` is set. So
what is found is that a trigger waits for a net. A fault is a crash, a pause or, with nets, a lost notification.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.protocol.explored_state import Edge

NEVER = 9
"""A node that plans to look then rests until it is told of something."""
LAST = 2
"""The last instant at which a trigger is due."""


@dataclass(frozen=True)
class Guards:
    """What keeps a trigger from being left behind, or from being run where it cannot run; each can be taken out."""

    looks_keys_up: bool = True
    """A step takes no trigger of a key about which its node has said nothing."""
    decides: bool = True
    """A node decides about the keys that a step names, and looks again."""
    keys_end: bool = True
    """What an epoch has said about keys ends with it."""
    counts_refusals: bool = True
    """An earlier trigger that a node has refused does not replace the announcement of one which it runs."""
    orders_refusals: bool = True
    """Refusals are stored under the lock, under which triggers are stored and announced."""
    lowers_floors: bool = True
    """An announcement lowers the floor."""
    notes_changes: bool = True
    """What was announced while a read was under way voids its floor and its plan."""
    looks_behind: bool = True
    """A node looks in the turn of another one nevertheless, later."""


@dataclass(frozen=True)
class LookScope:
    """How much is explored."""

    triggers: tuple[tuple[int, int], ...]
    """The fire time and the dispatch key of each."""
    runs: tuple[frozenset[int], frozenset[int]]
    """The keys that each node runs."""
    faults: int = 0
    nets: bool = False


class Looker(NamedTuple):
    """What a node knows, and what the tables say of its epoch."""

    runs: frozenset[int]
    up: bool = True
    keys: tuple[bool | None, ...] = (None, None)
    floor: int = 0
    plan: int = NEVER
    is_behind: bool = False
    answer: tuple[int, int, tuple[int, ...], bool] | None = None
    """The soonest fire time that a read has found, the floor, the undecided keys, and whether it is overtaken."""
    told: tuple[int, ...] = ()
    """The fire times of notifications that are on their way."""


class Looks(NamedTuple):
    """All that exists. A trigger is N before it is stored, W while it waits, P while it is paused, F once it fired."""

    triggers: tuple[str, ...]
    nodes: tuple[Looker, Looker]
    now: int
    faults: int
    storing: tuple[int, bool] | None = None
    """A trigger whose transaction has decided whether to announce it, and has not committed."""
    misplaced: bool = False
    """A trigger was fired by a node that cannot run it."""


class LookModel:
    """What may happen next, in a scope and with these guards."""

    def __init__(self, scope: LookScope, guards: Guards) -> None:
        self.scope = scope
        self.guards = guards

    def first(self) -> Looks:
        a, b = self.scope.runs
        return Looks(("N",) * len(self.scope.triggers), (Looker(a), Looker(b)), 0, self.scope.faults)

    def canonical(self, state: Looks) -> Looks:
        """The one state that stands for all that differ by what changes nothing any more."""
        nodes = []
        for node in state.nodes:
            plan = 0 if node.plan <= state.now else node.plan
            floor = node.floor if node.floor > 1 else 0
            nodes.append(
                node._replace(plan=plan, floor=floor, is_behind=node.is_behind and not self.guards.looks_behind)
            )
        return state._replace(nodes=tuple(nodes))

    def edges(self, state: Looks) -> Iterator[Edge]:
        for number, node in enumerate(state.nodes):
            if node.up:
                yield from self._of_node(state, number, node)
            else:
                keys = (None, None) if self.guards.keys_end else node.keys
                # It comes back with another release, which runs the first key only.
                again = Looker(frozenset({0}), keys=keys, plan=state.now)
                yield self._edge(f"node {'ab'[number]} starts again, with fewer job types", state, number, again)
        if state.now < LAST:
            yield Edge(f"it is {state.now + 1}", True, state._replace(now=state.now + 1))
        yield from self._of_users(state)

    @staticmethod
    def _edge(
        label: str, state: Looks, number: int, node: Looker, *, fault: bool = False, progress: bool = False
    ) -> Edge:
        nodes = tuple(node if at == number else other for at, other in enumerate(state.nodes))
        return Edge(label, progress, state._replace(nodes=nodes, faults=state.faults - fault))

    # --- a node

    def _of_node(self, state: Looks, number: int, node: Looker) -> Iterator[Edge]:
        name = f"node {'ab'[number]}"
        if node.answer is not None:
            yield from self._hears(state, number, node)
        elif node.plan <= state.now and (self.guards.looks_behind or not node.is_behind):
            yield self._looks(state, number, node)
        elif self.scope.nets and (node.plan > state.now or node.floor):
            idle = node._replace(plan=state.now, floor=0)
            yield self._edge(f"{name} looks at everything after a while", state, number, idle, progress=True)
        for at in node.told:
            rest = tuple(other for other in node.told if other != at)
            told = node._replace(told=rest, plan=state.now)
            if self.guards.lowers_floors:
                told = told._replace(floor=min(told.floor, at))
            if node.answer is not None and self.guards.notes_changes:
                told = told._replace(answer=(*node.answer[:3], True))
            yield self._edge(f"{name} is notified of {at}", state, number, told, progress=True)
            if self.scope.nets and state.faults:
                yield self._edge(f"{name} is not notified of {at}", state, number, node._replace(told=rest), fault=True)
        if state.faults:
            dead = node._replace(up=False, answer=None, told=(), plan=NEVER, floor=0, is_behind=False)
            yield self._edge(f"{name} crashes", state, number, dead, fault=True)

    def _looks(self, state: Looks, number: int, node: Looker) -> Edge:
        """Take one trigger that is due, and read the soonest that is left."""
        read = [
            (at, trigger)
            for trigger, (at, key) in enumerate(self.scope.triggers)
            if state.triggers[trigger] == "W" and at >= node.floor and node.keys[key] is not False
        ]
        takes = [
            (at, trigger)
            for at, trigger in read
            if at <= state.now and (node.keys[self.scope.triggers[trigger][1]] or not self.guards.looks_keys_up)
        ]
        label = f"node {'ab'[number]} looks"
        triggers, is_misplaced = state.triggers, state.misplaced
        if takes:
            _, taken = min(takes)
            read = [one for one in read if one[1] != taken]
            triggers = tuple("F" if at == taken else old for at, old in enumerate(triggers))
            is_misplaced |= self.scope.triggers[taken][1] not in node.runs
            label += f" and fires t{taken}"
        soonest = min(read, default=(NEVER, 0))[0]
        undecided = {self.scope.triggers[trigger][1] for at, trigger in read if at == soonest}
        named = tuple(sorted(key for key in undecided if node.keys[key] is None))
        answer = (soonest, min(state.now, soonest), named, False)
        looked = node._replace(answer=answer, is_behind=not takes and not read)
        edge = self._edge(label, state, number, looked, progress=True)
        return edge._replace(to=edge.to._replace(triggers=triggers, misplaced=is_misplaced))

    def _hears(self, state: Looks, number: int, node: Looker) -> Iterator[Edge]:
        assert node.answer is not None
        soonest, floor, undecided, is_overtaken = node.answer
        name = f"node {'ab'[number]}"
        plan = min(state.now, node.plan) if is_overtaken else soonest
        heard = node._replace(answer=None, plan=plan, floor=node.floor if is_overtaken else floor)
        if undecided and self.guards.decides:
            keys = tuple(key in node.runs if key in undecided else said for key, said in enumerate(node.keys))
            heard = heard._replace(keys=keys, plan=state.now)
            yield self._edge(f"{name} says whether it runs {list(undecided)}", state, number, heard, progress=True)
            return
        if undecided:
            heard = heard._replace(plan=max(plan, state.now + 1))
        yield self._edge(f"{name} rests until {heard.plan}", state, number, heard, progress=True)

    # --- users

    def _of_users(self, state: Looks) -> Iterator[Edge]:
        if state.storing is not None:
            trigger, announces = state.storing
            edge = self._begins_to_wait(state._replace(storing=None), trigger, announces, f"t{trigger} is stored")
            yield edge._replace(is_progress=True)
        for trigger, row in enumerate(state.triggers):
            if row == "N" and state.storing is None:
                announces = self._announces(state, trigger)
                if self.guards.orders_refusals:
                    yield self._begins_to_wait(state, trigger, announces, f"t{trigger} is stored")
                else:
                    label = f"who stores t{trigger} looks for an earlier one"
                    yield Edge(label, False, state._replace(storing=(trigger, announces)))
            elif row == "W" and state.faults:
                paused = tuple("P" if at == trigger else old for at, old in enumerate(state.triggers))
                to = state._replace(triggers=paused, faults=state.faults - 1)
                yield Edge(f"the user pauses t{trigger}", False, to)
            elif row == "P":
                yield self._begins_to_wait(state, trigger, True, f"the user resumes t{trigger}")

    def _announces(self, state: Looks, trigger: int) -> bool:
        """Whether nodes may be asleep beyond a new trigger: there is no earlier one that wakes all who run it."""
        at, key = self.scope.triggers[trigger]

        def wakes_all(earlier: int) -> bool:
            return not self.guards.counts_refusals or not any(
                node.keys[self.scope.triggers[earlier][1]] is False and node.keys[key] is not False
                for node in state.nodes
            )

        return at <= state.now or not any(
            row == "W" and state.now < self.scope.triggers[earlier][0] <= at and wakes_all(earlier)
            for earlier, row in enumerate(state.triggers)
        )

    def _begins_to_wait(self, state: Looks, trigger: int, announces: bool, label: str) -> Edge:
        at, _ = self.scope.triggers[trigger]
        triggers = tuple("W" if number == trigger else old for number, old in enumerate(state.triggers))
        nodes = tuple(
            node._replace(told=tuple(sorted({*node.told, at}))) if announces and node.up else node
            for node in state.nodes
        )
        return Edge(label, False, state._replace(triggers=triggers, nodes=nodes))

    # --- what is asked of a state

    def violation(self, state: Looks) -> str | None:
        return "a trigger was fired by a node that cannot run it" if state.misplaced else None

    def is_at_rest(self, state: Looks) -> bool:
        """Whether no trigger waits that a living node runs, and nothing is under way."""
        if state.storing is not None or state.now < LAST:
            return False
        return not any(
            row == "W" and any(node.up and self.scope.triggers[trigger][1] in node.runs for node in state.nodes)
            for trigger, row in enumerate(state.triggers)
        ) and not any(node.answer or node.told for node in state.nodes)
