"""The end of an execution: the `Completion` that follows from what the job returned or raised."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta

from quartzpy.errors import JobCancelledError, JobExecutionError, JobSnoozedError, JobTimeoutError
from quartzpy.job_data import encode_value
from quartzpy.jobs.retry import policy_from_text
from quartzpy.logs.captured import LogCapture
from quartzpy.node.workers.epoch import Epoch
from quartzpy.node.workers.error_text import MAX_ERROR_LENGTH, can_be_written, describe
from quartzpy.node.workers.execution import Execution, Executor
from quartzpy.node.workers.job_runner import JobRunner
from quartzpy.states import CompletionInstruction, Outcome
from quartzpy.store.protocol import Completion, FiredTrigger
from quartzpy.texts import headline
from quartzpy.triggers.completion import CompletedExecution
from quartzpy.triggers.trigger import any_kind_chooses

logger = logging.getLogger("quartzpy.node.workers.attempt")

MAX_RESULT_BYTES = 8_192
"""The largest result, in bytes of JSON, that is stored in the history."""
STOPPED = (JobCancelledError, asyncio.CancelledError)
"""The errors with which a cancelled execution ends."""


class EndingExecution(Execution):
    """An execution with what is known of its end so far."""

    __slots__ = (
        "_attempt_started_at",
        "_committed",
        "_error",
        "_is_instantiated",
        "_started_at",
        "_vetoed",
        "log_capture",
        "runner",
    )

    def __init__(
        self,
        runner: JobRunner,
        fired: FiredTrigger,
        epoch: Epoch,
        executor: Executor | None = None,
        scheduler: str = "",
    ) -> None:
        super().__init__(fired, epoch, executor, scheduler)
        self.runner = runner
        self._started_at = self._attempt_started_at = fired.fire_time
        self._error: BaseException | None = None
        self._is_instantiated = False
        self._vetoed = False
        self._committed: Completion | None = None
        self.log_capture: LogCapture | None = None

    def _final_completion(self) -> Completion:
        """Return the completion: the outcome, the data to store, and the instruction for the trigger."""
        if self._committed is not None:
            if self._error is not None:
                self._log_failure(self._error, describe(self._error), "failed after it committed its transaction")
            return self._committed
        completion = self._completion()
        try:
            self._store_data(completion)
        except BaseException as error:
            self._error = self._error or error
        if self.context is not None:
            self.context.job_run_time = completion.ended_at - min(self._attempt_started_at, completion.ended_at)
        if self.timed_out:
            self._error = self._timeout(self._error)
        if self._vetoed:
            completion.outcome = Outcome.SKIPPED
        elif self._is_cancelled():
            completion.outcome = Outcome.CANCELLED
        elif isinstance(self._error, JobSnoozedError):
            self._snooze(completion, self._error)
        elif self._error is not None:
            self._fail(completion, self._error)
        if completion.outcome not in (Outcome.SNOOZED, Outcome.FAILED):
            self._ask_trigger(completion)
        return completion

    def _completion(self) -> Completion:
        ended_at = max(self.runner.store_time.now(), self._started_at)
        return Completion(
            self.fired, self._started_at, ended_at, Outcome.SUCCEEDED, result=self._result(), log=self.log_text
        )

    def _result(self) -> str | None:
        """Return the result as JSON for the history. A result that cannot be stored gives None, and no error."""
        result = None if self.context is None else self.context.result
        if result is None:
            return None
        try:
            return encode_value(result, "result", max_bytes=MAX_RESULT_BYTES)
        except BaseException as error:
            logger.debug("the result is not stored in the history: %s", error, extra=self.log_attributes)
            return None

    def _store_data(self, completion: Completion) -> None:
        """Add the job's changed data to the completion. Raises InvalidJobDataError if it cannot be stored."""
        if self.fired.persists_data and self.context is not None:
            limit = self.runner.max_job_data_bytes
            completion.job_data = self.context.job_detail_data.encode_if_changed(max_bytes=limit)

    def _is_cancelled(self) -> bool:
        asked = self.cancelled
        if self.timed_out or not asked.is_set():
            return False
        return asked.noticed if self._error is None else isinstance(self._error, STOPPED)

    def _timeout(self, error: BaseException | None) -> JobTimeoutError:
        timed_out = JobTimeoutError(f"took longer than its timeout of {self.fired.timeout}")
        timed_out.__cause__ = error
        return timed_out

    def _snooze(self, completion: Completion, asked: JobSnoozedError) -> None:
        completion.outcome = Outcome.SNOOZED
        completion.result = None
        completion.error = str(asked) or None
        completion.retry_after = asked.delay_from(completion.ended_at)
        self._error = None

    def _fail(self, completion: Completion, error: BaseException) -> None:
        completion.outcome = Outcome.FAILED
        completion.error = describe(error)
        completion.instruction = self._instruction(error)
        if self._asks_to_refire and self.runner.is_closing and not self.is_over:
            # This node is shutting down, so the refire is left to another node.
            completion.retry_after = timedelta()
        else:
            self._ask_trigger(completion)
            if self.fired.retry is not None and completion.instruction is CompletionInstruction.NOOP:
                completion.retry_after = self._retry_after(self.fired.retry, error)
        retry = "" if completion.retry_after is None else f" (retry in {completion.retry_after})"
        self._log_failure(error, completion.error, f"failed{retry}")

    def _ask_trigger(self, completion: Completion) -> None:
        """Let the trigger choose the instruction; see `Trigger.execution_complete`. Its failure changes nothing."""
        if not any_kind_chooses() or not self._is_instantiated:
            return
        fired = self.fired
        try:
            chosen = fired.trigger.execution_complete(
                CompletedExecution(
                    fire_id=fired.fire_id,
                    scheduled_fire_time=fired.scheduled_fire_time,
                    coalesced_fire_times=fired.coalesced_fire_times or (fired.scheduled_fire_time,),
                    next_fire_time=fired.next_fire_time,
                    times_triggered=fired.times_triggered,
                    outcome=completion.outcome,
                    error=self._error,
                    result=None if self.context is None else self.context.result,
                    instruction=completion.instruction,
                )
            )
            completion.instruction = CompletionInstruction(chosen)
        except Exception:
            logger.exception(
                "trigger %s: its execution_complete failed; %s remains the instruction",
                fired.trigger_key,
                completion.instruction,
                extra=self.log_attributes,
            )

    def _retry_after(self, policy: str, error: BaseException) -> timedelta | None:
        wrapped = error.__cause__ if isinstance(error, JobExecutionError) else None
        try:
            return policy_from_text(policy).delay_after(self.fired.attempt, wrapped or error)
        except Exception:
            logger.exception(
                "job %s: its retry policy failed: %s",
                self.fired.job_key,
                policy,
                extra=self.log_attributes,
            )
            return None

    def _log_failure(self, error: BaseException, described: str, what: str) -> None:
        fired = self.fired
        # `exc_info` would log the full text of a truncated error, and fail on a text that is not valid Unicode.
        is_short = len(described) < MAX_ERROR_LENGTH and can_be_written(error)
        # A log handler of the program that raises must not change the outcome of the execution.
        with suppress(BaseException):
            logger.error(
                "job %s, fired by %s, %s: %s",
                fired.job_key,
                fired.trigger_key,
                what,
                headline(described) if is_short else described,
                exc_info=error if is_short else None,
                extra=self.log_attributes,
            )

    def _instruction(self, error: BaseException) -> CompletionInstruction:
        if not self._is_instantiated:
            # As in Quartz: the triggers stay in ERROR until the class is fixed and they are reset.
            return CompletionInstruction.SET_ALL_JOB_TRIGGERS_ERROR
        if isinstance(error, JobExecutionError):
            if error.unschedule_all_triggers:
                return CompletionInstruction.SET_ALL_JOB_TRIGGERS_COMPLETE
            if error.delete_trigger:
                return CompletionInstruction.DELETE_TRIGGER
            if error.set_trigger_error:
                return CompletionInstruction.SET_TRIGGER_ERROR
            if error.unschedule_firing_trigger:
                return CompletionInstruction.SET_TRIGGER_COMPLETE
        return CompletionInstruction.NOOP

    @property
    def _asks_to_refire(self) -> bool:
        return isinstance(self._error, JobExecutionError) and self._error.refire_immediately
