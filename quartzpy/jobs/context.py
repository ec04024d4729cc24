"""The execution context: what a job can do while it runs, in addition to the facts of its fire."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, overload

from quartzpy.errors import InvalidValueError, JobCancelledError, JobSnoozedError, LeaseLostError
from quartzpy.instants import Span, as_instant, as_span
from quartzpy.jobs.fire_facts import FireFacts
from quartzpy.jobs.progress import Progress
from quartzpy.jobs.running_execution import RunningExecution
from quartzpy.logs.run_logger import RunLogger
from quartzpy.name_hints import CONTEXT_NAMES, NameHints
from quartzpy.texts import check_description

if TYPE_CHECKING:
    from quartzpy.connection_types import JobConnection
    from quartzpy.jobs.fired_trigger import FiredTrigger
    from quartzpy.jobs.job import Job


class JobExecutionContext(NameHints, FireFacts):
    """The context of one execution, passed to `Job.execute`: its trigger, times, data and operations.

    `scheduled_fire_time` is the instant of the schedule; `fire_time` is the instant at which the fire was committed.
    `fire_id` identifies the execution and is greater than that of every earlier execution of the job, so that an
    external resource can use it as a fencing token and reject a smaller one.
    """

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

    def transaction(self) -> AbstractContextManager[JobConnection]:
        """Open a transaction on the scheduler's database, for work that takes effect exactly once.

        Use it as a context manager; it gives a SQLAlchemy connection. The end of the block commits the work together
        with the success of this execution. If the block raises, or if the cluster has declared this node dead
        meanwhile, everything is rolled back. An execution can commit only one such transaction. It should be the last
        thing that the job does, because nothing after it changes the recorded outcome.

        Raises:
            InvalidValueError: this execution has already committed one, or the store is memory://.
            LeaseLostError: raised at the end of the block; nothing was committed.
        """
        return self._execution.transaction()

    def fenced_transaction(self) -> AbstractContextManager[JobConnection]:
        """Open a fenced transaction on the scheduler's database. An execution may open any number of them.

        Use it as a context manager; it gives a SQLAlchemy connection. The end of the block commits the work if the
        execution is still valid. If the block raises, or if the cluster has declared this node dead meanwhile,
        everything is rolled back. Unlike `transaction`, it does not complete the execution: a retry or a recovery has
        to find out what was committed before.

        Raises:
            InvalidValueError: `transaction` has already recorded the execution, or the store is memory://.
            LeaseLostError: raised at the end of the block; nothing was committed.
        """
        return self._execution.fenced_transaction()

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
