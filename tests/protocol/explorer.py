"""The protocol as a small pure model, and an explorer that visits every state which it can reach.

Two nodes and a user work on one or two triggers. A round trip is an atomic commit whose answer travels by itself: the
round trip may be lost, its answer may be lost, or it may commit after its node gave it up. A row may be held by the
user's transaction, a node may crash, and a living node may be judged dead. Each of these costs one fault; everything
else happens in every order. Instants become due at any moment, so no clock is needed: whatever depends on time
happens both before and after everything else.

The explorer visits all states breadth first, and states that differ only by the names of nodes or by the absolute
numbers of fire_ids are one state. Two things are asked of the whole graph:

- safety: what `violation` names holds in every state;
- liveness: from every state a state is reached, by steps that need neither a fault nor a human hand, in which every
  instant has fired exactly once (or was skipped as a misfire) and has ended, and nothing is held.

The second is meant under strong fairness: a graph has no other end, so whoever keeps on taking steps gets there.
A trace to a state that breaks either is one of the shortest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from tests.protocol.explored_state import (
    ALL_CURES,
    NOBODY,
    NODES,
    Cures,
    Edge,
    Fired,
    Node,
    Pipeline,
    Scope,
    State,
    canonical,
    first,
)
from tests.protocol.explored_steps import NOTHING, Draft


class Model:
    """What may happen next, in a scope and with these cures."""

    def __init__(self, scope: Scope, cures: Cures) -> None:
        self.scope = scope
        self.cures = cures

    def first(self) -> State:
        return first(self.scope)

    @staticmethod
    def canonical(state: State) -> State:
        return canonical(state)

    def draft(self, state: State, *, fault: bool = False) -> Draft:
        draft = Draft(state, self.scope, self.cures)
        draft.faults -= fault
        return draft

    def edges(self, state: State) -> Iterator[Edge]:
        for number, node in enumerate(state.nodes):
            if node.up:
                yield from self._steps(state, number, node)
                yield from self._work(state, number, node)
                yield from self._watch(state, number, node)
        yield from self._environment(state)

    # --- the scheduler thread of a node

    def _steps(self, state: State, number: int, node: Node) -> Iterator[Edge]:
        name = f"node {'ab'[number]}"
        if node.answer:
            draft = self.draft(state)
            draft.learn(number)
            yield Edge(f"{name} hears the answer of its {_past(node.answer[0])}", True, draft.freeze())
            if state.faults:
                draft = self.draft(state, fault=True)
                draft.lose_answer(number)
                yield Edge(f"{name} never hears the answer of its {_past(node.answer[0])}", False, draft.freeze())
            return
        for label, pipeline, is_progress in self._pipelines(state, number, node):
            draft = self.draft(state)
            if pipeline.step == "acquire":
                draft.name_gate(number)
            answer = draft.send(pipeline)
            if answer is None:
                draft.rejoin(number)
                yield Edge(f"{name} finds its epoch gone and rejoins", True, draft.freeze())
            else:
                draft.node(number, answer=answer)
                yield Edge(f"{name}: {label} commits", is_progress, draft.freeze())
            if state.faults:
                draft = self.draft(state, fault=True)
                if pipeline.step == "acquire":
                    draft.name_gate(number)
                draft.end_abandoned(number)
                draft.lose_answer(number)
                yield Edge(f"{name}: {label} never arrives", False, draft.freeze())
                draft.abandoned.append(pipeline)
                yield Edge(f"{name} gives up its {label}, which the server still has", False, draft.freeze())

    def _pipelines(self, state: State, number: int, node: Node) -> Iterator[tuple[str, Pipeline, bool]]:
        if not node.trusted:
            return
        if node.unfilled:
            for unfilled in node.unfilled:
                yield f"refilling t{unfilled.trigger}", Pipeline("refill", number, (unfilled,)), True
            return
        if node.unsettled or self.cures.compares:
            known = sorted(row.fire_id for row in (*node.hand, *node.done))
            yield "comparing", Pipeline("reconcile", number, (tuple(known),)), True
        if node.unsettled:
            return
        opened = node.opened or node.named
        if opened:
            yield "looking at the gate", Pipeline("acquire", number, (NOTHING, True)), True
        for trigger, row in enumerate(state.triggers):
            if row.state == "W" and not row.held:
                yield f"acquiring t{trigger}", Pipeline("acquire", number, (trigger, opened)), True

    # --- workers, completer, cluster manager, misfire handler

    def _work(self, state: State, number: int, node: Node) -> Iterator[Edge]:
        name = f"node {'ab'[number]}"
        for row in node.hand if node.trusted or not self.cures.checks_lease else ():
            draft = self.draft(state)
            draft.zombie |= not node.registered
            draft.fate(row, runs=1)
            hand = tuple(one for one in node.hand if one != row)
            draft.node(number, hand=hand, done=tuple(sorted((*node.done, row))))
            yield Edge(f"{name} runs t{row.trigger} for instant {row.instant}", True, draft.freeze())
        for row in node.done:
            pipeline = Pipeline("complete", number, (row.fire_id,))
            draft = self.draft(state)
            draft.send(pipeline)
            done = tuple(one for one in node.done if one != row)
            draft.node(number, done=done, opened=node.opened or self.scope.serial)
            yield Edge(f"{name} completes t{row.trigger}", True, draft.freeze())
            if state.faults:
                draft = self.draft(state, fault=True)
                draft.send(pipeline)
                yield Edge(f"{name} completes t{row.trigger} and never hears the answer", False, draft.freeze())
                draft = self.draft(state, fault=True)
                draft.end_abandoned(number)
                draft.abandoned.append(pipeline)
                yield Edge(
                    f"{name} gives up completing t{row.trigger}, which the server still has", False, draft.freeze()
                )

    def _watch(self, state: State, number: int, node: Node) -> Iterator[Edge]:
        name = f"node {'ab'[number]}"
        if not node.registered:
            draft = self.draft(state)
            draft.rejoin(number)
            yield Edge(f"{name} checks in, finds its epoch gone and rejoins", True, draft.freeze())
            return
        if node.answer and not self.cures.compares_in_turn:
            handed = {*node.hand, *node.done}
            found = [row for row in state.fired if row.owner == number and row not in handed]
            if found:
                draft = self.draft(state)
                draft.node(number, hand=tuple(sorted({*node.hand, *found})))
                yield Edge(f"{name} compares beside the thread that fires", True, draft.freeze())
        peer = 1 - number
        other = state.nodes[peer]
        if other.registered and (not other.up or state.faults):
            draft = self.draft(state, fault=other.up)
            draft.end_abandoned(number)
            draft.recover(peer)
            dead = "living" if other.up else "dead"
            yield Edge(f"{name} recovers the {dead} node {'ab'[peer]}", not other.up, draft.freeze())
        is_parked = any(trigger.state == "B" for trigger in state.triggers)
        if (
            self.cures.looks_at_gates
            and is_parked
            and not (node.opened or node.named)
            and not self.draft(state).is_full()
        ):
            draft = self.draft(state)
            draft.node(number, opened=True)
            yield Edge(f"{name} finds a trigger that is parked beside a free slot", True, draft.freeze())
        for at, trigger in enumerate(state.triggers):
            if state.faults and trigger.state == "W" and not trigger.held:
                draft = self.draft(state, fault=True)
                draft.late.append((at, trigger.next))
                yield Edge(f"{name} reads the misfire of t{at}", False, draft.freeze())

    # --- the rest of the world

    def _environment(self, state: State) -> Iterator[Edge]:
        for at, pipeline in enumerate(state.abandoned):
            for commits in (True, False):
                draft = self.draft(state)
                del draft.abandoned[at]
                if commits:
                    draft.commit(pipeline)
                word = "commits" if commits else "ends without a commit"
                yield Edge(
                    f"the abandoned {pipeline.step} of node {'ab?'[pipeline.owner]} {word}", True, draft.freeze()
                )
        for at, (number, seen) in enumerate(state.late):
            draft = self.draft(state)
            del draft.late[at]
            trigger = state.triggers[number]
            if not trigger.held and (not self.cures.guards_misfires or (trigger.state == "W" and trigger.next == seen)):
                if draft.is_full():
                    draft.set(number, state="B")
                else:
                    draft.fate(Fired(0, number, seen, NOBODY), skips=1)
                    over = seen + 1 == self.scope.instants
                    draft.set(number, next=seen + 1, following=0, state="C" if over else trigger.state)
            yield Edge(f"the misfire of t{number} is handled", True, draft.freeze())
        for number, trigger in enumerate(state.triggers):
            if trigger.held:
                draft = self.draft(state)
                draft.set(number, held=False)
                yield Edge(f"the user rolls back and lets t{number} go", True, draft.freeze())
            elif trigger.state == "P":
                draft = self.draft(state)
                draft.set(number, state="W")
                yield Edge(f"the user resumes t{number}", True, draft.freeze())
            elif state.faults and trigger.state != "C":
                draft = self.draft(state, fault=True)
                draft.set(number, held=True)
                yield Edge(f"the user's transaction holds the row of t{number}", False, draft.freeze())
                draft = self.draft(state, fault=True)
                draft.set(number, state="P")
                yield Edge(f"the user pauses t{number}", False, draft.freeze())
        if state.faults and all(node.up for node in state.nodes):
            for number in NODES:
                draft = self.draft(state, fault=True)
                draft.nodes[number] = Node(up=False, registered=state.nodes[number].registered, trusted=False)
                yield Edge(f"node {'ab'[number]} crashes", False, draft.freeze())

    # --- what is asked of a state

    def violation(self, state: State) -> str | None:
        """The invariant that this state breaks."""
        if state.zombie:
            return "S5: a job body started after its epoch was recovered"
        for number, fates in enumerate(state.fates):
            for instant, fate in enumerate(fates):
                if fate.fires > 1:
                    return f"S1: instant {instant} of t{number} fired twice"
                if fate.runs > 1:
                    return f"S1: instant {instant} of t{number} ran twice"
                if fate.ends > 1:
                    return f"S8: the fire of instant {instant} of t{number} ended twice"
                if fate.fires + fate.skips != (instant < state.triggers[number].next):
                    return f"S2: instant {instant} of t{number} was passed over, or fired and skipped"
        if self.scope.serial and len(state.fired) > 1:
            return "S3: a job that disallows concurrent execution executes twice at a time"
        for row in state.fired:
            if row.owner == NOBODY or not state.nodes[row.owner].registered:
                return f"S4: execution {row.fire_id} is of an epoch that is not registered"
        return None

    def is_at_rest(self, state: State) -> bool:
        """Whether every instant fired exactly once, or was skipped, and ended, and nothing is held."""
        return (
            not state.fired
            and all(trigger.state == "C" and not trigger.held for trigger in state.triggers)
            and not any(node.unfilled or node.hand or node.done or node.answer for node in state.nodes if node.up)
            and all(
                fate.fires + fate.skips == 1 and fate.ends == fate.fires and (fate.lost or fate.runs == fate.fires)
                for fates in state.fates
                for fate in fates
            )
        )


def _past(kind: str) -> str:
    return {"acquired": "acquiring", "refilled": "refilling", "reconciled": "comparing"}[kind]


@dataclass(frozen=True)
class Finding:
    """What was explored, and, where something is wrong, what and how it comes about."""

    states: int
    steps: int
    wrong: str | None = None
    trace: tuple[str, ...] = ()
    last: object = None

    def __str__(self) -> str:
        told = f"{self.states} states, {self.steps} steps"
        if self.wrong is None:
            return f"{told}: nothing is wrong"
        lines = [f"{at:3}. {label}" for at, label in enumerate(self.trace, 1)]
        return "\n".join([f"{told}: {self.wrong}", *lines, f"     {self.last}"])


class Explored(Protocol):
    """A model: what may happen next in a state, and what is asked of it."""

    def first(self) -> Any: ...

    def canonical(self, state: Any, /) -> Any: ...

    def edges(self, state: Any) -> Iterator[Edge]: ...

    def violation(self, state: Any) -> str | None: ...

    def is_at_rest(self, state: Any) -> bool: ...


def _told(model: Explored, path: list[Any]) -> Iterator[str]:
    """What happened on the way, told with each node under one name throughout."""
    state = model.first()
    for following in path:
        label, _, state = next(edge for edge in model.edges(state) if model.canonical(edge.to) == following)
        yield label


def explore(scope: Scope, cures: Cures = ALL_CURES) -> Finding:
    """Visit every state of the scope; the first that breaks an invariant, or from which there is no way to rest."""
    return explored(Model(scope, cures))


def explored(model: Explored) -> Finding:
    """Visit every state of a model, as `explore` does."""
    start = model.canonical(model.first())
    found: dict[Any, int] = {start: 0}
    """The number of the state that stands for each one that was reached."""
    states = [start]
    came = [-1]
    backward: list[list[int]] = [[]]
    steps = 0
    at = 0

    def trace(number: int) -> tuple[str, ...]:
        path = []
        while number:
            path.append(number)
            number = came[number]
        return tuple(_told(model, [states[one] for one in reversed(path)]))

    while at < len(states):
        state = states[at]
        if (wrong := model.violation(state)) is not None:
            return Finding(len(states), steps, wrong, trace(at), state)
        for _, is_progress, reached in model.edges(state):
            # Most states are reached in several ways, and to find the one that stands for them takes long.
            number = found.get(reached)
            if number is None:
                to = model.canonical(reached)
                number = found.get(to)
                if number is None:
                    number = found[to] = len(states)
                    states.append(to)
                    came.append(at)
                    backward.append([])
                found[reached] = number
            if number == at:
                continue
            steps += 1
            if is_progress:
                backward[number].append(at)
        at += 1
    rests = [number for number, state in enumerate(states) if model.is_at_rest(state)]
    alive = set(rests)
    while rests:
        for number in backward[rests.pop()]:
            if number not in alive:
                alive.add(number)
                rests.append(number)
    for number, state in enumerate(states):
        if number not in alive:
            return Finding(len(states), steps, "stuck: no way leads to rest", trace(number), state)
    return Finding(len(states), steps)
