"""The methods that run a job outside its schedule: manually, again, or for past instants of its schedule."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from quartzpy.errors import ExecutionNotFoundError, IllegalStateChangeError, InvalidValueError, JobNotFoundError
from quartzpy.instants import Span, as_span
from quartzpy.jobs import typed_data
from quartzpy.jobs.function_arguments import arguments_of
from quartzpy.jobs.internal_entries import refuse_internal, repeats, with_actor
from quartzpy.jobs.job import JobData
from quartzpy.keys import MANUAL_TRIGGERS, JobKey, JobRef, TriggerKey, TriggerRef, check_name, checked_key, unique_name
from quartzpy.scheduler.methods.handles import TriggeredExecution
from quartzpy.scheduler.methods.queries import FireRef, QueryMethods, checked_fire_id
from quartzpy.scheduler.methods.storing import StoringMethods
from quartzpy.scheduler.past_fires import PastFires, check_span
from quartzpy.states import JobMode, TriggerState
from quartzpy.triggers.simple import SimpleTrigger

_WAITS = (
    TriggerState.WAITING,
    TriggerState.BLOCKED,
    TriggerState.PAUSED,
    TriggerState.PAUSED_BLOCKED,
)


class TriggeringMethods(StoringMethods, QueryMethods):
    """Running jobs outside their schedules."""

    def trigger_job(
        self,
        key: JobRef,
        data: Mapping[str, Any] | JobData | None = None,
        *,
        delay: Span | None = None,
        even_if_paused: bool = False,
        debounce_key: str | None = None,
        keep_waiting: bool = False,
        by: str | None = None,
    ) -> TriggeredExecution:
        """Run a job now, or after `delay`, by a separate trigger that carries `data`; return a handle to wait for it.

        That trigger is in the group MANUAL_TRIGGERS, so pauses of triggers and of other groups do not affect it. Under
        `pause_all`, or a pause of the job's group or of MANUAL_TRIGGERS, it would wait until the pause ends; therefore
        the call is refused, unless `even_if_paused` permits the wait. `data` may be a value of the job's `data_type`,
        or of the type that a function's parameter is annotated with, if the job's class is known in this process.

        With a `debounce_key`, at most one call for this job and this key waits for its fire, in the whole cluster. A
        later call replaces the waiting one, with its own data and `delay`. With `keep_waiting`, the waiting call stays,
        and the later call returns a handle for it. An execution that has started no longer waits. The handle refers to
        the latest execution for the key since the call.

        `by` names who asked for the run. The history, the web page and the command line show it with the execution, its
        retries and its recoveries. What operators run has their names.

        Raises:
            JobNotFoundError: the job is not stored.
            IllegalStateChangeError: the job is disabled, or a pause would delay the fire.
            InvalidJobDataError: as in `schedule_job`.
            InvalidKeyError: `key` is neither a key nor a name, or `debounce_key` is not a text.
            InvalidValueError: `keep_waiting` is given without a `debounce_key`.
            InvalidKeyError: `by` is no text, or too long.
        """
        job_key = checked_key(key, JobKey)
        if isinstance(data, Mapping):
            refuse_internal(data, "data")
        if debounce_key is None:
            if keep_waiting:
                raise InvalidValueError("keep_waiting: needs a debounce_key, which identifies the call that waits")
            return self._by_hand(job_key, data, delay, even_if_paused=even_if_paused, by=by)
        return self._debounced(job_key, data, delay, even_if_paused, debounce_key, keep_waiting, by)

    def run_again(
        self, fire_id: FireRef, *, delay: Span | None = None, even_if_paused: bool = False, by: str | None = None
    ) -> TriggeredExecution:
        """Run the job of an execution again, now or after `delay`, with the trigger data of that execution.

        The new execution is a first attempt by a separate trigger, as for `trigger_job`, with the job's own data as it
        is stored now. `context.nominal_fire_time` and `execution_key` are those of the original execution. `by` names
        who asked for it, as in `trigger_job`.

        Raises:
            ExecutionNotFoundError: no such execution is known.
            IllegalStateChangeError: the execution has not ended, the job is disabled, or a pause would delay the fire.
            JobNotFoundError: the job is no longer stored.
            InvalidJobDataError: as in `trigger_job`; or the data cannot be read in this process.
            InvalidValueError: `fire_id` cannot be the id of an execution.
        """
        record = self.execution(fire_id)
        number = checked_fire_id(fire_id)
        if record is None:
            raise ExecutionNotFoundError(f"execution {number} is not known, or no longer in the history")
        if record.outcome is None:
            raise IllegalStateChangeError(
                f"execution {number} is {record.state}; only an execution that has ended can run again"
            )
        data = repeats(record.trigger_key, record.scheduled_fire_time, record.trigger_data)
        try:
            return self._by_hand(
                record.job_key, data, delay, even_if_paused=even_if_paused, by=by, prefix=f"MT_again_{number}_"
            )
        except JobNotFoundError:
            gone = f"execution {number} cannot run again: its job {record.job_key} is not stored any more"
            raise JobNotFoundError(gone) from None

    def _debounced(
        self,
        key: JobKey,
        data: Mapping[str, Any] | Any | None,
        delay: Span | None,
        even_if_paused: bool,
        debounce_key: str,
        keep_waiting: bool,
        by: str | None,
    ) -> TriggeredExecution:
        check_name(debounce_key, "debounce_key")
        # One name for all calls with the key: a trigger that waits is replaced by storing another under its name.
        digest = hashlib.sha256("\0".join((key.group, key.name, debounce_key)).encode()).hexdigest()[:32]
        trigger_key = TriggerKey(f"MT_debounced_{digest}", MANUAL_TRIGGERS)
        if keep_waiting:
            waiting = self._usable_store().triggers([trigger_key]).get(trigger_key)
            if waiting is not None and waiting.state in _WAITS:
                return TriggeredExecution(self, trigger_key, key, waiting.progress.next_fire_time)
        return self._by_hand(key, data, delay, even_if_paused=even_if_paused, replaces=trigger_key, by=by)

    def _by_hand(
        self,
        key: JobKey,
        data: Mapping[str, Any] | Any | None,
        delay: Span | None,
        *,
        even_if_paused: bool,
        by: str | None,
        replaces: TriggerKey | None = None,
        prefix: str = "MT_",
    ) -> TriggeredExecution:
        span = None if delay is None else as_span(delay, "delay")
        by = None if by is None else check_name(by, "by")
        store = self._usable_store()
        header = store.job_headers([key]).get(key)
        if header is None:
            raise self._no_job(key)
        if header.mode is JobMode.DISABLED:
            raise IllegalStateChangeError(f"job {key} is disabled; enable it first")
        if not even_if_paused:
            self._refuse_pause(key)
        data_type = self._job_types.data_type(header.job_type)
        arguments = arguments_of(self._job_types.class_of(header.job_type)) if data_type is None else None
        data = typed_data.as_mapping(data, data_type) if arguments is None else arguments.as_mapping(data)
        is_checked = data_type is not None or (arguments is not None and bool(data))
        # A name that was used before may have executions in the history: those of this call come from here on.
        start = store.now() + (span or timedelta(0)) if span is not None or replaces is not None else None
        if isinstance(data, Mapping) or (data is None and by is not None):
            data = with_actor(data or {}, by)
        trigger = SimpleTrigger(
            f"{prefix}{unique_name()}" if replaces is None else replaces.name,
            MANUAL_TRIGGERS,
            job_key=key,
            data=data,
            start_time=start,
            interval=timedelta(0),
            repeat_count=0,
        )
        self._check_data(trigger)
        # The job is read only if there is data to validate, because that costs another round trip.
        job = store.jobs([key]).get(key) if is_checked else None
        if job is not None:
            self._check_typed_data(job, [trigger])
        self._store_pairs([(None, [trigger])], replace=replaces is not None)
        return TriggeredExecution(self, trigger.key, key, None if replaces is None else start)

    def _refuse_pause(self, key: JobKey) -> None:
        pauses = self._usable_store().pauses()
        if pauses.everything:
            what, cure = "everything is paused", "resume everything"
        elif key.group in pauses.job_groups:
            what, cure = f"job group {key.group} is paused", "resume that group"
        elif MANUAL_TRIGGERS in pauses.trigger_groups:
            what, cure = f"trigger group {MANUAL_TRIGGERS} is paused", "resume that group"
        else:
            return
        raise IllegalStateChangeError(
            f"job {key} would not run now, because {what}; {cure} first, or let the fire wait for that (even_if_paused)"
        )

    def backfill_times(
        self, key: TriggerRef, since: datetime, until: datetime, *, max_runs: int = 1_000
    ) -> list[datetime]:
        """Return the instants that `backfill` would run a job for, and run nothing.

        They are the fire times of the trigger from `since` until before `until`, without those that its calendar
        excludes. A cron trigger is followed also before its start time; the schedule of any other begins there.

        Raises:
            TriggerNotFoundError: the trigger is not stored.
            InvalidValueError: `since` or `until` is no datetime with a time zone, `until` is not after `since`, or
                there are more than `max_runs` instants.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        key = checked_key(key, TriggerKey)
        check_span(since, until, max_runs)
        return self._past_fires(key).between(since, until, max_runs=max_runs)

    def _past_fires(self, key: TriggerKey) -> PastFires:
        """Return the past of a trigger's schedule, as a backfill repeats it.

        Raises:
            TriggerNotFoundError: the trigger is not stored.
        """
        store = self._usable_store()
        record = store.triggers([key]).get(key)
        if record is None:
            raise self._no_trigger(key)
        name = record.trigger.calendar
        return PastFires(record.trigger, None if name is None else store.calendars([name])[name].calendar)

    def backfill(
        self,
        key: TriggerRef,
        since: datetime,
        until: datetime,
        *,
        max_runs: int = 1_000,
        even_if_paused: bool = False,
        by: str | None = None,
    ) -> list[TriggeredExecution]:
        """Run the job of a trigger once for each instant of `backfill_times`; return the handles, in that order.

        All runs are stored at once, or none is, as triggers in the group MANUAL_TRIGGERS that are due now and carry the
        trigger's data. They start in the order of their instants and run as many at a time as the job's
        `max_concurrent` allows; with an `overlap_policy` that skips or coalesces, fires beyond that limit get no run.
        `context.nominal_fire_time` is the instant. `context.execution_key` is that of the original fire at the instant,
        so that the job can find out if it did this work before. The trigger itself does not change. Instants at which
        it fired before are run again, so choose a span without them. The runs have the lowest priority. `by` names who
        asked for them, as in `trigger_job`.

        Raises:
            IllegalStateChangeError: the job is disabled, or a pause would hold the fires and `even_if_paused` is false.
            Others as `backfill_times` and `trigger_job`.
        """
        key = checked_key(key, TriggerKey)
        by = None if by is None else check_name(by, "by")
        instants = self.backfill_times(key, since, until, max_runs=max_runs)
        store = self._usable_store()
        record = store.triggers([key]).get(key)
        if record is None:
            raise self._no_trigger(key)
        header = store.job_headers([record.job_key]).get(record.job_key)
        if header is None:
            raise self._no_job(record.job_key)
        if header.mode is JobMode.DISABLED:
            raise IllegalStateChangeError(f"job {record.job_key} is disabled; enable it first")
        if not even_if_paused:
            self._refuse_pause(record.job_key)
        if not instants:
            return []
        batch = unique_name()
        start = store.now()
        triggers = [
            # Of one fire time and one priority the first by name comes first.
            SimpleTrigger(
                f"BF_{batch}_{number:05d}",
                MANUAL_TRIGGERS,
                job_key=record.job_key,
                data=with_actor(repeats(key, at, record.trigger.data or {}), by),
                start_time=start,
                interval=timedelta(0),
                repeat_count=0,
                priority=1,
            )
            for number, at in enumerate(instants)
        ]
        self._check_data(triggers[0])
        self._store_pairs([(None, triggers)], replace=False)
        return [TriggeredExecution(self, trigger.key, record.job_key) for trigger in triggers]
