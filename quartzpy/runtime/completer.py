"""Completes ended executions in batches: at low load each at once, at high load as many as ended meanwhile."""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import count
from typing import NamedTuple

from quartzpy.clock import Clock
from quartzpy.errors import LeaseLostError, OutcomeUnknownError, SchemaError, StoreUnavailableError
from quartzpy.keys import JobKey
from quartzpy.runtime.error_text import describe
from quartzpy.runtime.execution import Execution
from quartzpy.runtime.fire_requests import refill_of
from quartzpy.runtime.outage import StoreWatch
from quartzpy.runtime.service import NO_REST, Service
from quartzpy.runtime.store_time import StoreTime
from quartzpy.runtime.worker_pool import LONGEST_WAIT
from quartzpy.states import Outcome
from quartzpy.store.protocol import Completion, JobStore

MOST_AT_ONCE = 500
IDLE_REST = 3_600.0
HELD_ROW_REST = 0.1
"""How long to wait before trying again what somebody's open transaction holds."""
REFUSED_REST = 5.0
"""How long to wait before trying again what the store refuses whatever is said of it."""

_Item = tuple[Execution, Completion]


class _PutOff(NamedTuple):
    at: float
    number: int
    item: _Item


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
        watch: StoreWatch | None = None,
        recorded_some: Callable[[], None] = lambda: None,
        paused: Callable[[JobKey], None] = lambda key: None,
    ) -> None:
        super().__init__(name, watch=watch)
        self._store = store
        self._clock = clock
        self._store_time = store_time
        self._unblocked = unblocked
        self._takes_more = takes_more
        self._epoch_lost = epoch_lost
        self._recorded_some = recorded_some
        self._paused = paused
        self._queue: deque[_Item] = deque()
        self._put_off: list[_PutOff] = []
        self._numbers = count()
        self._left: set[int] = set()
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
        return len(self._queue) + self._in_flight + len(self._put_off)

    def wait_until_empty(self, timeout: float | None) -> bool:
        with self._empty:
            limit = None if timeout is None else min(timeout, LONGEST_WAIT)
            return self._empty.wait_for(lambda: self.pending == 0, limit)

    def run_once(self) -> float:
        self._take_up()
        batch: list[_Item] = []
        # Counted first: nothing is ever neither queued nor in flight.
        self._in_flight = min(len(self._queue), MOST_AT_ONCE)
        while len(batch) < self._in_flight:
            batch.append(self._queue.popleft())
        try:
            if batch:
                self._complete_batch(batch)
                self._recorded_some()
        finally:
            self._in_flight = 0
            self._tell_if_empty()
        return NO_REST if self._queue else self._rest()

    # --- what is put off

    def _take_up(self) -> None:
        now = self._clock.monotonic()
        while self._put_off and self._put_off[0].at <= now:
            self._queue.append(self._put_off[0].item)
            heapq.heappop(self._put_off)

    def _rest(self) -> float:
        if not self._put_off:
            return IDLE_REST
        return max(0.0, self._put_off[0].at - self._clock.monotonic())

    def _try_later(self, items: Iterable[_Item], seconds: float) -> None:
        at = self._clock.monotonic() + seconds
        for item in items:
            heapq.heappush(self._put_off, _PutOff(at, next(self._numbers), item))

    # --- a batch

    def _complete_batch(self, batch: list[_Item]) -> None:
        epoch = batch[0][0].epoch
        others = [item for item in batch if item[0].epoch is not epoch]
        mine = [item for item in batch if item[0].epoch is epoch]
        self._queue.extendleft(reversed(others))
        self._left = {execution.fired.fire_id for execution, _ in mine}
        try:
            for _, completion in mine:
                self._refill(completion)
            self._complete(mine)
        except LeaseLostError:
            self._done([item for item in mine if item[0].fired.fire_id in self._left])
            raise
        except BaseException:
            # Not recorded, or not known to be: completing again is safe, for a fire_id is completed once.
            self._queue.extendleft(item for item in reversed(mine) if item[0].fired.fire_id in self._left)
            raise

    def _complete(self, batch: list[_Item]) -> None:
        """Record a batch; where the store refuses it, the one in it that is to blame, without the others."""
        try:
            self._record(batch)
        except (StoreUnavailableError, OutcomeUnknownError, LeaseLostError, SchemaError, MemoryError):
            raise
        except Exception as error:
            if len(batch) == 1:
                self._record_refused(batch[0], error)
            else:
                middle = len(batch) // 2
                self._complete(batch[:middle])
                self._complete(batch[middle:])

    def _record_refused(self, item: _Item, error: Exception) -> None:
        """Record that it ended, and why no more is known of it."""
        execution, completion = item
        fired = completion.fired
        was = completion.outcome
        self._logger.error(
            "job %s: the end of fire %s is refused",
            fired.job_key,
            fired.fire_id,
            exc_info=error,
            extra=execution.log_attributes,
        )
        refused = Completion(
            fired,
            completion.started_at,
            completion.ended_at,
            Outcome.FAILED,
            error=f"it ended as {was}, which could not be recorded with its data: {describe(error)}",
            # What it asks for is a word of ours, and no value of the job's.
            instruction=completion.instruction,
        )
        try:
            self._record([(execution, refused)])
        except (StoreUnavailableError, OutcomeUnknownError, LeaseLostError, SchemaError, MemoryError):
            raise
        except Exception:
            self._logger.exception(
                "fire %s cannot be recorded at all; it is tried again", fired.fire_id, extra=execution.log_attributes
            )
            self._left.discard(fired.fire_id)
            self._try_later([item], REFUSED_REST)

    def _record(self, batch: list[_Item]) -> None:
        """Record a batch; put off what somebody's transaction holds."""
        unrecorded = [completion for _, completion in batch if not completion.is_recorded]
        if not unrecorded:
            self._done(batch)
            return
        asked_at = self._clock.monotonic()
        outcome = self._store.complete(batch[0][0].epoch.node, unrecorded, wakes_others=not self._takes_more())
        self._store_time.learn(outcome.now, asked_at)
        for execution, _ in batch:
            if execution.fired.fire_id in outcome.fenced:
                self._logger.warning(
                    "fire %s of job %s no longer belongs to this node: its result is discarded",
                    execution.fired.fire_id,
                    execution.fired.job_key,
                    extra=execution.log_attributes,
                )
        again = [item for item in batch if item[0].fired.fire_id in outcome.deferred]
        self._left.difference_update(outcome.deferred)
        self._try_later(again, HELD_ROW_REST)
        self._done([item for item in batch if item[0].fired.fire_id not in outcome.deferred])
        for key in outcome.paused:
            self._paused(key)
        if outcome.earliest_unblocked is not None:
            self._unblocked(outcome.earliest_unblocked)

    def _done(self, batch: list[_Item]) -> None:
        if batch:
            self._left.difference_update(execution.fired.fire_id for execution, _ in batch)
            batch[0][0].epoch.put_down([execution.fired.fire_id for execution, _ in batch])
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
