"""The awaitable twin of `ChangingVerbs`.

`python -m tools.async_facade` writes this from the classes that stand behind. Change those instead.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, TypeVar

from quartzpy.aio.verbs.storing import AsyncStoringVerbs
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, JobRef, TriggerKey, TriggerRef
from quartzpy.scheduling.forms import TriggerForm
from quartzpy.scheduling.verbs.changing import ChangingVerbs

_ChangingVerbsT = TypeVar("_ChangingVerbsT", bound=ChangingVerbs)


class AsyncChangingVerbs(AsyncStoringVerbs[_ChangingVerbsT]):
    """The methods of `ChangingVerbs`, each of them awaitable."""

    async def modify_job(self, key: JobRef, **changes: Any) -> JobDetail:
        """Change values of a stored job, named as in `JobDetail`; return the changed job.

        Its triggers and its other values do not change, even if another program changes them at the same time.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidJobError: a value is wrong, or a name is not that of a value that can be changed.
            InvalidJobDataError: as for `add_job`, if `data` or `job` is changed.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.modify_job(key, **changes))

    async def unschedule_job(self, key: TriggerRef, *, missing_ok: bool = False) -> bool:
        """Remove a trigger; remove its job as well if it has no other trigger and is not durable.

        Return True, or False if the trigger was not stored and `missing_ok` is true.

        Raises:
            TriggerNotFoundError: it is not stored, and `missing_ok` is false.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.unschedule_job(key, missing_ok=missing_ok))

    async def unschedule_jobs(self, keys: Collection[TriggerRef]) -> set[TriggerKey]:
        """Remove triggers, and jobs as `unschedule_job` does; return the keys of those that were stored."""
        return await self._run(lambda behind: behind.unschedule_jobs(keys))

    async def reschedule_job(self, key: TriggerRef, trigger: TriggerForm) -> datetime:
        """Replace a stored trigger with a new one of the same job; return the new trigger's first fire time.

        The trigger takes the forms that `schedule_job` accepts. A trigger without a name takes the old one's key.

        Raises:
            TriggerNotFoundError: no trigger is stored under `key`; nothing is changed.
            InvalidKeyError: `key` is neither a key nor a name.
            Others as for `schedule_job`.
        """
        return await self._run(lambda behind: behind.reschedule_job(key, trigger))

    async def delete_job(self, key: JobRef, *, missing_ok: bool = False) -> bool:
        """Remove a job with all its triggers. Running executions continue.

        Return True, or False if the job was not stored and `missing_ok` is true.

        Raises:
            JobNotFoundError: it is not stored, and `missing_ok` is false.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.delete_job(key, missing_ok=missing_ok))

    async def delete_jobs(self, keys: Collection[JobRef]) -> set[JobKey]:
        """Remove jobs with all their triggers; return the keys of those that were stored."""
        return await self._run(lambda behind: behind.delete_jobs(keys))

    async def clear(self) -> None:
        """Remove all jobs, triggers, calendars and pauses of this scheduler. Running executions continue."""
        return await self._run(lambda behind: behind.clear())
