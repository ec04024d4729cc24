"""The transactions of the explored protocol, each of which happens whole, and what a node makes of their answers."""

from __future__ import annotations

from tests.protocol.explored_state import NOBODY, Cures, Fired, Node, Pipeline, Scope, State, fire_ids_of


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
        numbers = [*self.fired, *(trigger.fire_id for trigger in self.triggers)]
        for node in self.nodes:
            numbers += [*node.held, *(row.fire_id for row in (*node.hand, *node.done))]
            numbers += fire_ids_of(node.answer)
        for pipeline in self.abandoned:
            numbers += fire_ids_of(pipeline.about)
        return max(numbers, default=0) + 1

    def is_full(self) -> bool:
        return self.scope.serial and any(row.executing for row in self.fired.values())

    def block(self, number: int) -> bool:
        """Let a trigger wait for the executions of its job. Return whether it may: each row is locked, and marked."""
        running = [row for row in self.fired.values() if row.executing]
        if self.cures.waits_for_none_that_ends and any(row.ending == "deleted" for row in running):
            return False
        if self.cures.marks:
            self.fired |= {row.fire_id: row._replace(awaited=True) for row in running if row.ending != "deleted"}
        self.set(number, state="B", fire_id=0)
        return True

    def _stands(self, owner: int) -> bool:
        return owner != NOBODY and self.nodes[owner].registered

    def _begin_executing(self, row: Fired) -> Fired:
        """The trigger moves on; the others of its job stay as they are."""
        row = row._replace(executing=True)
        self.fired[row.fire_id] = row
        self.fate(row, fires=1)
        following = row.instant + 1
        over = following == self.scope.instants
        self.set(row.trigger, next=following, fire_id=0, state="C" if over else "W")
        return row

    def _pass_slot_on(self) -> None:
        """The soonest of those that wait for the slot gets it; rows that the user holds are skipped."""
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
            if self.cures.guards_epoch or pipeline.step not in ("claim", "take"):
                return None
            owner = NOBODY
        return getattr(self, f"_{pipeline.step}")(owner, *pipeline.about)

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
        if self.is_full():
            self.block(number)
            return ("acquired", (), ())
        row = Fired(self._fence(), number, trigger.next, owner, False)
        if at_once:
            return ("acquired", (), (self._begin_executing(row),))
        self.fired[row.fire_id] = row
        self.set(number, state="A", fire_id=row.fire_id)
        return ("acquired", (row.fire_id,), ())

    def _fire(self, owner: int, fire_id: int) -> tuple:
        row = self.fired.get(fire_id)
        if row is None or row.owner != owner or row.executing:
            return ("fired", fire_id, ())
        trigger = self.triggers[row.trigger]
        if trigger.fire_id != fire_id:
            still = () if self._give_back(row) else (fire_id,)
            return ("acquired", still, ()) if still else ("fired", fire_id, ())
        if trigger.held:
            return ("acquired", (), ())
        if self.is_full():
            if not self.block(row.trigger):
                return ("acquired", (), ())
            del self.fired[fire_id]
            return ("fired", fire_id, ())
        return ("fired", fire_id, (self._begin_executing(row),))

    def _give_back(self, row: Fired) -> bool:
        """Whether a claim is no more; one whose trigger the user holds stays."""
        trigger = self.triggers[row.trigger]
        if trigger.fire_id != row.fire_id:
            if self.cures.forgets:
                del self.fired[row.fire_id]
            return self.cures.forgets
        if trigger.held:
            return False
        del self.fired[row.fire_id]
        self.set(row.trigger, state="W", fire_id=0)
        return True

    def _claims_of(self, owner: int) -> list[Fired]:
        return [row for row in self.fired.values() if row.owner == owner and not row.executing]

    def _release(self, owner: int, fire_ids: tuple[int, ...]) -> tuple:
        for row in self._claims_of(owner):
            if row.fire_id in fire_ids:
                self._give_back(row)
        still = {row.fire_id for row in self._claims_of(owner)}
        return ("released", fire_ids, tuple(fire_id for fire_id in fire_ids if fire_id not in still))

    def _reconcile(self, owner: int, claims: tuple[int, ...], executions: tuple[int, ...]) -> tuple:
        found = tuple(
            row.known
            for row in self.fired.values()
            if row.owner == owner and row.executing and row.fire_id not in executions
        )
        for row in self._claims_of(owner):
            if row.fire_id not in claims or self.triggers[row.trigger].fire_id != row.fire_id:
                self._give_back(row)
        return ("reconciled", found, tuple(row.fire_id for row in self._claims_of(owner)))

    def _complete(self, owner: int, fire_id: int) -> tuple:
        row = self.fired.get(fire_id)
        if row is not None and row.owner == owner and row.executing and row.ending != "deleted":
            del self.fired[fire_id]
            self.fate(row, ends=1)
            self._pass_slot_on()
        return ("completed", fire_id)

    # --- an end without the lock, which others may come between

    def may_end_alone(self, fire_id: int) -> bool:
        waits = any(trigger.state == "B" for trigger in self.triggers) and self.cures.looks_before_ending
        return not (self.fired[fire_id].awaited or waits)

    def read_to_end(self, fire_id: int) -> None:
        self.fired[fire_id] = self.fired[fire_id]._replace(ending="read")

    def delete_to_end(self, fire_id: int) -> None:
        """A row that somebody has marked since it was read is a newer version, which is not deleted."""
        row = self.fired[fire_id]
        self.fired[fire_id] = row._replace(ending="" if row.awaited else "deleted")

    def commit_end(self, fire_id: int) -> None:
        row = self.fired.pop(fire_id)
        self.fate(row, ends=1)

    def roll_back_end(self, fire_id: int) -> None:
        row = self.fired[fire_id] = self.fired[fire_id]._replace(ending="")
        if not self._stands(row.owner):
            # A recovery has passed over the locked row, and the next one finds it.
            self._lose(row)

    def recover(self, dead: int) -> None:
        """An epoch goes, and with it all that it held; rows that the user holds are skipped."""
        self.node(dead, registered=False, trusted=False)
        for row in list(self.fired.values()):
            if row.owner != dead:
                continue
            if not self.cures.frees_owned or row.ending == "deleted":
                self.fired[row.fire_id] = row._replace(owner=NOBODY)
                continue
            if row.executing:
                self._lose(row)
                continue
            del self.fired[row.fire_id]
            if self.triggers[row.trigger].fire_id == row.fire_id and not self.triggers[row.trigger].held:
                self.set(row.trigger, state="W", fire_id=0)
        kept = [pipeline._replace(owner=NOBODY) if pipeline.owner == dead else pipeline for pipeline in self.abandoned]
        self.abandoned = [pipeline for pipeline in kept if pipeline.owner != NOBODY or not self.cures.guards_epoch]

    def _lose(self, row: Fired) -> None:
        del self.fired[row.fire_id]
        self.fate(row, ends=1)
        fates = self.fates[row.trigger]
        fates[row.instant] = fates[row.instant]._replace(lost=True)
        self._pass_slot_on()

    def repair(self) -> None:
        for number, trigger in enumerate(self.triggers):
            if trigger.state == "A" and trigger.fire_id not in self.fired and not trigger.held:
                self.set(number, state="W", fire_id=0)

    def pass_open_slot_on(self) -> None:
        """What a claim is about to take is not open."""
        if not any(trigger.state == "A" for trigger in self.triggers):
            self._pass_slot_on()

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
            case "reconciled":
                hand |= set(what[0]) - set(node.done)
                held &= set(what[1])
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
