"""The scheduler thread: waits for a free worker, claims due triggers, waits for their instant, fires them.

It has claims in hand; the executions that came of them are in the hands of workers until they are recorded. Both are
compared with what the store says that this epoch holds: after each step whose answer was lost, and at each check-in.
Whatever made them differ (an answer that was lost, a flight that was committed after its connection was given up, rows
that were edited by hand, a bug), each difference is ended then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from quartzpy.clock import Clock
from quartzpy.config import SchedulerConfig
from quartzpy.errors import UnknownTimeZoneError, UnsupportedKindError
from quartzpy.events import JobSkipped, SchedulerError
from quartzpy.jitter import uniform
from quartzpy.listeners import Listeners
from quartzpy.runtime.capacity import Capacity, workers_of
from quartzpy.runtime.epoch import Epoch
from quartzpy.runtime.fire_requests import fire_request_of
from quartzpy.runtime.outage import StoreWatch
from quartzpy.runtime.service import NO_REST, EpochService
from quartzpy.runtime.store_time import StoreTime
from quartzpy.store.protocol import (
    AcquiredTrigger,
    AvailableSlots,
    FiredTrigger,
    FireRequest,
    Holdings,
    JobStore,
    SkippedTrigger,
)

SHORTEST_REST = 0.02
"""Before looking again at a due trigger that cannot be taken now: somebody's transaction holds its row."""
LONGEST_HELD_REST = 0.25
"""The same, after it was looked at in vain several times."""
FIRST_RETRY = 0.001
"""Before firing again what the store's clock had not reached, as it seemed to have."""
PASSED_OVER_SECONDS = 60.0
"""How long a trigger is left to other nodes that this one cannot compute."""
FULL_REST = 0.5
"""While nothing is free: the end of an execution wakes the thread; this is the net under that."""
STANDBY_REST = 3_600.0
BACKLOG_LIMIT = 2_000
"""With more ended executions than this waiting to be recorded, nothing more is fired."""


class SchedulerThread(EpochService):
    """Keeps the workers busy with what is due."""

    def __init__(
        self,
        name: str,
        *,
        store: JobStore,
        clock: Clock,
        store_time: StoreTime,
        capacity: Capacity,
        config: SchedulerConfig,
        epoch: Callable[[], Epoch],
        hand_over: Callable[[Sequence[FiredTrigger], Epoch], None],
        running: Callable[[Epoch], Collection[int]],
        disown: Callable[[Collection[int]], None],
        backlog: Callable[[], int],
        lease_lost: Callable[[Epoch], None],
        listeners: Listeners,
        watch: StoreWatch | None = None,
    ) -> None:
        self._listeners = listeners
        super().__init__(name, epoch=epoch, lease_lost=lease_lost, watch=watch)
        self._store = store
        self._clock = clock
        self._store_time = store_time
        self._capacity = capacity
        self._config = config
        self._hand_over = hand_over
        self._running_fire_ids = running
        self._disown = disown
        self._backlog = backlog
        self._standby = True
        self._resting = threading.Event()
        self._held: list[AcquiredTrigger] = []
        self._held_by: Epoch | None = None
        self._answer_lost = False
        self._compare_due = False
        self._not_fired = _HeldBack()
        self._passed_over = _PassedOver(clock)
        self._fruitless = 0
        self.differences = 0
        """How many differences between what the store says that this node holds, and what it has, were ended."""

    # --- from other threads

    def set_standby(self, standby: bool) -> None:
        self._resting.clear()
        self._standby = standby
        self.wakeup.set()

    def wait_until_resting(self, timeout: float) -> bool:
        """After `set_standby(True)`: wait for the pass that was under way; whether it ended."""
        return self._resting.wait(timeout)

    @property
    def in_standby(self) -> bool:
        return self._standby

    def compare(self) -> None:
        """Compare what this node has in hand with what its epoch holds, in the next pass."""
        self._compare_due = True
        self.wakeup.set()

    # --- the loop

    def after_failure(self, error: BaseException) -> None:
        # A step may have been committed although its answer never came.
        self._answer_lost = True

    def on_lease_lost(self) -> None:
        self._held.clear()
        super().on_lease_lost()

    def run_as(self, epoch: Epoch) -> float:
        """Fire what is due, claim what is next; the seconds until there is something to do."""
        if epoch is not self._held_by:
            self._held, self._held_by = [], epoch
        if self._answer_lost and epoch.trusted:
            self._reconcile(epoch)
        elif self._compare_due and epoch.trusted:
            self._compare(epoch)
        if self._standby or not epoch.trusted:
            self._release(epoch, self._held)
            if not self._standby:
                return SHORTEST_REST
            if not self._resting.is_set():
                self._wake_others(epoch)
                self._resting.set()
            return LONGEST_HELD_REST if self._held else STANDBY_REST
        self._fire_held(epoch)
        available_slots = self._capacity.available_slots(claim.placement for claim in self._held)
        if not available_slots or self._backlog() > BACKLOG_LIMIT:
            return self._rest_while_full(epoch)
        return self._acquire(epoch, available_slots)

    def _acquire(self, epoch: Epoch, available_slots: Sequence[AvailableSlots]) -> float:
        limit = min(workers_of(available_slots), self._config.batch_size)
        asked_at = self._clock.monotonic()
        took = self._store.acquire(
            epoch.node,
            available_slots,
            limit=limit,
            look_ahead=self._config.look_ahead,
            misfire_threshold=self._config.misfire_threshold,
            passed_over=self._passed_over.generations(),
        )
        self._store_time.learn(took.now, asked_at)
        self._start(took.fired, epoch)
        self._skipped(took.skipped)
        self._held.extend(took.acquired)
        self._held.sort(key=lambda claim: claim.progress.next_fire_time or took.now)
        opened = self._capacity.learn(took.placed)
        taken = len(took.fired) + len(took.acquired) + len(took.skipped)
        if opened or taken >= limit:
            return NO_REST
        return self._rest(took.next_due, fruitless=taken == 0)

    def _rest(self, next_due: datetime | None, *, fruitless: bool) -> float:
        # Not all nodes at the same moment.
        rest = self._config.idle_wait.total_seconds() * uniform(0.8, 1.0)
        shortest = SHORTEST_REST
        if next_due is not None:
            ahead = self._config.look_ahead.total_seconds() * uniform(0.5, 1.0)
            until = self._store_time.seconds_until(next_due) - ahead
            # It is due, and cannot be taken: somebody's transaction holds its row, for who knows how long.
            self._fruitless = self._fruitless + 1 if fruitless and until <= 0 else 0
            shortest = min(SHORTEST_REST * 2.0 ** max(0, self._fruitless - 1), LONGEST_HELD_REST)
            rest = min(rest, max(shortest, until))
        return min(rest, self._until_held())

    def _until_held(self) -> float:
        """The seconds until a claim is to be fired."""
        now = self._clock.monotonic()
        return min(
            (
                max(self._not_fired.rest(claim.fire_id, now), self._store_time.seconds_until(at))
                for claim in self._held
                if (at := claim.progress.next_fire_time) is not None
            ),
            default=STANDBY_REST,
        )

    def _rest_while_full(self, epoch: Epoch) -> float:
        """No worker is free for more: wait for one, or for the instant of a claim."""
        if self._held:
            # Somebody may have scheduled something sooner than what the last free workers are kept for.
            woken = self.wakeup.wait(min(self._until_held(), 1.0)) and not self._compare_due
            if woken and self._until_held() > SHORTEST_REST:
                self._release(epoch, self._held)
            return NO_REST
        return FULL_REST if self._backlog() <= BACKLOG_LIMIT else SHORTEST_REST

    def _fire_held(self, epoch: Epoch) -> None:
        now, at = self._store_time.now(), self._clock.monotonic()
        due = [
            claim
            for claim in self._held
            if (claim.progress.next_fire_time or now) <= now and self._not_fired.rest(claim.fire_id, at) <= 0
        ]
        if not due:
            return
        moves = self._moves(epoch, due, now)
        if not moves:
            return
        asked_at = self._clock.monotonic()
        firing = self._store.fire(epoch.node, moves)
        self._store_time.learn(firing.now, asked_at)
        asked = {move.acquired.fire_id for move in moves}
        self._drop(asked.difference(firing.not_due))
        self._not_fired.again(firing.not_due, self._clock.monotonic())
        self._start(firing.fired, epoch)
        self._skipped(firing.skipped)

    def _moves(self, epoch: Epoch, due: Sequence[AcquiredTrigger], now: datetime) -> list[FireRequest]:
        """Where these claims go. What this node cannot compute it leaves to others; what nobody can goes to ERROR."""
        moves, foreign, wrong = [], [], {}
        for claim in due:
            try:
                moves.append(fire_request_of(claim, now))
            except (UnsupportedKindError, UnknownTimeZoneError) as error:
                self._logger.warning("trigger %s is left to other nodes: %s", claim.key, error)
                self._passed_over.add(claim.generation)
                foreign.append(claim)
            except Exception as error:
                self._logger.exception("trigger %s goes to ERROR: its next fire time cannot be computed", claim.key)
                self._listeners.post(
                    SchedulerError(f"trigger {claim.key}: its next fire time cannot be computed", error)
                )
                wrong[claim.fire_id] = f"the next fire time cannot be computed: {type(error).__name__}: {error}"
        if foreign:
            self._release(epoch, foreign)
        if wrong:
            self._store.reject(epoch.node, wrong)
            self._drop(wrong)
        return moves

    def _drop(self, fire_ids: Collection[int]) -> None:
        """These claims are no more."""
        self._held = [claim for claim in self._held if claim.fire_id not in fire_ids]
        self._not_fired.forget(fire_ids)

    def _start(self, fired: Sequence[FiredTrigger], epoch: Epoch) -> None:
        if fired:
            epoch.take_in_hand(one.fire_id for one in fired)
            self._hand_over(fired, epoch)

    def _running(self, epoch: Epoch) -> set[int]:
        return set(self._running_fire_ids(epoch))

    def _skipped(self, skipped: Sequence[SkippedTrigger]) -> None:
        for one in skipped:
            self._logger.info("job %s is at its limit: the fire of %s is skipped", one.job_key, one.trigger_key)
            self._listeners.post(JobSkipped(one.trigger_key, one.job_key, one.scheduled_fire_time))

    def _compare(self, epoch: Epoch) -> None:
        """Look whether this node has in hand what its epoch holds; end what differs."""
        self._compare_due = False
        running = self._running(epoch)
        in_hand = epoch.in_hand()
        asked_at = self._clock.monotonic()
        found = self._store.holdings(epoch.node)
        self._store_time.learn(found.now, asked_at)
        if found.claims != {claim.fire_id for claim in self._held} or not found.executions <= in_hand:
            self._reconcile(epoch)
        self._end_gone(epoch, running, found)

    def _reconcile(self, epoch: Epoch) -> None:
        """End the differences between what this node has in hand and what its epoch holds."""
        held = {claim.fire_id for claim in self._held}
        running = self._running(epoch)
        found = self._store.reconcile(epoch.node, claims=held, executions=epoch.in_hand())
        self._answer_lost = False
        if found.released or found.fired:
            self.differences += len(found.released) + len(found.fired)
            self._logger.warning(
                "%s: this node held %d claims and %d executions that it did not know of, as the answer to a step was"
                " lost; the claims are released, the executions begin",
                self.name,
                len(found.released),
                len(found.fired),
            )
        self._drop(held.difference(found.holdings.claims))
        self._start(found.fired, epoch)
        self._end_gone(epoch, running, found.holdings)

    def _end_gone(self, epoch: Epoch, running: Collection[int], found: Holdings) -> None:
        """Tell the executions whose rows are gone that they no longer count. They ran before the store was asked, and
        still do: none of them was recorded meanwhile."""
        gone = self._running(epoch).intersection(running).difference(found.executions)
        if gone:
            self.differences += len(gone)
            self._disown(gone)

    def _release(self, epoch: Epoch, claims: Sequence[AcquiredTrigger]) -> None:
        if not claims:
            return
        fire_ids = {claim.fire_id for claim in claims}
        # What a transaction of somebody's holds is still claimed, and tried again.
        self._drop(fire_ids.difference(self._store.release(epoch.node, fire_ids)))

    def release_all(self) -> None:
        """Give back what is claimed and not fired; after the thread has ended."""
        epoch = self._held_by
        if epoch is not None and not epoch.lost:
            self._release(epoch, self._held)
            self._wake_others(epoch)

    def _wake_others(self, epoch: Epoch) -> None:
        # This node may have been the only one that was awake for what is due next.
        self._store.release(epoch.node, ())


class _HeldBack:
    """Claims that could not be fired when they seemed due, and when they are tried again."""

    def __init__(self) -> None:
        self._tries: dict[int, tuple[int, float]] = {}

    def again(self, fire_ids: Collection[int], now: float) -> None:
        for fire_id in fire_ids:
            tries, _ = self._tries.get(fire_id, (0, 0.0))
            self._tries[fire_id] = (tries + 1, now + min(FIRST_RETRY * 2.0 ** min(tries, 30), LONGEST_HELD_REST))

    def rest(self, fire_id: int, now: float) -> float:
        return self._tries[fire_id][1] - now if fire_id in self._tries else 0.0

    def forget(self, fire_ids: Collection[int]) -> None:
        for fire_id in fire_ids:
            self._tries.pop(fire_id, None)


class _PassedOver:
    """The generations of triggers that this node cannot compute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[int, float] = {}

    def add(self, generation: int) -> None:
        self._until[generation] = self._clock.monotonic() + PASSED_OVER_SECONDS

    def generations(self) -> Collection[int]:
        if self._until:
            now = self._clock.monotonic()
            self._until = {generation: until for generation, until in self._until.items() if until > now}
        return self._until.keys()
