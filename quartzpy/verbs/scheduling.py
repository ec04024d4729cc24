"""The verbs that schedule, and with them all others: the same on a scheduler and inside a user's own transaction."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from quartzpy import job_data, typed_data
from quartzpy.context import repeats
from quartzpy.errors import (
    CalendarNotFoundError,
    ExecutionNotFoundError,
    IllegalStateChangeError,
    InvalidJobError,
    InvalidTriggerError,
    JobNotFoundError,
)
from quartzpy.events import JobAdded, JobDeleted, JobScheduled, JobUnscheduled, SchedulingDataCleared
from quartzpy.function_job import JobFunction
from quartzpy.function_job import job as job_of_function
from quartzpy.instants import Span, as_span
from quartzpy.job import JobDetail, job_types
from quartzpy.keys import (
    DEFAULT_GROUP,
    MANUAL_TRIGGERS,
    JobKey,
    TriggerKey,
    check_name,
    checked_key,
    checked_keys,
    unique_name,
)
from quartzpy.states import JobMode
from quartzpy.store.protocol import JobEntry, JobStore
from quartzpy.sync import Definitions, Stored, SyncPlan, checked, plan
from quartzpy.texts import quoted
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger
from quartzpy.triggers.upcoming import PreparedTrigger, prepare
from quartzpy.verbs.calendars import CalendarVerbs
from quartzpy.verbs.looking import LookingVerbs
from quartzpy.verbs.pausing import PausingVerbs
from quartzpy.verbs.skipping import SkippingVerbs

logger = logging.getLogger(__name__)

_Pairs = Sequence[tuple[JobDetail | None, Sequence[Trigger]]]


class SchedulingVerbs(CalendarVerbs, PausingVerbs, SkippingVerbs, LookingVerbs):
    """What can be said about jobs and triggers. Each verb happens whole or not at all."""

    def schedule_job(self, job: JobDetail, triggers: Trigger | Iterable[Trigger], *, replace: bool = False) -> datetime:
        """Store a job with one trigger or several, all or none; the first fire time.

        Raises:
            ObjectAlreadyExistsError: a key is stored already and `replace` is false.
            TriggerNeverFiresError: a trigger has no fire time.
            CalendarNotFoundError: a trigger names a calendar that is not stored.
            InvalidTriggerError: a trigger names another job, or there is no trigger.
            InvalidJobDataError: the job's data, with a trigger's over it, makes no value of the job's `data_type`.
        """
        several = _several(triggers)
        if not several:
            raise InvalidTriggerError(f"job {job.key}: no trigger is given; add_job stores a durable job without")
        return self._schedule([(job, several)], replace=replace)

    def scheduled_job(
        self, triggers: Trigger | Sequence[Trigger], name: str | None = None, group: str = DEFAULT_GROUP, **options: Any
    ) -> Callable[[Callable[..., Any]], JobFunction[..., Any]]:
        """Make a job of the function below, and schedule it, in place of what has its name: APScheduler's decorator.

        The name is the function's, where none is given. `options` are those of `JobFunction.detail`. It connects at
        once, so it belongs where the program starts. Errors as in `schedule_job`.
        """

        def scheduled(function: Callable[..., Any]) -> JobFunction[..., Any]:
            made = function if isinstance(function, JobFunction) else job_of_function(function)
            self.schedule_job(made.detail(name or made.__name__, group, **options), triggers, replace=True)
            return made

        return scheduled

    def schedule_jobs(
        self,
        jobs: Mapping[JobDetail, Iterable[Trigger]] | Iterable[tuple[JobDetail, Iterable[Trigger]]],
        *,
        replace: bool = False,
    ) -> datetime:
        """Store many jobs with their triggers, all or none; the first fire time. Errors as in `schedule_job`."""
        pairs = jobs.items() if isinstance(jobs, Mapping) else jobs
        return self._schedule([(job, _several(triggers)) for job, triggers in pairs], replace=replace)

    def schedule(self, triggers: Trigger | Iterable[Trigger], *, replace: bool = False) -> datetime:
        """Store triggers for jobs that are stored already; each has its `job_key`.

        Whether the jobs' data with theirs over it is what the jobs take is not looked at: it is seen when they run.

        Raises:
            JobNotFoundError: such a job is not stored. Others as in `schedule_job`.
        """
        several = _several(triggers)
        for trigger in several:
            if trigger.job_key is None:
                raise InvalidTriggerError(f"trigger {trigger.label}: job_key is missing")
        return self._schedule([(None, several)], replace=replace)

    def _schedule(self, pairs: _Pairs, *, replace: bool) -> datetime:
        self._check_pairs(pairs)
        return self._store_pairs(pairs, replace=replace)

    def _store_pairs(self, pairs: _Pairs, *, replace: bool, keep_data: Collection[JobKey] = ()) -> datetime:
        bound = [(job, [_for_job(trigger, job) for trigger in triggers]) for job, triggers in pairs]
        everything = [trigger for _, triggers in bound for trigger in triggers]
        if len({trigger.key for trigger in everything}) < len(everything):
            raise InvalidTriggerError("the same trigger key is given twice")
        prepare_one = self._preparation(everything)
        entries = [
            JobEntry(job, [prepare_one(trigger) for trigger in triggers], job is not None and job.key in keep_data)
            for job, triggers in bound
        ]
        earliest = self._usable_store().store_jobs(entries, replace=replace)
        self._changed(earliest)
        self._tell_of_stored(bound)
        assert earliest is not None or not everything
        return earliest if earliest is not None else self._usable_store().now()

    def _tell_of_stored(self, pairs: Iterable[tuple[JobDetail | None, Iterable[Trigger]]]) -> None:
        for job, triggers in pairs:
            if job is not None:
                self._tell(JobAdded(job))
            for trigger in triggers:
                self._tell(JobScheduled(trigger))

    def _check_pairs(self, pairs: _Pairs) -> None:
        for job, triggers in pairs:
            for trigger in triggers:
                self._check_data(trigger)
                if job is not None and trigger.follows_end and job.max_concurrent != 1:
                    raise InvalidTriggerError(
                        f"trigger {trigger.label}: {trigger.kind} counts from the end of an execution; job {job.key}"
                        " must disallow concurrent execution (disallow_concurrent=True)"
                    )
            if job is not None:
                _check_job(job)
                self._check_data(job)
                if not triggers and not job.durable:
                    raise InvalidJobError(f"job {job.key} has no trigger and is not durable: it would go at once")
                _check_typed_data(job, triggers)

    def _check_data(self, of: JobDetail | Trigger) -> None:
        job_data.encode(of.data, max_bytes=self._config.max_job_data_bytes)

    def _preparation(self, triggers: Sequence[Trigger]) -> Any:
        """What turns a trigger into a prepared one, with the calendars and the time that these need."""
        store = self._usable_store()
        names = {trigger.calendar for trigger in triggers if trigger.calendar is not None}
        calendars = store.calendars(names) if names else {}
        for name in sorted(names):
            if name not in calendars:
                raise CalendarNotFoundError(f"calendar {name!r} is not stored")
        needs_now = any(trigger.start_time is None for trigger in triggers)
        now = store.now() if needs_now else self._clock.now()

        def prepare_one(trigger: Trigger) -> PreparedTrigger:
            stored = calendars.get(trigger.calendar) if trigger.calendar else None
            if stored is None:
                return prepare(trigger, now, None)
            return prepare(trigger, now, stored.calendar, stored.revision)

        return prepare_one

    def add_job(
        self,
        job: JobDetail,
        *,
        replace: bool = False,
        store_non_durable_while_awaiting_scheduling: bool = False,
    ) -> None:
        """Store a job without a trigger.

        Raises:
            InvalidJobError: it is not durable (it would go with its last trigger), and the flag does not say that
                a trigger will follow.
            ObjectAlreadyExistsError: its key is stored already and `replace` is false.
            InvalidJobDataError: its data has names that its `data_type` does not have. What is missing, a trigger may
                bring.
        """
        _check_job(job)
        self._check_data(job)
        _check_typed_data(job)
        if not job.durable and not store_non_durable_while_awaiting_scheduling:
            raise InvalidJobError(f"job {job.key} has no trigger and is not durable; pass durable=True")
        self._usable_store().store_jobs([JobEntry(job)], replace=replace)
        self._tell(JobAdded(job))

    def sync(
        self,
        definitions: Iterable[tuple[JobDetail, Trigger | Iterable[Trigger]]],
        *,
        owner: str,
        prune: bool = False,
        apply: bool = True,
        announce: Callable[[SyncPlan], None] | None = None,
    ) -> SyncPlan:
        """Make the store hold what is declared, all or nothing; what was done, or with `apply=False` what would be.

        What did not change stays as it is: its next and previous fire times, and whether it is paused; a trigger that
        has ended stays, COMPLETE, and does not fire again. With `prune`,
        what the same `owner` declared before and no longer does is removed; nothing of other owners, or scheduled by
        hand, ever is. Any number of nodes may do it at once. `announce` is told the plan before it is carried out;
        without it the plan is logged.

        Raises:
            InvalidTriggerError: a key is declared twice. Others as in `schedule_job`; nothing is changed then.
        """
        check_name(owner, "owner")
        wanted = checked(definitions)
        # All of it: a trigger that stays may lack what its job's changed data no longer has.
        self._check_pairs(wanted)

        def work(store: JobStore) -> SyncPlan:
            inside = self._inside(store)
            found = plan(wanted, inside._stored_of(wanted, owner), prune=prune)
            if not apply:
                return found
            if announce is not None:
                announce(found)
            elif found:
                logger.info("sync of owner %s:\n%s", owner, found)
            inside._carry_out(found, owner)
            return found

        done = self._usable_store().exclusively(work)
        if apply and done:
            self._changed(self._clock.now())
            self._tell_of_stored(done.store)
            for key in [*done.keys("-", "trigger"), *done.keys("-", "job")]:
                self._tell(JobUnscheduled(key) if isinstance(key, TriggerKey) else JobDeleted(key))
        return done

    @abstractmethod
    def _inside(self, store: JobStore) -> SchedulingVerbs:
        """The verbs on another view of the store."""

    def _stored_of(self, wanted: Definitions, owner: str) -> Stored:
        store = self._usable_store()
        jobs = store.jobs([job.key for job, _ in wanted])
        records = store.triggers([trigger.key for _, declared in wanted for trigger in declared])
        triggers = {key: record.trigger for key, record in records.items()}
        owned_jobs, owned_triggers = store.owned(owner)
        return Stored(jobs, triggers, frozenset(owned_jobs), frozenset(owned_triggers))

    def _carry_out(self, found: SyncPlan, owner: str) -> None:
        # What can be refused comes first.
        if found.store:
            self._store_pairs(found.store, replace=True, keep_data=found.keep_data)
            self._usable_store().own(
                owner,
                [job.key for job, _ in found.store if job is not None],
                [trigger.key for _, triggers in found.store for trigger in triggers],
            )
        gone = [key for key in found.keys("-", "trigger") if isinstance(key, TriggerKey)]
        if gone:
            self.unschedule_jobs(gone)
        jobs = [key for key in found.keys("-", "job") if isinstance(key, JobKey)]
        if jobs:
            self.delete_jobs(jobs)

    def modify_job(self, key: JobKey, **changes: Any) -> JobDetail:
        """Replace values of a stored job, named as `JobDetail` names them; its triggers stay. The job as it is then.

        What is not named stays as it is stored, whoever changes it at the same time.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidJobError: a name that a job's values do not have, or its key; a wrong value.
            InvalidJobDataError: as in `add_job`, where `data` or `job` is changed.
        """

        def change(known: JobDetail) -> JobDetail:
            changed = known.with_values(changes)
            self._check_data(changed)
            # Data that a newer program does not take any more does not keep anybody from changing the rest.
            if not changes.keys().isdisjoint(("data", "job")):
                _check_typed_data(changed)
            return changed

        changed = self._usable_store().modify_job(checked_key(key, JobKey), change, keeps_data="data" not in changes)
        if changed is None:
            raise JobNotFoundError(f"job {key} is not stored")
        self._tell(JobAdded(changed))
        return changed

    def unschedule_job(self, key: TriggerKey) -> bool:
        """Remove a trigger, and its job where that has no other and is not durable; whether it was there."""
        return bool(self.unschedule_jobs([key]))

    def unschedule_jobs(self, keys: Collection[TriggerKey]) -> set[TriggerKey]:
        """Remove triggers; those that were there."""
        gone = self._usable_store().delete_triggers(checked_keys(keys, TriggerKey))
        for key in sorted(gone):
            self._tell(JobUnscheduled(key))
        return gone

    def reschedule_job(self, key: TriggerKey, trigger: Trigger) -> datetime | None:
        """Put a new trigger of the same job in the place of `key`; its first fire time.

        None, and nothing changed, where `key` is not stored. Errors as in `schedule_job`.
        """
        old = self._usable_store().trigger(checked_key(key, TriggerKey))
        if old is None:
            return None
        self._check_data(trigger)
        named = trigger if trigger.name is not None else replace(trigger, name=key.name, group=key.group)
        new = replace(named, job_key=old.job_key)
        prepared = self._preparation([new])(new)
        earliest = self._usable_store().replace_trigger(key, prepared)
        self._changed(earliest)
        if earliest is not None:
            self._tell(JobUnscheduled(key))
            self._tell(JobScheduled(new))
        return earliest

    def delete_job(self, key: JobKey) -> bool:
        """Remove a job with all its triggers; whether it was there. What runs goes on."""
        return bool(self.delete_jobs([key]))

    def delete_jobs(self, keys: Collection[JobKey]) -> set[JobKey]:
        """Remove jobs with all their triggers; those that were there."""
        gone = self._usable_store().delete_jobs(checked_keys(keys, JobKey))
        for key in sorted(gone):
            self._tell(JobDeleted(key))
        return gone

    def trigger_job(
        self, key: JobKey, data: Mapping[str, Any] | Any | None = None, *, delay: Span | None = None
    ) -> TriggerKey:
        """Run a job now, or after `delay`, by a trigger of its own that carries `data`; that trigger's key.

        It is in a group of its own (MANUAL_TRIGGERS): pausing other groups does not hold it up. `data` may be a value
        of the job's `data_type`, where its class is known in this process.

        Raises:
            JobNotFoundError: the job is not stored.
            IllegalStateChangeError: it is disabled.
            InvalidJobDataError: as in `schedule_job`.
        """
        return self._by_hand(key, data, delay)

    def run_again(self, fire_id: int | str, *, delay: Span | None = None) -> TriggerKey:
        """Run the job of an execution again, now or after `delay`, with the data that its trigger brought.

        It is a first attempt by a trigger of its own, as by `trigger_job`; that trigger's key. The job's own data is
        what is stored now. `context.nominal_fire_time` and `execution_key` are those of the execution that is repeated.

        Raises:
            ExecutionNotFoundError: no such execution is known.
            IllegalStateChangeError: it has not ended, or the job is disabled.
            JobNotFoundError: the job is no longer stored.
            InvalidJobDataError: as in `trigger_job`; or the data cannot be read in this process.
            InvalidValueError: no such id can be.
        """
        record = self.execution(fire_id)
        if record is None:
            raise ExecutionNotFoundError(f"execution {fire_id!r} is not known, or no longer in the history")
        if record.outcome is None:
            raise IllegalStateChangeError(f"execution {fire_id} is {record.state}; what runs again has ended")
        data = repeats(record.trigger_key, record.scheduled_fire_time, record.trigger_data)
        return self._by_hand(record.job_key, data, delay)

    def _by_hand(self, key: JobKey, data: Mapping[str, Any] | Any | None, delay: Span | None) -> TriggerKey:
        span = None if delay is None else as_span(delay, "delay")
        store = self._usable_store()
        header = store.job_header(checked_key(key, JobKey))
        if header is None:
            raise JobNotFoundError(f"job {key} is not stored")
        if header.mode is JobMode.DISABLED:
            raise IllegalStateChangeError(f"job {key} is disabled; call enable_job first")
        data_type = job_types.data_type(header.job_type)
        data = typed_data.as_mapping(data, data_type)
        start = None if span is None else store.now() + span
        trigger = SimpleTrigger(f"MT_{unique_name()}", MANUAL_TRIGGERS, job_key=key, data=data, start_time=start)
        self._check_data(trigger)
        # The job's data is read only where there is something to check: that is a round trip more.
        job = None if data_type is None else store.job(key)
        if job is not None:
            _check_typed_data(job, [trigger])
        self._store_pairs([(None, [trigger])], replace=False)
        return trigger.key

    def clear(self) -> None:
        """Remove all jobs, triggers, calendars and pauses of this scheduler. What runs goes on."""
        self._usable_store().clear()
        self._tell(SchedulingDataCleared())


def _check_typed_data(job: JobDetail, triggers: Sequence[Trigger] = ()) -> None:
    """Build what the job would be given by each trigger, where its class is known here and has a type for it."""
    data_type = job_types.data_type(job.job)
    if data_type is None:
        return
    own = job.data or {}
    if not triggers:
        typed_data.refuse_unknown(data_type, own, f"job {job.key}")
    for trigger in triggers:
        typed_data.build(data_type, {**own, **(trigger.data or {})}, f"job {job.key}, trigger {trigger.label}")


def _check_job(job: object) -> None:
    if not isinstance(job, JobDetail):
        raise InvalidJobError(f"job: a JobDetail is needed (got {quoted(job)})")


def _several(triggers: Trigger | Iterable[Trigger]) -> list[Trigger]:
    """One trigger or several, as a list. Raises InvalidTriggerError: something else is among them."""
    several = [triggers] if isinstance(triggers, Trigger) else triggers
    if isinstance(several, str) or not isinstance(several, Iterable):
        raise InvalidTriggerError(f"triggers: a trigger or several are needed (got {quoted(triggers)})")
    several = list(several)
    for trigger in several:
        if not isinstance(trigger, Trigger):
            raise InvalidTriggerError(f"triggers: a trigger is needed (got {quoted(trigger)})")
    return several


def _for_job(trigger: Trigger, job: JobDetail | None) -> Trigger:
    if job is None or trigger.job_key == job.key:
        return trigger if trigger.job_key is None else trigger.bound_to(trigger.job_key)
    if trigger.job_key is not None:
        raise InvalidTriggerError(f"trigger {trigger.label} names job {trigger.job_key}, not {job.key}")
    return trigger.bound_to(job.key)
