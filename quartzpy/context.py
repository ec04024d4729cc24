"""The context of an execution: what a job learns and may ask for while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from copy import copy
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from quartzpy.cancellation import Cancellation
from quartzpy.errors import InvalidValueError, JobCancelledError, LeaseLostError
from quartzpy.job_data import (
    ORIGINAL_FIRE_TIME,
    ORIGINAL_GROUP,
    ORIGINAL_NAME,
    ORIGINAL_SCHEDULED_FIRE_TIME,
    RETRIED_GROUP,
    RETRIED_NAME,
    RETRIED_SCHEDULED_FIRE_TIME,
    JobDataMap,
    decode,
)
from quartzpy.keys import MANUAL_TRIGGERS, RECOVERING_JOBS, RETRYING_JOBS, JobKey, TriggerKey
from quartzpy.typed_data import build

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from quartzpy.calendars.calendar import Calendar
    from quartzpy.job import Job, JobDetail
    from quartzpy.store.protocol import FiredTrigger
    from quartzpy.triggers.trigger import Trigger

_EPOCH = datetime.fromtimestamp(0, UTC)
_FIRST_RECOVERED = (ORIGINAL_GROUP, ORIGINAL_NAME, ORIGINAL_SCHEDULED_FIRE_TIME)
_FIRST_RETRIED = (RETRIED_GROUP, RETRIED_NAME, RETRIED_SCHEDULED_FIRE_TIME)


class JobExecutionContext:
    """One execution: its trigger, times, data, and what it asks for.

    `fire_time` is when the fire was committed, `scheduled_fire_time` the instant of the schedule. `fire_id`
    is a number that rises from one execution of a job to the next: a resource outside can refuse a smaller one.
    """

    def __init__(
        self,
        fired: FiredTrigger,
        *,
        scheduler: Any,
        job_instance: Job,
        data_type: type[Any] | None,
        is_lease_lost: Callable[[], bool],
        cancelled: Cancellation,
        transaction: Callable[[], AbstractContextManager[Connection]],
        fenced_transaction: Callable[[], AbstractContextManager[Connection]],
        instance_id: str = "",
        refire_count: int = 0,
    ) -> None:
        self._transaction = transaction
        self._fenced_transaction = fenced_transaction
        self._fired = fired
        self._is_lease_lost = is_lease_lost
        self._cancelled = cancelled
        self._data_type = data_type
        self._scratch: dict[Any, Any] = {}
        self.scheduler = scheduler
        self.job_instance = job_instance
        self.instance_id = instance_id
        """The id of the node that runs this execution, as `Scheduler.nodes()` and the history show it."""
        self.refire_count = refire_count
        """The number of times that this execution was fired again at once because it raised
        `JobExecutionError(refire_immediately=True)`. Each refire gets the same context: what the job changed in
        `job_detail_data`, in `job_data` or by `put` is still there."""
        self.result: Any = None
        """The value that `execute` returned. The job may also set it."""
        self.job_run_time: timedelta | None = None
        """The time that the job ran (since the last refire, if there was one). None while it runs."""

    def __repr__(self) -> str:
        return f"<JobExecutionContext of job {self.job_key}, fired by {self.trigger_key}, fire_id {self.fire_id}>"

    @cached_property
    def job_detail_data(self) -> JobDataMap:
        """The job's own data: with `@persist_job_data_after_execution` its changes are stored."""
        return JobDataMap(decode(self._fired.job_data))

    @cached_property
    def job_data(self) -> dict[str, Any]:
        """The job's data with the trigger's over it. Changes to this merged view are not stored."""
        return {**self.job_detail_data, **decode(self._fired.trigger_data)}

    @cached_property
    def data(self) -> Any:
        """The job's data as a value of its `data_type`, or `job_data` itself where the job has no `data_type`.

        It is built when first asked for. Changes to it are not stored.

        Raises:
            InvalidJobDataError: what is stored makes no such value.
        """
        if self._data_type is None:
            return self.job_data
        return build(self._data_type, self.job_data, f"job {self.job_key}, trigger {self.trigger_key}")

    def prepare_refire(self) -> None:
        """Count a refire, and bring the changes that the job made to its own data into the merged view."""
        self.refire_count += 1
        self.job_run_time = None
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
        """The calendar that the trigger names, as it was at the fire; None for none."""
        return self._fired.calendar

    @property
    def fire_time(self) -> datetime:
        """The instant at which the trigger fired, by the database's clock."""
        return self._fired.fire_time

    @property
    def scheduled_fire_time(self) -> datetime:
        """The instant for which the trigger was scheduled; the fire itself may be later."""
        return self._fired.scheduled_fire_time

    @property
    def previous_fire_time(self) -> datetime | None:
        """The trigger's scheduled fire time before this one; None for the first."""
        return self._fired.previous_fire_time

    @property
    def next_fire_time(self) -> datetime | None:
        """The trigger's next scheduled fire time after this one; None if it has none."""
        return self._fired.next_fire_time

    @property
    def fire_id(self) -> int:
        """Identifies this execution in the cluster, for ever. It rises from fire to fire: a fencing token, by which
        other
        resources can refuse an execution that was replaced.
        """
        return self._fired.fire_id

    @property
    def recovering(self) -> bool:
        """True if this repeats an execution whose node died."""
        return self._fired.trigger_group == RECOVERING_JOBS and ORIGINAL_NAME in self.job_data

    @property
    def coalesced_fire_times(self) -> tuple[datetime, ...]:
        """The fire times that this execution stands for: those that were missed, after a misfire, else its own alone.

        At most 1,000 are remembered.
        """
        return self._fired.coalesced_fire_times or (self.scheduled_fire_time,)

    @property
    def attempt(self) -> int:
        """The number of this attempt: 1, or more where the retry policy runs a job again after it failed."""
        return self._fired.attempt

    @property
    def retried_trigger_key(self) -> TriggerKey | None:
        """The trigger whose execution failed and is tried again; None in a first attempt."""
        if RETRIED_NAME not in self.job_data:
            return None
        return TriggerKey(str(self.job_data[RETRIED_NAME]), str(self.job_data[RETRIED_GROUP]))

    def _original(self, key: str) -> str:
        if not self.recovering:
            raise InvalidValueError("this execution is not a recovery; ask context.recovering first")
        return str(self.job_data[key])

    @property
    def recovering_trigger_key(self) -> TriggerKey:
        """The trigger whose execution is repeated. Raises InvalidValueError where this is no recovery."""
        return TriggerKey(self._original(ORIGINAL_NAME), self._original(ORIGINAL_GROUP))

    @property
    def original_fire_time(self) -> datetime:
        """When the repeated execution was fired. Raises InvalidValueError where this is no recovery."""
        return _instant(self._original(ORIGINAL_FIRE_TIME))

    @property
    def original_scheduled_fire_time(self) -> datetime:
        """The instant of the repeated execution. Raises InvalidValueError where this is no recovery."""
        return _instant(self._original(ORIGINAL_SCHEDULED_FIRE_TIME))

    @property
    def nominal_fire_time(self) -> datetime:
        """The instant of the schedule that this execution is about.

        That is `scheduled_fire_time`; of a retry, a recovery or a repetition by `run_again` that of the execution which
        was to be first, in whole milliseconds.
        """
        return self._nominal[1]

    @property
    def execution_key(self) -> str:
        """A text that is the same for all attempts at one fire: its retries, recoveries and repetitions.

        Two different fires never have the same. A job that calls others gives it to them, so that they do once what
        they are asked to do twice (an idempotency key).
        """
        key, instant = self._nominal
        return f"{key}@{instant.isoformat(timespec='milliseconds')}"

    @cached_property
    def _nominal(self) -> tuple[TriggerKey, datetime]:
        key, instant = self.trigger_key, self.scheduled_fire_time
        data = self.job_data
        # What was recovered may be retried, and the other way round; each kind names its own first only once.
        repeating = {RECOVERING_JOBS: _FIRST_RECOVERED, RETRYING_JOBS: _FIRST_RETRIED, MANUAL_TRIGGERS: _FIRST_RETRIED}
        while (names := repeating.pop(key.group, None)) and names[0] in data:
            group, name, at = (str(data[one]) for one in names)
            key, instant = TriggerKey(name, group), _instant(at)
        return key, instant

    @property
    def cancelled(self) -> bool:
        """True if somebody asked this execution to stop. A job that runs for long checks it now and then."""
        return self._cancelled.notice()

    def wait_cancelled(self, timeout: float) -> bool:
        """Sleep for up to `timeout` seconds, less where the execution is asked to stop; whether it is."""
        self._cancelled.wait(timeout)
        return self._cancelled.notice()

    def raise_if_cancelled(self) -> None:
        """Raise where the execution should end now.

        Raises:
            LeaseLostError: this node was declared dead; what the job does no longer counts.
            JobCancelledError: somebody asked it to stop.
        """
        if self.lease_lost:
            raise LeaseLostError("this node was declared dead by the cluster; the execution no longer counts")
        if self.cancelled:
            raise JobCancelledError("this execution was asked to stop")

    @property
    def lease_lost(self) -> bool:
        """True if another node may run this job by now: this one was declared dead, or its lease ran out by its own
        clock, as where it is cut off from the database. In the second case nothing is decided: it is false again once
        a check-in is answered before anybody else took over.
        """
        return self._is_lease_lost()

    def transaction(self) -> AbstractContextManager[Connection]:
        """A transaction on the scheduler's database, as a SQLAlchemy connection: exactly once.

        When the block ends, what was done in it is committed together with this execution's success; where it
        raises, nothing is. It is the job's last act: an execution has one, and what it does afterwards is no longer
        recorded. Where this node was declared dead meanwhile, all is rolled back.

        Raises:
            InvalidValueError: this execution has committed one already, or the store is memory://.
            LeaseLostError: at the end of the block; nothing was committed.
        """
        return self._transaction()

    def fenced_transaction(self) -> AbstractContextManager[Connection]:
        """A transaction on the scheduler's database, as a SQLAlchemy connection: any number in one execution.

        When the block ends, what was done in it is committed if the execution still counts: if this node was declared
        dead meanwhile, all is rolled back. Where the block raises, nothing is committed. Unlike `transaction` it does
        not end the execution; what runs again (a retry, a recovery) has to find out what was committed before.

        Raises:
            InvalidValueError: the execution was recorded by `transaction` already, or the store is memory://.
            LeaseLostError: at the end of the block; nothing of it was committed.
        """
        return self._fenced_transaction()

    @property
    def log_attributes(self) -> dict[str, str | int]:
        """The attributes that log records about this execution have: `job`, `trigger`, `fire_id` and `node`.

        A job gives them to its own records: `logger.info("...", extra=context.log_attributes)`.
        """
        return {
            "job": str(self.job_key),
            "trigger": str(self.trigger_key),
            "fire_id": self.fire_id,
            "node": self.instance_id,
        }

    def put(self, key: Any, value: Any) -> None:
        """Keep something for the length of the execution, in memory."""
        self._scratch[key] = value

    def get(self, key: Any, default: Any = None) -> Any:
        """Return what `put` kept under a key in this execution, or `default`."""
        return self._scratch.get(key, default)


def repeats(trigger_key: TriggerKey, scheduled_fire_time: datetime, data: Mapping[str, Any]) -> dict[str, Any]:
    """The data of a trigger that repeats an execution which had `data`: it names the first of those repeated."""
    values = (trigger_key.group, trigger_key.name, milliseconds(scheduled_fire_time))
    return {**dict(zip(_FIRST_RETRIED, values, strict=True)), **data}


def milliseconds(instant: datetime) -> str:
    """An instant as Quartz writes it into the data of a trigger that repeats another."""
    return str((instant - _EPOCH) // timedelta(milliseconds=1))


def _instant(milliseconds: str) -> datetime:
    return _EPOCH + timedelta(milliseconds=int(milliseconds))
