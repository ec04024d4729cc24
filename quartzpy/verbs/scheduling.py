"""The verbs that schedule, and with them all others: the same on a scheduler and inside a user's own transaction."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace as replace_in
from datetime import datetime
from typing import Any

from quartzpy.definitions import JobForm, TriggerForm, as_job_detail, as_trigger, as_triggers, bound
from quartzpy.errors import InvalidTriggerError
from quartzpy.events import JobAdded, JobDeleted, JobScheduled, JobUnscheduled, SchedulingDataCleared
from quartzpy.function_job import JobFunction
from quartzpy.function_job import job as job_of_function
from quartzpy.job import JobDetail
from quartzpy.keys import (
    DEFAULT_GROUP,
    JobKey,
    JobRef,
    TriggerKey,
    TriggerRef,
    checked_key,
    checked_keys,
)
from quartzpy.store.protocol import JobStore
from quartzpy.triggers.trigger import Trigger
from quartzpy.verbs.calendars import CalendarVerbs
from quartzpy.verbs.handles import ScheduledJob
from quartzpy.verbs.pausing import PausingVerbs
from quartzpy.verbs.storing import Pairs
from quartzpy.verbs.syncing import SyncVerbs
from quartzpy.verbs.triggering import TriggeringVerbs


class SchedulingVerbs(TriggeringVerbs, SyncVerbs, CalendarVerbs, PausingVerbs):
    """All verbs on jobs and triggers. Each verb happens as a whole or not at all.

    A verb that names one job, trigger or calendar takes its key, its name in the group DEFAULT, or something that has
    the key, and raises JobNotFoundError, TriggerNotFoundError or CalendarNotFoundError where it is not stored. Verbs on
    several, on groups or on everything return what they found.
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
        `group`, `data` and the options of `JobDetail` are for the others; without a name, the class's or function's is
        taken. The items of a function's `data` that are named like its parameters are passed to it.

        `triggers` are one or several of: a `Trigger`; a cron text, in Quartz's syntax where it has six or seven fields,
        and in crontab's where it has five or is a word like `@daily`; an interval as a timedelta; an instant as an
        aware datetime. A trigger without a name takes the job's name and group; the next ones are `name-2`, `name-3`.
        Without any trigger, a class or a function is stored as a durable job, to be run by `trigger_job`.

        Storing the same again changes nothing, so a program may do it at each start, on any number of nodes. With
        `replace`, what differs is replaced. A trigger whose schedule did not change keeps its fire times, its misfires
        and its pause; a job that persists its data keeps that data. Triggers of the job that are not given stay.

        Raises:
            ObjectAlreadyExistsError: something different is stored under a key, and `replace` is false.
            TriggerNeverFiresError: a trigger has no fire time.
            CalendarNotFoundError: a trigger names a calendar that is not stored.
            InvalidJobError, InvalidJobTypeError: `job` is no job, or one that other nodes could not find.
            InvalidTriggerError: a trigger cannot be read, or names another job.
            InvalidJobDataError: the job's data, with a trigger's over it, makes no value of the job's `data_type`.
        """
        several = as_triggers(triggers)
        if not several and not isinstance(job, JobDetail):
            options.setdefault("durable", True)
        detail = self._checked_job(as_job_detail(job, name, group, data, options))
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
        """Make a job of the function below and schedule it, in place of what has its name: APScheduler's decorator.

        The name is the function's, where none is given. `options` are those of `schedule_job`. It connects at once, so
        it belongs where the program starts. Errors as in `schedule_job`.
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
        """Store many jobs with their triggers, all or none; return their handles. Errors as in `schedule_job`."""
        pairs = self._bound_pairs(jobs.items() if isinstance(jobs, Mapping) else jobs)
        self._check_pairs(pairs)
        self._store_pairs(pairs, replace=replace)
        return [ScheduledJob(self, job.key) for job, _ in pairs]

    def schedule(self, triggers: Trigger | Iterable[Trigger], *, replace: bool = False) -> datetime:
        """Store triggers for jobs that are stored already; return the soonest fire time. Each has its `job_key`.

        Whether the jobs' data with theirs over it is what the jobs take is not checked: it is seen when they run.

        Raises:
            JobNotFoundError: such a job is not stored. Others as in `schedule_job`.
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
        """Return the verbs on another view of the store."""

    def job(self, key: JobRef) -> ScheduledJob:
        """Return a handle of a stored job.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        key = checked_key(key, JobKey)
        self._require_job(key)
        return ScheduledJob(self, key)

    def modify_job(self, key: JobRef, **changes: Any) -> JobDetail:
        """Replace values of a stored job, named as `JobDetail` names them; return the job as it is then.

        Its triggers stay. What is not named stays as it is stored, whoever changes it at the same time.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidJobError: a name that a job's values do not have, or its key; a wrong value.
            InvalidJobDataError: as in `add_job`, where `data` or `job` is changed.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        key = checked_key(key, JobKey)

        def change(known: JobDetail) -> JobDetail:
            changed = known.with_values(changes)
            self._check_data(changed)
            # Data that a newer program does not take any more does not keep anybody from changing the rest.
            if not changes.keys().isdisjoint(("data", "job")):
                self._check_typed_data(changed)
            return changed

        changed = self._usable_store().modify_job(key, change, keeps_data="data" not in changes)
        if changed is None:
            raise self._no_job(key)
        self._tell(JobAdded(changed))
        return changed

    def unschedule_job(self, key: TriggerRef, *, missing_ok: bool = False) -> bool:
        """Remove a trigger, and its job where that has no other and is not durable.

        Returns True, or False where it was not stored and `missing_ok` is true.

        Raises:
            TriggerNotFoundError: it is not stored, and `missing_ok` is false.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        key = checked_key(key, TriggerKey)
        if self.unschedule_jobs([key]):
            return True
        if missing_ok:
            return False
        raise self._no_trigger(key)

    def unschedule_jobs(self, keys: Collection[TriggerRef]) -> set[TriggerKey]:
        """Remove triggers, and jobs as in `unschedule_job`; return the keys of those that were stored."""
        gone = self._usable_store().delete_triggers(checked_keys(keys, TriggerKey))
        for key in sorted(gone):
            self._tell(JobUnscheduled(key))
        return gone

    def reschedule_job(self, key: TriggerRef, trigger: TriggerForm) -> datetime:
        """Put a new trigger of the same job in the place of a stored one; return its first fire time.

        The trigger's forms are those of `schedule_job`. One without a name takes the name and group of the old one.

        Raises:
            TriggerNotFoundError: no trigger is stored under `key`; nothing is changed.
            InvalidKeyError: `key` is neither a key nor a name.
            Others as `schedule_job`.
        """
        key = checked_key(key, TriggerKey)
        new = as_trigger(trigger)
        old = self._usable_store().trigger(key)
        if old is None:
            raise self._no_trigger(key)
        if new.name is None:
            new = replace_in(new, name=key.name, group=key.group)
        self._check_data(new)
        new = replace_in(new, job_key=old.job_key)
        earliest = self._usable_store().replace_trigger(key, self._preparation([new])(new))
        if earliest is None:
            raise self._no_trigger(key)
        self._changed(earliest)
        self._tell(JobUnscheduled(key))
        self._tell(JobScheduled(new))
        return earliest

    def delete_job(self, key: JobRef, *, missing_ok: bool = False) -> bool:
        """Remove a job with all its triggers. Executions that run go on.

        Returns True, or False where it was not stored and `missing_ok` is true.

        Raises:
            JobNotFoundError: it is not stored, and `missing_ok` is false.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        key = checked_key(key, JobKey)
        if self.delete_jobs([key]):
            return True
        if missing_ok:
            return False
        raise self._no_job(key)

    def delete_jobs(self, keys: Collection[JobRef]) -> set[JobKey]:
        """Remove jobs with all their triggers; return the keys of those that were stored."""
        gone = self._usable_store().delete_jobs(checked_keys(keys, JobKey))
        for key in sorted(gone):
            for trigger in sorted(gone[key]):
                self._tell(JobUnscheduled(trigger))
            self._tell(JobDeleted(key))
        return set(gone)

    def clear(self) -> None:
        """Remove all jobs, triggers, calendars and pauses of this scheduler. Executions that run go on."""
        self._usable_store().clear()
        self._tell(SchedulingDataCleared())
