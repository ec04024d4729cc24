"""The protocol as a small pure model, and an explorer that visits every state which it can reach.

Two nodes and a user work on one or two triggers. A flight is an atomic commit whose answer travels by itself: the
flight may be lost, its answer may be lost, or it may commit after its node gave it up. A row may be held by the
user's transaction, a node may crash, and a living node may be judged dead. Each of these costs one fault; everything
else happens in every order. Instants become due at any moment, so no clock is needed: whatever depends on time
happens both before and after everything else.

The explorer visits all states breadth first, and states that differ only by the names of nodes or by the absolute
numbers of fences are one state. Two things are asked of the whole graph:

- safety: what `violation` names holds in every state;
- liveness: from every state a state is reached, by steps that need neither a fault nor a human hand, in which every
  instant has fired exactly once (or was skipped as a misfire) and has ended, and nothing is held.

The second is meant under strong fairness: a graph has no other end, so whoever keeps on taking steps gets there.
A trace to a state that breaks either is one of the shortest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

NODES = (0, 1)
NOBODY = -1
"""The owner of a row that an epoch wrote which is no longer registered."""


@dataclass(frozen=True)
class Cures:
    """What the protocol does about its faults; each can be taken out."""

    settles_by_hand: bool = True
    """C1: a lost answer is resolved against what was handed to workers, not against the claims held."""
    ends_abandoned: bool = True
    """C2: a connection that was given up is ended on the server before its work is judged."""
    release_answers: bool = True
    """C3: a node forgets the claims that were released, and no others."""
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
    frees_owned: bool = True
    """S8: recovery frees what the dead node held."""
    repairs: bool = True
    """A row that says it is held, where nothing holds it, is freed at a check-in."""


@dataclass(frozen=True)
class Scope:
    """How much is explored."""

    triggers: int = 1
    instants: int = 1
    faults: int = 2
    serial: bool = False
    """Whether the triggers are of one job that disallows concurrent execution."""


class Trigger(NamedTuple):
    """A row of `triggers`: WAITING, ACQUIRED, BLOCKED, PAUSED or COMPLETE by its first letter."""

    state: str = "W"
    fence: int = 0
    next: int = 0
    held: bool = False


class Fired(NamedTuple):
    """A row of `fired_triggers`."""

    fence: int
    trigger: int
    instant: int
    owner: int
    executing: bool


class Node(NamedTuple):
    """What a node's process knows; `registered` is what the database says of its epoch."""

    up: bool = True
    registered: bool = True
    trusted: bool = True
    unsettled: bool = False
    held: tuple[int, ...] = ()
    hand: tuple[Fired, ...] = ()
    done: tuple[Fired, ...] = ()
    answer: tuple = ()


class Flight(NamedTuple):
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
    abandoned: tuple[Flight, ...]
    late: tuple[tuple[int, int], ...]
    fates: tuple[tuple[Fate, ...], ...]
    faults: int
    zombie: bool = False


class Edge(NamedTuple):
    """A step from a state: what happened, whether it needs no fault, and where it leads."""

    label: str
    is_progress: bool
    to: State


def first(scope: Scope) -> State:
    fates = ((Fate(),) * scope.instants,) * scope.triggers
    return State((Trigger(),) * scope.triggers, (), (Node(), Node()), (), (), fates, scope.faults)


class Draft:
    """A state under change. The methods named after steps are transactions: each happens whole."""

    def __init__(self, state: State, scope: Scope, cures: Cures) -> None:
        self.scope = scope
        self.cures = cures
        self.triggers = list(state.triggers)
        self.fired = {row.fence: row for row in state.fired}
        self.nodes = list(state.nodes)
        self.abandoned = list(state.abandoned)
        self.late = list(state.late)
        self.fates = [list(fates) for fates in state.fates]
        self.faults = state.faults
        self.zombie = state.zombie

    # --- words

    def set(self, trigger: int, **values: object) -> None:
        self.triggers[trigger] = self.triggers[trigger]._replace(**values)

    def node(self, node: int, **values: object) -> None:
        self.nodes[node] = self.nodes[node]._replace(**values)

    def fate(self, row: Fired, **more: int) -> None:
        fates = self.fates[row.trigger]
        old = fates[row.instant]
        fates[row.instant] = old._replace(**{name: getattr(old, name) + n for name, n in more.items()})

    def _fence(self) -> int:
        numbers = [*self.fired, *(trigger.fence for trigger in self.triggers)]
        for node in self.nodes:
            numbers += [*node.held, *(row.fence for row in (*node.hand, *node.done))]
            numbers += _fences_of(node.answer)
        for flight in self.abandoned:
            numbers += _fences_of(flight.about)
        return max(numbers, default=0) + 1

    def _is_full(self) -> bool:
        return self.scope.serial and any(row.executing for row in self.fired.values())

    def _stands(self, owner: int) -> bool:
        return owner != NOBODY and self.nodes[owner].registered

    def _begin_executing(self, row: Fired) -> Fired:
        """The trigger moves on, and the others of its job are blocked; rows that the user holds are skipped."""
        row = row._replace(executing=True)
        self.fired[row.fence] = row
        self.fate(row, fires=1)
        following = row.instant + 1
        over = following == self.scope.instants
        self.set(row.trigger, next=following, fence=0, state="C" if over else "B" if self.scope.serial else "W")
        if self.scope.serial:
            for number, other in enumerate(self.triggers):
                if number != row.trigger and not other.held and other.state in "WA":
                    self.fired.pop(other.fence, None)
                    self.set(number, state="B", fence=0)
        return row

    def _free_siblings(self) -> None:
        if not self._is_full():
            for number, trigger in enumerate(self.triggers):
                if trigger.state == "B" and not trigger.held:
                    self.set(number, state="W")

    # --- transactions; the answer is None where the epoch is found to be gone

    def commit(self, flight: Flight) -> tuple | None:
        owner = flight.owner
        if not self._stands(owner):
            if self.cures.guards_epoch or flight.step not in ("claim", "take"):
                return None
            owner = NOBODY
        return getattr(self, f"_{flight.step}")(owner, *flight.about)

    def _claim(self, owner: int, number: int) -> tuple:
        """Acquire, ahead of the instant."""
        return self._acquire(owner, number, at_once=False)

    def _take(self, owner: int, number: int) -> tuple:
        """Acquire and fire at once what is due."""
        return self._acquire(owner, number, at_once=True)

    def _acquire(self, owner: int, number: int, *, at_once: bool) -> tuple:
        trigger = self.triggers[number]
        if trigger.held or trigger.state != "W":
            return ("acquired", (), ())
        if self._is_full():
            self.set(number, state="B")
            return ("acquired", (), ())
        row = Fired(self._fence(), number, trigger.next, owner, False)
        if at_once:
            return ("acquired", (), (self._begin_executing(row),))
        self.fired[row.fence] = row
        self.set(number, state="A", fence=row.fence)
        return ("acquired", (row.fence,), ())

    def _fire(self, owner: int, fence: int) -> tuple:
        row = self.fired.get(fence)
        if row is None or row.owner != owner or row.executing:
            return ("fired", fence, ())
        trigger = self.triggers[row.trigger]
        if trigger.fence != fence:
            del self.fired[fence]
            return ("fired", fence, ())
        if trigger.held:
            return ("acquired", (), ())
        if self._is_full():
            del self.fired[fence]
            self.set(row.trigger, state="B", fence=0)
            return ("fired", fence, ())
        return ("fired", fence, (self._begin_executing(row),))

    def _release(self, owner: int, fences: tuple[int, ...]) -> tuple:
        gone = []
        for fence in fences:
            row = self.fired.get(fence)
            if row is None or row.owner != owner or row.executing:
                gone.append(fence)
            elif not self.triggers[row.trigger].held:
                gone.append(fence)
                del self.fired[fence]
                if self.triggers[row.trigger].fence == fence:
                    self.set(row.trigger, state="W", fence=0)
        return ("released", fences, tuple(gone))

    def _settle(self, owner: int, known: tuple[int, ...]) -> tuple:
        if self.cures.ends_abandoned:
            self.abandoned = [flight for flight in self.abandoned if flight.owner != owner]
        mine = [row for row in self.fired.values() if row.owner == owner and row.fence not in known]
        found = tuple(row for row in mine if row.executing)
        _, _, released = self._release(owner, tuple(row.fence for row in mine if not row.executing))
        return ("settled", found, released)

    def _complete(self, owner: int, fence: int) -> tuple:
        row = self.fired.get(fence)
        if row is not None and row.owner == owner and row.executing:
            del self.fired[fence]
            self.fate(row, ends=1)
            self._free_siblings()
        return ("completed", fence)

    def recover(self, dead: int) -> None:
        """An epoch goes, and with it all that it held; rows that the user holds are skipped."""
        self.node(dead, registered=False, trusted=False)
        for row in list(self.fired.values()):
            if row.owner != dead:
                continue
            if not self.cures.frees_owned:
                self.fired[row.fence] = row._replace(owner=NOBODY)
                continue
            del self.fired[row.fence]
            if row.executing:
                self.fate(row, ends=1)
                fates = self.fates[row.trigger]
                fates[row.instant] = fates[row.instant]._replace(lost=True)
                self._free_siblings()
            elif self.triggers[row.trigger].fence == row.fence and not self.triggers[row.trigger].held:
                self.set(row.trigger, state="W", fence=0)
        kept = [flight._replace(owner=NOBODY) if flight.owner == dead else flight for flight in self.abandoned]
        self.abandoned = [flight for flight in kept if flight.owner != NOBODY or not self.cures.guards_epoch]

    def repair(self) -> None:
        for number, trigger in enumerate(self.triggers):
            unowned = trigger.state == "A" and trigger.fence not in self.fired
            if not trigger.held and (unowned or (trigger.state == "B" and not self._is_full())):
                self.set(number, state="W", fence=0)

    # --- what a node does with an answer

    def learn(self, number: int) -> None:
        node = self.nodes[number]
        kind, *what = node.answer
        held, hand, unsettled = set(node.held), set(node.hand), node.unsettled
        match kind:
            case "acquired":
                held |= set(what[0])
                hand |= set(what[1])
            case "fired":
                held.discard(what[0])
                hand |= set(what[1])
            case "released":
                held -= set(what[1] if self.cures.release_answers else what[0])
            case "settled":
                hand |= set(what[0]) - set(node.done)
                if self.cures.settles_by_hand:
                    held -= {*what[1], *(row.fence for row in what[0])}
                unsettled = False
        self.node(number, held=tuple(sorted(held)), hand=tuple(sorted(hand)), answer=(), unsettled=unsettled)

    def rejoin(self, number: int) -> None:
        self.nodes[number] = Node()

    def freeze(self) -> State:
        return State(
            tuple(self.triggers),
            tuple(sorted(self.fired.values())),
            tuple(self.nodes),
            tuple(sorted(self.abandoned)),
            tuple(sorted(self.late)),
            tuple(map(tuple, self.fates)),
            self.faults,
            self.zombie,
        )


def _fences_of(answer: tuple) -> list[int]:
    """The fences within an answer or the arguments of a flight."""
    found: list[int] = []
    for part in answer:
        if isinstance(part, Fired):
            found.append(part.fence)
        elif isinstance(part, tuple):
            found += _fences_of(part)
        elif isinstance(part, int):
            found.append(part)
    return found


def _renamed(part: object, fences: dict[int, int]) -> object:
    if isinstance(part, Fired):
        return part._replace(fence=fences[part.fence])
    if isinstance(part, tuple):
        return tuple(_renamed(one, fences) for one in part)
    return fences[part] if isinstance(part, int) else part


def _is_about_fences(flight: Flight) -> bool:
    return flight.step not in ("claim", "take")


def canonical(state: State) -> State:
    """The one state that stands for all that differ by the numbers of fences and the order of nodes only."""
    numbers = {row.fence for row in state.fired} | {trigger.fence for trigger in state.triggers} | {0}
    for node in state.nodes:
        numbers.update(node.held)
        numbers.update(row.fence for row in node.hand)
        numbers.update(row.fence for row in node.done)
        numbers.update(_fences_of(node.answer))
    for flight in state.abandoned:
        if _is_about_fences(flight):
            numbers.update(_fences_of(flight.about))
    if max(numbers) >= len(numbers):
        new = {old: rank for rank, old in enumerate(sorted(numbers))}
        state = state._replace(
            triggers=tuple(trigger._replace(fence=new[trigger.fence]) for trigger in state.triggers),
            fired=_renamed(state.fired, new),
            nodes=tuple(
                node._replace(
                    held=_renamed(node.held, new),
                    hand=_renamed(node.hand, new),
                    done=_renamed(node.done, new),
                    answer=_renamed(node.answer, new),
                )
                for node in state.nodes
            ),
            abandoned=tuple(
                flight._replace(about=_renamed(flight.about, new)) if _is_about_fences(flight) else flight
                for flight in state.abandoned
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
    abandoned = tuple(sorted(flight._replace(owner=other(flight.owner)) for flight in state.abandoned))
    return state._replace(fired=rows(state.fired), nodes=nodes, abandoned=abandoned)


class Model:
    """What may happen next, in a scope and with these cures."""

    def __init__(self, scope: Scope, cures: Cures) -> None:
        self.scope = scope
        self.cures = cures

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
                draft.node(number, answer=(), unsettled=True)
                yield Edge(f"{name} never hears the answer of its {_past(node.answer[0])}", False, draft.freeze())
            return
        for label, flight, is_progress in self._flights(state, number, node):
            draft = self.draft(state)
            answer = draft.commit(flight)
            if answer is None:
                draft.rejoin(number)
                yield Edge(f"{name} finds its epoch gone and rejoins", True, draft.freeze())
            else:
                draft.node(number, answer=answer)
                yield Edge(f"{name}: {label} commits", is_progress, draft.freeze())
            if state.faults:
                draft = self.draft(state, fault=True)
                draft.node(number, unsettled=True)
                yield Edge(f"{name}: {label} never arrives", False, draft.freeze())
                draft = self.draft(state, fault=True)
                draft.node(number, unsettled=True)
                draft.abandoned.append(flight)
                yield Edge(f"{name} gives up its {label}, which the server still has", False, draft.freeze())

    def _flights(self, state: State, number: int, node: Node) -> Iterator[tuple[str, Flight, bool]]:
        if node.unsettled or self.cures.compares:
            handed = {row.fence for row in (*node.hand, *node.done)}
            known = handed if self.cures.settles_by_hand else handed | set(node.held)
            yield "settling", Flight("settle", number, (tuple(sorted(known)),)), True
        if node.unsettled or not node.trusted:
            return
        for trigger, row in enumerate(state.triggers):
            if row.state == "W" and not row.held:
                yield f"acquiring t{trigger} ahead", Flight("claim", number, (trigger,)), True
                yield f"acquiring and firing t{trigger}", Flight("take", number, (trigger,)), True
        for fence in node.held:
            yield f"firing claim {fence}", Flight("fire", number, (fence,)), True
        if node.held:
            yield f"releasing claims {list(node.held)}", Flight("release", number, (node.held,)), False

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
            flight = Flight("complete", number, (row.fence,))
            draft = self.draft(state)
            draft.commit(flight)
            draft.node(number, done=tuple(one for one in node.done if one != row))
            yield Edge(f"{name} completes t{row.trigger}", True, draft.freeze())
            if state.faults:
                draft = self.draft(state, fault=True)
                draft.commit(flight)
                yield Edge(f"{name} completes t{row.trigger} and never hears the answer", False, draft.freeze())
                draft = self.draft(state, fault=True)
                draft.abandoned.append(flight)
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
            found = [row for row in state.fired if row.owner == number and row.executing and row not in handed]
            if found:
                draft = self.draft(state)
                draft.node(number, hand=tuple(sorted({*node.hand, *found})))
                yield Edge(f"{name} compares beside the thread that fires", True, draft.freeze())
        peer = 1 - number
        other = state.nodes[peer]
        if other.registered and (not other.up or state.faults):
            draft = self.draft(state, fault=other.up)
            draft.recover(peer)
            dead = "living" if other.up else "dead"
            yield Edge(f"{name} recovers the {dead} node {'ab'[peer]}", not other.up, draft.freeze())
        if self.cures.repairs:
            draft = self.draft(state)
            draft.repair()
            yield Edge(f"{name} repairs what nothing holds", True, draft.freeze())
        for at, trigger in enumerate(state.triggers):
            if state.faults and trigger.state == "W" and not trigger.held:
                draft = self.draft(state, fault=True)
                draft.late.append((at, trigger.next))
                yield Edge(f"{name} reads the misfire of t{at}", False, draft.freeze())

    # --- the rest of the world

    def _environment(self, state: State) -> Iterator[Edge]:
        for at, flight in enumerate(state.abandoned):
            for commits in (True, False):
                draft = self.draft(state)
                del draft.abandoned[at]
                if commits:
                    draft.commit(flight)
                word = "commits" if commits else "ends without a commit"
                yield Edge(f"the abandoned {flight.step} of node {'ab?'[flight.owner]} {word}", True, draft.freeze())
        for at, (number, seen) in enumerate(state.late):
            draft = self.draft(state)
            del draft.late[at]
            trigger = state.triggers[number]
            if not trigger.held and (not self.cures.guards_misfires or (trigger.state == "W" and trigger.next == seen)):
                draft.fate(Fired(0, number, seen, NOBODY, False), skips=1)
                over = seen + 1 == self.scope.instants
                draft.set(number, next=seen + 1, state="C" if over else trigger.state)
            yield Edge(f"the misfire of t{number} is handled", True, draft.freeze())
        for number, trigger in enumerate(state.triggers):
            if trigger.held:
                draft = self.draft(state)
                draft.set(number, held=False)
                yield Edge(f"the user rolls back and lets t{number} go", True, draft.freeze())
            elif trigger.state == "P":
                draft = self.draft(state)
                draft.set(number, state="B" if draft._is_full() else "W")
                yield Edge(f"the user resumes t{number}", True, draft.freeze())
            elif state.faults and trigger.state != "C":
                draft = self.draft(state, fault=True)
                draft.set(number, held=True)
                yield Edge(f"the user's transaction holds the row of t{number}", False, draft.freeze())
                draft = self.draft(state, fault=True)
                draft.fired.pop(trigger.fence, None)
                draft.set(number, state="P", fence=0)
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
        if self.scope.serial and sum(row.executing for row in state.fired) > 1:
            return "S3: a job that disallows concurrent execution executes twice at a time"
        for row in state.fired:
            if row.owner == NOBODY or not state.nodes[row.owner].registered:
                return f"S4: claim {row.fence} is of an epoch that is not registered"
            if not row.executing and state.triggers[row.trigger].fence != row.fence:
                return f"S4: claim {row.fence} is of a trigger that does not know it"
        return None

    def is_at_rest(self, state: State) -> bool:
        """Whether every instant fired exactly once, or was skipped, and ended, and nothing is held."""
        return (
            not state.fired
            and all(trigger.state == "C" and not trigger.held for trigger in state.triggers)
            and not any(node.held or node.hand or node.done or node.answer for node in state.nodes if node.up)
            and all(
                fate.fires + fate.skips == 1 and fate.ends == fate.fires and (fate.lost or fate.runs == fate.fires)
                for fates in state.fates
                for fate in fates
            )
        )


def _past(kind: str) -> str:
    return {"acquired": "acquiring", "fired": "firing", "released": "releasing", "settled": "settling"}[kind]


@dataclass(frozen=True)
class Finding:
    """What was explored, and, where something is wrong, what and how it comes about."""

    states: int
    steps: int
    wrong: str | None = None
    trace: tuple[str, ...] = ()
    last: State | None = None

    def __str__(self) -> str:
        told = f"{self.states} states, {self.steps} steps"
        if self.wrong is None:
            return f"{told}: nothing is wrong"
        lines = [f"{at:3}. {label}" for at, label in enumerate(self.trace, 1)]
        return "\n".join([f"{told}: {self.wrong}", *lines, f"     {self.last}"])


def _told(model: Model, path: list[State]) -> Iterator[str]:
    """What happened on the way, told with each node under one name throughout."""
    state = first(model.scope)
    for following in path:
        label, _, state = next(edge for edge in model.edges(state) if canonical(edge.to) == following)
        yield label


def explore(scope: Scope, cures: Cures = Cures(), *, on_states: Callable[[int], None] | None = None) -> Finding:
    """Visit every state of the scope; the first that breaks an invariant, or from which there is no way to rest."""
    model = Model(scope, cures)
    start = canonical(first(scope))
    found: dict[State, int] = {start: 0}
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
            to = canonical(reached)
            if to == state:
                continue
            steps += 1
            number = found.get(to)
            if number is None:
                number = found[to] = len(states)
                states.append(to)
                came.append(at)
                backward.append([])
            if is_progress:
                backward[number].append(at)
        at += 1
        if on_states is not None and at % 10_000 == 0:
            on_states(at)
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
