"""The facade: every verb a user has. No SQL, and no threads of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

from quartzpy import job_data
from quartzpy.calendars.calendar import Calendar
from quartzpy.clock import Clock
from quartzpy.config import SchedulerConfig
from quartzpy.context import JobExecutionContext
from quartzpy.errors import (
    CalendarNotFoundError,
    InvalidJobError,
    InvalidTriggerError,
    InvalidValueError,
    JobNotFoundError,
    SchedulerStateError,
    UnableToInterruptJobError,
)
from quartzpy.job import JobDetail, JobTypes
from quartzpy.keys import MANUAL_TRIGGERS, JobKey, TriggerKey, check_name, unique_name
from quartzpy.matchers import GroupMatcher, as_group_matcher
from quartzpy.runtime.node import SchedulerNode
from quartzpy.states import PublicState, TriggerState
from quartzpy.store.protocol import (
    CheckIn,
    ExecutionRecord,
    JobEntry,
    JobRecord,
    JobStore,
    RunningRecord,
    TriggerMove,
    TriggerRecord,
)
from quartzpy.triggers.horizon import Horizon, PreparedTrigger, moved_to, prepare
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger

LIST_LIMIT = 500
_UPDATE_TRIES = 5


@dataclass(frozen=True, slots=True)
class SchedulerMetadata:
    """What this scheduler is and has done, in this process (Quartz's `SchedulerMetaData`)."""

    name: str
    instance_id: str | None
    version: str
    store: str
    is_started: bool
    is_in_standby: bool
    is_shut_down: bool
    running_since: datetime | None
    workers: int
    jobs_executed: int


class BaseScheduler:
    """Schedules jobs in a store and, once started, runs them as a node of the cluster.

    Without `start` it is a client: everything but running works. It may be used from any thread.
    """

    def __init__(
        self, store: JobStore, config: SchedulerConfig, *, clock: Clock, job_types: JobTypes, version: str
    ) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._job_types = job_types
        self._version = version
        self._lock = threading.RLock()
        self._opened = False
        self._node: SchedulerNode | None = None
        self._running_since: datetime | None = None
        self._shut_down = threading.Event()
        self._starting: threading.Timer | None = None
        self._pid = os.getpid()

    # --- life

    @property
    def name(self) -> str:
        return self._config.name

    @property
    def config(self) -> SchedulerConfig:
        return self._config

    @property
    def instance_id(self) -> str | None:
        """This node's id in the cluster; None before `start`."""
        return self._node.instance_id if self._node else None

    @property
    def is_started(self) -> bool:
        """Whether `start` was called and the scheduler was not shut down since."""
        return self._node is not None and not self.is_shut_down

    @property
    def is_in_standby(self) -> bool:
        """Whether this node claims nothing: in standby, or not started."""
        return self._node is None or self._node.in_standby

    @property
    def is_shut_down(self) -> bool:
        return self._shut_down.is_set()

    def start(self) -> None:
        """Begin to run jobs on this node, or go on after `standby`.

        Raises:
            SchedulerStateError: it was shut down, or is used in another process than it was made in.
            StoreUnavailableError: the database did not answer within `start_timeout`.
            SchemaError: its tables are absent or of another release.
            InstanceIdInUseError: another living node has this instance id.
        """
        with self._lock:
            self._check_usable()
            if self._starting is not None:
                self._starting.cancel()
                self._starting = None
            if self._node is not None:
                self._node.resume()
                return
            node = SchedulerNode(
                self._store, self._config, clock=self._clock, job_types=self._job_types, scheduler=self
            )
            node.start()
            self._opened = True
            self._node = node
            self._running_since = self._clock.now()

    def start_delayed(self, delay: timedelta) -> None:
        """Start after `delay`, unless it is shut down before. Returns at once."""
        with self._lock:
            self._check_usable()
            self._starting = threading.Timer(delay.total_seconds(), self._start_if_still_wanted)
            self._starting.name = "quartzpy-delayed-start"
            self._starting.daemon = True
            self._starting.start()

    def _start_if_still_wanted(self) -> None:
        with self._lock:
            if self._starting is not None and not self.is_shut_down:
                self.start()

    def standby(self) -> None:
        """Claim nothing more on this node until `start`. What runs goes on, and the node stays in the cluster."""
        self._check_usable()
        if self._node is None:
            raise SchedulerStateError("the scheduler was not started; standby is for a started one")
        self._node.standby()

    def shutdown(self, *, wait: bool = True, timeout: timedelta | None = None) -> bool:
        """Stop for good. With `wait`, executions may end within `timeout` (None: however long they take).

        What still runs then is told to stop and left for other nodes to recover. Returns whether all ended.

        Raises:
            SchedulerStateError: called with `wait` from a job of this scheduler: it would wait for itself.
        """
        with self._lock:
            if self.is_shut_down:
                return True
            node = self._node
            if wait and node is not None and node.is_worker_thread():
                raise SchedulerStateError("shutdown(wait=True) in a job would wait for itself; use wait=False")
            self._shut_down.set()
            if self._starting is not None:
                self._starting.cancel()
        if node is None:
            self._store.close()
            return True
        return node.stop(wait=wait, timeout=None if timeout is None else timeout.total_seconds())

    def wait_until_shut_down(self, timeout: timedelta | None = None) -> bool:
        """Sleep until somebody calls `shutdown`; whether that came within `timeout`."""
        return self._shut_down.wait(None if timeout is None else timeout.total_seconds())

    def wait_until_recorded(self, executions: int, timeout: timedelta) -> bool:
        """Wait until this node has run so many executions and recorded all; whether that came in time."""
        deadline = self._clock.monotonic() + timeout.total_seconds()
        while self._node is not None and self._clock.monotonic() < deadline:
            if self._node.recorded >= executions:
                return True
            self._shut_down.wait(0.005)
        return False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()

    def _check_usable(self) -> None:
        if self.is_shut_down:
            raise SchedulerStateError("the scheduler was shut down; make a new one")
        if os.getpid() != self._pid:
            raise SchedulerStateError(
                f"the scheduler was made in process {self._pid} and is used in process {os.getpid()};"
                " make one in each process"
            )

    def _usable_store(self) -> JobStore:
        self._check_usable()
        if not self._opened:
            with self._lock:
                if not self._opened:
                    self._store.open()
                    self._opened = True
        return self._store

    def _changed(self, earliest: datetime | None) -> None:
        if self._node is not None and earliest is not None:
            self._node.scheduling_changed(earliest)

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

    def _store_pairs(self, pairs: Sequence[tuple[JobDetail | None, Sequence[Trigger]]], *, replace: bool) -> datetime:
        for job, triggers in pairs:
            if job is not None:
                self._check_job(job)
                if not triggers and not job.durable:
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
        assert earliest is not None or not everything
        return earliest if earliest is not None else self._store.now()

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

    def unschedule_job(self, key: TriggerKey) -> bool:
        """Remove a trigger, and its job where that has no other and is not durable; whether it was there."""
        return bool(self.unschedule_jobs([key]))

    def unschedule_jobs(self, keys: Collection[TriggerKey]) -> set[TriggerKey]:
        """Remove triggers; those that were there."""
        return self._usable_store().delete_triggers(keys)

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
        earliest = self._store.replace_trigger(key, prepared)
        self._changed(earliest)
        return earliest

    def delete_job(self, key: JobKey) -> bool:
        """Remove a job with all its triggers; whether it was there. What runs goes on."""
        return bool(self.delete_jobs([key]))

    def delete_jobs(self, keys: Collection[JobKey]) -> set[JobKey]:
        """Remove jobs with all their triggers; those that were there."""
        return self._usable_store().delete_jobs(keys)

    def trigger_job(
        self, key: JobKey, data: Mapping[str, Any] | None = None, *, delay: timedelta | None = None
    ) -> TriggerKey:
        """Run a job now, or after `delay`, by a trigger of its own that carries `data`; that trigger's key.

        It is in a group of its own (MANUAL_TRIGGERS): pausing other groups does not hold it up.

        Raises:
            JobNotFoundError: the job is not stored.
        """
        if self._usable_store().job(key) is None:
            raise JobNotFoundError(f"job {key} is not stored")
        start = None if delay is None else self._store.now() + delay
        trigger = SimpleTrigger(f"MT_{unique_name()}", MANUAL_TRIGGERS, job_key=key, data=data, start_time=start)
        self.schedule(trigger)
        return trigger.key

    def clear(self) -> None:
        """Remove all jobs, triggers, calendars and pauses of this scheduler. What runs goes on."""
        self._usable_store().clear()

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
        if replace and self._node is not None:
            self._node.scheduling_changed()

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

    def resume_trigger(self, key: TriggerKey) -> None:
        """Let a trigger fire again; where it is late, its misfire instruction says when."""
        self._changed(self._usable_store().resume_triggers([key]))

    def pause_job(self, key: JobKey) -> None:
        """Pause all present triggers of a job."""
        self._usable_store().pause_jobs([key])

    def resume_job(self, key: JobKey) -> None:
        self._changed(self._usable_store().resume_jobs([key]))

    def pause_trigger_group(self, group: str | GroupMatcher) -> set[str]:
        """Pause groups of triggers, also for triggers that come later; the groups."""
        return self._usable_store().pause_trigger_groups(as_group_matcher(group))

    def resume_trigger_group(self, group: str | GroupMatcher) -> None:
        self._changed(self._usable_store().resume_trigger_groups(as_group_matcher(group)))

    def pause_job_group(self, group: str | GroupMatcher) -> set[str]:
        """Pause all triggers of the jobs of these groups, also those that come later; the groups."""
        return self._usable_store().pause_job_groups(as_group_matcher(group))

    def resume_job_group(self, group: str | GroupMatcher) -> None:
        self._changed(self._usable_store().resume_job_groups(as_group_matcher(group)))

    def pause_all(self) -> None:
        """Pause everything, also what comes later, until `resume_all`."""
        self._usable_store().pause_all()

    def resume_all(self) -> None:
        self._changed(self._usable_store().resume_all())

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

    def currently_executing_jobs(self) -> list[JobExecutionContext]:
        """The executions that run on this node; `running` shows those of all."""
        if self._node is None:
            return []
        return [execution.context for execution in self._node.running() if execution.context is not None]

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

    def counts(self) -> dict[str, Any]:
        """How many jobs, triggers by state, and running executions there are."""
        return self._usable_store().counts()

    # --- interrupting

    def interrupt(self, key: JobKey) -> bool:
        """Ask all executions of a job on this node to stop (`context.cancelled`); whether there was one."""
        return self._interrupt(lambda execution: execution.fired.job_key == key)

    def interrupt_execution(self, fire_instance_id: str) -> bool:
        """Ask one execution on this node to stop; whether it runs here."""
        return self._interrupt(lambda execution: str(execution.fired.fence) == fire_instance_id)

    def cancel(self, fire_instance_id: str) -> bool:
        """Ask an execution to stop, on whichever node of the cluster it runs; whether it runs.

        The job sees `context.cancelled`; an `async def` job that does not end is cut off at its next `await`. An
        execution that stops so is CANCELLED in the history and is not retried.
        """
        if not fire_instance_id.isdecimal():
            raise InvalidValueError(f"fire_instance_id: a number as text, as context has it (got {fire_instance_id!r})")
        asked = self._usable_store().request_cancel(int(fire_instance_id))
        if self._node is not None:
            self._node.interrupt(lambda execution: str(execution.fired.fence) == fire_instance_id)
        return asked

    def _interrupt(self, chosen: Any) -> bool:
        self._check_usable()
        if self._node is None:
            raise UnableToInterruptJobError("the scheduler was not started: nothing runs here")
        return self._node.interrupt(chosen) > 0

    @property
    def metadata(self) -> SchedulerMetadata:
        return SchedulerMetadata(
            name=self.name,
            instance_id=self.instance_id,
            version=self._version,
            store=type(self._store).__name__,
            is_started=self.is_started,
            is_in_standby=self.is_in_standby,
            is_shut_down=self.is_shut_down,
            running_since=self._running_since,
            workers=self._config.workers,
            jobs_executed=self._node.recorded if self._node else 0,
        )


def _matcher(group: str | GroupMatcher | None) -> GroupMatcher:
    return GroupMatcher.anything() if group is None else as_group_matcher(group)


def _for_job(trigger: Trigger, job: JobDetail | None) -> Trigger:
    if job is None or trigger.job_key == job.key:
        return trigger
    if trigger.job_key is not None:
        raise InvalidTriggerError(f"trigger {trigger.key} names job {trigger.job_key}, not {job.key}")
    return replace(trigger, job_key=job.key)
