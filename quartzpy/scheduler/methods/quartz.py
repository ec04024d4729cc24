"""Quartz's verbs for what the other methods do, for those who know them: one page of the reference has them all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import TypedDict, Unpack

from quartzpy.errors import InvalidJobError, SettingsError
from quartzpy.events.events import JobAdded, JobUnscheduled, SchedulingDataCleared
from quartzpy.instants import EARLIEST, Span, as_span
from quartzpy.jobs.context import JobExecutionContext
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, JobRef, TriggerKey, TriggerRef, checked_key, checked_keys
from quartzpy.matchers import GroupMatcher
from quartzpy.name_hints import SCHEDULING_ARGUMENTS, KeyHints, argument_hints
from quartzpy.node.workers.execution import Execution
from quartzpy.scheduler import singles
from quartzpy.scheduler.methods.pausing import PausingMethods, Until
from quartzpy.scheduler.methods.queries import FireRef, checked_fire_id
from quartzpy.scheduler.methods.storing import refuse_internal_job
from quartzpy.scheduler.methods.triggering import TriggeringMethods
from quartzpy.scheduler.querying import group_matcher
from quartzpy.states import Missed, PublicState, missed_of
from quartzpy.store.protocol import EVERYTHING, JobEntry, JobGroups, NameKind, TriggerGroups
from quartzpy.store.queries import TriggerQuery
from quartzpy.store.records import TriggerRecord
from quartzpy.triggers.trigger import Trigger


class PauseOptions(TypedDict, total=False):
    """The options of `Scheduler.pause`."""

    reason: str | None
    by: str | None
    until: Until | None
    missed: str


class QuartzMethods(TriggeringMethods, PausingMethods):
    """The methods of Quartz's `Scheduler` on jobs and triggers that have another form here.

    They stay, and every scheduler has them. The form to prefer is `pause(what)` and `resume(what)` for the pauses, the
    handles `job(key)` and `trigger(key)` for one thing, and the queries `jobs()` and `triggers()` for several.
    """

    def pause_trigger(self, key: TriggerRef, **options: Unpack[PauseOptions]) -> None:
        """Pause a trigger, as `pause` does."""
        self.pause(checked_key(key, TriggerKey), **options)

    def resume_trigger(self, key: TriggerRef, *, missed: str = Missed.MISFIRE) -> None:
        """Resume a trigger, as `resume` does."""
        self.resume(checked_key(key, TriggerKey), missed=missed)

    def pause_job(self, key: JobRef, **options: Unpack[PauseOptions]) -> None:
        """Pause all triggers that a job has now, as `pause` does."""
        self.pause(checked_key(key, JobKey), **options)

    def resume_job(self, key: JobRef, *, missed: str = Missed.MISFIRE) -> None:
        """Resume all triggers of a job, as `resume` does."""
        self.resume(checked_key(key, JobKey), missed=missed)

    def pause_trigger_group(self, group: str | GroupMatcher, **options: Unpack[PauseOptions]) -> set[str]:
        """Pause groups of triggers, as `pause(TriggerGroups(group))` does; return the groups."""
        return self._pause(TriggerGroups(group), self._note(**options))

    def resume_trigger_group(self, group: str | GroupMatcher, *, missed: str = Missed.MISFIRE) -> set[str]:
        """Resume groups of triggers, as `resume(TriggerGroups(group))` does; return the groups."""
        subject, store = TriggerGroups(group), self._usable_store()
        groups = {*store.names(NameKind.TRIGGER_GROUPS), *store.pauses().trigger_groups}
        self.resume(subject, missed=missed)
        return {name for name in groups if subject.matcher.matches(name)}

    def pause_job_group(self, group: str | GroupMatcher, **options: Unpack[PauseOptions]) -> set[str]:
        """Pause all triggers of the jobs of groups, as `pause(JobGroups(group))` does; return the groups."""
        return self._pause(JobGroups(group), self._note(**options))

    def resume_job_group(self, group: str | GroupMatcher, *, missed: str = Missed.MISFIRE) -> set[str]:
        """Resume all triggers of the jobs in groups, as `resume(JobGroups(group))` does; return the groups."""
        subject, store = JobGroups(group), self._usable_store()
        groups = {*store.names(NameKind.JOB_GROUPS), *store.pauses().job_groups}
        self.resume(subject, missed=missed)
        return {name for name in groups if subject.matcher.matches(name)}

    def pause_all(self, **options: Unpack[PauseOptions]) -> set[str]:
        """Pause all triggers, as `pause(EVERYTHING)` does; return their groups."""
        note = self._note(**options)
        groups = set(self._usable_store().names(NameKind.TRIGGER_GROUPS))
        self._pause(EVERYTHING, note)
        return groups

    def resume_all(self, *, missed: str = Missed.MISFIRE) -> set[str]:
        """End every pause, as `resume(EVERYTHING)` does; return the trigger groups."""
        treatment = missed_of(missed)
        groups = set(self._usable_store().names(NameKind.TRIGGER_GROUPS))
        self._resume(EVERYTHING, treatment)
        return groups

    def reset_trigger_from_error(self, key: TriggerRef) -> None:
        """Return a trigger in ERROR to its schedule, so that it fires again.

        Raises:
            TriggerNotFoundError: it is not stored.
            IllegalStateChangeError: it is not in ERROR.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        key = checked_key(key, TriggerKey)
        self._require_trigger(key)
        self._changed(singles.reset_from_error(self._usable_store(), key))

    def get_job_detail(self, key: JobKey) -> JobDetail | None:
        """Return a stored job, or None if it is not stored."""
        return self._usable_store().jobs([checked_key(key, JobKey)]).get(checked_key(key, JobKey))

    def get_trigger(self, key: TriggerKey) -> Trigger | None:
        """Return a stored trigger, or None if it is not stored."""
        record = self.trigger_record(key)
        return record.trigger if record else None

    def trigger_record(self, key: TriggerKey) -> TriggerRecord | None:
        """Return a trigger with its state and its fire times, or None if it is not stored."""
        return self._usable_store().triggers([checked_key(key, TriggerKey)]).get(checked_key(key, TriggerKey))

    def triggers_of_job(self, key: JobKey) -> list[Trigger]:
        """Return the triggers of a job, sorted by key."""
        return [
            record.trigger for record in self._usable_store().find(TriggerQuery(job_key=checked_key(key, JobKey)), None)
        ]

    def trigger_state(self, key: TriggerKey) -> PublicState:
        """Return the state of a trigger in Quartz's terms; NONE if it is not stored."""
        checked = checked_key(key, TriggerKey)
        return singles.state_of_trigger(self._usable_store(), checked)

    def check_exists(self, key: JobKey | TriggerKey) -> bool:
        """Return True if the job or trigger is stored."""
        if isinstance(key, TriggerKey):
            return self.trigger_state(key) is not PublicState.NONE
        return self._usable_store().job_headers([checked_key(key, JobKey)]).get(checked_key(key, JobKey)) is not None

    def job_keys(self, group: str | GroupMatcher | None = None) -> set[JobKey]:
        """Return the keys of the jobs whose group matches; None matches all groups."""
        return self._usable_store().keys(JobKey, group_matcher(group) or GroupMatcher.anything())

    def trigger_keys(self, group: str | GroupMatcher | None = None) -> set[TriggerKey]:
        """Return the keys of the triggers whose group matches; None matches all groups."""
        return self._usable_store().keys(TriggerKey, group_matcher(group) or GroupMatcher.anything())

    def job_group_names(self) -> list[str]:
        """Return the groups that have jobs, sorted."""
        return self._usable_store().names(NameKind.JOB_GROUPS)

    def trigger_group_names(self) -> list[str]:
        """Return the groups that have triggers, sorted."""
        return self._usable_store().names(NameKind.TRIGGER_GROUPS)

    def paused_trigger_groups(self) -> set[str]:
        """Return the trigger groups that are paused."""
        return set(self._usable_store().pauses().trigger_groups)

    def paused_job_groups(self) -> set[str]:
        """Return the job groups that are paused."""
        return set(self._usable_store().pauses().job_groups)

    @argument_hints(SCHEDULING_ARGUMENTS)
    def add_job(
        self,
        job: JobDetail,
        *,
        replace: bool = False,
        store_non_durable_while_awaiting_scheduling: bool = False,
    ) -> None:
        """Store a job without a trigger. Storing the same again changes nothing.

        Raises:
            InvalidJobError: the job is not durable, so it would be deleted with its last trigger, and
                `store_non_durable_while_awaiting_scheduling` is false.
            ObjectAlreadyExistsError: a different job has its key, and `replace` is false.
            InvalidJobDataError: its data has names that its `data_type` does not have. Missing names are no error,
                because a trigger may provide them.
        """
        job = self._checked_job(job)
        self._check_data(job)
        refuse_internal_job(job)
        self._check_typed_data(job)
        if not job.durable and not store_non_durable_while_awaiting_scheduling:
            raise InvalidJobError(f"job {job.key} has no trigger and is not durable; pass durable=True")
        self._usable_store().store_jobs([JobEntry(job)], replace=replace)
        if replace:
            # As for `modify_job`: its triggers may fire earlier.
            self._changed(EARLIEST)
        self._emit(JobAdded(job))

    def unschedule_job(self, key: TriggerRef, *, missing_ok: bool = False) -> bool:
        """Remove a trigger; remove its job as well if it has no other trigger and is not durable.

        Return True, or False if the trigger was not stored and `missing_ok` is true.

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
        """Remove triggers, and jobs as `unschedule_job` does; return the keys of those that were stored."""
        removed = self._usable_store().delete_triggers(checked_keys(keys, TriggerKey))
        for key in sorted(removed):
            self._emit(JobUnscheduled(key))
        return removed

    def delete_jobs(self, keys: Collection[JobRef]) -> set[JobKey]:
        """Remove jobs with all their triggers; return the keys of those that were stored."""
        return self._delete_jobs(checked_keys(keys, JobKey))

    def clear(self) -> None:
        """Remove all jobs, triggers, calendars and pauses of this scheduler. Running executions continue."""
        self._usable_store().clear()
        self._emit(SchedulingDataCleared())


class QuartzNodeMethods(KeyHints, ABC):
    """The methods of Quartz's `Scheduler` on the node of this process that have another form here."""

    @abstractmethod
    def _executions(self) -> Sequence[Execution]:
        """Return what runs on this node."""

    @abstractmethod
    def _interrupt(self, chosen: Callable[[Execution], bool]) -> bool:
        """Ask executions on this node to stop; return whether there were any."""

    @abstractmethod
    def _start_later(self, seconds: float) -> None:
        """Start in the background after this time."""

    def currently_executing_jobs(self) -> list[JobExecutionContext]:
        """Return the contexts of the executions that run on this node. `running` lists those of all nodes."""
        return [execution.context for execution in self._executions() if execution.context is not None]

    def interrupt(self, key: JobRef) -> bool:
        """Ask all executions of a job on this node to stop (`context.cancelled`). Return whether there were any.

        `cancel_job` does this in the whole cluster.

        Raises:
            InvalidKeyError: `key` is neither a key nor a name.
            UnableToInterruptJobError: the scheduler was not started.
        """
        job_key = checked_key(key, JobKey)
        return self._interrupt(lambda execution: execution.fired.job_key == job_key)

    def interrupt_execution(self, fire_id: FireRef) -> bool:
        """Ask one execution on this node to stop. Return whether it is running here.

        Raises:
            InvalidValueError: `fire_id` is not a valid fire id.
            UnableToInterruptJobError: the scheduler was not started.
        """
        checked_id = checked_fire_id(fire_id)
        return self._interrupt(lambda execution: execution.fired.fire_id == checked_id)

    def start_delayed(self, delay: Span) -> None:
        """Call `start` in the background after `delay` (seconds, or a span such as "5s"), and return immediately.

        A shutdown before then cancels it.

        Raises:
            SettingsError: `delay` is not a span of time, or is negative.
        """
        self._start_later(as_span(delay, "delay", SettingsError, longest=timedelta.max).total_seconds())
