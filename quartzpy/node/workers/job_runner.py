"""The job runner: it runs the executions of a node, and reports their completions.

`Dispatcher` stands between the scheduler thread, which fires triggers for free slots, and the job runner: it passes the
fires of a node to its workers, and ends what may not wait or run any longer. `Slots` is the way back: the end of an
execution frees its slot.
"""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import lru_cache, partial
from typing import Any

from quartzpy.clock import Clock
from quartzpy.config.pools import ExecutorKind
from quartzpy.errors import InvalidJobError, UnknownJobTypeError
from quartzpy.events.events import SchedulerError
from quartzpy.events.listeners import Listeners
from quartzpy.jobs.context import JobExecutionContext, Middleware, Progress
from quartzpy.jobs.job import Job, JobFactory, JobTypes, new_instance
from quartzpy.keys import JobKey
from quartzpy.logs.captured import DEFAULT_LIMIT, LevelWarnings, LogCapture, LogLines, level_number
from quartzpy.node.registration import Epoch
from quartzpy.node.signals import SchedulerSignals
from quartzpy.node.workers.capacity import Capacity
from quartzpy.node.workers.deadlines import Deadlines
from quartzpy.node.workers.error_handling import describe
from quartzpy.node.workers.execution import MAX_REMEMBERED, Elsewhere, Execution, Loop
from quartzpy.node.workers.executors import Executors
from quartzpy.states import Outcome
from quartzpy.store.protocol import Completion, FiredTrigger, Gate, JobStore, Node, Submitted
from quartzpy.store.store_time import StoreTime

logger = logging.getLogger(__name__)


@lru_cache(maxsize=MAX_REMEMBERED)
def _is_plain_coroutine(job_class: type[Job]) -> bool:
    has_constructor = job_class.__init__ is not object.__init__ or job_class.__new__ is not object.__new__
    return not has_constructor and inspect.iscoroutinefunction(job_class.execute)


LISTENER_LIMIT = 1.0
"""The time, in seconds, for which slow listeners may delay the recording of an execution."""
OVERRUN_AFTER = 3.0
"""The time after a timeout, in seconds, of the first warning about a job that is still running. Intervals double."""
MAX_OVERRUN_REST = 3_600.0


class JobRunner:
    """Runs the executions of a node. Each execution gives exactly one completion and frees its slot once."""

    def __init__(
        self,
        *,
        job_types: JobTypes,
        job_modules: tuple[str, ...] = (),
        job_factory: JobFactory,
        middleware: Sequence[Middleware],
        store_time: StoreTime,
        loop: Loop,
        scheduler: Any,
        deadlines: Deadlines,
        listeners: Listeners,
        store: JobStore,
        unblocked: Callable[[datetime], None],
        opened: Callable[[Collection[Gate]], None] = lambda gates: None,
        ended: Callable[[Execution, Completion | None], None],
        max_job_data_bytes: int,
        max_captured_log_bytes: int = DEFAULT_LIMIT,
        freed: Callable[[Execution], None] = lambda execution: None,
        leaves_refires: Callable[[], bool] = lambda: False,
        report_progress: Callable[[Execution, Progress], None] = lambda execution, progress: None,
        follow_log: Callable[[Execution], None] = lambda execution: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._deadlines = deadlines
        self.listeners = listeners
        self.store = store
        self.unblocked = unblocked
        self.opened = opened
        self._job_types = job_types
        self._job_modules = job_modules
        self._job_factory = job_factory
        self.middleware = middleware
        self.store_time = store_time
        self.loop = loop
        self._scheduler = scheduler
        self._ended = ended
        self.max_job_data_bytes = max_job_data_bytes
        self._max_captured_log_bytes = max_captured_log_bytes
        self._level_warnings = LevelWarnings(logger)
        self._lock = threading.Lock()
        self._accepted: dict[int, Execution] = {}
        self._notifying: dict[int, tuple[Execution, Completion, float]] = {}
        self._freed = freed
        self.report_progress = report_progress
        self._follow_log = follow_log
        self.clock = clock
        self.leaves_refires = leaves_refires
        self.overrun_timeouts = 0
        """The number of warnings about executions that were still running long after their timeout."""

    def accept(self, executions: Iterable[Execution]) -> None:
        """Note executions that this node is going to run, so that requests to stop reach them."""
        for execution in executions:
            self._accepted[execution.fired.fire_id] = execution

    def accepted(self) -> list[Execution]:
        """Return the executions that have not ended, including those that have not begun."""
        # A dict is copied by one step of the interpreter, so no lock is needed.
        return list(self._accepted.values())

    def running(self) -> list[Execution]:
        """Return the executions that a worker or the event loop has begun."""
        return [execution for execution in self.accepted() if execution.began_at is not None]

    def fire_ids_of(self, epoch: Epoch) -> set[int]:
        """Return the fire ids of the running executions of an epoch, except those that their own jobs record."""
        return {
            execution.fired.fire_id
            for execution in self.running()
            if execution.epoch is epoch and not execution.is_recording
        }

    def interrupt(self, chosen: Callable[[Execution], bool]) -> int:
        """Ask the executions for which `chosen` returns True to stop, or not to begin. Return their number."""
        executions = [execution for execution in self.accepted() if chosen(execution)]
        for execution in executions:
            execution.stop()
        return len(executions)

    def start_timeout(self, execution: Execution, elapsed: float = 0.0) -> None:
        """Start the timeout of an execution that has one and began `elapsed` seconds ago."""
        timeout = execution.fired.timeout
        assert timeout is not None
        execution.deadline = self._deadlines.add(
            max(0.0, timeout.total_seconds() - elapsed), partial(self._time_out, execution)
        )

    # --- the end of an execution

    def fail(self, execution: Execution, error: BaseException, started_at: datetime | None = None) -> None:
        """End an execution that failed outside of its job, between the committed fire and the completion.

        The error is recorded as that of the execution, and does not end the thread.
        """
        try:
            self.end_as(execution, self._failed(execution, error, started_at))
        finally:
            self._free(execution)

    def _failed(self, execution: Execution, error: BaseException, started_at: datetime | None) -> Completion:
        with suppress(BaseException):
            fired = execution.fired
            logger.critical(
                "job %s: the execution failed in the scheduler, outside of the job's code",
                fired.job_key,
                exc_info=error,
                extra=execution.log_attributes,
            )
            self.listeners.post(SchedulerError(f"job {fired.job_key}: the execution failed outside of the job", error))
        ended_at = self.store_time.now()
        began = min(started_at or ended_at, ended_at)
        return Completion(
            execution.fired, began, ended_at, Outcome.FAILED, error=describe(error), log=execution.log_text
        )

    def end_as(self, execution: Execution, completion: Completion | None) -> None:
        try:
            self._record(execution, completion)
        finally:
            self._free(execution)

    def _free(self, execution: Execution) -> None:
        if execution.is_freed_first():
            self._freed(execution)

    def _record(self, execution: Execution, completion: Completion | None) -> None:
        if not execution.is_recorded_first():
            return
        try:
            # It may be another execution already: this node adopts what it has begun in an epoch that it has lost.
            if self._accepted.get(execution.fired.fire_id) is execution:
                del self._accepted[execution.fired.fire_id]
            if self._notifying:
                with self._lock:
                    self._notifying.pop(execution.fired.fire_id, None)
            if execution.deadline is not None:
                self._deadlines.cancel(execution.deadline)
        finally:
            self._ended(execution, completion)

    def begin_notifying(self, execution: Execution, completion: Completion) -> None:
        """Note that the listeners are about to be called for this end, so that `check` can limit the delay."""
        with self._lock:
            self._notifying[execution.fired.fire_id] = (execution, completion, self.clock())

    def check(self) -> None:
        """Record executions whose listeners are slow, so that the listeners occupy a worker and delay nothing else."""
        now = self.clock()
        with self._lock:
            late = [
                (execution, completion)
                for execution, completion, since in self._notifying.values()
                if now - since >= LISTENER_LIMIT
            ]
        for execution, completion in late:
            logger.warning(
                "fire %s of job %s has ended, but its listeners are still running: recording it without them",
                execution.fired.fire_id,
                execution.fired.job_key,
                extra=execution.log_attributes,
            )
            self._record(execution, completion)

    # --- timeouts

    def _time_out(self, execution: Execution) -> None:
        try:
            execution.time_out()
        finally:
            execution.deadline = self._deadlines.add(OVERRUN_AFTER, partial(self._overrun, execution, OVERRUN_AFTER))

    def _overrun(self, execution: Execution, seconds: float) -> None:
        if execution.has_ended:
            return
        self.overrun_timeouts += 1
        logger.warning(
            "job %s ignores its timeout of %s: fire %s is still running %.0f s after it, and occupies a worker",
            execution.fired.job_key,
            execution.fired.timeout,
            execution.fired.fire_id,
            seconds,
            extra=execution.log_attributes,
        )
        more = min(seconds, MAX_OVERRUN_REST)
        execution.deadline = self._deadlines.add(more, partial(self._overrun, execution, seconds + more))

    # --- for executions

    def can_begin_on_loop(self, execution: Execution) -> bool:
        """Return whether all of an execution can run on the event loop, because none of it can block there.

        This is so if the program has no code but the coroutine: no listeners, no job factory, no constructor.
        """
        if self.listeners.registered or self._job_factory is not new_instance:
            return False
        if execution.executor is not None and execution.executor.engine is not None:
            return False
        try:
            return _is_plain_coroutine(self._job_types.find(execution.fired.job_type))
        except UnknownJobTypeError:
            return False  # The execution meets this error again and reports it.

    def log_capture_of(self, execution: Execution) -> LogCapture | None:
        """Return the capture of an execution's log records, or None if its job does not ask for one."""
        level = level_number(execution.fired.capture_logs)
        if level is None:
            return None
        if execution.executor is None or execution.executor.engine is None:
            self._level_warnings.check(level, execution.fired.job_key)
        execution.log_lines = LogLines(self._max_captured_log_bytes)
        self._follow_log(execution)
        return LogCapture(level, execution.log_lines.add)

    def new_instance(self, execution: Execution) -> Job:
        """Return the job instance of an execution.

        Raises:
            InvalidJobError: the job cannot run on its executor, or the factory returned something that is not a job.
            Exception: raised by the job factory.
        """
        # What this node adopts, it has not claimed, and so may not have imported.
        self._job_types.load(execution.fired.job_type, self._job_modules)
        job_class = self._job_types.find(execution.fired.job_type)
        executor = execution.executor
        if executor is not None and executor.engine is not None:
            return Elsewhere()
        if (
            executor is not None
            and executor.kind == ExecutorKind.ASYNCIO
            and not inspect.iscoroutinefunction(job_class.execute)
        ):
            raise InvalidJobError(
                f"executor {executor.name!r} runs only async def jobs; {job_class.__qualname__}.execute is a plain def"
            )
        job = self._job_factory(job_class)
        if not callable(getattr(job, "execute", None)):
            raise InvalidJobError(
                f"job_factory: must return an instance of {job_class.__qualname__} (got a {type(job).__qualname__},"
                " which has no execute(context))"
            )
        return job

    def context_for(self, execution: Execution, instance_id: str, job: Job) -> JobExecutionContext:
        fired = execution.fired
        return JobExecutionContext(
            fired,
            execution,
            scheduler=self._scheduler,
            job_instance=job,
            # Not taken from the instance, which may be a proxy for a job in another process.
            data_type=self._job_types.data_type(fired.job_type),
            instance_id=instance_id,
        )


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
    """Submits executions, and hands back, cancels or abandons them."""

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
        self._capacity.occupy([fire.placement for fire in fired])
        runner, executor_of, name = self._runner, self._executors.of, self._scheduler_name
        executions = [Execution(runner, fire, epoch, executor_of(fire.placement), name) for fire in fired]
        # Before a worker can take one: a request to stop must find it, wherever it is.
        runner.accept(executions)
        self._executors.submit(executions)

    def adopt(self, fired: Sequence[FiredTrigger], epoch: Epoch, rows: Mapping[int, Submitted]) -> None:
        """Wait for fires that other nodes have begun on engines. They run already, whether or not slots are free."""
        self._capacity.occupy([fire.placement for fire in fired])
        for fire in fired:
            executor = self._executors.to_adopt(fire.placement)
            execution = Execution(self._runner, fire, epoch, executor, self._scheduler_name)
            self._runner.accept([execution])
            executor.pool.adopt(partial(execution.adopt, rows[fire.fire_id]))

    def hand_back(self, patience: float) -> None:
        """End the executions that wait for a slot and do not get one soon, so that other nodes can run them.

        Those that were asked to stop do not run anywhere; the store looks for requests that have not arrived here.
        """
        for execution in self._executors.take_back(patience):
            if execution.cancelled.is_requested:
                execution.cancel_before_start()
            else:
                execution.hand_back()

    def abandon(self, fire_ids: Collection[int]) -> None:
        """Stop executions whose rows the store no longer has, because other nodes may run them again."""
        for execution in self._runner.accepted():
            if execution.fired.fire_id in fire_ids:
                execution.abandon()

    # --- called for the whole node

    def cancel_as_asked(self, node: Node) -> None:
        """Stop the executions of this node that someone has asked the store to cancel."""
        if self._runner.accepted():
            fire_ids = self._store.cancel_requests(node)
            for execution in self._executors.remove(fire_ids):
                execution.cancel_before_start()
            self._runner.interrupt(lambda execution: execution.fired.fire_id in fire_ids)

    def stop_executions_of(self, epoch: Epoch) -> list[JobKey]:
        """Ask the executions of a lost epoch to stop. Return the key of each one's job.

        Those that outlive a node go on: a node adopts them, perhaps this one.
        """
        self._executors.hand_over(lambda execution: execution.epoch is epoch)
        accepted = [execution for execution in self._runner.accepted() if execution.epoch is epoch]
        for execution in accepted:
            execution.stop()
        return [execution.fired.job_key for execution in accepted]
