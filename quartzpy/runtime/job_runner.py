"""Runs executions on the calling thread, or on the event loop, and hands each one's completion on."""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from functools import partial
from typing import Any, Protocol

from quartzpy.config import ExecutorKind
from quartzpy.context import JobExecutionContext
from quartzpy.errors import InvalidJobError
from quartzpy.events import SchedulerError
from quartzpy.job import Job, JobTypes
from quartzpy.job_factory import JobFactory
from quartzpy.listeners import Listeners
from quartzpy.middleware import Middleware
from quartzpy.runtime.attempt import Attempt
from quartzpy.runtime.deadlines import Deadlines
from quartzpy.runtime.epoch import Epoch
from quartzpy.runtime.error_text import describe
from quartzpy.runtime.event_loop import LoopWork
from quartzpy.runtime.execution import Execution
from quartzpy.runtime.store_time import StoreTime
from quartzpy.states import Outcome
from quartzpy.store.protocol import Completion, JobStore

logger = logging.getLogger(__name__)


class Loop(Protocol):
    """Runs `async def` jobs."""

    def run(self, work: Coroutine[Any, Any, None], name: str, done: Callable[[], None]) -> LoopWork | None:
        """Start the coroutine, which must not raise; call `done` at its end."""
        ...


TELL_LIMIT = 1.0
"""Seconds that listeners may hold up a completion."""
UNHEEDED_AFTER = 3.0
"""Seconds after a timeout at which an execution that still runs is reported first, then at growing intervals."""
LONGEST_UNHEEDED_REST = 3_600.0


class JobRunner:
    """Runs executions on the calling thread, or on the event loop, and hands each one's completion on."""

    def __init__(
        self,
        *,
        job_types: JobTypes,
        job_factory: JobFactory,
        middleware: Sequence[Middleware],
        store_time: StoreTime,
        loop: Loop,
        scheduler: Any,
        deadlines: Deadlines,
        listeners: Listeners,
        store: JobStore,
        unblocked: Callable[[datetime], None],
        ended: Callable[[Execution, Completion | None], None],
        max_job_data_bytes: int,
        freed: Callable[[Execution], None] = lambda execution: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._deadlines = deadlines
        self.listeners = listeners
        self.store = store
        self.unblocked = unblocked
        self._job_types = job_types
        self._job_factory = job_factory
        self.middleware = middleware
        self.store_time = store_time
        self.loop = loop
        self._scheduler = scheduler
        self._ended = ended
        self.max_job_data_bytes = max_job_data_bytes
        self._lock = threading.Lock()
        self._running: dict[int, Execution] = {}
        self._telling: dict[int, tuple[Execution, Completion, float]] = {}
        self._freed = freed
        self._clock = clock
        self.is_closing = False
        """True if the node is shutting down. A job that asks to be fired again at once is left to other nodes then."""
        self.unheeded_timeouts = 0
        """The number of times that an execution was found running long after its timeout."""

    def running(self) -> list[Execution]:
        with self._lock:
            return list(self._running.values())

    def fire_ids_of(self, epoch: Epoch) -> set[int]:
        """The executions of an epoch that run, and that nothing but `finish` will record."""
        return {one.fired.fire_id for one in self.running() if one.epoch is epoch and not one.is_recording}

    def interrupt(self, chosen: Callable[[Execution], bool]) -> int:
        """Ask the executions that `chosen` is true of to stop; how many."""
        asked = [execution for execution in self.running() if chosen(execution)]
        for execution in asked:
            execution.stop()
        return len(asked)

    def run(self, execution: Execution) -> None:
        """Run one execution; its completion goes to `ended`, None where this node may not run it any more."""
        try:
            if not execution.epoch.wait_until_trusted():
                self.end_as(execution, None)
                return
            with self._lock:
                self._running[execution.fired.fire_id] = execution
            timeout = execution.fired.timeout
            if timeout is not None:
                execution.deadline = self._deadlines.add(timeout.total_seconds(), partial(self._time_out, execution))
            Attempt(self, execution).run()
        except BaseException as error:
            self.fail(execution, error)

    # --- the end of an execution: it has one, and gives its slot back once

    def fail(self, execution: Execution, error: BaseException, started_at: datetime | None = None) -> None:
        """End an execution by what was raised around it, outside of the job.

        Whatever is raised between a committed fire and its completion comes here, and is recorded as the execution's
        error; nothing of it reaches the thread.
        """
        try:
            self.end_as(execution, self._failed(execution, error, started_at))
        finally:
            self._free(execution)

    def _failed(self, execution: Execution, error: BaseException, started_at: datetime | None) -> Completion:
        with suppress(BaseException):
            fired = execution.fired
            logger.critical(
                "job %s: its execution failed in the scheduler, outside of the job",
                fired.job_key,
                exc_info=error,
                extra=execution.log_attributes,
            )
            self.listeners.post(SchedulerError(f"job {fired.job_key}: its execution failed outside of the job", error))
        ended_at = self.store_time.now()
        began = min(started_at or ended_at, ended_at)
        return Completion(execution.fired, began, ended_at, Outcome.FAILED, error=describe(error))

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
            with self._lock:
                self._running.pop(execution.fired.fire_id, None)
                self._telling.pop(execution.fired.fire_id, None)
            if execution.deadline is not None:
                self._deadlines.call_off(execution.deadline)
        finally:
            self._ended(execution, completion)

    def tells(self, execution: Execution, completion: Completion) -> None:
        """Listeners are about to be told of this end; `look` does not let them hold it up for long."""
        with self._lock:
            self._telling[execution.fired.fire_id] = (execution, completion, self._clock())

    def look(self) -> None:
        """Hand on the completions of those whose listeners take long: they hold up nothing but their worker."""
        now = self._clock()
        with self._lock:
            late = [(one, completion) for one, completion, since in self._telling.values() if now - since >= TELL_LIMIT]
        for execution, completion in late:
            logger.warning(
                "fire %s of job %s has ended, and its listeners still run: it is recorded meanwhile",
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
            execution.deadline = self._deadlines.add(UNHEEDED_AFTER, partial(self._unheeded, execution, UNHEEDED_AFTER))

    def _unheeded(self, execution: Execution, seconds: float) -> None:
        if execution.has_ended:
            return
        self.unheeded_timeouts += 1
        logger.warning(
            "job %s does not heed its timeout of %s: fire %s still runs %.0f s after it, and keeps its worker",
            execution.fired.job_key,
            execution.fired.timeout,
            execution.fired.fire_id,
            seconds,
            extra=execution.log_attributes,
        )
        # Twice as long after the timeout as now.
        more = min(seconds, LONGEST_UNHEEDED_REST)
        execution.deadline = self._deadlines.add(more, partial(self._unheeded, execution, seconds + more))

    # --- what an attempt needs

    def new_instance(self, execution: Execution) -> Job:
        """Return the instance to call `execute` on. Raises what the factory raises, and InvalidJobError."""
        job_class = self._job_types.find(execution.fired.job_type)
        executor = execution.executor
        if executor is not None and executor.processes is not None:
            return executor.processes.stand_in(execution)
        if (
            executor is not None
            and executor.kind is ExecutorKind.ASYNCIO
            and not inspect.iscoroutinefunction(job_class.execute)
        ):
            raise InvalidJobError(
                f"executor {executor.name!r} runs async def jobs only; {job_class.__qualname__}.execute is a plain one"
            )
        job = self._job_factory(job_class)
        if not callable(getattr(job, "execute", None)):
            raise InvalidJobError(
                f"job_factory: an instance of {job_class.__qualname__} is needed (got a {type(job).__qualname__}, which"
                " has no execute(context))"
            )
        return job

    def context_for(
        self,
        execution: Execution,
        job: Job,
        transaction: Callable[[], AbstractContextManager[Any]],
        fenced_transaction: Callable[[], AbstractContextManager[Any]],
    ) -> JobExecutionContext:
        context = JobExecutionContext(
            execution.fired,
            scheduler=self._scheduler,
            job_instance=job,
            # Not the instance's: it may stand in for one in another process.
            data_type=self._job_types.data_type(execution.fired.job_type),
            instance_id=execution.epoch.node.instance_id,
            is_lease_lost=lambda: execution.lease_lost,
            cancelled=execution.cancelled,
            transaction=transaction,
            fenced_transaction=fenced_transaction,
        )
        execution.context = context
        return context
