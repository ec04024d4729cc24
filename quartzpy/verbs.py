"""The verbs that schedule, pause and look: the same on a scheduler and inside a user's own transaction."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from quartzpy import job_data
from quartzpy.calendars.calendar import Calendar
from quartzpy.clock import Clock
from quartzpy.config import SchedulerConfig
from quartzpy.errors import (
    CalendarNotFoundError,
    IllegalStateChangeError,
    InvalidJobError,
    InvalidTriggerError,
    JobNotFoundError,
    TriggerNotFoundError,
)
from quartzpy.events import (
    Event,
    JobAdded,
    JobDeleted,
    JobPaused,
    JobResumed,
    JobScheduled,
    JobsPaused,
    JobsResumed,
    JobUnscheduled,
    SchedulingDataCleared,
    TriggerPaused,
    TriggerResumed,
    TriggersPaused,
    TriggersResumed,
)
from quartzpy.explain import Situation, explain
from quartzpy.function_job import JobFunction
from quartzpy.function_job import job as job_of_function
from quartzpy.job import JobDetail
from quartzpy.keys import DEFAULT_GROUP, MANUAL_TRIGGERS, JobKey, TriggerKey, check_name, unique_name
from quartzpy.matchers import GroupMatcher, as_group_matcher
from quartzpy.states import JobMode, PublicState, TriggerState
from quartzpy.store.protocol import (
    CheckIn,
    ExecutionRecord,
    JobEntry,
    JobRecord,
    JobStore,
    MisfireRecord,
    RunningRecord,
    TriggerMove,
    TriggerRecord,
)
from quartzpy.sync import Definitions, Stored, SyncPlan, checked, plan
from quartzpy.triggers.horizon import Horizon, PreparedTrigger, moved_to, prepare
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger

logger = logging.getLogger(__name__)

LIST_LIMIT = 500
_UPDATE_TRIES = 5


class SchedulingVerbs(ABC):
    """What can be said about jobs and triggers. Each verb happens whole or not at all."""

    _config: SchedulerConfig
    _clock: Clock

    @abstractmethod
    def _usable_store(self) -> JobStore:
        """The store, ready to be asked."""

    @abstractmethod
    def _changed(self, earliest: datetime | None) -> None:
        """Something may fire from `earliest` on."""

    @abstractmethod
    def _knows_type(self, job_type: str) -> bool:
        """Whether this process knows a job type."""

    @abstractmethod
    def _tell(self, event: Event) -> None:
        """Listeners hear of what was done."""

    @property
    def name(self) -> str:
        return self._config.name

    # --- scheduling

    def schedule_job(self, job: JobDetail, triggers: Trigger | Iterable[Trigger], *, replace: bool = False) -> datetime:
        """Store a job with one trigger or several, all or none; the first fire time.

        Raises:
            ObjectAlreadyExistsError: a key is stored already and `replace` is false.
            TriggerNeverFiresError: a trigger has no fire time.
            CalendarNotFoundError: a trigger names a calendar that is not stored.
            InvalidTriggerError: a trigger names another job, or there is no trigger.
        """
        several = [triggers] if isinstance(triggers, Trigger) else list(triggers)
        if not several:
            raise InvalidTriggerError(f"job {job.key}: no trigger is given; add_job stores a durable job without")
        return self._store_pairs([(job, several)], replace=replace)

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
        return self._store_pairs([(job, list(triggers)) for job, triggers in pairs], replace=replace)

    def schedule(self, triggers: Trigger | Iterable[Trigger], *, replace: bool = False) -> datetime:
        """Store triggers for jobs that are stored already; each has its `job_key`.

        Raises:
            JobNotFoundError: such a job is not stored. Others as in `schedule_job`.
        """
        several = [triggers] if isinstance(triggers, Trigger) else list(triggers)
        for trigger in several:
            if trigger.job_key is None:
                raise InvalidTriggerError(f"trigger {trigger.key}: job_key is missing")
        return self._store_pairs([(None, several)], replace=replace)

    def _store_pairs(
        self,
        pairs: Sequence[tuple[JobDetail | None, Sequence[Trigger]]],
        *,
        replace: bool,
        may_lack_triggers: bool = False,
    ) -> datetime:
        for job, triggers in pairs:
            if job is not None:
                self._check_job(job)
                if not triggers and not job.durable and not may_lack_triggers:
                    raise InvalidJobError(f"job {job.key} has no trigger and is not durable: it would go at once")
            for trigger in triggers:
                self._check_data(trigger)
        bound = [(job, [_for_job(trigger, job) for trigger in triggers]) for job, triggers in pairs]
        everything = [trigger for _, triggers in bound for trigger in triggers]
        if len({trigger.key for trigger in everything}) < len(everything):
            raise InvalidTriggerError("the same trigger key is given twice")
        prepare_one = self._preparation(everything)
        entries = [JobEntry(job, [prepare_one(trigger) for trigger in triggers]) for job, triggers in bound]
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

    def _check_job(self, job: JobDetail) -> None:
        job_data.encode(job.data, max_bytes=self._config.max_job_data_bytes)

    def _check_data(self, trigger: Trigger) -> None:
        job_data.encode(trigger.data, max_bytes=self._config.max_job_data_bytes)

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
        """
        self._check_job(job)
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
        jobs = {job.key: found for job, _ in wanted if (found := store.job(job.key)) is not None}
        records = [record for job in jobs for record in store.triggers_of_job(job)]
        triggers = {record.trigger.key: record.trigger for record in records}
        for key in (trigger.key for _, declared in wanted for trigger in declared):
            if key not in triggers and (record := store.trigger(key)) is not None:
                triggers[key] = record.trigger
        owned_jobs, owned_triggers = store.owned(owner)
        return Stored(jobs, triggers, frozenset(owned_jobs), frozenset(owned_triggers))

    def _carry_out(self, found: SyncPlan, owner: str) -> None:
        # What can be refused comes first.
        if found.store:
            self._store_pairs(found.store, replace=True, may_lack_triggers=True)
            self._usable_store().own(
                owner,
                [job.key for job, _ in found.store],
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

        Raises:
            JobNotFoundError: it is not stored.
            InvalidJobError: a name that a job's values do not have, or its key; a wrong value.
        """
        store = self._usable_store()
        known = store.job(key)
        if known is None:
            raise JobNotFoundError(f"job {key} is not stored")
        changed = known.with_values(changes)
        self._check_job(changed)
        store.store_jobs([JobEntry(changed)], replace=True)
        self._tell(JobAdded(changed))
        return changed

    def unschedule_job(self, key: TriggerKey) -> bool:
        """Remove a trigger, and its job where that has no other and is not durable; whether it was there."""
        return bool(self.unschedule_jobs([key]))

    def unschedule_jobs(self, keys: Collection[TriggerKey]) -> set[TriggerKey]:
        """Remove triggers; those that were there."""
        gone = self._usable_store().delete_triggers(keys)
        for key in sorted(gone):
            self._tell(JobUnscheduled(key))
        return gone

    def reschedule_job(self, key: TriggerKey, trigger: Trigger) -> datetime | None:
        """Put a new trigger of the same job in the place of `key`; its first fire time.

        None, and nothing changed, where `key` is not stored. Errors as in `schedule_job`.
        """
        old = self._usable_store().trigger(key)
        if old is None:
            return None
        self._check_data(trigger)
        new = replace(trigger, job_key=old.trigger.job_key)
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
        gone = self._usable_store().delete_jobs(keys)
        for key in sorted(gone):
            self._tell(JobDeleted(key))
        return gone

    def trigger_job(
        self, key: JobKey, data: Mapping[str, Any] | None = None, *, delay: timedelta | None = None
    ) -> TriggerKey:
        """Run a job now, or after `delay`, by a trigger of its own that carries `data`; that trigger's key.

        It is in a group of its own (MANUAL_TRIGGERS): pausing other groups does not hold it up.

        Raises:
            JobNotFoundError: the job is not stored.
            IllegalStateChangeError: it is disabled.
        """
        mode = self._usable_store().job_mode(key)
        if mode is None:
            raise JobNotFoundError(f"job {key} is not stored")
        if mode is JobMode.DISABLED:
            raise IllegalStateChangeError(f"job {key} is disabled; call enable_job first")
        start = None if delay is None else self._usable_store().now() + delay
        trigger = SimpleTrigger(f"MT_{unique_name()}", MANUAL_TRIGGERS, job_key=key, data=data, start_time=start)
        self.schedule(trigger)
        return trigger.key

    def clear(self) -> None:
        """Remove all jobs, triggers, calendars and pauses of this scheduler. What runs goes on."""
        self._usable_store().clear()
        self._tell(SchedulingDataCleared())

    # --- calendars

    def add_calendar(
        self, name: str, calendar: Calendar, *, replace: bool = False, update_triggers: bool = False
    ) -> None:
        """Store a calendar for triggers to name.

        With `replace`, triggers that name it go by the new one from their next fire time on; with `update_triggers`
        that fire time is computed anew, too: paused, blocked and failed triggers stay so, and one that the new
        calendar leaves no fire time goes.

        Raises:
            ObjectAlreadyExistsError: it is stored and `replace` is false.
            InvalidCalendarError: it is no calendar that can be stored.
        """
        check_name(name, "calendar name")
        store = self._usable_store()
        store.put_calendar(name, calendar, replace=replace)
        if update_triggers:
            self._update_triggers(name)
        if replace:
            self._changed(self._clock.now())

    def _update_triggers(self, name: str) -> None:
        """Move what names a calendar to where that says."""
        store = self._usable_store()
        # A trigger that fires meanwhile is read again.
        for _ in range(_UPDATE_TRIES):
            stored = store.calendars([name]).get(name)
            if stored is None:
                return
            now = store.now()
            moves = []
            for record in store.triggers_of_calendar(name):
                late_after = record.trigger.misfire_threshold or self._config.misfire_threshold
                progress = record.trigger.with_new_calendar(
                    record.progress, stored.calendar, now=now, late_after=late_after
                )
                if progress != record.progress and record.state is not TriggerState.COMPLETE:
                    there = PreparedTrigger(record.trigger, progress, Horizon(), stored.revision)
                    moves.append(TriggerMove(record, moved_to(there, progress, stored.calendar)))
            if len(store.move_triggers(moves)) == len(moves):
                return

    def delete_calendar(self, name: str) -> bool:
        """Remove a calendar; whether it was there.

        Raises:
            CalendarInUseError: triggers name it.
        """
        return self._usable_store().delete_calendar(name)

    def get_calendar(self, name: str) -> Calendar | None:
        """A stored calendar; None where there is none."""
        stored = self._usable_store().calendars([name]).get(name)
        return None if stored is None else stored.calendar

    def calendar_names(self) -> list[str]:
        return self._usable_store().calendar_names()

    # --- pausing

    def pause_trigger(self, key: TriggerKey) -> None:
        """Let a trigger not fire until it is resumed. One that is not stored is passed over, as in Quartz."""
        self._usable_store().pause_triggers([key])
        self._tell(TriggerPaused(key))

    def resume_trigger(self, key: TriggerKey) -> None:
        """Let a trigger fire again; where it is late, its misfire instruction says when."""
        self._changed(self._usable_store().resume_triggers([key]))
        self._tell(TriggerResumed(key))

    def pause_job(self, key: JobKey) -> None:
        """Pause all present triggers of a job."""
        self._usable_store().pause_jobs([key])
        self._tell(JobPaused(key))

    def resume_job(self, key: JobKey) -> None:
        self._changed(self._usable_store().resume_jobs([key]))
        self._tell(JobResumed(key))

    def pause_trigger_group(self, group: str | GroupMatcher) -> set[str]:
        """Pause groups of triggers, also for triggers that come later; the groups."""
        matcher = as_group_matcher(group)
        groups = self._usable_store().pause_trigger_groups(matcher)
        self._tell(TriggersPaused(matcher))
        return groups

    def resume_trigger_group(self, group: str | GroupMatcher) -> None:
        matcher = as_group_matcher(group)
        self._changed(self._usable_store().resume_trigger_groups(matcher))
        self._tell(TriggersResumed(matcher))

    def pause_job_group(self, group: str | GroupMatcher) -> set[str]:
        """Pause all triggers of the jobs of these groups, also those that come later; the groups."""
        matcher = as_group_matcher(group)
        groups = self._usable_store().pause_job_groups(matcher)
        self._tell(JobsPaused(matcher))
        return groups

    def resume_job_group(self, group: str | GroupMatcher) -> None:
        matcher = as_group_matcher(group)
        self._changed(self._usable_store().resume_job_groups(matcher))
        self._tell(JobsResumed(matcher))

    def pause_all(self) -> None:
        """Pause everything, also what comes later, until `resume_all`."""
        self._usable_store().pause_all()
        self._tell(TriggersPaused(None))

    def resume_all(self) -> None:
        self._changed(self._usable_store().resume_all())
        self._tell(TriggersResumed(None))

    def disable_job(self, key: JobKey) -> None:
        """Let no trigger of a job fire, present or later ones, nor `trigger_job`, until `enable_job`.

        Raises:
            JobNotFoundError: it is not stored.
        """
        self._set_mode(key, JobMode.DISABLED)

    def enable_job(self, key: JobKey) -> None:
        """Let all triggers of a job fire again, also those that were paused one by one. Errors as in `disable_job`."""
        self._set_mode(key, JobMode.ENABLED)

    def run_job_by_hand_only(self, key: JobKey) -> None:
        """Let a job run by `trigger_job` only (and by retries and recoveries), until `enable_job`: manual mode.

        Errors as in `disable_job`.
        """
        self._set_mode(key, JobMode.MANUAL)

    def job_mode(self, key: JobKey) -> JobMode | None:
        """ENABLED, MANUAL or DISABLED; None where the job is not stored."""
        return self._usable_store().job_mode(key)

    def _set_mode(self, key: JobKey, mode: JobMode) -> None:
        store = self._usable_store()
        if store.job_mode(key) is None:
            raise JobNotFoundError(f"job {key} is not stored")
        self._changed(store.set_job_mode(key, mode))
        self._tell(JobResumed(key) if mode is JobMode.ENABLED else JobPaused(key))

    def enter_manual_mode(self) -> None:
        """Let nothing fire by its schedule in the whole cluster; what is triggered by hand does.

        `resume_all` does not end it, `leave_manual_mode` does.
        """
        self._usable_store().set_manual(True)
        self._tell(TriggersPaused(None))

    def leave_manual_mode(self) -> None:
        """Let triggers fire by their schedules again, also those that were paused one by one meanwhile or before."""
        self._changed(self._usable_store().set_manual(False))
        self._tell(TriggersResumed(None))

    @property
    def is_in_manual_mode(self) -> bool:
        return self._usable_store().is_manual()

    def reset_trigger_from_error(self, key: TriggerKey) -> None:
        """Let a trigger in ERROR fire again.

        Raises:
            TriggerNotFoundError, IllegalStateChangeError: it is not stored, or not in ERROR.
        """
        self._changed(self._usable_store().reset_from_error(key))

    # --- looking

    def get_job_detail(self, key: JobKey) -> JobDetail | None:
        return self._usable_store().job(key)

    def get_trigger(self, key: TriggerKey) -> Trigger | None:
        record = self.trigger_record(key)
        return record.trigger if record else None

    def trigger_record(self, key: TriggerKey) -> TriggerRecord | None:
        """A trigger with its state, its fire times and the next ones; None where it is not stored."""
        return self._usable_store().trigger(key)

    def why(self, key: TriggerKey) -> list[str]:
        """Why a trigger has not fired, or when it will, in sentences: state, pauses, limits, what runs, what failed.

        Raises:
            TriggerNotFoundError: it is not stored.
        """
        store = self._usable_store()
        record = store.trigger(key)
        if record is None:
            raise TriggerNotFoundError(f"trigger {key} is not stored: it was removed, or has ended")
        of = record.trigger.job_key
        assert of is not None
        nodes = store.list_nodes()
        situation = Situation(
            now=nodes.now,
            trigger=record,
            job=store.job(of),
            running=[row for row in store.list_running() if row.job_key == of],
            nodes=nodes.nodes,
            all_paused=store.all_paused(),
            trigger_group_paused=key.group in store.paused_trigger_groups(),
            job_group_paused=of.group in store.paused_job_groups(),
            manual_mode=store.is_manual(),
            job_mode=store.job_mode(of),
            misfire_threshold=self._config.misfire_threshold,
            knows_type=self._knows_type(record.job_type),
            last=[row for row in store.list_executions(LIST_LIMIT) if row.trigger_key == key],
            misfires=store.list_misfires(1, key),
        )
        return explain(situation)

    def triggers_of_job(self, key: JobKey) -> list[Trigger]:
        return [record.trigger for record in self._usable_store().triggers_of_job(key)]

    def trigger_state(self, key: TriggerKey) -> PublicState:
        """NONE where it is not stored."""
        return self._usable_store().trigger_states([key])[key]

    def job_group_names(self) -> list[str]:
        return self._usable_store().job_group_names()

    def trigger_group_names(self) -> list[str]:
        return self._usable_store().trigger_group_names()

    def paused_trigger_groups(self) -> set[str]:
        return self._usable_store().paused_trigger_groups()

    def paused_job_groups(self) -> set[str]:
        return self._usable_store().paused_job_groups()

    @property
    def is_all_paused(self) -> bool:
        """Whether `pause_all` holds also for what comes later."""
        return self._usable_store().all_paused()

    def job_keys(self, group: str | GroupMatcher | None = None) -> set[JobKey]:
        """The keys of jobs whose group matches; None: all."""
        return self._usable_store().job_keys(_matcher(group))

    def trigger_keys(self, group: str | GroupMatcher | None = None) -> set[TriggerKey]:
        """The keys of triggers whose group matches; None: all."""
        return self._usable_store().trigger_keys(_matcher(group))

    def check_exists(self, key: JobKey | TriggerKey) -> bool:
        if isinstance(key, TriggerKey):
            return self.trigger_state(key) is not PublicState.NONE
        return self.get_job_detail(key) is not None

    def jobs(self, limit: int = LIST_LIMIT) -> list[JobRecord]:
        return self._usable_store().list_jobs(limit)

    def triggers(self, limit: int = LIST_LIMIT) -> list[TriggerRecord]:
        """By next fire time, those without one last."""
        return self._usable_store().list_triggers(limit)

    def nodes(self) -> CheckIn:
        """The nodes of the cluster, and the store's time."""
        return self._usable_store().list_nodes()

    def running(self) -> list[RunningRecord]:
        """What is claimed or runs, in the whole cluster."""
        return self._usable_store().list_running()

    def executions(self, limit: int = LIST_LIMIT) -> list[ExecutionRecord]:
        """What ended, in the whole cluster, the latest first."""
        return self._usable_store().list_executions(limit)

    def misfires(self, limit: int = LIST_LIMIT, trigger_key: TriggerKey | None = None) -> list[MisfireRecord]:
        """The misfires that were handled, in the whole cluster or of one trigger, the latest first."""
        return self._usable_store().list_misfires(limit, trigger_key)

    def counts(self) -> dict[str, Any]:
        """How many jobs, triggers by state, and running executions there are."""
        return self._usable_store().counts()


def _matcher(group: str | GroupMatcher | None) -> GroupMatcher:
    return GroupMatcher.anything() if group is None else as_group_matcher(group)


def _for_job(trigger: Trigger, job: JobDetail | None) -> Trigger:
    if job is None or trigger.job_key == job.key:
        return trigger
    if trigger.job_key is not None:
        raise InvalidTriggerError(f"trigger {trigger.key} names job {trigger.job_key}, not {job.key}")
    return trigger.bound_to(job.key)
