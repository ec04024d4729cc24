"""The facts of a fire that its job can read: trigger, job, times and data, and the execution that it repeats."""

from __future__ import annotations

from copy import copy
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from quartzpy.errors import InvalidValueError
from quartzpy.job_data import JobDataMap, decode
from quartzpy.jobs.continuation import Predecessor
from quartzpy.jobs.repetition import LostExecution, nominal_fire, predecessor_of, recovered_by, retried_trigger_of
from quartzpy.jobs.typed_data import build
from quartzpy.keys import JobKey, TriggerKey

if TYPE_CHECKING:
    from quartzpy.calendars.calendar import Calendar
    from quartzpy.jobs.fired_trigger import FiredTrigger
    from quartzpy.jobs.job import JobDetail
    from quartzpy.triggers.trigger import Trigger


class FireFacts:
    """The part of `JobExecutionContext` that is known when the trigger has fired. The job can change only its own data.

    It has no constructor of its own, because that would be one more call for each execution.
    """

    _fired: FiredTrigger
    _data_type: type[Any] | None

    @cached_property
    def job_detail_data(self) -> JobDataMap:
        """The job's own data. With `@persist_job_data_after_execution`, changes to it are stored after the run."""
        return JobDataMap(decode(self._fired.job_data))

    @cached_property
    def job_data(self) -> dict[str, Any]:
        """The job's data merged with the trigger's; the trigger's values win. Changes to it are not stored."""
        return {**self.job_detail_data, **decode(self._fired.trigger_data)}

    @cached_property
    def data(self) -> Any:
        """The merged data as an instance of the job's `data_type`, or `job_data` if the job has no `data_type`.

        It is built on first access. Changes to it are not stored.

        Raises:
            InvalidJobDataError: the stored data does not fit the `data_type`.
        """
        if self._data_type is None:
            return self.job_data
        return build(self._data_type, self.job_data, f"job {self.job_key}, trigger {self.trigger_key}")

    def _merge_own_changes(self) -> None:
        """Merge the changes that the job made to its own data into `job_data`, for a refire."""
        if "job_data" not in self.__dict__ or "job_detail_data" not in self.__dict__:
            return
        before, own = decode(self._fired.job_data), self.job_detail_data
        covered = decode(self._fired.trigger_data)
        changed = {name: value for name, value in own.items() if name not in before or before[name] != value}
        changes = {name: value for name, value in changed.items() if name not in covered}
        removed = before.keys() - own.keys() - covered.keys()
        if changes or removed:
            self.job_data.update(changes)
            for name in removed:
                self.job_data.pop(name, None)
            self.__dict__.pop("data", None)

    @property
    def trigger(self) -> Trigger:
        """The trigger that fired."""
        return self._fired.trigger

    @property
    def trigger_key(self) -> TriggerKey:
        """The key of the trigger that fired."""
        return self._fired.trigger_key

    @cached_property
    def job_detail(self) -> JobDetail:
        """The job as it was stored when the trigger fired. Its `data` is `job_detail_data`."""
        detail = copy(self._fired.job_detail)
        # One object, as in Quartz: a job that changes the data of its detail changes what is stored.
        object.__setattr__(detail, "data", self.job_detail_data)
        return detail

    @property
    def job_key(self) -> JobKey:
        """The key of the job."""
        return self._fired.job_key

    @property
    def calendar(self) -> Calendar | None:
        """The trigger's calendar as it was at the fire. None if the trigger has no calendar."""
        return self._fired.calendar

    @property
    def fire_time(self) -> datetime:
        """The instant at which the trigger fired, by the clock of the database."""
        return self._fired.fire_time

    @property
    def scheduled_fire_time(self) -> datetime:
        """The instant of the schedule for which the trigger fired. The fire itself may be later."""
        return self._fired.scheduled_fire_time

    @property
    def previous_fire_time(self) -> datetime | None:
        """The scheduled fire time before this one. None for the first."""
        return self._fired.previous_fire_time

    @property
    def next_fire_time(self) -> datetime | None:
        """The scheduled fire time after this one. None if the trigger does not fire again."""
        return self._fired.next_fire_time

    @property
    def fire_id(self) -> int:
        """The id of this execution: unique in the cluster, and never used again.

        It increases from fire to fire, so it also serves as a fencing token: an external resource that remembers the
        greatest `fire_id` can reject the writes of an execution that another node has replaced.
        """
        return self._fired.fire_id

    @property
    def recovering(self) -> bool:
        """True if this execution repeats one whose node died."""
        return self._recovered is not None

    @property
    def coalesced_fire_times(self) -> tuple[datetime, ...]:
        """The scheduled fire times that were coalesced into this execution.

        After a misfire these are the missed fire times, at most the first 1,000; otherwise it is
        `scheduled_fire_time` alone.
        """
        return self._fired.coalesced_fire_times or (self.scheduled_fire_time,)

    @property
    def attempt(self) -> int:
        """The number of this attempt. It is 1 at first; each retry by the retry policy adds 1."""
        return self._fired.attempt

    @property
    def retried_trigger_key(self) -> TriggerKey | None:
        """The key of the trigger whose failed execution is retried. None in a first attempt."""
        return retried_trigger_of(self.job_data)

    @property
    def predecessor(self) -> Predecessor | None:
        """The execution that this one runs after, as a continuation; None where it was triggered otherwise."""
        return predecessor_of(self.job_data)

    @cached_property
    def _recovered(self) -> LostExecution | None:
        return recovered_by(self.trigger_key, self.job_data)

    def _lost(self) -> LostExecution:
        if self._recovered is None:
            raise InvalidValueError("this execution is not a recovery; check context.recovering first")
        return self._recovered

    @property
    def recovering_trigger_key(self) -> TriggerKey:
        """The key of the trigger whose execution is recovered.

        Raises:
            InvalidValueError: this execution is not a recovery.
        """
        return self._lost().trigger_key

    @property
    def original_fire_time(self) -> datetime:
        """The instant at which the recovered execution fired.

        Raises:
            InvalidValueError: this execution is not a recovery.
        """
        return self._lost().fire_time

    @property
    def original_scheduled_fire_time(self) -> datetime:
        """The scheduled fire time of the recovered execution.

        Raises:
            InvalidValueError: this execution is not a recovery.
        """
        return self._lost().scheduled_fire_time

    @property
    def nominal_fire_time(self) -> datetime:
        """The instant of the schedule that this execution processes.

        It is `scheduled_fire_time`. A retry, a recovery and a repetition by `run_again` have that of the original
        execution.
        """
        return self._nominal[1]

    @property
    def execution_key(self) -> str:
        """An idempotency key: the same text in the retries, recoveries and repetitions of one fire.

        No two fires share a key. A job passes it to the services that it calls, so that they ignore a repeated request.
        """
        key, instant = self._nominal
        return f"{key}@{instant.isoformat(timespec='milliseconds')}"

    @cached_property
    def _nominal(self) -> tuple[TriggerKey, datetime]:
        return nominal_fire(self.trigger_key, self.scheduled_fire_time, self.job_data)
