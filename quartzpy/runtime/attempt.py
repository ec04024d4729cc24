"""One execution from its committed fire to its `Completion`. Whatever a job raises ends that execution only."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from quartzpy.context import JobExecutionContext
from quartzpy.errors import (
    InvalidJobDataError,
    InvalidValueError,
    JobCancelledError,
    JobExecutionError,
    JobTimeoutError,
    OutcomeUnknownError,
)
from quartzpy.events import (
    JobExecutionVetoed,
    JobToBeExecuted,
    JobWasExecuted,
    TriggerComplete,
    TriggerFinalized,
    TriggerFired,
    TriggersInError,
)
from quartzpy.job import Job
from quartzpy.job_data import encode_value
from quartzpy.middleware import surrounding
from quartzpy.retry import RetryPolicy
from quartzpy.runtime.execution import Execution
from quartzpy.states import CompletionInstruction, Outcome
from quartzpy.store.protocol import Completion

if TYPE_CHECKING:
    from quartzpy.runtime.job_runner import JobRunner

logger = logging.getLogger(__name__)

MAX_ERROR_LENGTH = 8_192
"""Characters of an error that the history keeps: the end of the traceback says the most."""
MAX_RESULT_BYTES = 8_192
"""So large a result, as JSON, is kept in the history."""
STOPPED = (JobCancelledError, asyncio.CancelledError)
"""What an execution raises that does as it was asked."""


class Attempt:
    """Runs one execution, again for as long as the job asks to be fired again at once."""

    def __init__(self, runner: JobRunner, execution: Execution) -> None:
        self._runner = runner
        self._execution = execution
        self._fired = execution.fired
        self._started_at = runner.store_time.now()
        self._refires = 0
        self._error: BaseException | None = None
        self._is_made = False
        self._vetoed = False
        self._context: JobExecutionContext | None = None
        self._committed: Completion | None = None
        self.at_end: Callable[[], None] | None = None

    def instantiate(self) -> Job | None:
        self._is_made = False
        try:
            job = self._runner.new_instance(self._execution)
        except BaseException as error:
            self._error = error
            return None
        self._is_made = True
        return job

    def run(self, job: Job | None) -> None:
        again = job is not None
        while again:
            context = self._begin(job)
            if context is None or job is None:
                break
            try:
                with surrounding(self._runner.middleware, context):
                    self._returned(context, job.execute(context))
            except BaseException as error:
                self._error = error
            again = self._goes_again(context)
            job = self.instantiate() if again else None
        self._finish()

    async def run_async(self, job: Job | None) -> None:
        again = True
        while again:
            context = self._begin(job)
            if context is None or job is None:
                break
            try:
                with surrounding(self._runner.middleware, context):
                    self._returned(context, await job.execute(context))
            except BaseException as error:
                # Also what would stop the loop: SystemExit and KeyboardInterrupt are this job's affair.
                self._error = error
            again = self._goes_again(context)
            job = self.instantiate() if again else None
        self._finish()

    def _begin(self, job: Job | None) -> JobExecutionContext | None:
        if job is None:
            return None
        self._error = None
        try:
            self._context = self._runner.context_for(
                self._execution, job, self._refires, self._transaction, self._fenced_transaction
            )
        except BaseException as error:
            self._error = error
            return None
        listeners = self._runner.listeners
        if listeners:
            if self._refires == 0:
                listeners.emit(TriggerFired(self._context))
                if listeners.is_vetoed(self._context):
                    self._vetoed = True
                    listeners.emit(JobExecutionVetoed(self._context))
                    return None
            listeners.emit(JobToBeExecuted(self._context))
        return self._context

    @staticmethod
    def _returned(context: JobExecutionContext, result: Any) -> None:
        if result is not None:
            context.result = result

    def _goes_again(self, context: JobExecutionContext) -> bool:
        wanted = isinstance(self._error, JobExecutionError) and self._error.refire_immediately
        allowed = not (self._execution.cancelled.is_set() or self._execution.lease_lost or self._committed)
        if wanted and allowed:
            if self._runner.listeners:
                self._runner.listeners.emit(JobWasExecuted(context, Outcome.FAILED, self._error))
            self._refires += 1
            return True
        return False

    def _finish(self) -> None:
        if self.at_end is not None:
            self.at_end()
        if self._committed is not None:
            if self._error is not None:
                logger.error("job %s failed after its transaction: %s", self._fired.job_key, describe(self._error))
            self._finished(self._committed)
            return
        completion = self._completion()
        try:
            self._keep_data(completion)
        except InvalidJobDataError as error:
            self._error = self._error or error
        if self._context is not None:
            self._context.job_run_time = completion.ended_at - completion.started_at
        if self._execution.timed_out:
            self._error = self._timeout(self._error)
        if self._vetoed:
            completion.outcome = Outcome.SKIPPED
        elif self._stopped_as_asked():
            completion.outcome = Outcome.CANCELLED
        elif self._error is not None:
            self._fail(completion, self._error)
        self._finished(completion)

    def _finished(self, completion: Completion) -> None:
        listeners = self._runner.listeners
        if listeners and self._error and completion.instruction is CompletionInstruction.SET_ALL_JOB_TRIGGERS_ERROR:
            listeners.emit(TriggersInError(self._fired.job_key, self._error))
        if listeners and self._context is not None:
            if not self._vetoed:
                told = JobWasExecuted(self._context, completion.outcome, self._error, completion.retry_after)
                listeners.emit(told)
            listeners.emit(TriggerComplete(self._context))
            if completion.ends_its_trigger or completion.instruction is CompletionInstruction.SET_TRIGGER_COMPLETE:
                listeners.emit(TriggerFinalized(self._fired.trigger_key))
        self._runner.finish(self._execution, completion)

    def _completion(self) -> Completion:
        ended_at = max(self._runner.store_time.now(), self._started_at)
        return Completion(self._fired, self._started_at, ended_at, Outcome.SUCCEEDED, result=self._result())

    def _result(self) -> str | None:
        """What the history keeps of the job's result: no execution fails for one that cannot be stored."""
        result = None if self._context is None else self._context.result
        if result is None:
            return None
        try:
            return encode_value(result, "result", max_bytes=MAX_RESULT_BYTES)
        except InvalidJobDataError as error:
            logger.debug("job %s: the history does not keep its result: %s", self._fired.job_key, error)
            return None

    def _keep_data(self, completion: Completion) -> None:
        """Add what is to be stored of the job's data. Raises InvalidJobDataError: it cannot be."""
        if self._fired.persists_data and self._context is not None:
            limit = self._runner.max_job_data_bytes
            completion.job_data = self._context.job_detail_data.encode_if_changed(max_bytes=limit)

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """See `JobExecutionContext.transaction`."""
        self._refuse_if_recorded("transaction")
        work = self._runner.store.begin_work()
        try:
            yield work.connection
            completion = self._completion()
            self._keep_data(completion)
            self._execution.is_recording = True
            outcome = work.complete(self._execution.epoch.node, completion)
        except BaseException as error:
            # Unknown whether it was recorded: then nobody may say that its row is gone.
            self._execution.is_recording = isinstance(error, OutcomeUnknownError)
            raise
        finally:
            work.close()
        completion.is_recorded = True
        self._committed = completion
        if outcome.earliest_unblocked is not None:
            self._runner.unblocked(outcome.earliest_unblocked)

    @contextmanager
    def _fenced_transaction(self) -> Iterator[Any]:
        """See `JobExecutionContext.fenced_transaction`."""
        self._refuse_if_recorded("fenced_transaction")
        work = self._runner.store.begin_work()
        try:
            yield work.connection
            self._refuse_if_recorded("fenced_transaction")
            work.commit(self._execution.epoch.node, self._fired.fence)
        finally:
            work.close()

    def _refuse_if_recorded(self, what: str) -> None:
        if self._committed is not None:
            raise InvalidValueError(f"{what}: this execution has committed its transaction already, and is recorded")

    def _stopped_as_asked(self) -> bool:
        asked = self._execution.cancelled
        if self._execution.timed_out or not asked.is_set():
            return False
        return asked.noticed if self._error is None else isinstance(self._error, STOPPED)

    def _timeout(self, error: BaseException | None) -> JobTimeoutError:
        timed_out = JobTimeoutError(f"took longer than its timeout of {self._fired.timeout}")
        timed_out.__cause__ = error
        return timed_out

    def _fail(self, completion: Completion, error: BaseException) -> None:
        fired = self._fired
        completion.outcome = Outcome.FAILED
        completion.error = describe(error)
        completion.instruction = self._instruction(error)
        if fired.retry is not None and completion.instruction is CompletionInstruction.NOOP:
            wrapped = error.__cause__ if isinstance(error, JobExecutionError) else None
            completion.retry_after = policy_of(fired.retry).delay_after(fired.attempt, wrapped or error)
        logger.error(
            "job %s, fired by %s, failed%s: %s",
            fired.job_key,
            fired.trigger_key,
            "" if completion.retry_after is None else f" (runs again in {completion.retry_after})",
            completion.error,
        )

    def _instruction(self, error: BaseException) -> CompletionInstruction:
        if not self._is_made:
            # As Quartz does: somebody mends the class, and resets the triggers.
            return CompletionInstruction.SET_ALL_JOB_TRIGGERS_ERROR
        if isinstance(error, JobExecutionError):
            if error.unschedule_all_triggers:
                return CompletionInstruction.SET_ALL_JOB_TRIGGERS_COMPLETE
            if error.unschedule_firing_trigger:
                return CompletionInstruction.SET_TRIGGER_COMPLETE
        return CompletionInstruction.NOOP


@lru_cache(maxsize=256)
def policy_of(text: str) -> RetryPolicy:
    """A stored retry policy."""
    return RetryPolicy.from_text(text)


def describe(error: BaseException) -> str:
    """The traceback as text that can be stored, its end where it is long. Never raises."""
    try:
        text = "".join(traceback.format_exception(error))
    except BaseException:
        text = f"{type(error).__name__}: <unprintable>"
    if len(text) > MAX_ERROR_LENGTH:
        text = "[...]" + text[-MAX_ERROR_LENGTH:]
    return text.replace("\0", "\\0").encode(errors="backslashreplace").decode().rstrip()
