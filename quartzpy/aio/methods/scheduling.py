"""The awaitable twin of `SchedulingMethods`.

`python -m tools.async_facade` writes this from the classes that stand behind. Change those instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from quartzpy.aio.methods.pausing import AsyncPausingMethods
from quartzpy.aio.methods.triggering import AsyncTriggeringMethods
from quartzpy.aio.results import AsyncScheduledJob
from quartzpy.keys import DEFAULT_GROUP, JobRef
from quartzpy.scheduler.coercion import JobLike, TriggerLike
from quartzpy.scheduler.methods.scheduling import SchedulingMethods
from quartzpy.triggers.trigger import Trigger

_SchedulingMethodsT = TypeVar("_SchedulingMethodsT", bound=SchedulingMethods)


class AsyncSchedulingMethods(AsyncTriggeringMethods[_SchedulingMethodsT], AsyncPausingMethods[_SchedulingMethodsT]):
    """The methods of `SchedulingMethods`, each of them awaitable."""

    async def schedule_job(
        self,
        job: JobLike,
        triggers: TriggerLike | Iterable[TriggerLike] | None = None,
        *,
        name: str | None = None,
        group: str = DEFAULT_GROUP,
        data: Mapping[str, Any] | Any | None = None,
        replace: bool = False,
        **options: Any,
    ) -> AsyncScheduledJob:
        """Store a job with its triggers, all or none; return a handle of the job.

            scheduler.schedule_job(report, "0 0 2 * * ?", data={"region": "eu"})

        `job` is a `Job` subclass, a function, a coroutine function, a `@job` function, or a `JobDetail`. `name`,
        `group`, `data` and the options of `JobDetail` are for all but the last; without a name, the job takes the name
        of the class or function. Items of a function's `data` that are named like its parameters are passed to it.

        `triggers` are one or several of: a `Trigger`; a cron text, in Quartz's syntax if it has six or seven fields,
        and in crontab's if it has five or is a word like `@daily`; an interval as a timedelta; an instant as an
        aware datetime. A trigger without a name takes the job's name and group; further ones are `name-2`, `name-3`.
        Without a trigger, a class or a function is stored as a durable job, to be run by `trigger_job`.

        Storing the same again changes nothing, so a program may do it at each start, on any number of nodes. With
        `replace`, differing values are replaced. A trigger whose schedule did not change keeps its fire times, its
        misfires and its pause; a job that persists its data keeps that data. Other triggers of the job do not change.

        Raises:
            ObjectAlreadyExistsError: something different is stored under a key, and `replace` is false.
            TriggerNeverFiresError: a trigger has no fire time.
            CalendarNotFoundError: a trigger names a calendar that is not stored.
            InvalidJobError, InvalidJobTypeError: `job` is not a job, or other nodes could not import it.
            InvalidTriggerError: a trigger cannot be read, or names another job.
            InvalidJobDataError: the job's data, with a trigger's over it, is not valid for the job's `data_type`.
        """
        found = await self._run(
            lambda behind: behind.schedule_job(
                job, triggers, name=name, group=group, data=data, replace=replace, **options
            )
        )
        return AsyncScheduledJob._of(self, found)

    async def schedule_jobs(
        self,
        jobs: Mapping[Any, Iterable[TriggerLike]] | Iterable[tuple[JobLike, Iterable[TriggerLike]]],
        *,
        replace: bool = False,
    ) -> list[AsyncScheduledJob]:
        """Store many jobs with their triggers, all or none; return their handles. Errors as for `schedule_job`."""
        found = await self._run(lambda behind: behind.schedule_jobs(jobs, replace=replace))
        return [AsyncScheduledJob._of(self, one) for one in found]

    async def schedule(self, triggers: Trigger | Iterable[Trigger], *, replace: bool = False) -> datetime:
        """Store triggers for jobs that are stored already; return the earliest fire time. Each needs its `job_key`.

        The merged data of job and trigger is not validated here, but when the job runs.

        Raises:
            JobNotFoundError: the job of a trigger is not stored. Others as for `schedule_job`.
        """
        return await self._run(lambda behind: behind.schedule(triggers, replace=replace))

    async def job(self, key: JobRef) -> AsyncScheduledJob:
        """Return a handle of a stored job.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        found = await self._run(lambda behind: behind.job(key))
        return AsyncScheduledJob._of(self, found)
