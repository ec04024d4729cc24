"""Runs executions on the calling thread, or on the event loop, and hands each one's completion on."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from typing import Any, Protocol

from quartzpy.config import ExecutorKind
from quartzpy.context import JobExecutionContext
from quartzpy.errors import InvalidJobError
from quartzpy.job import Job, JobTypes
from quartzpy.job_factory import JobFactory
from quartzpy.listeners import Listeners
from quartzpy.middleware import Middleware
from quartzpy.runtime.attempt import Attempt
from quartzpy.runtime.deadlines import Deadlines
from quartzpy.runtime.event_loop import LoopWork
from quartzpy.runtime.execution import Execution
from quartzpy.runtime.store_time import StoreTime
from quartzpy.store.protocol import Completion, JobStore


class Loop(Protocol):
    """What runs `async def` jobs."""

    def run(self, work: Coroutine[Any, Any, None]) -> LoopWork | None:
        """Begin, or do, what does not raise."""
        ...


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
    ) -> None:
        self._deadlines = deadlines
        self.listeners = listeners
        self.store = store
        self.unblocked = unblocked
        self._job_types = job_types
        self._job_factory = job_factory
        self.middleware = middleware
        self.store_time = store_time
        self._loop = loop
        self._scheduler = scheduler
        self._ended = ended
        self.max_job_data_bytes = max_job_data_bytes
        self._lock = threading.Lock()
        self._running: dict[int, Execution] = {}

    def running(self) -> list[Execution]:
        with self._lock:
            return list(self._running.values())

    def interrupt(self, chosen: Callable[[Execution], bool]) -> int:
        """Ask the executions that `chosen` is true of to stop; how many."""
        asked = [execution for execution in self.running() if chosen(execution)]
        for execution in asked:
            execution.stop()
        return len(asked)

    def run(self, execution: Execution) -> None:
        """Run one execution; its completion goes to `ended`, None where this node may not run it any more."""
        if not execution.epoch.wait_until_trusted():
            self._ended(execution, None)
            return
        with self._lock:
            self._running[execution.fired.fence] = execution
        attempt = Attempt(self, execution)
        job = attempt.instantiate()
        timeout = execution.fired.timeout
        deadline = None if timeout is None else self._deadlines.add(timeout.total_seconds(), execution.time_out)
        attempt.at_end = None if deadline is None else partial(self._deadlines.call_off, deadline)
        if job is not None and inspect.iscoroutinefunction(job.execute):
            execution.work = self._loop.run(attempt.run_async(job))
            if execution.cancelled.is_set():
                execution.stop()
        else:
            attempt.run(job)

    def finish(self, execution: Execution, completion: Completion) -> None:
        with self._lock:
            self._running.pop(execution.fired.fence, None)
        self._ended(execution, completion)

    # --- what an attempt needs

    def new_instance(self, execution: Execution) -> Job:
        """What `execute` is called on. Whatever the factory raises; InvalidJobError: not for its executor."""
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
        return self._job_factory(job_class)

    def context_for(
        self,
        execution: Execution,
        job: Job,
        refire_count: int,
        transaction: Callable[[], AbstractContextManager[Any]],
        fenced_transaction: Callable[[], AbstractContextManager[Any]],
    ) -> JobExecutionContext:
        context = JobExecutionContext(
            execution.fired,
            scheduler=self._scheduler,
            job_instance=job,
            # Not the instance's: it may stand in for one in another process.
            data_type=self._job_types.data_type(execution.fired.job_type),
            refire_count=refire_count,
            is_lease_lost=lambda: not execution.epoch.trusted,
            cancelled=execution.cancelled,
            transaction=transaction,
            fenced_transaction=fenced_transaction,
        )
        execution.context = context
        return context
