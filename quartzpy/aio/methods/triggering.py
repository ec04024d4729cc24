"""The awaitable twin of `TriggeringMethods`.

`python -m tools.async_facade` writes this from the classes that stand behind. Change those instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from quartzpy.aio.methods.queries import AsyncQueryMethods
from quartzpy.aio.methods.storing import AsyncStoringMethods
from quartzpy.aio.results import AsyncTriggeredExecution
from quartzpy.instants import Span
from quartzpy.keys import JobRef, TriggerRef
from quartzpy.scheduler.methods.queries import FireRef
from quartzpy.scheduler.methods.triggering import TriggeringMethods

_TriggeringMethodsT = TypeVar("_TriggeringMethodsT", bound=TriggeringMethods)


class AsyncTriggeringMethods(AsyncStoringMethods[_TriggeringMethodsT], AsyncQueryMethods[_TriggeringMethodsT]):
    """The methods of `TriggeringMethods`, each of them awaitable."""

    async def trigger_job(
        self,
        key: JobRef,
        data: Mapping[str, Any] | Any | None = None,
        *,
        delay: Span | None = None,
        even_if_paused: bool = False,
        debounce_key: str | None = None,
        keep_waiting: bool = False,
    ) -> AsyncTriggeredExecution:
        """Run a job now, or after `delay`, by a separate trigger that carries `data`; return a handle to wait for it.

        That trigger is in the group MANUAL_TRIGGERS, so pauses of triggers and of other groups do not affect it. Under
        `pause_all`, or a pause of the job's group or of MANUAL_TRIGGERS, it would wait until the pause ends; therefore
        the call is refused, unless `even_if_paused` permits the wait. `data` may be a value of the job's `data_type`,
        if the job's class is known in this process.

        With a `debounce_key`, at most one call for this job and this key waits for its fire, in the whole cluster. A
        later call replaces the waiting one, with its own data and `delay`. With `keep_waiting`, the waiting call stays,
        and the later call returns a handle for it. An execution that has started no longer waits. The handle refers to
        the latest execution for the key since the call.

        Raises:
            JobNotFoundError: the job is not stored.
            IllegalStateChangeError: the job is disabled, or a pause would delay the fire.
            InvalidJobDataError: as in `schedule_job`.
            InvalidKeyError: `key` is neither a key nor a name, or `debounce_key` is not a text.
            InvalidValueError: `keep_waiting` is given without a `debounce_key`.
        """
        found = await self._run(
            lambda behind: behind.trigger_job(
                key,
                data,
                delay=delay,
                even_if_paused=even_if_paused,
                debounce_key=debounce_key,
                keep_waiting=keep_waiting,
            )
        )
        return AsyncTriggeredExecution._of(self, found)

    async def run_again(
        self, fire_id: FireRef, *, delay: Span | None = None, even_if_paused: bool = False
    ) -> AsyncTriggeredExecution:
        """Run the job of an execution again, now or after `delay`, with the trigger data of that execution.

        The new execution is a first attempt by a separate trigger, as for `trigger_job`, with the job's own data as it
        is stored now. `context.nominal_fire_time` and `execution_key` are those of the original execution.

        Raises:
            ExecutionNotFoundError: no such execution is known.
            IllegalStateChangeError: the execution has not ended, the job is disabled, or a pause would delay the fire.
            JobNotFoundError: the job is no longer stored.
            InvalidJobDataError: as in `trigger_job`; or the data cannot be read in this process.
            InvalidValueError: `fire_id` cannot be the id of an execution.
        """
        found = await self._run(lambda behind: behind.run_again(fire_id, delay=delay, even_if_paused=even_if_paused))
        return AsyncTriggeredExecution._of(self, found)

    async def backfill_times(
        self, key: TriggerRef, since: datetime, until: datetime, *, max_runs: int = 1000
    ) -> list[datetime]:
        """Return the instants that `backfill` would run a job for, and run nothing.

        They are the fire times of the trigger from `since` until before `until`, without those that its calendar
        excludes. A cron trigger is followed also before its start time; the schedule of any other begins there.

        Raises:
            TriggerNotFoundError: the trigger is not stored.
            InvalidValueError: `since` or `until` is no datetime with a time zone, `until` is not after `since`, or
                there are more than `max_runs` instants.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.backfill_times(key, since, until, max_runs=max_runs))

    async def backfill(
        self, key: TriggerRef, since: datetime, until: datetime, *, max_runs: int = 1000, even_if_paused: bool = False
    ) -> list[AsyncTriggeredExecution]:
        """Run the job of a trigger once for each instant of `backfill_times`; return the handles, in that order.

        All runs are stored at once, or none is, as triggers in the group MANUAL_TRIGGERS that are due now and carry the
        trigger's data. They start in the order of their instants and run as many at a time as the job's
        `max_concurrent` allows; with an `overlap_policy` that skips or coalesces, fires beyond that limit get no run.
        `context.nominal_fire_time` is the instant. `context.execution_key` is that of the original fire at the instant,
        so that the job can find out if it did this work before. The trigger itself does not change. Instants at which
        it fired before are run again, so choose a span without them. The runs have the lowest priority.

        Raises:
            IllegalStateChangeError: the job is disabled, or a pause would hold the fires and `even_if_paused` is false.
            Others as `backfill_times` and `trigger_job`.
        """
        found = await self._run(
            lambda behind: behind.backfill(key, since, until, max_runs=max_runs, even_if_paused=even_if_paused)
        )
        return [AsyncTriggeredExecution._of(self, one) for one in found]
