"""Handles whose methods are awaited.

`python -m tools.async_facade` writes this from the classes that stand behind. Change those instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from quartzpy.aio.calls import AsyncMirror
from quartzpy.instants import Span
from quartzpy.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.states import Missed
from quartzpy.store.records import ExecutionRecord
from quartzpy.triggers.trigger import Trigger
from quartzpy.verbs.handles import ScheduledJob, TriggeredExecution


class AsyncScheduledJob(AsyncMirror[ScheduledJob]):
    """The methods of `ScheduledJob`, each of them awaitable."""

    @property
    def key(self) -> JobKey:
        """The key of the job."""
        return self._behind.key

    async def detail(self) -> JobDetail:
        """The job as it is stored now. Raises JobNotFoundError: it is no longer stored."""
        return await self._run(lambda behind: behind.detail)

    async def triggers(self) -> list[Trigger]:
        """The job's triggers as they are stored now, by key; an empty list where none is left."""
        return await self._run(lambda behind: behind.triggers)

    async def next_fire_time(self) -> datetime | None:
        """The soonest next fire time of the job's triggers; None where it will not fire again.

        A paused trigger has a next fire time, too.
        """
        return await self._run(lambda behind: behind.next_fire_time)

    async def pause(self) -> None:
        """Pause all triggers that the job has now. Raises JobNotFoundError: it is no longer stored."""
        return await self._run(lambda behind: behind.pause())

    async def resume(self, *, missed: str = Missed.MISFIRE) -> None:
        """Resume all triggers; `missed` and errors as in `Scheduler.resume_job`."""
        return await self._run(lambda behind: behind.resume(missed=missed))

    async def trigger(
        self, data: Mapping[str, Any] | Any | None = None, *, delay: Span | None = None
    ) -> AsyncTriggeredExecution:
        """Run the job once, now or after `delay`; values and errors as in `Scheduler.trigger_job`."""
        found = await self._run(lambda behind: behind.trigger(data, delay=delay))
        return AsyncTriggeredExecution._of(self, found)

    async def modify(self, **changes: Any) -> JobDetail:
        """Replace values of the job; names and errors as in `Scheduler.modify_job`. Its triggers stay as they are."""
        return await self._run(lambda behind: behind.modify(**changes))

    async def reschedule(self, trigger: Trigger | str | timedelta | datetime) -> datetime:
        """Put another schedule in the place of the job's only trigger; return its first fire time.

        The trigger's forms are those of `Scheduler.schedule_job`. A trigger without a name takes the old one's.

        Raises:
            JobNotFoundError: the job is no longer stored.
            InvalidTriggerError: the job has several triggers or none; `Scheduler.reschedule_job` names one of them.
            Others as `Scheduler.reschedule_job`.
        """
        return await self._run(lambda behind: behind.reschedule(trigger))

    async def delete(self, *, missing_ok: bool = False) -> bool:
        """Remove the job with its triggers; values and errors as in `Scheduler.delete_job`."""
        return await self._run(lambda behind: behind.delete(missing_ok=missing_ok))

    async def wait(self, timeout: Span | None = None) -> ExecutionRecord:
        """Wait until the job's next execution has ended, on whichever node; return its record.

        Executions that end after the call count. Where the job is no longer stored, because its last trigger has fired,
        the record is that of its last execution.

        Raises:
            WaitTimeoutError: none ended within `timeout` (None: wait without a limit).
            JobNotFoundError: the job is not stored, and no execution of it is known.
        """
        return await self._wait(lambda behind: behind.wait(timeout))


class AsyncTriggeredExecution(AsyncMirror[TriggeredExecution]):
    """The methods of `TriggeredExecution`, each of them awaitable."""

    @property
    def key(self) -> TriggerKey:
        """The key of the trigger that fires it."""
        return self._behind.key

    @property
    def job_key(self) -> JobKey:
        """The key of the job that runs."""
        return self._behind.job_key

    async def record(self) -> ExecutionRecord | None:
        """What is known of the execution now: waiting, running or ended; None where nothing is."""
        return await self._run(lambda behind: behind.record)

    async def cancel(self) -> bool:
        """Take back the fire, or ask the running execution to stop; return whether either was possible."""
        return await self._run(lambda behind: behind.cancel())

    async def wait(self, timeout: Span | None = None) -> ExecutionRecord:
        """Wait until the execution has ended, on whichever node; return its record.

        The record is that of the first attempt, also where the job is retried.

        Raises:
            WaitTimeoutError: it did not end within `timeout` (None: wait without a limit).
        """
        return await self._wait(lambda behind: behind.wait(timeout))
