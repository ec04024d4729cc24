"""The awaitable twin of `StoringMethods`.

`python -m tools.async_facade` writes this from the classes that stand behind. Change those instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from quartzpy.aio.methods.base import AsyncMethods
from quartzpy.calendars.calendar import Calendar
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, JobRef, TriggerKey, TriggerRef
from quartzpy.scheduler.coercion import JobLike, TriggerLike
from quartzpy.scheduler.methods.storing import StoringMethods
from quartzpy.scheduler.sync import Existing, SyncPlan
from quartzpy.triggers.trigger import Trigger

_StoringMethodsT = TypeVar("_StoringMethodsT", bound=StoringMethods)


class AsyncStoringMethods(AsyncMethods[_StoringMethodsT]):
    """The methods of `StoringMethods`, each of them awaitable."""

    async def add_job(
        self, job: JobDetail, *, replace: bool = False, store_non_durable_while_awaiting_scheduling: bool = False
    ) -> None:
        """Store a job without a trigger. Storing the same again changes nothing.

        Raises:
            InvalidJobError: the job is not durable, so it would be deleted with its last trigger, and
                `store_non_durable_while_awaiting_scheduling` is false.
            ObjectAlreadyExistsError: a different job has its key, and `replace` is false.
            InvalidJobDataError: its data has names that its `data_type` does not have. Missing names are no error,
                because a trigger may provide them.
        """
        return await self._run(
            lambda behind: behind.add_job(
                job,
                replace=replace,
                store_non_durable_while_awaiting_scheduling=store_non_durable_while_awaiting_scheduling,
            )
        )

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

    async def reschedule_job(self, key: TriggerRef, trigger: TriggerLike) -> datetime:
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

    async def add_calendar(
        self, name: str, calendar: Calendar, *, replace: bool = False, update_triggers: bool = False
    ) -> None:
        """Store a calendar that triggers can refer to. Storing the same calendar again changes nothing.

        With `replace`, the calendar replaces one that is stored under the same name: triggers that use it keep their
        current next fire time, and follow the new calendar after that. With `update_triggers`, their next fire times
        are recomputed as well; paused, blocked and failed triggers keep their state. A trigger for which the new
        calendar leaves no fire time becomes COMPLETE, like a trigger whose schedule has ended: it remains stored with
        its job, listeners receive `TriggerFinalized`, and it fires again only after it has been rescheduled.

        Raises:
            ObjectAlreadyExistsError: a different calendar is stored under the name, and `replace` is false.
            InvalidCalendarError: `calendar` is not a calendar, or cannot be stored.
        """
        return await self._run(
            lambda behind: behind.add_calendar(name, calendar, replace=replace, update_triggers=update_triggers)
        )

    async def delete_calendar(self, name: str, *, missing_ok: bool = False) -> bool:
        """Remove a calendar. Return True if it was stored; False is possible only with `missing_ok`.

        Raises:
            CalendarNotFoundError: no calendar is stored under the name, and `missing_ok` is false.
            CalendarInUseError: triggers use it.
        """
        return await self._run(lambda behind: behind.delete_calendar(name, missing_ok=missing_ok))

    async def get_calendar(self, name: str) -> Calendar | None:
        """Return the calendar that is stored under the name, or None if there is none."""
        return await self._run(lambda behind: behind.get_calendar(name))

    async def calendar_names(self) -> list[str]:
        """Return the names of all stored calendars, sorted."""
        return await self._run(lambda behind: behind.calendar_names())

    async def sync(
        self,
        definitions: Iterable[tuple[JobLike, Trigger | str | timedelta | datetime | Iterable[Any] | None]],
        *,
        owner: str,
        calendars: Mapping[str, Calendar] | None = None,
        prune: bool = False,
        existing: str = Existing.UPDATE,
        version: int | float | str | None = None,
        apply: bool = True,
        announce: Callable[[SyncPlan], None] | None = None,
    ) -> SyncPlan:
        """Make the store match the declared jobs and calendars, all or nothing; return the plan.

        `calendars` are the declared calendars by name. `apply=False` is a dry run.

        A trigger whose schedule did not change keeps its fire times, its misfires and its pause, even if other values
        of it or its job changed; one that has ended stays COMPLETE and does not fire again. If a calendar changes, the
        next fire times of the triggers that use it are recomputed. With `prune`, jobs, triggers and calendars that the
        same `owner` declared before and no longer declares are removed; those of other owners, and those that were
        stored directly, never are. With `existing="keep"`, what is stored already does not change: the first
        registration wins. Any number of nodes may call it at the same time.

        `version` is the version of the program: a number, or a text such as "2.10.1". It is stored with the owner; a
        program of an older version changes nothing, and the plan reports that (`SyncPlan.outdated_by`).

        `announce` is called with the plan before it is applied; without it the plan is logged.

        Raises:
            InvalidTriggerError: a key is declared twice. Others as in `schedule_job`; nothing is changed then.
            InvalidCalendarError: a calendar cannot be stored.
            CalendarNotFoundError: a declared trigger uses a calendar that is neither declared nor stored.
            CalendarInUseError: with `prune`, a calendar is no longer declared, but a trigger that stays uses it.
            InvalidValueError: `existing` is neither "update" nor "keep", or `version` is not a version.
        """
        return await self._run(
            lambda behind: behind.sync(
                definitions,
                owner=owner,
                calendars=calendars,
                prune=prune,
                existing=existing,
                version=version,
                apply=apply,
                announce=announce,
            )
        )
