"""The run of one execution, from its committed fire to its `Completion`.

Any exception of a job, including SystemExit and KeyboardInterrupt, ends that execution only.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from quartzpy.captured_logs import capturing, is_capturing
from quartzpy.context import JobExecutionContext
from quartzpy.errors import (
    InvalidJobError,
    InvalidValueError,
    JobCancelledError,
    JobExecutionError,
    JobSnoozedError,
    JobTimeoutError,
    LeaseLostError,
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
from quartzpy.listeners import Listeners
from quartzpy.middleware import surrounding
from quartzpy.retry import policy_from_text
from quartzpy.runtime.error_text import MAX_ERROR_LENGTH, can_be_written, describe
from quartzpy.runtime.execution import Execution
from quartzpy.states import CompletionInstruction, Outcome
from quartzpy.store.protocol import Completion
from quartzpy.triggers.completion import CompletedExecution
from quartzpy.triggers.trigger import any_kind_chooses

if TYPE_CHECKING:
    from quartzpy.runtime.job_runner import JobRunner

logger = logging.getLogger(__name__)

MAX_RESULT_BYTES = 8_192
"""The largest result, in bytes of JSON, that is stored in the history."""
TRUST_REST = 0.05
"""The interval, in seconds, at which an `async def` job checks whether the lease was renewed."""
NOT_BEGUN = "the cluster declared this node dead before the job started; the job was not run"
STOPPED = (JobCancelledError, asyncio.CancelledError)
"""The errors with which a cancelled execution ends."""
_NOT_CAPTURED = nullcontext()


class Attempt:
    """Runs one execution, and repeats it while the job requests an immediate refire."""

    def __init__(self, runner: JobRunner, execution: Execution) -> None:
        self._runner = runner
        self._execution = execution
        self._fired = execution.fired
        self._started_at = self._attempt_started_at = runner.store_time.now()
        self._error: BaseException | None = None
        self._is_instantiated = False
        self._vetoed = False
        self._context: JobExecutionContext | None = None
        self._committed: Completion | None = None
        self._capture = runner.log_capture_of(execution)

    # --- before the job

    def run(self) -> None:
        """Run the execution to its end. An `async def` job is passed to the event loop, which then finishes it."""
        while True:
            context = self._begin()
            if context is None:
                break
            job = context.job_instance
            if inspect.iscoroutinefunction(job.execute):
                # The coroutine resets this when it starts. It may be cancelled before its first step.
                self._error = asyncio.CancelledError("the job was cancelled before it started")
                self._run_on_loop(self._run_async(job, context), self._ended_on_loop)
                return
            self._run_plain(job, context)
            if not self._may_refire():
                break
        self._finish()

    def _run_on_loop(self, work: Coroutine[Any, Any, None], done: Callable[[], None]) -> None:
        name = f"job {self._fired.job_key}, fire {self._fired.fire_id}"
        self._execution.work = self._runner.loop.run(work, name, done)
        if self._execution.cancelled.is_set():
            self._execution.stop()

    def _ended_on_loop(self) -> None:
        executor = self._execution.executor
        if executor is not None and self._runner.listeners:
            # Listeners may block, so they run on the worker whose slot this execution occupies, not on the loop.
            executor.pool.resume(self._continue)
        else:
            self._continue()

    def _continue(self) -> None:
        try:
            if self._may_refire():
                self.run()
            else:
                self._finish()
        except BaseException as error:
            self._runner.fail(self._execution, error, self._started_at)

    def _instantiate(self) -> Job | None:
        try:
            job = self._runner.new_instance(self._execution)
        except BaseException as error:
            self._error = error
            return None
        self._is_instantiated = True
        return job

    def _begin(self) -> JobExecutionContext | None:
        """Return the context for the job, or None if the job must not run.

        All refires of an execution share one job instance and one context, as in Quartz.
        """
        self._error = None
        if self._context is None:
            self._context = self._new_context()
        else:
            self._context.prepare_refire()
            self._attempt_started_at = self._runner.store_time.now()
        context, listeners = self._context, self._runner.listeners
        if context is not None and listeners:
            listeners.emit(TriggerFired(context))
            if listeners.is_vetoed(context):
                self._vetoed = True
                listeners.emit(JobExecutionVetoed(context))
                return None
            listeners.emit(JobToBeExecuted(context))
        return context

    def _new_context(self) -> JobExecutionContext | None:
        job = self._instantiate()
        if job is None:
            return None
        try:
            return self._runner.context_for(
                self._execution, job, self._transaction, self._fenced_transaction, self._capture
            )
        except BaseException as error:
            self._error = error
            return None

    # --- the job

    def _run_plain(self, job: Job, context: JobExecutionContext) -> None:
        epoch = self._execution.epoch
        try:
            with self._capturing(), surrounding(self._runner.middleware, context):
                # The lease may have expired while listeners and middleware ran.
                if not epoch.wait_until_trusted():
                    raise LeaseLostError(NOT_BEGUN)
                result = job.execute(context)
                if result is not None:
                    if inspect.isawaitable(result):
                        result = self._awaited(result)
                    self._set_result(context, result)
        except BaseException as error:
            self._error = error

    async def _run_async(self, job: Job, context: JobExecutionContext) -> None:
        epoch = self._execution.epoch
        self._error = None
        try:
            with self._capturing(), surrounding(self._runner.middleware, context):
                # The lease may have expired while the coroutine waited for its turn on the loop.
                while not epoch.trusted:
                    if epoch.lost:
                        raise LeaseLostError(NOT_BEGUN)
                    await asyncio.sleep(TRUST_REST)
                result = await job.execute(context)
                if result is not None:
                    if inspect.isawaitable(result):
                        result = await result
                    self._set_result(context, result)
        except BaseException as error:
            # SystemExit and KeyboardInterrupt of a job must not stop the loop.
            self._error = error

    def _capturing(self) -> AbstractContextManager[None]:
        # The test harness can run a job inside another one, whose log must not have the lines of both.
        return capturing(self._capture) if self._capture is not None or is_capturing() else _NOT_CAPTURED

    def _awaited(self, awaitable: Awaitable[Any]) -> Any:
        """Await, on the event loop, an awaitable that a plain `execute` returned, as a decorated `async def` does."""
        answers: list[tuple[Any, BaseException | None]] = []
        ended = threading.Event()

        async def wait() -> None:
            try:
                answers.append((await awaitable, None))
            except BaseException as error:
                answers.append((None, error))

        self._run_on_loop(wait(), ended.set)
        ended.wait()
        if not answers:
            raise asyncio.CancelledError("the job was cancelled before it started")
        result, error = answers[0]
        if error is not None:
            raise error
        return result

    @staticmethod
    def _set_result(context: JobExecutionContext, result: Any) -> None:
        if inspect.isgenerator(result) or inspect.isasyncgen(result):
            raise InvalidJobError(
                "execute returned a generator, so none of its code has run; remove the yield, or return a list instead"
            )
        if result is not None:
            context.result = result

    def _may_refire(self) -> bool:
        """Return whether the job requested an immediate refire, and is allowed to have it."""
        if not self._asks_to_refire or self._runner.is_closing or self._execution.cancelled.is_set():
            return False
        if self._execution.is_over or self._committed or self._context is None:
            return False
        self._context.job_run_time = self._runner.store_time.now() - self._attempt_started_at
        if self._runner.listeners:
            self._runner.listeners.emit(JobWasExecuted(self._context, Outcome.FAILED, self._error))
        return True

    @property
    def _asks_to_refire(self) -> bool:
        return isinstance(self._error, JobExecutionError) and self._error.refire_immediately

    # --- after the job

    def _finish(self) -> None:
        """End the execution. All paths lead here; an error in this method is recorded as well."""
        try:
            completion = self._final_completion()
            if self._runner.listeners:
                self._runner.begin_notifying(self._execution, completion)
                self._notify(self._runner.listeners, completion)
            self._runner.end_as(self._execution, completion)
        except BaseException as error:
            self._runner.fail(self._execution, error, self._started_at)

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
        if self._context is not None:
            self._context.job_run_time = completion.ended_at - min(self._attempt_started_at, completion.ended_at)
        if self._execution.timed_out:
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

    def _notify(self, listeners: Listeners, completion: Completion) -> None:
        if self._error and completion.instruction is CompletionInstruction.SET_ALL_JOB_TRIGGERS_ERROR:
            listeners.emit(TriggersInError(self._fired.job_key, self._error))
        if self._context is not None:
            if not self._vetoed:
                event = JobWasExecuted(self._context, completion.outcome, self._error, completion.retry_after)
                listeners.emit(event)
            listeners.emit(TriggerComplete(self._context, completion.instruction, completion.outcome))
            if completion.ends_its_trigger or completion.instruction.finalizes:
                listeners.emit(TriggerFinalized(self._fired.trigger_key))

    def _completion(self) -> Completion:
        ended_at = max(self._runner.store_time.now(), self._started_at)
        return Completion(
            self._fired,
            self._started_at,
            ended_at,
            Outcome.SUCCEEDED,
            result=self._result(),
            log=self._execution.log_text,
        )

    def _result(self) -> str | None:
        """Return the result as JSON for the history. A result that cannot be stored gives None, and no error."""
        result = None if self._context is None else self._context.result
        if result is None:
            return None
        try:
            return encode_value(result, "result", max_bytes=MAX_RESULT_BYTES)
        except BaseException as error:
            logger.debug("the result is not stored in the history: %s", error, extra=self._execution.log_attributes)
            return None

    def _store_data(self, completion: Completion) -> None:
        """Add the job's changed data to the completion. Raises InvalidJobDataError if it cannot be stored."""
        if self._fired.persists_data and self._context is not None:
            limit = self._runner.max_job_data_bytes
            completion.job_data = self._context.job_detail_data.encode_if_changed(max_bytes=limit)

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """See `JobExecutionContext.transaction`."""
        self._refuse_if_recorded("transaction")
        transaction = self._runner.store.begin_job_transaction()
        try:
            yield transaction.connection
            completion = self._completion()
            self._store_data(completion)
            self._ask_trigger(completion)
            self._execution.is_recording = True
            outcome = transaction.complete(self._execution.epoch.node, completion)
        except BaseException as error:
            # If the commit may have succeeded, a missing row must not be taken for a lost execution.
            self._execution.is_recording = isinstance(error, OutcomeUnknownError)
            raise
        finally:
            transaction.close()
        completion.is_recorded = True
        self._committed = completion
        if outcome.earliest_unblocked is not None:
            self._runner.unblocked(outcome.earliest_unblocked)

    @contextmanager
    def _fenced_transaction(self) -> Iterator[Any]:
        """See `JobExecutionContext.fenced_transaction`."""
        self._refuse_if_recorded("fenced_transaction")
        transaction = self._runner.store.begin_job_transaction()
        try:
            yield transaction.connection
            self._refuse_if_recorded("fenced_transaction")
            transaction.commit(self._execution.epoch.node, self._fired.fire_id)
        finally:
            transaction.close()

    def _refuse_if_recorded(self, what: str) -> None:
        if self._committed is not None:
            raise InvalidValueError(f"{what}: this execution has already committed its transaction and is recorded")

    def _is_cancelled(self) -> bool:
        asked = self._execution.cancelled
        if self._execution.timed_out or not asked.is_set():
            return False
        return asked.noticed if self._error is None else isinstance(self._error, STOPPED)

    def _timeout(self, error: BaseException | None) -> JobTimeoutError:
        timed_out = JobTimeoutError(f"took longer than its timeout of {self._fired.timeout}")
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
        if self._asks_to_refire and self._runner.is_closing and not self._execution.is_over:
            # This node is shutting down, so the refire is left to another node.
            completion.retry_after = timedelta()
        else:
            self._ask_trigger(completion)
            if self._fired.retry is not None and completion.instruction is CompletionInstruction.NOOP:
                completion.retry_after = self._retry_after(self._fired.retry, error)
        retry = "" if completion.retry_after is None else f" (retry in {completion.retry_after})"
        self._log_failure(error, completion.error, f"failed{retry}")

    def _ask_trigger(self, completion: Completion) -> None:
        """Let the trigger choose the instruction; see `Trigger.execution_complete`. Its failure changes nothing."""
        if not any_kind_chooses() or not self._is_instantiated:
            return
        fired = self._fired
        try:
            chosen = fired.trigger.execution_complete(
                CompletedExecution(
                    fire_id=fired.fire_id,
                    scheduled_fire_time=fired.scheduled_fire_time,
                    next_fire_time=fired.next_fire_time,
                    times_triggered=fired.times_triggered,
                    outcome=completion.outcome,
                    error=self._error,
                    result=None if self._context is None else self._context.result,
                    instruction=completion.instruction,
                    coalesced_fire_times=fired.coalesced_fire_times or (fired.scheduled_fire_time,),
                )
            )
            completion.instruction = CompletionInstruction(chosen)
        except Exception:
            logger.exception(
                "trigger %s: its execution_complete failed; %s remains the instruction",
                fired.trigger_key,
                completion.instruction,
                extra=self._execution.log_attributes,
            )

    def _retry_after(self, policy: str, error: BaseException) -> timedelta | None:
        wrapped = error.__cause__ if isinstance(error, JobExecutionError) else None
        try:
            return policy_from_text(policy).delay_after(self._fired.attempt, wrapped or error)
        except Exception:
            logger.exception(
                "job %s: its retry policy failed: %s",
                self._fired.job_key,
                policy,
                extra=self._execution.log_attributes,
            )
            return None

    def _log_failure(self, error: BaseException, described: str, what: str) -> None:
        fired = self._fired
        # `exc_info` would log the full text of a truncated error, and fail on a text that is not valid Unicode.
        is_short = len(described) < MAX_ERROR_LENGTH and can_be_written(error)
        # A log handler of the program that raises must not change the outcome of the execution.
        with suppress(BaseException):
            logger.error(
                "job %s, fired by %s, %s: %s",
                fired.job_key,
                fired.trigger_key,
                what,
                described.rpartition("\n")[2] if is_short else described,
                exc_info=error if is_short else None,
                extra=self._execution.log_attributes,
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
