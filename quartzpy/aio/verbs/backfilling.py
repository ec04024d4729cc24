"""The awaitable twin of `BackfillVerbs`.

`python -m tools.async_facade` writes this from the classes that stand behind. Change those instead.
"""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

from quartzpy.aio.handles import AsyncTriggeredExecution
from quartzpy.aio.verbs.triggering import AsyncTriggeringVerbs
from quartzpy.keys import TriggerRef
from quartzpy.scheduling.verbs.backfilling import BackfillVerbs

_BackfillVerbsT = TypeVar("_BackfillVerbsT", bound=BackfillVerbs)


class AsyncBackfillVerbs(AsyncTriggeringVerbs[_BackfillVerbsT]):
    """The methods of `BackfillVerbs`, each of them awaitable."""

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
