"""The scheduler thread: waits for a free worker, claims due triggers, waits for their instant, fires them."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from quartzpy.clock import Clock
from quartzpy.config import SchedulerConfig
from quartzpy.events import JobSkipped
from quartzpy.listeners import Listeners
from quartzpy.runtime.capacity import Capacity, workers_of
from quartzpy.runtime.epoch import Epoch
from quartzpy.runtime.moves import move_of
from quartzpy.runtime.service import NO_REST, EpochService
from quartzpy.runtime.store_time import StoreTime
from quartzpy.store.protocol import AcquiredTrigger, FiredTrigger, JobStore, Move, Opening, SkippedTrigger

SHORTEST_REST = 0.02
"""Before looking again at a due trigger that cannot be taken now: somebody's transaction holds its row."""
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
        cancelled: Callable[[Collection[int]], None],
        backlog: Callable[[], int],
        lease_lost: Callable[[Epoch], None],
        listeners: Listeners,
    ) -> None:
        self._listeners = listeners
        super().__init__(name, epoch=epoch, lease_lost=lease_lost)
        self._store = store
        self._clock = clock
        self._store_time = store_time
        self._capacity = capacity
        self._config = config
        self._hand_over = hand_over
        self._cancelled = cancelled
        self._backlog = backlog
        self._standby = True
        self._resting = threading.Event()
        self._held: list[AcquiredTrigger] = []
        self._held_by: Epoch | None = None
        self._unsettled = False

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

    # --- the loop

    def after_failure(self, error: BaseException) -> None:
        # A step may have been committed although its answer never came.
        self._unsettled = True

    def on_lease_lost(self) -> None:
        self._held.clear()
        super().on_lease_lost()

    def run_as(self, epoch: Epoch) -> float:
        """Fire what is due, claim what is next; the seconds until there is something to do."""
        if epoch is not self._held_by:
            self._held, self._held_by = [], epoch
        if self._unsettled and epoch.trusted:
            self._settle(epoch)
        if self._standby or not epoch.trusted:
            self._release(epoch, self._held)
            if not self._standby:
                return SHORTEST_REST
            if not self._resting.is_set():
                self._wake_others(epoch)
                self._resting.set()
            return STANDBY_REST
        self._fire_held(epoch)
        openings = self._capacity.openings(claim.placement for claim in self._held)
        if not openings or self._backlog() > BACKLOG_LIMIT:
            return self._rest_while_full(epoch)
        return self._acquire(epoch, openings)

    def _acquire(self, epoch: Epoch, openings: Sequence[Opening]) -> float:
        limit = min(workers_of(openings), self._config.batch_size)
        asked_at = self._clock.monotonic()
        took = self._store.acquire(
            epoch.node,
            openings,
            limit=limit,
            look_ahead=self._config.look_ahead,
            misfire_threshold=self._config.misfire_threshold,
        )
        self._store_time.learn(took.now, asked_at)
        epoch.know(one.fence for one in took.fired)
        epoch.know(one.fence for one in took.acquired)
        self._start(took.fired, epoch)
        self._skipped(took.skipped)
        self._cancelled(took.cancelled)
        self._held.extend(took.acquired)
        self._held.sort(key=lambda claim: claim.progress.next_fire_time or took.now)
        opened = self._capacity.learn(took.placed)
        if opened or len(took.fired) + len(took.acquired) + len(took.skipped) >= limit:
            return NO_REST
        return self._rest(took.next_due)

    def _rest(self, next_due: datetime | None) -> float:
        # Not all nodes at the same moment.
        rest = self._config.idle_wait.total_seconds() * random.uniform(0.8, 1.0)
        if next_due is not None:
            ahead = self._config.look_ahead.total_seconds() * random.uniform(0.5, 1.0)
            rest = min(rest, max(SHORTEST_REST, self._store_time.seconds_until(next_due) - ahead))
        return min(rest, self._until_held())

    def _until_held(self) -> float:
        if not self._held or (first := self._held[0].progress.next_fire_time) is None:
            return STANDBY_REST
        return max(0.0, self._store_time.seconds_until(first))

    def _rest_while_full(self, epoch: Epoch) -> float:
        """No worker is free for more: wait for one, or for the instant of a claim."""
        if self._held:
            # Somebody may have scheduled something sooner than what the last free workers are kept for.
            if self.wakeup.wait(min(self._until_held(), 1.0)) and self._until_held() > SHORTEST_REST:
                self._release(epoch, self._held)
            return NO_REST
        return FULL_REST if self._backlog() <= BACKLOG_LIMIT else SHORTEST_REST

    def _fire_held(self, epoch: Epoch) -> None:
        now = self._store_time.now()
        due = [claim for claim in self._held if (claim.progress.next_fire_time or now) <= now]
        if not due:
            return
        moves = [move for claim in due if (move := self._move(claim, now)) is not None]
        asked_at = self._clock.monotonic()
        firing = self._store.fire(epoch.node, moves)
        self._store_time.learn(firing.now, asked_at)
        fired = {one.fence for one in firing.fired}
        gone = {claim.fence for claim in due if claim.fence not in fired and claim.fence not in firing.not_due}
        epoch.forget(gone)
        self._held = [claim for claim in self._held if claim.fence not in fired and claim.fence not in gone]
        self._start(firing.fired, epoch)
        self._skipped(firing.skipped)
        self._cancelled(firing.cancelled)

    def _move(self, claim: AcquiredTrigger, now: datetime) -> Move | None:
        try:
            return move_of(claim, now)
        except ArithmeticError as error:
            # It fires this once, and its schedule ends here: better than firing nothing else any more.
            self._logger.error("the next fire time of %s cannot be computed: %s", claim.key, error)
            return None

    def _start(self, fired: Sequence[FiredTrigger], epoch: Epoch) -> None:
        if fired:
            self._hand_over(fired, epoch)

    def _skipped(self, skipped: Sequence[SkippedTrigger]) -> None:
        for one in skipped:
            self._logger.info("job %s is at its limit: the fire of %s is skipped", one.job_key, one.trigger_key)
            self._listeners.emit(JobSkipped(one.trigger_key, one.job_key, one.scheduled_fire_time))

    def _settle(self, epoch: Epoch) -> None:
        asked_at = self._clock.monotonic()
        found = self._store.settle(epoch.node, epoch.known())
        self._store_time.learn(found.now, asked_at)
        self._unsettled = False
        epoch.know([one.fence for one in found.fired])
        self._start(found.fired, epoch)

    def _release(self, epoch: Epoch, claims: list[AcquiredTrigger]) -> None:
        if not claims:
            return
        fences = [claim.fence for claim in claims]
        self._store.release(epoch.node, fences)
        epoch.forget(fences)
        self._held = [claim for claim in self._held if claim not in claims]

    def release_all(self) -> None:
        """Give back what is claimed and not fired; after the thread has ended."""
        epoch = self._held_by
        if epoch is not None and not epoch.lost:
            self._release(epoch, self._held)
            self._wake_others(epoch)

    def _wake_others(self, epoch: Epoch) -> None:
        # This node may have been the only one that was awake for what is due next.
        self._store.release(epoch.node, ())
