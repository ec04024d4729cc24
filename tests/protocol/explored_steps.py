"""The transactions of the explored protocol, each of which happens whole, and what a node makes of their answers."""

from __future__ import annotations

from tests.protocol.explored_state import (
    NOBODY,
    Cures,
    Fired,
    Node,
    Pipeline,
    Scope,
    State,
    Unfilled,
    fire_ids_of,
)

NOTHING = -1
"""The trigger of an acquire step that only looks at the gate."""


class Draft:
    """A state under change. The methods named after steps are transactions: each happens whole."""

    def __init__(self, state: State, scope: Scope, cures: Cures) -> None:
        self.scope = scope
        self.cures = cures
        self.triggers = list(state.triggers)
        self.fired = {row.fire_id: row for row in state.fired}
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
        numbers = [*self.fired]
        for node in self.nodes:
            numbers += [row.fire_id for row in (*node.hand, *node.done)]
            numbers += fire_ids_of(node.answer)
        for pipeline in self.abandoned:
            numbers += fire_ids_of(pipeline.about)
        return max(numbers, default=0) + 1

    def is_full(self) -> bool:
        return self.scope.serial and bool(self.fired)

    def _stands(self, owner: int) -> bool:
        return owner != NOBODY and self.nodes[owner].registered

    def name_gate(self, number: int) -> None:
        """What ends from now on is named by the next step."""
        node = self.nodes[number]
        self.node(number, opened=False, named=node.named or node.opened)

    def lose_answer(self, number: int) -> None:
        """A node that does not hear what became of a step drops what it was about to do next."""
        self.node(number, answer=(), unfilled=(), unsettled=self.cures.settles)

    def unpark(self) -> None:
        """The soonest of those that are parked gets the free slot; rows that the user holds are skipped."""
        waiting = [n for n, trigger in enumerate(self.triggers) if trigger.state == "B" and not trigger.held]
        if waiting and not self.is_full():
            self.set(min(waiting, key=lambda number: self.triggers[number].next), state="W")

    # --- transactions; the answer is None where the epoch is found to be gone

    def send(self, pipeline: Pipeline) -> tuple | None:
        """What a node sends, on a connection of the pool that may have ended others before."""
        self.end_abandoned(pipeline.owner)
        return self.commit(pipeline)

    def end_abandoned(self, owner: int) -> None:
        if self.cures.ends_abandoned:
            self.abandoned = [pipeline for pipeline in self.abandoned if pipeline.owner != owner]

    def commit(self, pipeline: Pipeline) -> tuple | None:
        owner = pipeline.owner
        if not self._stands(owner):
            if self.cures.guards_epoch or pipeline.step != "acquire":
                return None
            owner = NOBODY
        return getattr(self, f"_{pipeline.step}")(owner, *pipeline.about)

    def _acquire(self, owner: int, number: int, opened: bool) -> tuple:
        """Fire a trigger, which moves on; the others of its job stay as they are.

        At a gate that has opened, the soonest of those that are parked waits again: which of the two is the sooner is
        of no account here.
        """
        if opened:
            self.unpark()
        if number == NOTHING:
            return ("acquired", (), ())
        trigger = self.triggers[number]
        if trigger.held or trigger.state != "W":
            return ("acquired", (), ())
        if self.is_full():
            self.set(number, state="B")
            return ("acquired", (), ())
        if not trigger.following and self.cures.refills_first:
            return ("acquired", (), (Unfilled(number, trigger.next),))
        row = Fired(self._fence(), number, trigger.next, owner)
        self.fired[row.fire_id] = row
        self.fate(row, fires=1)
        following = trigger.following or self.scope.instants
        self.set(number, next=following, following=0, state="C" if following == self.scope.instants else "W")
        return ("acquired", (row,), ())

    def _refill(self, owner: int, unfilled: Unfilled) -> tuple:
        trigger = self.triggers[unfilled.trigger]
        is_as_read = trigger.state == "W" and trigger.next == unfilled.instant
        if not trigger.held and (is_as_read or not self.cures.guards_refills):
            self.set(unfilled.trigger, following=unfilled.instant + 1)
        return ("refilled",)

    def _reconcile(self, owner: int, executions: tuple[int, ...]) -> tuple:
        found = tuple(row for row in self.fired.values() if row.owner == owner and row.fire_id not in executions)
        return ("reconciled", found)

    def _complete(self, owner: int, fire_id: int) -> tuple:
        row = self.fired.get(fire_id)
        if row is not None and row.owner == owner:
            del self.fired[fire_id]
            self.fate(row, ends=1)
        return ("completed", fire_id)

    def recover(self, dead: int) -> None:
        """An epoch goes, and with it all that it held; rows that the user holds are skipped."""
        self.node(dead, registered=False, trusted=False)
        for row in list(self.fired.values()):
            if row.owner != dead:
                continue
            if not self.cures.frees_owned:
                self.fired[row.fire_id] = row._replace(owner=NOBODY)
                continue
            self._lose(row)
        kept = [pipeline._replace(owner=NOBODY) if pipeline.owner == dead else pipeline for pipeline in self.abandoned]
        self.abandoned = [pipeline for pipeline in kept if pipeline.owner != NOBODY or not self.cures.guards_epoch]

    def _lose(self, row: Fired) -> None:
        del self.fired[row.fire_id]
        self.fate(row, ends=1)
        fates = self.fates[row.trigger]
        fates[row.instant] = fates[row.instant]._replace(lost=True)

    # --- what a node does with an answer

    def learn(self, number: int) -> None:
        node = self.nodes[number]
        kind, *what = node.answer
        hand, unfilled, unsettled = set(node.hand), node.unfilled, node.unsettled
        match kind:
            case "acquired":
                hand |= set(what[0])
                unfilled = what[1]
                self.node(number, named=False)
            case "refilled":
                unfilled = ()
            case "reconciled":
                hand |= set(what[0]) - set(node.done)
                unsettled = False
        self.node(number, unfilled=unfilled, hand=tuple(sorted(hand)), answer=(), unsettled=unsettled)

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
