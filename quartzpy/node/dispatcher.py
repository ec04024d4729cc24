"""The dispatcher: it passes the fires of a node to its workers, and ends what may not wait or run any longer.

It stands between the scheduler thread, which fires triggers for free slots, and the job runner. `Slots` is the way
back: the end of an execution frees its slot.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from quartzpy.clock import Clock
from quartzpy.keys import JobKey
from quartzpy.node.registration import Epoch
from quartzpy.node.signals import SchedulerSignals
from quartzpy.node.workers.capacity import Capacity
from quartzpy.node.workers.execution import Execution
from quartzpy.node.workers.executors import Executors
from quartzpy.node.workers.job_runner import JobRunner
from quartzpy.store.protocol import FiredTrigger, JobStore, Node

logger = logging.getLogger(__name__)


class Slots:
    """Frees the slots of ended executions, and wakes the scheduler thread if there may be work for them."""

    def __init__(self, *, executors: Executors, capacity: Capacity, clock: Clock, signals: SchedulerSignals) -> None:
        self._executors = executors
        self._capacity = capacity
        self._clock = clock
        self._signals = signals

    def free(self, execution: Execution) -> None:
        began_at, placement = execution.began_at, execution.fired.placement
        if self._capacity.release(placement):
            self._signals.look_again()
        executor = execution.executor or self._executors.of(placement)
        if executor.pool.release(None if began_at is None else self._clock.monotonic() - began_at):
            self._signals.wakeup.set()


class Dispatcher:
    """Submits executions, and hands back, cancels or disowns them."""

    def __init__(
        self, *, scheduler_name: str, store: JobStore, runner: JobRunner, executors: Executors, capacity: Capacity
    ) -> None:
        self._scheduler_name = scheduler_name
        self._store = store
        self._runner = runner
        self._executors = executors
        self._capacity = capacity

    # --- called by the scheduler thread

    def submit(self, fired: Sequence[FiredTrigger], epoch: Epoch) -> None:
        """Run fires, for which the scheduler thread has made sure that there are free slots."""
        self._capacity.occupy([one.placement for one in fired])
        runner, executor_of, name = self._runner, self._executors.of, self._scheduler_name
        attempts = [Execution(runner, one, epoch, executor_of(one.placement), name) for one in fired]
        # Before a worker can take one: a request to stop must find it, wherever it is.
        runner.accept(attempts)
        self._executors.submit(attempts)

    def hand_back(self, patience: float) -> None:
        """End the executions that wait for a slot and do not get one soon, so that other nodes can run them.

        Those that were asked to stop do not run anywhere; the store looks for requests that have not arrived here.
        """
        for attempt in self._executors.take_back(patience):
            if attempt.cancelled.is_set():
                attempt.cancel_before_start()
            else:
                attempt.hand_back()

    def disown(self, fire_ids: Collection[int]) -> None:
        """Stop executions whose rows the store no longer has, because other nodes may run them again."""
        for execution in self._runner.accepted():
            if execution.fired.fire_id in fire_ids:
                execution.disown()

    # --- called for the whole node

    def cancel_as_asked(self, node: Node) -> None:
        """Stop the executions of this node that someone has asked the store to cancel."""
        if self._runner.accepted():
            asked = self._store.cancel_requests(node)
            for attempt in self._executors.remove(asked):
                attempt.cancel_before_start()
            self._runner.interrupt(lambda execution: execution.fired.fire_id in asked)

    def stop_executions_of(self, epoch: Epoch) -> list[JobKey]:
        """Ask the executions of a lost epoch to stop. Return the key of each one's job."""
        accepted = [execution for execution in self._runner.accepted() if execution.epoch is epoch]
        for execution in accepted:
            execution.stop()
        return [execution.fired.job_key for execution in accepted]
