"""The verbs that run a job by hand."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from quartzpy import typed_data
from quartzpy.context import repeats
from quartzpy.errors import ExecutionNotFoundError, IllegalStateChangeError
from quartzpy.instants import Span, as_span
from quartzpy.keys import MANUAL_TRIGGERS, JobKey, JobRef, checked_key, unique_name
from quartzpy.states import JobMode
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.verbs.handles import TriggeredExecution
from quartzpy.verbs.looking import FireRef, LookingVerbs
from quartzpy.verbs.storing import StoringVerbs


class TriggeringVerbs(StoringVerbs, LookingVerbs):
    """Running jobs apart from their schedules."""

    def trigger_job(
        self,
        key: JobRef,
        data: Mapping[str, Any] | Any | None = None,
        *,
        delay: Span | None = None,
        even_if_paused: bool = False,
    ) -> TriggeredExecution:
        """Run a job now, or after `delay`, by a trigger of its own that carries `data`; return a handle to wait for it.

        That trigger is in the group MANUAL_TRIGGERS: pauses of triggers and of other groups do not hold it. Under
        `pause_all`, or a pause of the job's group or of MANUAL_TRIGGERS, it would wait until that ends: the call is
        refused, unless `even_if_paused` says that it may wait. `data` may be a value of the job's `data_type`, where
        its class is known in this process.

        Raises:
            JobNotFoundError: the job is not stored.
            IllegalStateChangeError: it is disabled, or a pause would hold the fire.
            InvalidJobDataError: as in `schedule_job`.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return self._by_hand(checked_key(key, JobKey), data, delay, even_if_paused=even_if_paused)

    def run_again(
        self, fire_id: FireRef, *, delay: Span | None = None, even_if_paused: bool = False
    ) -> TriggeredExecution:
        """Run the job of an execution again, now or after `delay`, with the data that its trigger brought.

        It is a first attempt by a trigger of its own, as by `trigger_job`. The job's own data is what is stored now.
        `context.nominal_fire_time` and `execution_key` are those of the execution that is repeated.

        Raises:
            ExecutionNotFoundError: no such execution is known.
            IllegalStateChangeError: it has not ended, the job is disabled, or a pause would hold the fire.
            JobNotFoundError: the job is no longer stored.
            InvalidJobDataError: as in `trigger_job`; or the data cannot be read in this process.
            InvalidValueError: `fire_id` cannot be the id of an execution.
        """
        record = self.execution(fire_id)
        if record is None:
            raise ExecutionNotFoundError(f"execution {fire_id!r} is not known, or no longer in the history")
        if record.outcome is None:
            raise IllegalStateChangeError(f"execution {fire_id} is {record.state}; what runs again has ended")
        data = repeats(record.trigger_key, record.scheduled_fire_time, record.trigger_data)
        return self._by_hand(record.job_key, data, delay, even_if_paused=even_if_paused)

    def _by_hand(
        self, key: JobKey, data: Mapping[str, Any] | Any | None, delay: Span | None, *, even_if_paused: bool
    ) -> TriggeredExecution:
        span = None if delay is None else as_span(delay, "delay")
        store = self._usable_store()
        header = store.job_header(key)
        if header is None:
            raise self._no_job(key)
        if header.mode is JobMode.DISABLED:
            raise IllegalStateChangeError(f"job {key} is disabled; call enable_job first")
        if not even_if_paused:
            self._refuse_pause(key)
        data_type = self._job_types.data_type(header.job_type)
        data = typed_data.as_mapping(data, data_type)
        start = None if span is None else store.now() + span
        trigger = SimpleTrigger(
            f"MT_{unique_name()}",
            MANUAL_TRIGGERS,
            job_key=key,
            data=data,
            start_time=start,
            interval=timedelta(0),
            repeat_count=0,
        )
        self._check_data(trigger)
        # The job's data is read only where there is something to check: that is a round trip more.
        job = None if data_type is None else store.job(key)
        if job is not None:
            self._check_typed_data(job, [trigger])
        self._store_pairs([(None, [trigger])], replace=False)
        return TriggeredExecution(self, trigger.key, key)

    def _refuse_pause(self, key: JobKey) -> None:
        pauses = self._usable_store().pauses()
        if pauses.everything:
            what, cure = "everything is paused", "resume_all()"
        elif key.group in pauses.job_groups:
            what, cure = f"job group {key.group} is paused", f'resume_job_group("{key.group}")'
        elif MANUAL_TRIGGERS in pauses.trigger_groups:
            what, cure = f"trigger group {MANUAL_TRIGGERS} is paused", f'resume_trigger_group("{MANUAL_TRIGGERS}")'
        else:
            return
        raise IllegalStateChangeError(
            f"job {key} would not run before {cure}: {what}; pass even_if_paused=True to let the fire wait for that"
        )
