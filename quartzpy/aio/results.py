"""Handles, queries and streams of events, which are awaited.

`python -m tools.async_facade` writes this from the classes that stand behind. Change those instead.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Generic, Self, TypeVar, Unpack

from quartzpy.errors import QuartzpyError
from quartzpy.instants import Span
from quartzpy.jobs.job import JobData, JobDetail
from quartzpy.jobs.options import JobChanges
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.name_hints import RESCHEDULING_ARGUMENTS, argument_hints
from quartzpy.scheduler.async_calls import AsyncLazyMirror, AsyncMirror
from quartzpy.scheduler.cluster_events import ClusterEvent, ClusterEvents
from quartzpy.scheduler.methods.handles import TriggeredExecution
from quartzpy.scheduler.methods.pausing import Until
from quartzpy.scheduler.methods.scheduling import ScheduledJob
from quartzpy.scheduler.querying import DEFAULT_LIMIT, Page, Query
from quartzpy.states import Missed
from quartzpy.store.records import ExecutionRecord
from quartzpy.triggers.trigger import Trigger


class AsyncClusterEvents(AsyncMirror[ClusterEvents]):
    """The methods of `ClusterEvents`, each of them awaitable."""

    async def __aiter__(self) -> AsyncIterator[ClusterEvent]:
        while (event := await self.next()) is not None:
            yield event

    async def next(self, timeout: float | None = None) -> ClusterEvent | None:
        """Return the next event, or None if this is closed or no event comes within `timeout` seconds."""
        return await self._wait(lambda behind: behind.next(timeout))

    async def outage(self) -> QuartzpyError | None:
        """The error of the last attempt to read the database; None if that succeeded.

        Iteration waits for the end of an outage. To notice one, call `next` with a timeout.
        """
        return await self._run(lambda behind: behind.outage)

    async def close(self) -> None:
        """End the iteration, including one that another thread waits in, and release the connection."""
        return await self._run(lambda behind: behind.close())

    async def __aenter__(self) -> Self:
        await self._run(lambda behind: None)  # From here on it misses nothing.
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


_T = TypeVar("_T")


class AsyncQuery(AsyncLazyMirror[Query[_T]], Generic[_T]):
    """The methods of `Query`, each of them awaitable."""

    def __aiter__(self) -> AsyncIterator[_T]:
        return self._items(lambda behind: behind)

    async def page(self, limit: int = DEFAULT_LIMIT, after: str | None = None) -> Page[_T]:
        """Return at most `limit` records: the first ones, or those after the cursor `after`.

        A cursor is the `next_cursor` of a page of the same query. It contains no secrets, is safe in a URL, and stays
        valid as long as the store exists.

        Raises:
            InvalidValueError: `limit` is not a whole number from 1 to 1,000,000, or `after` is not a cursor of this
                query.
        """
        return await self._run(lambda behind: behind.page(limit, after))

    async def first(self) -> _T | None:
        """Return the first record, or None if the query selects nothing."""
        return await self._run(lambda behind: behind.first())

    async def count(self) -> int:
        """Return the number of records that the query selects."""
        return await self._run(lambda behind: behind.count())


class AsyncScheduledJob(AsyncMirror[ScheduledJob]):
    """The methods of `ScheduledJob`, each of them awaitable."""

    @property
    def key(self) -> JobKey:
        """The key of the job."""
        return self._behind.key

    async def detail(self) -> JobDetail:
        """The job as it is stored now. Raises JobNotFoundError if it is no longer stored."""
        return await self._run(lambda behind: behind.detail)

    async def triggers(self) -> list[Trigger]:
        """The job's triggers as they are stored now, sorted by key; an empty list if it has none."""
        return await self._run(lambda behind: behind.triggers)

    async def next_fire_time(self) -> datetime | None:
        """The earliest next fire time of the job's triggers, or None if the job will not fire again.

        Paused triggers count as well.
        """
        return await self._run(lambda behind: behind.next_fire_time)

    async def pause(
        self,
        *,
        reason: str | None = None,
        by: str | None = None,
        until: Until | None = None,
        missed: str = Missed.MISFIRE,
    ) -> None:
        """Pause all triggers that the job has now; values and errors as in `Scheduler.pause_job`."""
        return await self._run(lambda behind: behind.pause(reason=reason, by=by, until=until, missed=missed))

    async def resume(self, *, missed: str = Missed.MISFIRE) -> None:
        """Resume all triggers; `missed` and errors as for `Scheduler.resume_job`."""
        return await self._run(lambda behind: behind.resume(missed=missed))

    async def trigger(
        self,
        data: Mapping[str, Any] | JobData | None = None,
        *,
        delay: Span | None = None,
        even_if_paused: bool = False,
        debounce_key: str | None = None,
        keep_waiting: bool = False,
        by: str | None = None,
    ) -> AsyncTriggeredExecution:
        """Run the job once, now or after `delay`; arguments and errors as for `Scheduler.trigger_job`."""
        result = await self._run(
            lambda behind: behind.trigger(
                data,
                delay=delay,
                even_if_paused=even_if_paused,
                debounce_key=debounce_key,
                keep_waiting=keep_waiting,
                by=by,
            )
        )
        return AsyncTriggeredExecution._of(self, result)

    async def modify(self, **changes: Unpack[JobChanges]) -> JobDetail:
        """Change values of the job; names and errors as for `Scheduler.modify_job`. Its triggers do not change."""
        return await self._run(lambda behind: behind.modify(**changes))

    @argument_hints(RESCHEDULING_ARGUMENTS)
    async def reschedule(self, trigger: Trigger | str | timedelta | datetime) -> datetime:
        """Replace the job's only trigger with another schedule; return the new trigger's first fire time.

        The trigger takes any form that `Scheduler.schedule_job` accepts. A trigger without a name takes the name of
        the old one.

        Raises:
            JobNotFoundError: the job is no longer stored.
            InvalidTriggerError: the job has no trigger or several; use `Scheduler.reschedule_job` for one of several.
            Others as for `Scheduler.reschedule_job`.
        """
        return await self._run(lambda behind: behind.reschedule(trigger))

    async def delete(self, *, missing_ok: bool = False) -> bool:
        """Remove the job with its triggers; return value and errors as for `Scheduler.delete_job`."""
        return await self._run(lambda behind: behind.delete(missing_ok=missing_ok))

    async def wait(self, timeout: Span | None = None) -> ExecutionRecord:
        """Wait until the job's next execution has ended, on any node; return its record with its log lines.

        Only executions that end after the call count. If the job is no longer stored because its last trigger has
        fired, return the record of its last execution.

        Raises:
            WaitTimeoutError: no execution ended within `timeout` (None: wait without a limit).
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
        """The current record of the execution, which waits, runs or has ended; None if nothing is stored about it."""
        return await self._run(lambda behind: behind.record)

    async def cancel(self) -> bool:
        """Cancel the coming fire, or ask the running execution to stop. Return True if either was possible."""
        return await self._run(lambda behind: behind.cancel())

    async def wait(self, timeout: Span | None = None) -> ExecutionRecord:
        """Wait until the execution has ended, on any node; return its record with its log lines.

        If the job is retried, the record is that of the first attempt.

        Raises:
            WaitTimeoutError: the execution did not end within `timeout` (None: wait without a limit).
        """
        return await self._wait(lambda behind: behind.wait(timeout))
