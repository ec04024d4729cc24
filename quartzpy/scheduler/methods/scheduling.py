"""All scheduling methods, the same on a scheduler and inside a user's own transaction; and the handle of a stored job.

The handle holds the job's key only. Each call queries the store, so a handle never becomes stale, no matter how long it
is kept and which node changes the job.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack, cast

from quartzpy.errors import InvalidTriggerError, JobNotFoundError
from quartzpy.instants import Span
from quartzpy.jobs.function_job import JobFunction
from quartzpy.jobs.function_job import job as job_of_function
from quartzpy.jobs.job import JobData, JobDetail
from quartzpy.jobs.join import Batch
from quartzpy.jobs.options import DecoratorOptions, ScheduleOptions
from quartzpy.keys import DEFAULT_GROUP, JobKey, JobRef, Key, TriggerKey, TriggerRef, checked_key
from quartzpy.name_hints import HANDLE_NAMES, RESCHEDULING_ARGUMENTS, NameHints, argument_hints
from quartzpy.scheduler import singles
from quartzpy.scheduler.coercion import JobLike, TriggerLike, as_job_detail, as_triggers, bind, check_named
from quartzpy.scheduler.methods.handles import wait_for
from quartzpy.scheduler.methods.quartz import QuartzMethods
from quartzpy.scheduler.methods.storing import Pairs, names_in
from quartzpy.states import ENDED, JobMode, PublicState
from quartzpy.store.protocol import JobStore
from quartzpy.store.queries import ExecutionQuery, TriggerOrder
from quartzpy.store.records import ExecutionRecord, TriggerRecord
from quartzpy.triggers.trigger import Trigger


class SchedulingMethods(QuartzMethods):
    """All methods on jobs and triggers. Each method takes effect completely or not at all.

    The exception are pauses, resumptions, modes and deletions of more than 500 triggers on a database. They proceed in
    slices, the soonest first, so that other jobs fire meanwhile. One that is interrupted by an error leaves what it has
    done; the same call goes on from there. Inside a user's transaction they are all or nothing, too.

    A method that names one job, trigger or calendar takes its key, its name in the group DEFAULT, or an object that has
    a key, and raises JobNotFoundError, TriggerNotFoundError or CalendarNotFoundError if it is not stored. Methods on
    several, on groups or on everything return the keys or groups that matched.
    """

    def schedule_job(
        self,
        job: JobLike,
        triggers: TriggerLike | Iterable[TriggerLike] | None = None,
        *,
        name: str | None = None,
        group: str = DEFAULT_GROUP,
        data: Mapping[str, Any] | JobData | None = None,
        replace: bool = False,
        **options: Unpack[ScheduleOptions],
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
        coerced = as_job_detail(job, name, group, data, options)
        if replace:
            check_named(coerced, "replace=True")
        detail = self._checked_job(coerced)
        pairs: Pairs = [(detail, bind(several, detail.key))]
        self._check_pairs(pairs)
        self._store_pairs(pairs, replace=replace)
        return ScheduledJob(self, detail.key)

    def scheduled_job(
        self,
        triggers: TriggerLike | Iterable[TriggerLike],
        name: str | None = None,
        group: str = DEFAULT_GROUP,
        *,
        replace: bool = True,
        **options: Unpack[DecoratorOptions],
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
        jobs: Mapping[Any, Iterable[TriggerLike]] | Iterable[tuple[JobLike, Iterable[TriggerLike]]],
        *,
        replace: bool = False,
        batch: Batch | None = None,
    ) -> list[ScheduledJob]:
        """Store many jobs with their triggers, all or none; return their handles. Errors as for `schedule_job`.

        `batch` names a job that runs when the executions of all these triggers have ended; see `Batch`.
        """
        pairs = self._bound_pairs(
            jobs.items() if isinstance(jobs, Mapping) else jobs,
            again="replace=True" if replace else None,
            names=names_in(batch),
        )
        self._check_pairs(pairs)
        self._store_pairs(pairs, replace=replace, batch=batch)
        return [ScheduledJob(self, job.key) for job, _ in pairs]

    def schedule(
        self, triggers: Trigger | Iterable[Trigger], *, replace: bool = False, batch: Batch | None = None
    ) -> datetime:
        """Store triggers for jobs that are stored already; return the earliest fire time. Each needs its `job_key`.

        `batch` names a job that runs when the executions of all of them have ended; see `Batch`.

        The merged data of job and trigger is not validated here, but when the job runs.

        Raises:
            JobNotFoundError: the job of a trigger is not stored. Others as for `schedule_job`.
        """
        by_job: defaultdict[JobKey, list[Trigger]] = defaultdict(list)
        for trigger in as_triggers(triggers):
            if trigger.job_key is None:
                raise InvalidTriggerError(f"trigger {trigger.label}: job_key is missing")
            by_job[trigger.job_key].append(trigger)
        names = names_in(batch)
        pairs: Pairs = [(None, [bound for key, of_job in by_job.items() for bound in bind(of_job, key, names)])]
        self._check_pairs(pairs)
        return self._store_pairs(pairs, replace=replace, batch=batch)[0]

    @abstractmethod
    def _inside(self, store: JobStore) -> SchedulingMethods:
        """Return the same methods on another view of the store."""

    def job(self, key: JobRef) -> ScheduledJob:
        """Return a handle of a stored job.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        key = checked_key(key, JobKey)
        self._require_job(key)
        return ScheduledJob(self, key)

    def trigger(self, key: TriggerRef) -> ScheduledTrigger:
        """Return a handle of a stored trigger.

        Raises:
            TriggerNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        key = checked_key(key, TriggerKey)
        self._require_trigger(key)
        return ScheduledTrigger(self, key)


_LAST = 20
"""The number of recent executions among which one that has ended is looked for."""
_KeyT = TypeVar("_KeyT", bound=Key)
_P = ParamSpec("_P")
_R = TypeVar("_R")


class _Handle(NameHints, Generic[_KeyT]):
    """A stored job or trigger, by its key."""

    def __init__(self, scheduler: SchedulingMethods, key: _KeyT) -> None:
        self._scheduler = scheduler
        self._key = key

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._key)!r})"


def _by_key(method: Callable[Concatenate[Any, Any, _P], _R]) -> Callable[Concatenate[_Handle[Any], _P], _R]:
    """Return a method of the scheduler as one of a handle, which gives its own key: all else is the same."""

    @wraps(method)
    def called(self: _Handle[Any], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        bound: Callable[..., _R] = getattr(self._scheduler, method.__name__)
        return bound(self._key, *args, **kwargs)

    signature = inspect.signature(method)
    owner, _, *rest = signature.parameters.values()
    called.__signature__ = signature.replace(parameters=[owner, *rest])  # type: ignore[attr-defined]
    called.takes_own_key = True  # type: ignore[attr-defined]
    return cast("Callable[Concatenate[_Handle[Any], _P], _R]", called)


class ScheduledJob(_Handle[JobKey]):
    """A stored job. `schedule_job` returns one; `Scheduler.job` makes one for a job that is stored already.

    The methods of the scheduler that a handle has take the same values, without the key.
    """

    _name_hints = HANDLE_NAMES

    pause = _by_key(QuartzMethods.pause)
    resume = _by_key(QuartzMethods.resume)
    set_mode = _by_key(QuartzMethods.set_mode)
    trigger = _by_key(QuartzMethods.trigger_job)
    modify = _by_key(QuartzMethods.modify_job)
    delete = _by_key(QuartzMethods.delete_job)
    why = _by_key(QuartzMethods.why)

    @property
    def key(self) -> JobKey:
        """The key of the job."""
        return self._key

    @property
    def detail(self) -> JobDetail:
        """The job as it is stored now. Raises JobNotFoundError if it is no longer stored."""
        detail = self._scheduler.get_job_detail(self._key)
        if detail is None:
            raise JobNotFoundError(f"job {self._key} is not stored: it was deleted, or its last trigger has ended")
        return detail

    @property
    def triggers(self) -> list[Trigger]:
        """The job's triggers as they are stored now, sorted by key; an empty list if it has none."""
        return self._scheduler.triggers_of_job(self._key)

    @property
    def next_fire_time(self) -> datetime | None:
        """The earliest next fire time of the job's triggers, or None if the job will not fire again.

        Paused triggers count as well.
        """
        soonest = self._scheduler.triggers(job=self._key, order_by=TriggerOrder.NEXT_FIRE_TIME).first()
        return None if soonest is None else soonest.next_fire_time

    @property
    def mode(self) -> JobMode:
        """Whether its triggers fire: ENABLED, MANUAL or DISABLED. Raises JobNotFoundError if it is not stored."""
        mode = singles.mode_of_job(self._scheduler._usable_store(), self._key)
        if mode is None:
            raise self._scheduler._no_job(self._key)
        return mode

    @argument_hints(RESCHEDULING_ARGUMENTS)
    def reschedule(self, trigger: Trigger | str | timedelta | datetime) -> datetime:
        """Replace the job's only trigger with another schedule; return the new trigger's first fire time.

        The trigger takes any form that `Scheduler.schedule_job` accepts. A trigger without a name takes the name of
        the old one.

        Raises:
            JobNotFoundError: the job is no longer stored.
            InvalidTriggerError: the job has no trigger or several; use `Scheduler.reschedule_job` for one of several.
            Others as for `Scheduler.reschedule_job`.
        """
        keys = [stored.key for stored in self.triggers]
        if len(keys) != 1:
            if not keys:
                self.detail  # noqa: B018  raises JobNotFoundError if the job is not stored
            listed = ", ".join(map(str, keys)) or "none"
            raise InvalidTriggerError(
                f"job {self._key}: reschedule needs a job with one trigger (it has {listed});"
                " use scheduler.reschedule_job(trigger_key, trigger), or schedule(trigger)"
            )
        return self._scheduler.reschedule_job(keys[0], trigger)

    def wait(self, timeout: Span | None = None) -> ExecutionRecord:
        """Wait until the job's next execution has ended, on any node; return its record with its log lines.

        Only executions that end after the call count. If the job is no longer stored because its last trigger has
        fired, return the record of its last execution.

        Raises:
            WaitTimeoutError: no execution ended within `timeout` (None: wait without a limit).
            JobNotFoundError: the job is not stored, and no execution of it is known.
        """
        query = ExecutionQuery(states=ENDED, job_key=self._key)
        store = self._scheduler._usable_store()
        since = store.now()

        def look() -> ExecutionRecord | None:
            ended = store.find(query, _LAST)
            new = [record for record in ended if record.ended_at is not None and record.ended_at > since]
            if new:
                return min(new, key=lambda record: record.ended_at or since)
            if store.job_headers([self._key]) or self._is_running():
                return None
            # The execution may have ended between the two queries.
            ended = store.find(query, _LAST)
            if not ended:
                raise JobNotFoundError(f"job {self._key} is not stored, and no execution of it is known")
            return max(ended, key=lambda record: record.ended_at or record.scheduled_fire_time)

        def has_begun() -> bool:
            return self._is_running() or look() is not None

        return wait_for(self._scheduler, store, look, has_begun, timeout, f"no execution of job {self._key} ended")

    def _is_running(self) -> bool:
        return any(row.job_key == self._key for row in self._scheduler._usable_store().list_running())


class ScheduledTrigger(_Handle[TriggerKey]):
    """A stored trigger, as `Scheduler.trigger` returns it.

    The methods of the scheduler that a handle has take the same values, without the key.
    """

    pause = _by_key(QuartzMethods.pause)
    resume = _by_key(QuartzMethods.resume)
    reschedule = _by_key(QuartzMethods.reschedule_job)
    skip_next = _by_key(QuartzMethods.skip_next)
    skip_until = _by_key(QuartzMethods.skip_until)
    backfill = _by_key(QuartzMethods.backfill)
    backfill_times = _by_key(QuartzMethods.backfill_times)
    reset_from_error = _by_key(QuartzMethods.reset_trigger_from_error)
    delete = _by_key(QuartzMethods.unschedule_job)
    why = _by_key(QuartzMethods.why)

    @property
    def key(self) -> TriggerKey:
        """The key of the trigger."""
        return self._key

    @property
    def record(self) -> TriggerRecord:
        """The trigger with its state, its pause and its fire times. Raises TriggerNotFoundError if it is not stored."""
        record = self._scheduler.trigger_record(self._key)
        if record is None:
            raise self._scheduler._no_trigger(self._key)
        return record

    @property
    def state(self) -> PublicState:
        """Its state in Quartz's terms; NONE if it is no longer stored."""
        return self._scheduler.trigger_state(self._key)

    @property
    def next_fire_time(self) -> datetime | None:
        """When it fires next; None if it does not fire again."""
        return self.record.next_fire_time

    @property
    def job(self) -> ScheduledJob:
        """The job that it fires."""
        return ScheduledJob(self._scheduler, self.record.job_key)
