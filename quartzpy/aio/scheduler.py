"""The awaitable verbs of a scheduler alone.

`python -m tools.async_facade` writes this from the classes that stand behind. Change those instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeVar

from quartzpy.aio.calls import VerbThreads
from quartzpy.aio.transaction import AsyncTransactionVerbs
from quartzpy.aio.verbs import AsyncSchedulingVerbs
from quartzpy.config import SchedulerConfig
from quartzpy.context import JobExecutionContext
from quartzpy.keys import JobKey
from quartzpy.runtime.health import SchedulerHealth
from quartzpy.scheduler import BaseScheduler, SchedulerMetadata
from quartzpy.verbs.looking import FireRef

_BaseSchedulerT = TypeVar("_BaseSchedulerT", bound=BaseScheduler)


class AsyncSchedulerVerbs(AsyncSchedulingVerbs[_BaseSchedulerT]):
    """The methods of `BaseScheduler`, each of them awaitable."""

    @property
    def config(self) -> SchedulerConfig:
        """The settings of this scheduler."""
        return self._behind.config

    @property
    def instance_id(self) -> str | None:
        """This node's id in the cluster; None before `start`."""
        return self._behind.instance_id

    @property
    def is_started(self) -> bool:
        """True if `start` was called and the scheduler was not shut down since."""
        return self._behind.is_started

    @property
    def is_in_standby(self) -> bool:
        """True if this node claims nothing: in standby, or not started."""
        return self._behind.is_in_standby

    @property
    def is_shut_down(self) -> bool:
        """True once `shutdown` was called."""
        return self._behind.is_shut_down

    async def standby(self) -> None:
        """Claim nothing more on this node until `start`. What runs goes on, and the node stays in the cluster."""
        return await self._run(lambda behind: behind.standby())

    async def shutdown(
        self, *, wait: bool = True, timeout: timedelta | float | str | None = None, interrupt: bool = False
    ) -> bool:
        """Stop for good. Return whether all executions of this node ended and were recorded.

        With `wait` it returns when they have ended, or when `timeout` (seconds, or a span such as "30s"; None: however
        long they take) has passed. What still runs then is asked to stop and left to other nodes to recover. With
        `interrupt` executions are asked to stop at once (`context.cancelled`, as by `cancel`). A job that asks to be
        fired again at once is fired by another node. Without `wait` all that goes on in the background. Another call
        may wait after all, interrupt, or shorten the time.

        Raises:
            SchedulerStateError: a job of this scheduler called it with `wait`, and would wait for itself.
            SettingsError: `timeout` is no span of time, or is below zero. Nothing has changed then.
        """
        return await self._wait(lambda behind: behind.shutdown(wait=wait, timeout=timeout, interrupt=interrupt))

    async def wait_until_shut_down(self, timeout: timedelta | float | str | None = None) -> bool:
        """Sleep until somebody calls `shutdown`, at most for `timeout`. Return whether somebody has."""
        return await self._wait(lambda behind: behind.wait_until_shut_down(timeout))

    async def wait_until_recorded(self, executions: int, timeout: timedelta | float | str) -> bool:
        """Wait until this node has run and recorded so many executions. Return whether it has in time."""
        return await self._wait(lambda behind: behind.wait_until_recorded(executions, timeout))

    def health(self) -> SchedulerHealth:
        """Return the health of this scheduler in this process: its threads, its lease, the database. Asks no database.

        A node whose state is FAILED needs a new process: `health().raise_if_failed()` says so as an error, and
        `quartzpy node` ends with exit status 70.
        """
        return self._behind.health()

    async def using_async(self, connection: Any, threads: VerbThreads) -> AsyncTransactionVerbs:
        """As `using`, with verbs that are awaited whichever connection it is; they run on `threads`."""
        return await self._run(lambda behind: behind.using_async(connection, threads))

    async def set_execution_groups(self, limits: Mapping[str, int]) -> None:
        """Limit execution groups on this node anew, as the setting `execution_groups` does; what runs goes on.

        Raises:
            SettingsError: a limit is no number from 0.
            SchedulerStateError: the scheduler was not started.
        """
        return await self._run(lambda behind: behind.set_execution_groups(limits))

    def currently_executing_jobs(self) -> list[JobExecutionContext]:
        """The executions that run on this node; `running` shows those of all."""
        return self._behind.currently_executing_jobs()

    async def interrupt(self, key: JobKey | str) -> bool:
        """Ask all executions of a job on this node to stop (`context.cancelled`). Return whether there was one.

        `cancel_job` does so in the whole cluster.

        Raises:
            InvalidKeyError: `key` is neither a JobKey nor a name.
            UnableToInterruptJobError: the scheduler was not started.
        """
        return await self._run(lambda behind: behind.interrupt(key))

    async def interrupt_execution(self, fire_id: FireRef) -> bool:
        """Ask one execution on this node to stop. Return whether it runs here.

        Raises:
            InvalidValueError: `fire_id` is not the id of any execution.
            UnableToInterruptJobError: the scheduler was not started.
        """
        return await self._run(lambda behind: behind.interrupt_execution(fire_id))

    async def cancel(self, fire_id: FireRef) -> bool:
        """Ask an execution to stop, on whichever node of the cluster it runs. Return whether it still runs.

        The job sees `context.cancelled`; an `async def` job that does not end is cut off at its next `await`. An
        execution that stops so is CANCELLED in the history and is not retried.

        Raises:
            InvalidValueError: `fire_id` is not the id of any execution.
            ExecutionNotFoundError: neither a running execution nor one in the history has this id.
        """
        return await self._run(lambda behind: behind.cancel(fire_id))

    async def cancel_job(self, key: JobKey | str) -> set[int]:
        """Ask all executions of a job to stop, on all nodes of the cluster, as `cancel` does for one.

        Returns the fire ids of the executions that were asked. What the job's triggers fire later is not affected.

        Raises:
            InvalidKeyError: `key` is neither a JobKey nor a name.
            JobNotFoundError: no such job is stored, and none of its executions runs.
        """
        return await self._run(lambda behind: behind.cancel_job(key))

    @property
    def metadata(self) -> SchedulerMetadata:
        """Return what this scheduler is and has done, without asking the database."""
        return self._behind.metadata
