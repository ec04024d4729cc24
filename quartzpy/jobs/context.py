"""The execution context, which a job is called with: the facts of its fire, and what the job can do while it runs.

Here are also what the context is made of (a request to stop, the progress that a job reports), and the middleware that
surrounds each call of a job.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, overload

from quartzpy.errors import InvalidValueError, JobCancelledError, JobSnoozedError, LeaseLostError
from quartzpy.instants import Span, as_instant, as_span
from quartzpy.job_data import JobDataMap, decode
from quartzpy.jobs.continuation import Predecessor
from quartzpy.jobs.internal_entries import (
    NominalFire,
    RecoveredExecution,
    joined_of,
    nominal_fire,
    predecessor_of,
    recovered_by,
    retried_trigger_of,
)
from quartzpy.jobs.job_transaction import JobTransactionBlock
from quartzpy.jobs.join import Joined
from quartzpy.jobs.typed_data import build
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.logs.captured import LogCapture, RunLogger
from quartzpy.name_hints import CONTEXT_NAMES, NameHints
from quartzpy.texts import check_description, quoted

if TYPE_CHECKING:
    from quartzpy.calendars.calendar import Calendar
    from quartzpy.connection_types import JobConnection
    from quartzpy.jobs.fired_trigger import FiredTrigger
    from quartzpy.jobs.job import Job, JobDetail
    from quartzpy.triggers.trigger import Trigger


class Cancellation:
    """A flag like `threading.Event`, whose event is created on the first wait, because most executions never wait."""

    __slots__ = ("_event", "is_requested", "noticed")
    _making = threading.Lock()

    def __init__(self) -> None:
        self.is_requested = False
        self._event: threading.Event | None = None
        self.noticed = False
        """True once the execution itself has seen the request."""

    def set(self) -> None:
        with self._making:
            self.is_requested = True
            if self._event is not None:
                self._event.set()

    def notice(self) -> bool:
        """Return whether the execution should stop, and record that it has seen the request."""
        self.noticed = self.noticed or self.is_requested
        return self.is_requested

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the request for at most `timeout` seconds. Return whether it was made."""
        with self._making:
            if self.is_requested:
                return True
            if self._event is None:
                self._event = threading.Event()
        return self._event.wait(None if timeout is None else min(timeout, threading.TIMEOUT_MAX))


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of an execution: the fraction of the work that is done, from 0 to 1, and a message."""

    fraction: float
    message: str | None = None

    @classmethod
    def of(cls, done: object, total: object = None, message: object = None) -> Progress:
        """Return the progress for the arguments of `JobExecutionContext.progress`.

        Raises:
            InvalidValueError: as described there.
        """
        if isinstance(total, str):
            if message is not None:
                raise InvalidValueError(f"progress: the total must be a number (got {quoted(total)})")
            total, message = None, total
        check_description(message, InvalidValueError, "message")
        written = None if message is None else str(message)
        if total is None:
            return cls(_fraction(done), written)
        amount, whole = _number(done, "the amount done"), _number(total, "the total")
        # The total is often an estimate, which the work may exceed.
        return cls(1.0 if amount >= whole else amount / whole, written)


def _fraction(done: object) -> float:
    fraction = _number(done, "the fraction")
    if fraction > 1:
        raise InvalidValueError(
            f"progress: the fraction must be from 0 to 1 (got {quoted(done)}); for {quoted(done)} of a total, call"
            " context.progress(done, total)"
        )
    return fraction


def _number(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidValueError(f"progress: {what} must be a number (got {quoted(value)})")
    if not 0 <= value < float("inf"):
        raise InvalidValueError(f"progress: {what} must be a finite number that is not negative (got {quoted(value)})")
    try:
        return float(value)
    except OverflowError:
        raise InvalidValueError(f"progress: {what} is too large") from None


class RunningExecution(Protocol):
    """The execution behind a context."""

    @property
    def cancelled(self) -> Cancellation: ...

    @property
    def lease_lost(self) -> bool: ...

    @property
    def log_capture(self) -> LogCapture | None: ...

    def transaction(self) -> AbstractContextManager[JobConnection]: ...

    def fenced_transaction(self) -> AbstractContextManager[JobConnection]: ...

    def report_progress(self, progress: Progress) -> None: ...


class JobExecutionContext(NameHints):
    """The context of one execution, passed to `Job.execute`: its trigger, times, data and operations.

    `scheduled_fire_time` is the instant of the schedule; `fire_time` is the instant at which the fire was committed.
    `fire_id` identifies the execution and is greater than that of every earlier execution of the job, so that an
    external resource can use it as a fencing token and reject a smaller one.
    """

    _quartz_sections = ("JobExecutionContext",)

    _name_hints = CONTEXT_NAMES

    def __init__(
        self,
        fired: FiredTrigger,
        execution: RunningExecution,
        *,
        scheduler: Any,
        job_instance: Job,
        data_type: type[Any] | None,
        instance_id: str = "",
        refire_count: int = 0,
    ) -> None:
        self._fired = fired
        self._execution = execution
        self._data_type = data_type
        self._values: dict[Any, Any] | None = None
        self.scheduler = scheduler
        self.job_instance = job_instance
        self.instance_id = instance_id
        """The instance id of the node that runs this execution, as in `Scheduler.nodes()` and the history."""
        self.refire_count = refire_count
        """The number of immediate refires of this execution: the job raised
        `JobExecutionError(refire_immediately=True)` that many times. Every refire gets this same context, so the job
        still sees its changes to `job_detail_data` and `job_data` and the values that it stored with `put`."""
        self.result: Any = None
        """The result of the execution. It is the return value of `execute`; the job may also set it."""
        self.job_run_time: timedelta | None = None
        """The duration of the run, since the last refire if there was one. None while the job runs."""

    def __repr__(self) -> str:
        return f"<JobExecutionContext of job {self.job_key}, fired by {self.trigger_key}, fire_id {self.fire_id}>"

    # --- the facts of its fire

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

    @cached_property
    def async_scheduler(self) -> Any:
        """The `AsyncScheduler` of this node, for `async def` jobs: `await context.async_scheduler.jobs().count()`.

        It is that of the program, if the node belongs to one, and otherwise an awaitable form of `scheduler`.
        """
        return self.scheduler._as_async()

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

    @property
    def joined(self) -> Joined | None:
        """The executions that this one runs after, as a join or the end of a batch; None if triggered otherwise."""
        return joined_of(self.job_data)

    @cached_property
    def _recovered(self) -> RecoveredExecution | None:
        return recovered_by(self.trigger_key, self.job_data)

    def _lost(self) -> RecoveredExecution:
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
        execution, and one that follows others, as a continuation or by `after`, has that of these.
        """
        return self._nominal.instant

    @property
    def execution_key(self) -> str:
        """An idempotency key: the same text in the retries, recoveries and repetitions of one fire.

        No two fires share a key. A job passes it to the services that it calls, so that they ignore a repeated request.
        """
        return self._nominal.execution_key

    @cached_property
    def _nominal(self) -> NominalFire:
        return nominal_fire(self.trigger_key, self.scheduled_fire_time, self.job_data)

    # --- what the job can do

    @property
    def cancelled(self) -> bool:
        """True once this execution was asked to stop. A job that runs for long checks it from time to time."""
        return self._execution.cancelled.notice()

    def wait_cancelled(self, timeout: float) -> bool:
        """Sleep for `timeout` seconds, or until the execution is asked to stop. Return True if it was asked."""
        self._execution.cancelled.wait(timeout)
        return self._execution.cancelled.notice()

    def raise_if_cancelled(self) -> None:
        """Raise an error if the execution should end now.

        Raises:
            LeaseLostError: `lease_lost` is true; another node may run the job.
            JobCancelledError: the execution was asked to stop.
        """
        if self.lease_lost:
            raise LeaseLostError("this node was declared dead by the cluster; the execution no longer counts")
        if self.cancelled:
            raise JobCancelledError("this execution was asked to stop")

    def snooze(self, delay: Span, reason: str = "") -> NoReturn:
        """End this execution now, and run it again after `delay`, because the job has to wait for something.

        The execution is recorded as SNOOZED, with the reason as its error. That is neither a success nor a failure:
        the next run has the same attempt number, and no attempt of a retry policy is used up. Changes that the job made
        to its own data are stored as after a success. The next run has the same data, `nominal_fire_time` and
        `execution_key`. It takes place even if the trigger is paused or deleted in the meantime, but not if the job is.

        Raises:
            InvalidValueError: `delay` is not a span of time, or is negative.
            JobSnoozedError: in all other cases, to end the job. If the job catches it, the job continues.
        """
        raise JobSnoozedError(_reason(reason), delay=as_span(delay, "delay", InvalidValueError))

    def snooze_until(self, instant: datetime, reason: str = "") -> NoReturn:
        """End this execution now, and run it again at `instant`, or immediately if that is in the past. See `snooze`.

        Raises:
            InvalidValueError: `instant` is not a datetime with a time zone.
            JobSnoozedError: in all other cases, to end the job. If the job catches it, the job continues.
        """
        raise JobSnoozedError(_reason(reason), until=as_instant(instant, "instant", InvalidValueError))

    @overload
    def progress(self, done: float, message: str | None = None, /) -> None: ...

    @overload
    def progress(self, done: float, total: float, message: str | None = None) -> None: ...

    def progress(self, done: float, total: float | str | None = None, message: str | None = None) -> None:
        """Report the progress of this execution, as a fraction or as an amount of a total, with an optional message.

        `context.progress(0.4, "reading")` and `context.progress(4, 10, "reading")` both report 40 %. The records of
        `scheduler.running()` show the latest report, on all nodes, as `progress` and `progress_message`. The call only
        keeps the values in memory; the node stores them in the background, at most once a second, so that a job may
        report as often as it likes. An amount above its total counts as the total, and a total of 0 as done.

        Raises:
            InvalidValueError: the fraction is not from 0 to 1, an amount or a total is negative or not a number, or the
                message is not a text of at most 1,000 characters.
        """
        self._execution.report_progress(Progress.of(done, total, message))

    @property
    def lease_lost(self) -> bool:
        """True if another node may be running this job by now.

        Either the cluster has declared this node dead, or the lease has expired by this node's own clock, for example
        because it cannot reach the database. An expired lease is not final: the value is False again after a check-in
        succeeds before another node has taken over.
        """
        return self._execution.lease_lost

    def transaction(self) -> JobTransactionBlock:
        """Open a transaction on the scheduler's database, for work that takes effect exactly once.

        Use it as a context manager; it gives a SQLAlchemy connection, and by `async with` one whose methods are
        awaited. The end of the block commits the work together
        with the success of this execution. If the block raises, or if the cluster has declared this node dead
        meanwhile, everything is rolled back. An execution can commit only one such transaction. It should be the last
        thing that the job does, because nothing after it changes the recorded outcome.

        Raises:
            InvalidValueError: this execution has already committed one, or the store is memory://.
            LeaseLostError: raised at the end of the block; nothing was committed.
        """
        return JobTransactionBlock(self._execution.transaction())

    def fenced_transaction(self) -> JobTransactionBlock:
        """Open a fenced transaction on the scheduler's database. An execution may open any number of them.

        Use it as a context manager; it gives a SQLAlchemy connection, and by `async with` one whose methods are
        awaited. The end of the block commits the work if the
        execution is still valid. If the block raises, or if the cluster has declared this node dead meanwhile,
        everything is rolled back. Unlike `transaction`, it does not complete the execution: a retry or a recovery has
        to find out what was committed before.

        Raises:
            InvalidValueError: `transaction` has already recorded the execution, or the store is memory://.
            LeaseLostError: raised at the end of the block; nothing was committed.
        """
        return JobTransactionBlock(self._execution.fenced_transaction())

    @cached_property
    def log(self) -> RunLogger:
        """A logger for this execution: `context.log.info("sent %d", count)`.

        It logs under the name of the module that defines the job, and its records have the attributes
        `log_attributes`. If the job captures logs, its records are captured from every thread, even if the level of the
        logger drops them.
        """
        return RunLogger(
            logging.getLogger(type(self.job_instance).__module__), self.log_attributes, self._execution.log_capture
        )

    @property
    def log_attributes(self) -> dict[str, str | int]:
        """The attributes of quartzpy's log records about this execution: `job`, `trigger`, `fire_id` and `node`.

        `context.log` adds them to its records. With another logger, a job passes them itself:
        `logger.info("...", extra=context.log_attributes)`.
        """
        return {
            "job": str(self.job_key),
            "trigger": str(self.trigger_key),
            "fire_id": self.fire_id,
            "node": self.instance_id,
        }

    def put(self, key: Any, value: Any) -> None:
        """Keep a value in memory until the execution ends."""
        if self._values is None:
            self._values = {}
        self._values[key] = value

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value that `put` stored under `key` in this execution, or `default`."""
        return default if self._values is None else self._values.get(key, default)

    def prepare_refire(self) -> None:
        """Count a refire, and merge the job's changes to its own data into `job_data`."""
        self.refire_count += 1
        self.job_run_time = None
        self._merge_own_changes()


def _reason(reason: str) -> str:
    check_description(reason, InvalidValueError, "reason")
    return reason


Middleware = Callable[[JobExecutionContext], AbstractContextManager[object]]
"""A function that returns the context manager in which `execute` runs, on the same thread or in the same coroutine.

An exception on entry fails the execution without running the job. On exit the context manager receives the job's
exception. It may replace it with another one, or suppress it; in that case the execution has succeeded.
"""


def surrounding(middleware: Sequence[Middleware], context: JobExecutionContext) -> ExitStack:
    """Enter all middleware, the first outermost. If one raises, those before it are exited."""
    with ExitStack() as entering:
        for enter in middleware:
            entering.enter_context(enter(context))
        return entering.pop_all()
