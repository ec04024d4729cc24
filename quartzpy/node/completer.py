"""The completer: it records ended executions in batches, and announces that to the watchers of the cluster.

At low load each execution is recorded at once; at high load a batch has all that ended during the previous one.
"""

from __future__ import annotations

import heapq
import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from itertools import count
from typing import NamedTuple

from quartzpy.clock import Clock
from quartzpy.errors import LeaseLostError, OutcomeUnknownError, QuartzpyError, SchemaError, StoreUnavailableError
from quartzpy.keys import JobKey
from quartzpy.node.observers import Observers
from quartzpy.node.opened_gates import gates_of
from quartzpy.node.service import NO_REST, Repetitions, Service, StoreWatch
from quartzpy.node.workers.error_handling import describe
from quartzpy.node.workers.execution import Execution
from quartzpy.node.workers.worker_pool import MAX_WAIT
from quartzpy.states import Outcome
from quartzpy.store.node_problems import MAX_FIRE_IDS, NodeProblem
from quartzpy.store.protocol import Completion, FiredTrigger, Gate, JobStore, Notification
from quartzpy.store.store_time import StoreTime
from quartzpy.texts import numbered, reason
from quartzpy.triggers.upcoming import UpcomingFireTimes, refill

logger = logging.getLogger(__name__)

MAX_BATCH = 500
MAX_BATCH_SIZE = 1024 * 1024
"""The size of the texts from which a batch has fewer completions. A single completion may be larger."""
IDLE_REST = 3_600.0
LOCKED_ROW_REST = 0.1
"""The delay, in seconds, before a completion is tried again whose rows an open transaction has locked."""
LONG_LOCKED_ROW_REST = 1.0
"""The same for one that is recorded at length: each try locks very many rows."""
REFUSED_REST = 5.0
"""The delay, in seconds, before a completion is tried again that the store refuses even without its data."""
MAX_REFUSED_REST = 60.0
"""The longest such delay: it doubles with each refusal."""
RECORDED_WITHIN = 10.0
"""The time, in seconds, within which an ended execution is recorded, if nothing is wrong."""
WATCHED_FOR = 15.0
"""The time, in seconds, for which a node announces recorded executions after the notification of a watcher."""
ANNOUNCE_EVERY = 0.1
"""The shortest time between two announcements, in seconds."""

_Item = tuple[Execution, Completion]


class _Postponed(NamedTuple):
    at: float
    number: int
    item: _Item


class Completer(Service):
    """The thread that records ended executions in the store.

    Those whose ends change very many triggers of their job take long: another one, `for_long`, records them
    `at_length`.
    """

    def __init__(
        self,
        name: str,
        *,
        store: JobStore,
        clock: Clock,
        store_time: StoreTime,
        unblocked: Callable[[datetime | None], None],
        opened: Callable[[Collection[Gate]], None] = lambda gates: None,
        takes_more: Callable[[], bool],
        watch: StoreWatch | None = None,
        recorded_some: Callable[[], None] = lambda: None,
        paused: Callable[[JobKey], None] = lambda key: None,
        observers: Observers | None = None,
        for_long: Completer | None = None,
        at_length: bool = False,
    ) -> None:
        super().__init__(name, watch=watch)
        self._for_long = for_long
        self._at_length = at_length
        self._store = store
        self._clock = clock
        self._store_time = store_time
        self._unblocked = unblocked
        self._opened = opened
        self._takes_more = takes_more
        self._recorded_some = recorded_some
        self._paused = paused
        self._observers = observers or Observers()
        self._queue: deque[_Item] = deque()
        self._postponed: list[_Postponed] = []
        self._numbers = count()
        self._unfinished: set[int] = set()
        self._in_hand: Sequence[_Item] = ()
        """The batch that is being recorded."""
        self._refusals: dict[int, int] = {}
        """The number of times that the store has refused the completion of a fire even without its data."""
        self._refusal: str | None = None
        self._repetitions = Repetitions(clock.monotonic)
        self._empty: threading.Condition = threading.Condition() if for_long is None else for_long._empty
        self._in_flight = 0
        self.recorded = 0
        """The number of executions of this node that were recorded, or discarded because the node had lost them."""

    def put(self, execution: Execution, completion: Completion | None) -> None:
        """Record an ended execution, or forget it if this node may no longer run it (None)."""
        if completion is None:
            execution.epoch.discard_unrecorded([execution.fired.fire_id])
            return
        self._queue.append((execution, completion))
        self.wakeup.set()

    def backlog(self) -> int:
        """Return the number of ended executions that are not yet recorded."""
        others = 0 if self._for_long is None else self._for_long.backlog()
        return len(self._queue) + self._in_flight + len(self._postponed) + others

    def problem(self) -> NodeProblem | None:
        """Return a problem if executions have ended for long and could not be recorded."""
        now = self._store_time.now()
        late = [
            execution.fired.fire_id
            for execution, completion in [
                *self._in_hand,
                *self._queue.copy(),
                *(row.item for row in self._postponed[:]),
            ]
            if completion.ended_at is not None and (now - completion.ended_at).total_seconds() >= RECORDED_WITHIN
        ]
        if not late:
            return None if self._for_long is None else self._for_long.problem()
        why = self._refusal if self._refusals else self.last_error if self.failed_passes else None
        return NodeProblem(
            "unrecorded",
            f"{numbered(len(late), 'execution has', 'executions have')} ended and could not be recorded for"
            f" {RECORDED_WITHIN:.0f} s or longer, so the cluster takes {'it' if len(late) == 1 else 'them'} for running"
            + (f": {why}" if why else ""),
            fire_ids=tuple(sorted(late)[:MAX_FIRE_IDS]),
        )

    def wait_until_empty(self, timeout: float | None) -> bool:
        # After an outage, the next attempt may be seconds away, although the store can be reached again.
        self.wakeup.set()
        if self._for_long is not None:
            self._for_long.wakeup.set()
        with self._empty:
            limit = None if timeout is None else min(timeout, MAX_WAIT)
            return self._empty.wait_for(lambda: self.backlog() == 0, limit)

    def take(self, items: Iterable[_Item]) -> None:
        """Record executions that another completer leaves to this one."""
        self._queue.extend(items)
        self.wakeup.set()

    def run_once(self) -> float:
        self._resume_postponed()
        batch: list[_Item] = []
        size = 0
        # Counted before the items leave the queue, so that `backlog` never misses one.
        self._in_flight = min(len(self._queue), MAX_BATCH)
        while len(batch) < self._in_flight:
            size += self._queue[0][1].size
            if batch and size > MAX_BATCH_SIZE:
                break
            batch.append(self._queue.popleft())
        self._in_flight = len(batch)
        self._in_hand = batch
        try:
            if batch:
                self._complete_batch(batch)
                self._recorded_some()
        finally:
            self._in_flight, self._in_hand = 0, ()
            self._notify_if_empty()
        return NO_REST if self._queue else self._rest()

    # --- postponed completions

    def _resume_postponed(self) -> None:
        now = self._clock.monotonic()
        while self._postponed and self._postponed[0].at <= now:
            self._queue.append(self._postponed[0].item)
            heapq.heappop(self._postponed)

    def _rest(self) -> float:
        if not self._postponed:
            return IDLE_REST
        return max(0.0, self._postponed[0].at - self._clock.monotonic())

    def _try_later(self, items: Iterable[_Item], seconds: float) -> None:
        at = self._clock.monotonic() + seconds
        for item in items:
            heapq.heappush(self._postponed, _Postponed(at, next(self._numbers), item))

    # --- a batch

    def _complete_batch(self, batch: list[_Item]) -> None:
        epoch = batch[0][0].epoch
        others = [item for item in batch if item[0].epoch is not epoch]
        mine = [item for item in batch if item[0].epoch is epoch]
        self._queue.extendleft(reversed(others))
        self._unfinished = {execution.fired.fire_id for execution, _ in mine}
        try:
            for _, completion in mine:
                self._refill(completion)
            self._complete(mine)
        except LeaseLostError:
            self._done([item for item in mine if item[0].fired.fire_id in self._unfinished])
            raise
        except BaseException:
            # The batch may have been recorded. A repetition is safe, because a fire_id is completed only once.
            self._queue.extendleft(item for item in reversed(mine) if item[0].fired.fire_id in self._unfinished)
            raise

    def _complete(self, batch: list[_Item]) -> None:
        """Record a batch. If the store refuses it, bisect it to find the completion that is to blame."""
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
        """Record a refused completion as FAILED, without its data."""
        execution, completion = item
        fired = completion.fired
        was = completion.outcome
        if fired.fire_id not in self._refusals:
            self._logger.error(
                "job %s: the store refused the completion of fire %s",
                fired.job_key,
                fired.fire_id,
                exc_info=error if self._repetitions.are_told(error) else None,
                extra=execution.log_attributes,
            )
        refused = Completion(
            fired,
            completion.started_at,
            completion.ended_at,
            Outcome.FAILED,
            error=f"the execution ended as {was}, but its completion could not be recorded: {describe(error)}",
            # The instruction cannot be the cause: it is not a value of the job.
            instruction=completion.instruction,
        )
        try:
            self._record([(execution, refused)])
        except (StoreUnavailableError, OutcomeUnknownError, LeaseLostError, SchemaError, MemoryError):
            raise
        except Exception as error:
            tries = self._refusals[fired.fire_id] = self._refusals.get(fired.fire_id, 0) + 1
            self._refusal = reason(error)
            self._logger.log(
                logging.ERROR if tries == 1 else logging.DEBUG,
                "fire %s cannot be recorded, and is tried again until it can: %s",
                fired.fire_id,
                self._refusal,
                extra=execution.log_attributes,
            )
            self._unfinished.discard(fired.fire_id)
            self._try_later([item], min(REFUSED_REST * 2 ** min(tries - 1, 10), MAX_REFUSED_REST))

    def _record(self, batch: list[_Item]) -> None:
        """Record a batch, and postpone completions whose rows another transaction has locked."""
        unrecorded = [completion for _, completion in batch if not completion.is_recorded]
        if not unrecorded:
            self._tell_observers(batch, ())
            self._done(batch)
            return
        asked_at = self._clock.monotonic()
        try:
            outcome = self._store.complete(
                batch[0][0].epoch.node, unrecorded, wakes_others=not self._takes_more(), at_length=self._at_length
            )
        except BaseException:
            # Without an answer, they may have ended.
            self._unblocked(None)
            raise
        finally:
            self._opened(gates_of(unrecorded))
        self._store_time.learn(outcome.now, asked_at)
        for execution, _ in batch:
            if execution.fired.fire_id in outcome.fenced:
                self._logger.warning(
                    "fire %s of job %s no longer belongs to this node: its result is discarded",
                    execution.fired.fire_id,
                    execution.fired.job_key,
                    extra=execution.log_attributes,
                )
        for _, completion in batch:
            if completion.fired.fire_id in outcome.stopped:
                completion.retry_after = None
                if completion.outcome is Outcome.SNOOZED:
                    completion.outcome = Outcome.CANCELLED
        unended = {*outcome.deferred, *outcome.halting}
        self._tell_observers(batch, {*outcome.fenced, *unended})
        self._unfinished.difference_update(unended)
        if outcome.halting and self._for_long is not None:
            self._for_long.take([item for item in batch if item[0].fired.fire_id in outcome.halting])
        rest = LONG_LOCKED_ROW_REST if self._at_length else LOCKED_ROW_REST
        self._try_later([item for item in batch if item[0].fired.fire_id in outcome.deferred], rest)
        self._done([item for item in batch if item[0].fired.fire_id not in unended])
        for key in outcome.paused:
            self._paused(key)
        if outcome.earliest_unblocked is not None:
            self._unblocked(outcome.earliest_unblocked)

    def _tell_observers(self, batch: list[_Item], excluded: Collection[int]) -> None:
        if self._observers.members:
            self._observers.recorded(
                [completion for _, completion in batch if not excluded or completion.fired.fire_id not in excluded]
            )

    def _done(self, batch: list[_Item]) -> None:
        if batch:
            self._unfinished.difference_update(execution.fired.fire_id for execution, _ in batch)
            if self._refusals:
                for execution, _ in batch:
                    self._refusals.pop(execution.fired.fire_id, None)
            batch[0][0].epoch.discard_unrecorded([execution.fired.fire_id for execution, _ in batch])
            self.recorded += len(batch)

    def _notify_if_empty(self) -> None:
        with self._empty:
            if self.backlog() == 0:
                self._empty.notify_all()

    def _refill(self, completion: Completion) -> None:
        """Compute more fire times of the trigger if its row has few left."""
        if completion.refill is not None or completion.is_recorded:
            return
        try:
            completion.refill = refill_of(completion.fired)
        except (StoreUnavailableError, OutcomeUnknownError):
            pass  # They are computed before the trigger fires next.
        except Exception:
            self._logger.exception("the next fire times of %s cannot be computed", completion.fired.trigger_key)


def refill_of(fired: FiredTrigger) -> UpcomingFireTimes | None:
    """Return further upcoming fire times for a fired trigger if it has few left, else None."""
    if fired.upcoming_instants is None or fired.upcoming_is_complete or fired.next_fire_time is None:
        return None
    upcoming = UpcomingFireTimes(tuple(fired.upcoming_instants), is_complete=False)
    return refill(fired.trigger, fired.next_fire_time, upcoming, fired.times_triggered, fired.calendar)


class Announcer:
    """Announces recorded executions while there is a watcher."""

    def __init__(self, store: JobStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._watched_until = self._announced_at = float("-inf")

    @property
    def is_watched(self) -> bool:
        return self._clock.monotonic() < self._watched_until

    def watched(self) -> None:
        """Record the notification of a watcher."""
        self._watched_until = self._clock.monotonic() + WATCHED_FOR

    def announce(self) -> None:
        """Announce that executions were recorded. Errors of the store are ignored, because watchers also poll."""
        now = self._clock.monotonic()
        if now < self._watched_until and now - self._announced_at >= ANNOUNCE_EVERY:
            self._announced_at = now
            try:
                self._store.notify(Notification.ENDED)
            except QuartzpyError as error:
                logger.debug("recorded executions could not be announced: %s", error)
