"""Completes ended executions in batches: at low load each at once, at high load as many as ended meanwhile."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from datetime import datetime

from quartzpy.clock import Clock
from quartzpy.errors import LeaseLostError, OutcomeUnknownError, StoreUnavailableError
from quartzpy.runtime.execution import Execution
from quartzpy.runtime.moves import refill_of
from quartzpy.runtime.service import NO_REST, Service
from quartzpy.runtime.store_time import StoreTime
from quartzpy.store.protocol import Completion, JobStore

MOST_AT_ONCE = 500
IDLE_REST = 3_600.0
HELD_ROW_REST = 0.1
"""How long to wait before trying again what somebody's open transaction holds."""


class Completer(Service):
    """The thread that tells the store what ended."""

    def __init__(
        self,
        name: str,
        *,
        store: JobStore,
        clock: Clock,
        store_time: StoreTime,
        unblocked: Callable[[datetime], None],
        takes_more: Callable[[], bool],
        epoch_lost: Callable[[Execution], None],
    ) -> None:
        super().__init__(name)
        self._store = store
        self._clock = clock
        self._store_time = store_time
        self._unblocked = unblocked
        self._takes_more = takes_more
        self._epoch_lost = epoch_lost
        self._queue: deque[tuple[Execution, Completion]] = deque()
        self._empty = threading.Condition()
        self._in_flight = 0
        self.recorded = 0
        """How many executions of this node were recorded, or found to be no longer its own."""

    def put(self, execution: Execution, completion: Completion) -> None:
        self._queue.append((execution, completion))
        self.wakeup.set()

    @property
    def pending(self) -> int:
        """How many ended executions are not yet recorded."""
        return len(self._queue) + self._in_flight

    def wait_until_empty(self, timeout: float | None) -> bool:
        with self._empty:
            return self._empty.wait_for(lambda: self.pending == 0, timeout)

    def run_once(self) -> float:
        batch: list[tuple[Execution, Completion]] = []
        # Counted first: nothing is ever neither queued nor in flight.
        self._in_flight = min(len(self._queue), MOST_AT_ONCE)
        while len(batch) < self._in_flight:
            batch.append(self._queue.popleft())
        if not batch:
            return IDLE_REST
        try:
            self._complete_batch(batch)
        finally:
            self._in_flight = 0
            self._tell_if_empty()
        return NO_REST if self._queue else IDLE_REST

    def _complete_batch(self, batch: list[tuple[Execution, Completion]]) -> None:
        epoch = batch[0][0].epoch
        others = [item for item in batch if item[0].epoch is not epoch]
        mine = [item for item in batch if item[0].epoch is epoch]
        self._queue.extendleft(reversed(others))
        for _, completion in mine:
            self._refill(completion)
        try:
            self._complete(mine)
        except LeaseLostError:
            self._done(mine)
            raise
        except BaseException:
            # Not recorded, or not known to be: completing again is safe, for a fence is completed once.
            self._queue.extendleft(reversed(mine))
            raise

    def _complete(self, batch: list[tuple[Execution, Completion]]) -> None:
        try:
            again = self._record(batch)
        except (StoreUnavailableError, OutcomeUnknownError, LeaseLostError):
            raise
        except Exception:
            if len(batch) == 1:
                execution, completion = batch[0]
                self._logger.exception("fire %s cannot be recorded with its data", execution.fired.fence)
                completion.job_data = completion.refill = None
                completion.error = "its error or data could not be stored"
                again = self._record(batch)
            else:
                for item in batch:
                    self._complete([item])
                return
        if again:
            self._queue.extend(again)
            self.wakeup.wait(HELD_ROW_REST)
            self.wakeup.set()

    def _record(self, batch: list[tuple[Execution, Completion]]) -> list[tuple[Execution, Completion]]:
        """Record a batch; those to be tried again."""
        unrecorded = [completion for _, completion in batch if not completion.is_recorded]
        if not unrecorded:
            self._done(batch)
            return []
        asked_at = self._clock.monotonic()
        outcome = self._store.complete(batch[0][0].epoch.node, unrecorded, wakes_others=not self._takes_more())
        self._store_time.learn(outcome.now, asked_at)
        for execution, _ in batch:
            if execution.fired.fence in outcome.fenced:
                self._logger.warning(
                    "fire %s of job %s no longer belongs to this node: its result is discarded",
                    execution.fired.fence,
                    execution.fired.job_key,
                )
        again = [item for item in batch if item[0].fired.fence in outcome.deferred]
        self._done([item for item in batch if item[0].fired.fence not in outcome.deferred])
        if outcome.earliest_unblocked is not None:
            self._unblocked(outcome.earliest_unblocked)
        return again

    def _done(self, batch: list[tuple[Execution, Completion]]) -> None:
        if batch:
            batch[0][0].epoch.forget([execution.fired.fence for execution, _ in batch])
            self.recorded += len(batch)

    def _tell_if_empty(self) -> None:
        with self._empty:
            if self.pending == 0:
                self._empty.notify_all()

    def _refill(self, completion: Completion) -> None:
        """Compute the instants that the trigger will need next, where it has few left."""
        if completion.refill is not None or completion.is_recorded:
            return
        try:
            completion.refill = refill_of(completion.fired)
        except (StoreUnavailableError, OutcomeUnknownError):
            pass  # It is computed at the next fire, or on the way through ACQUIRED.
        except Exception:
            self._logger.exception("the next fire times of %s cannot be computed", completion.fired.trigger_key)
