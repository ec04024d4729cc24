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

_BaseSchedulerT = TypeVar("_BaseSchedulerT", bound=BaseScheduler)


class AsyncSchedulerVerbs(AsyncSchedulingVerbs[_BaseSchedulerT]):
    """The methods of `BaseScheduler`, each of them awaitable."""

    @property
    def config(self) -> SchedulerConfig:
        return self._behind.config

    @property
    def instance_id(self) -> str | None:
        """This node's id in the cluster; None before `start`."""
        return self._behind.instance_id

    @property
    def is_started(self) -> bool:
        """Whether `start` was called and the scheduler was not shut down since."""
        return self._behind.is_started

    @property
    def is_in_standby(self) -> bool:
        """Whether this node claims nothing: in standby, or not started."""
        return self._behind.is_in_standby

    @property
    def is_shut_down(self) -> bool:
        return self._behind.is_shut_down

    async def standby(self) -> None:
        """Claim nothing more on this node until `start`. What runs goes on, and the node stays in the cluster."""
        return await self._run(lambda behind: behind.standby())

    async def shutdown(self, *, wait: bool = True, timeout: timedelta | None = None) -> bool:
        """Stop for good. With `wait`, executions may end within `timeout` (None: however long they take).

        What still runs then is told to stop and left for other nodes to recover. Returns whether all ended.

        Raises:
            SchedulerStateError: called with `wait` from a job of this scheduler: it would wait for itself.
        """
        return await self._wait(lambda behind: behind.shutdown(wait=wait, timeout=timeout))

    async def wait_until_shut_down(self, timeout: timedelta | None = None) -> bool:
        """Sleep until somebody calls `shutdown`; whether that came within `timeout`."""
        return await self._wait(lambda behind: behind.wait_until_shut_down(timeout))

    async def wait_until_recorded(self, executions: int, timeout: timedelta) -> bool:
        """Wait until this node has run so many executions and recorded all; whether that came in time."""
        return await self._wait(lambda behind: behind.wait_until_recorded(executions, timeout))

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

    async def interrupt(self, key: JobKey) -> bool:
        """Ask all executions of a job on this node to stop (`context.cancelled`); whether there was one."""
        return await self._run(lambda behind: behind.interrupt(key))

    async def interrupt_execution(self, fire_id: str) -> bool:
        """Ask one execution on this node to stop; whether it runs here."""
        return await self._run(lambda behind: behind.interrupt_execution(fire_id))

    async def cancel(self, fire_id: str) -> bool:
        """Ask an execution to stop, on whichever node of the cluster it runs; whether it runs.

        The job sees `context.cancelled`; an `async def` job that does not end is cut off at its next `await`. An
        execution that stops so is CANCELLED in the history and is not retried.

        Raises:
            InvalidValueError: no such id can be.
        """
        return await self._run(lambda behind: behind.cancel(fire_id))

    def health(self) -> SchedulerHealth:
        """How this scheduler is in this process: its threads, its lease, the database. Asks nothing of the database.

        A node whose state is FAILED needs a new process: `health().raise_if_failed()` says so as an error, and
        `quartzpy node` ends with exit status 70.
        """
        return self._behind.health()

    @property
    def metadata(self) -> SchedulerMetadata:
        return self._behind.metadata
