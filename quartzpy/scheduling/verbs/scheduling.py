"""All scheduling verbs, the same on a scheduler and inside a user's own transaction."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from quartzpy.errors import InvalidTriggerError
from quartzpy.jobs.function_job import JobFunction
from quartzpy.jobs.function_job import job as job_of_function
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import (
    DEFAULT_GROUP,
    JobKey,
    JobRef,
    checked_key,
)
from quartzpy.scheduling.forms import JobForm, TriggerForm, as_job_detail, as_triggers, bound, check_named
from quartzpy.scheduling.verbs.calendars import CalendarVerbs
from quartzpy.scheduling.verbs.scheduled_job import ScheduledJob, StoredJobVerbs
from quartzpy.scheduling.verbs.skipping import SkippingVerbs
from quartzpy.scheduling.verbs.storing import Pairs
from quartzpy.scheduling.verbs.syncing import SyncVerbs
from quartzpy.store.protocol import JobStore
from quartzpy.triggers.trigger import Trigger


class SchedulingVerbs(StoredJobVerbs, SyncVerbs, CalendarVerbs, SkippingVerbs):
    """All verbs on jobs and triggers. Each verb takes effect completely or not at all.

    A verb that names one job, trigger or calendar takes its key, its name in the group DEFAULT, or an object that has
    a key, and raises JobNotFoundError, TriggerNotFoundError or CalendarNotFoundError if it is not stored. Verbs on
    several, on groups or on everything return the keys or groups that matched.
    """

    def schedule_job(
        self,
        job: JobForm,
        triggers: TriggerForm | Iterable[TriggerForm] | None = None,
        *,
        name: str | None = None,
        group: str = DEFAULT_GROUP,
        data: Mapping[str, Any] | Any | None = None,
        replace: bool = False,
        **options: Any,
    ) -> ScheduledJob:
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
        several = as_triggers(triggers)
        if not several and not isinstance(job, JobDetail):
            options.setdefault("durable", True)
        given = as_job_detail(job, name, group, data, options)
        check_named(given, "replace=True" if replace else None)
        detail = self._checked_job(given)
        pairs: Pairs = [(detail, bound(several, detail.key))]
        self._check_pairs(pairs)
        self._store_pairs(pairs, replace=replace)
        return ScheduledJob(self, detail.key)

    def scheduled_job(
        self,
        triggers: TriggerForm | Iterable[TriggerForm],
        name: str | None = None,
        group: str = DEFAULT_GROUP,
        *,
        replace: bool = True,
        **options: Any,
    ) -> Callable[[Callable[..., Any]], JobFunction[..., Any]]:
        """Make a job of the decorated function and schedule it; a stored job of the same name is replaced.

        The name defaults to the function's. `options` are those of `schedule_job`. The decorator stores the job at
        once, so use it where the program starts. Errors as for `schedule_job`. The decorator follows APScheduler.
        """

        def scheduled(function: Callable[..., Any]) -> JobFunction[..., Any]:
            made = function if isinstance(function, JobFunction) else job_of_function(function)
            self.schedule_job(made, triggers, name=name, group=group, replace=replace, **options)
            return made

        return scheduled

    def schedule_jobs(
        self,
        jobs: Mapping[Any, Iterable[TriggerForm]] | Iterable[tuple[JobForm, Iterable[TriggerForm]]],
        *,
        replace: bool = False,
    ) -> list[ScheduledJob]:
        """Store many jobs with their triggers, all or none; return their handles. Errors as for `schedule_job`."""
        pairs = self._bound_pairs(
            jobs.items() if isinstance(jobs, Mapping) else jobs, again="replace=True" if replace else None
        )
        self._check_pairs(pairs)
        self._store_pairs(pairs, replace=replace)
        return [ScheduledJob(self, job.key) for job, _ in pairs]

    def schedule(self, triggers: Trigger | Iterable[Trigger], *, replace: bool = False) -> datetime:
        """Store triggers for jobs that are stored already; return the earliest fire time. Each needs its `job_key`.

        The merged data of job and trigger is not validated here, but when the job runs.

        Raises:
            JobNotFoundError: the job of a trigger is not stored. Others as for `schedule_job`.
        """
        several = as_triggers(triggers)
        found = []
        for trigger in several:
            if trigger.job_key is None:
                raise InvalidTriggerError(f"trigger {trigger.label}: job_key is missing")
            of_job = [one for one in several if one.job_key == trigger.job_key]
            found.append(bound(of_job, trigger.job_key)[of_job.index(trigger)])
        pairs: Pairs = [(None, found)]
        self._check_pairs(pairs)
        return self._store_pairs(pairs, replace=replace)[0]

    @abstractmethod
    def _inside(self, store: JobStore) -> SchedulingVerbs:
        """Return the same verbs on another view of the store."""

    def job(self, key: JobRef) -> ScheduledJob:
        """Return a handle of a stored job.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        key = checked_key(key, JobKey)
        self._require_job(key)
        return ScheduledJob(self, key)
