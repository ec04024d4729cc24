"""The awaitable verbs of a scheduler alone.

`python -m tools.async_facade` writes this from the classes that stand behind. Change those instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from quartzpy.aio.methods.scheduling import AsyncSchedulingMethods
from quartzpy.aio.transaction import AsyncTransactionMethods
from quartzpy.config.config import SchedulerConfig
from quartzpy.instants import Span
from quartzpy.jobs.context import JobExecutionContext, Middleware
from quartzpy.jobs.internal_entries import CurrentTrace, Within
from quartzpy.keys import JobKey
from quartzpy.node.health import SchedulerHealth
from quartzpy.scheduler.async_calls import VerbThreads
from quartzpy.scheduler.methods.queries import FireRef
from quartzpy.scheduler.scheduler import BaseScheduler, SchedulerMetadata

_BaseSchedulerT = TypeVar("_BaseSchedulerT", bound=BaseScheduler)


class AsyncSchedulerMethods(AsyncSchedulingMethods[_BaseSchedulerT]):
    """The methods of `BaseScheduler`, each of them awaitable."""

    async def add_middleware(self, middleware: Middleware) -> None:
        """Surround the executions of this scheduler with one more middleware, outside of those that it has.

        Raises:
            SchedulerStateError: the scheduler was started.
        """
        return await self._run(lambda behind: behind.add_middleware(middleware))

    async def trace_with(self, current: CurrentTrace, *, within: Within | None = None) -> None:
        """Store the trace context that `current` returns with each trigger, for its executions.

        A process worker runs each job in `within(trace)`, where `trace` is the context of the execution in the node. It
        is a function that can be pickled.
        """
        return await self._run(lambda behind: behind.trace_with(current, within=within))

    @property
    def config(self) -> SchedulerConfig:
        """The settings of this scheduler."""
        return self._behind.config

    @property
    def instance_id(self) -> str | None:
        """The id of this node in the cluster. None before `start`."""
        return self._behind.instance_id

    @property
    def is_started(self) -> bool:
        """True after `start`, until the scheduler is shut down."""
        return self._behind.is_started

    @property
    def is_in_standby(self) -> bool:
        """True if this node claims no triggers because it is in standby or was not started."""
        return self._behind.is_in_standby

    @property
    def is_shut_down(self) -> bool:
        """True once `shutdown` was called."""
        return self._behind.is_shut_down

    async def standby(self) -> None:
        """Claim no more triggers on this node until `start` is called again.

        Running executions continue, and the node stays in the cluster.

        Raises:
            SchedulerStateError: the scheduler was not started, or was shut down.
        """
        return await self._run(lambda behind: behind.standby())

    async def shutdown(self, *, wait: bool = True, timeout: Span | None = None, interrupt: bool = False) -> bool:
        """Drain this node and leave the cluster. Return True if all its executions ended and were recorded.

        With `wait=True` it blocks until they have ended, or until `timeout` (seconds, or a span such as "30s"; None:
        without a limit) has passed; executions that are still running then are asked to stop, and other nodes recover
        them. With `interrupt=True` executions are asked to stop immediately (`context.cancelled`, as by `cancel`). An
        immediate refire that a job asks for meanwhile happens on another node. With `wait=False` the drain continues in
        the background. A later call can wait for it, interrupt executions or shorten the timeout. Until the drain is
        over, running jobs, and all other callers, may use the scheduler. A scheduler that was shut down cannot be
        started again.

        Raises:
            SchedulerStateError: a job of this scheduler called it with `wait=True`; it would wait for that job.
            SettingsError: `timeout` is not a span of time, or is negative. The scheduler is unchanged.
        """
        return await self._wait(lambda behind: behind.shutdown(wait=wait, timeout=timeout, interrupt=interrupt))

    async def wait_until_shut_down(self, timeout: Span | None = None) -> bool:
        """Block until `shutdown` is called, for at most `timeout`. Return whether it was called."""
        return await self._wait(lambda behind: behind.wait_until_shut_down(timeout))

    async def wait_until_recorded(self, executions: int, timeout: Span) -> bool:
        """Wait until this node has recorded at least `executions` executions. Return False on timeout."""
        return await self._wait(lambda behind: behind.wait_until_recorded(executions, timeout))

    def health(self) -> SchedulerHealth:
        """Return the health of this node: its threads, its lease and its database connection. It makes no round trip.

        A node whose state is FAILED needs a new process: `health().raise_if_failed()` raises an error then, and
        `quartzpy node` exits with status 75.
        """
        return self._behind.health()

    async def using_async(self, connection: Any, threads: VerbThreads) -> AsyncTransactionMethods:
        """Return awaitable scheduling verbs for any kind of connection, as `using` does. They run on `threads`."""
        return await self._run(lambda behind: behind.using_async(connection, threads))

    async def set_execution_groups(self, limits: Mapping[str, int]) -> None:
        """Replace the limits of execution groups on this node, as given by the setting `execution_groups`.

        Running executions continue, even if there are more of them than a new limit allows.

        Raises:
            SettingsError: a limit is not a whole number of 0 or more.
            SchedulerStateError: the scheduler was not started.
        """
        return await self._run(lambda behind: behind.set_execution_groups(limits))

    def currently_executing_jobs(self) -> list[JobExecutionContext]:
        """Return the contexts of the executions that run on this node. `running` lists those of all nodes."""
        return self._behind.currently_executing_jobs()

    async def interrupt(self, key: JobKey | str) -> bool:
        """Ask all executions of a job on this node to stop (`context.cancelled`). Return whether there were any.

        `cancel_job` does this in the whole cluster.

        Raises:
            InvalidKeyError: `key` is neither a JobKey nor a name.
            UnableToInterruptJobError: the scheduler was not started.
        """
        return await self._run(lambda behind: behind.interrupt(key))

    async def interrupt_execution(self, fire_id: FireRef) -> bool:
        """Ask one execution on this node to stop. Return whether it is running here.

        Raises:
            InvalidValueError: `fire_id` is not a valid fire id.
            UnableToInterruptJobError: the scheduler was not started.
        """
        return await self._run(lambda behind: behind.interrupt_execution(fire_id))

    async def cancel(self, fire_id: FireRef) -> bool:
        """Ask an execution to stop, on any node of the cluster. Return whether it was still running.

        The job sees `context.cancelled`. An `async def` job that does not end by itself is cancelled at its next
        `await`. An execution that stops because of this is recorded as CANCELLED and is not retried. If this returns
        True, the execution does not run again by a retry, a snooze or a recovery, however it ends; and if its job has
        not begun, it does not begin.

        Raises:
            InvalidValueError: `fire_id` is not a valid fire id.
            ExecutionNotFoundError: neither a running execution nor one in the history has this id.
        """
        return await self._run(lambda behind: behind.cancel(fire_id))

    async def cancel_job(self, key: JobKey | str) -> set[int]:
        """Ask all running executions of a job to stop, on all nodes of the cluster. Return their fire ids.

        Each is stopped as by `cancel`. Later fires of the job's triggers are not affected.

        Raises:
            InvalidKeyError: `key` is neither a JobKey nor a name.
            JobNotFoundError: the job is not stored, and no execution of it is running.
        """
        return await self._run(lambda behind: behind.cancel_job(key))

    @property
    def metadata(self) -> SchedulerMetadata:
        """Return the name, state and counts of this scheduler. It makes no round trip to the database."""
        return self._behind.metadata
