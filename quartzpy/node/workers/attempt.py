"""The run of one execution, from its committed fire to its `Completion`.

Any exception of a job, including SystemExit and KeyboardInterrupt, ends that execution only.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from functools import lru_cache
from types import MethodType
from typing import Any

from quartzpy.errors import InvalidJobError, InvalidValueError, LeaseLostError, OutcomeUnknownError
from quartzpy.events.events import (
    JobExecutionVetoed,
    JobToBeExecuted,
    JobWasExecuted,
    TriggerComplete,
    TriggerFinalized,
    TriggerFired,
    TriggersInError,
)
from quartzpy.events.listeners import Listeners
from quartzpy.jobs.context import JobExecutionContext
from quartzpy.jobs.job import Job
from quartzpy.jobs.middleware import surrounding
from quartzpy.jobs.progress import Progress
from quartzpy.logs.captured import capturing, is_capturing
from quartzpy.node.workers.attempt_end import EndingExecution
from quartzpy.states import CompletionInstruction, Outcome
from quartzpy.store.protocol import Completion

TRUST_REST = 0.05
"""The interval, in seconds, at which an `async def` job checks whether the lease was renewed."""
NOT_BEGUN = "the cluster declared this node dead before the job started; the job was not run"
NOT_STARTED = "the job was cancelled before it started"
LONGEST_LEAD = 0.025
"""The longest time, in seconds, before its instant at which a fire is committed; see `scheduler_thread`."""
HANDED_BACK = "the workers of the node were busy for longer than expected; any node may run it"

_UNSTARTED = asyncio.CancelledError(NOT_STARTED)
"""Stands for the error of a coroutine until its first step, so that not each one needs an error of its own."""
_NOT_CAPTURED = nullcontext()
_is_coroutine_function = lru_cache(maxsize=1_024)(inspect.iscoroutinefunction)


def _is_async(job: Job) -> bool:
    """Return whether `execute` of this job is `async def`. The answer for a method of a class is remembered."""
    execute = job.execute
    if isinstance(execute, MethodType):
        return _is_coroutine_function(execute.__func__)
    return inspect.iscoroutinefunction(execute)


class Attempt(EndingExecution):
    """An execution that runs itself: a task of a worker. It repeats the job while it requests an immediate refire."""

    __slots__ = ()

    def __call__(self) -> None:
        """Run the execution on this thread, and pass its completion on: None if this node may no longer run it."""
        runner = self.runner
        try:
            if not self.epoch.wait_until_trusted():
                runner.end_as(self, None)
                return
            if self.fired.fire_time <= self.fired.scheduled_fire_time:
                self._wait_for_the_instant()
            if self.cancelled.is_set():
                self.cancel_before_start()
                return
            runner.note_running(self)
            self.log_capture = runner.log_capture_of(self)
            # The estimate of the store's time may be behind the time at which the store committed the fire.
            self._started_at = self._attempt_started_at = max(runner.store_time.now(), self.fired.fire_time)
            if runner.can_begin_on_loop(self):
                # The worker only passes it on, so that the loop gets many at once.
                runner.loop.call(self._begin_on_loop)
            else:
                self._run()
        except BaseException as error:
            runner.fail(self, error)

    def _wait_for_the_instant(self) -> None:
        # The fire was committed a little early. The worker waits, so that no thread has to be woken at the instant.
        early = self.runner.store_time.seconds_until_surely(self.fired.scheduled_fire_time)
        if early > 0:
            self.cancelled.wait(min(early, LONGEST_LEAD))

    def hand_back(self) -> None:
        """End an execution that has not begun, so that any node runs it at once.

        It is snoozed without a delay: the history shows it, and the run that follows has the same attempt, the same
        nominal fire time and the same key.
        """
        now = self.runner.store_time.now()
        completion = Completion(
            self.fired, now, now, Outcome.SNOOZED, error=HANDED_BACK, retry_after=timedelta(), is_handed_back=True
        )
        self.runner.end_as(self, completion)

    def cancel_before_start(self) -> None:
        """End an execution that has not begun, and that was asked to stop: it does not run anywhere."""
        now = self.runner.store_time.now()
        self.runner.end_as(self, Completion(self.fired, now, now, Outcome.CANCELLED))

    # --- before the job

    def _run(self) -> None:
        """Run the execution to its end. An `async def` job is passed to the event loop, which then finishes it."""
        while True:
            context = self._begin()
            if context is None:
                break
            job = context.job_instance
            if _is_async(job):
                # The coroutine resets this when it starts. It may be cancelled before its first step.
                self._error = _UNSTARTED
                self._run_on_loop(self._run_async(job, context), self._ended_on_loop)
                return
            self._run_plain(job, context)
            if not self._may_refire():
                break
        self._finish()

    def _begin_on_loop(self) -> None:
        try:
            if self.cancelled.is_set():
                self._error = asyncio.CancelledError(NOT_STARTED)
                self._finish()
            else:
                self._run()
        except BaseException as error:
            self.runner.fail(self, error, self._started_at)

    def _run_on_loop(self, work: Coroutine[Any, Any, None], done: Callable[[], None]) -> None:
        fired = self.fired
        name = f"job {fired.job_group}.{fired.job_name}, fire {fired.fire_id}"
        self.work = self.runner.loop.run(work, name, done)
        if self.cancelled.is_set():
            self.stop()

    def _ended_on_loop(self) -> None:
        self.work = None
        if self._error is _UNSTARTED:
            self._error = asyncio.CancelledError(NOT_STARTED)
        executor = self.executor
        if executor is not None and self.runner.listeners:
            # Listeners may block, so they run on the worker whose slot this execution occupies, not on the loop.
            executor.pool.resume(self._continue)
        else:
            self._continue()

    def _continue(self) -> None:
        try:
            if self._may_refire():
                self._run()
            else:
                self._finish()
        except BaseException as error:
            self.runner.fail(self, error, self._started_at)

    def _instantiate(self) -> Job | None:
        try:
            job = self.runner.new_instance(self)
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
        if self.context is None:
            self.context = self._new_context()
        else:
            self.context.prepare_refire()
            self._attempt_started_at = self.runner.store_time.now()
        context, listeners = self.context, self.runner.listeners
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
            return self.runner.context_for(self, self.fired, self.epoch.node.instance_id, job)
        except BaseException as error:
            self._error = error
            return None

    # --- the job

    def _run_plain(self, job: Job, context: JobExecutionContext) -> None:
        runner = self.runner
        try:
            if runner.middleware or self.log_capture is not None or is_capturing():
                with self._capturing(), surrounding(runner.middleware, context):
                    self._execute(job, context)
            else:
                self._execute(job, context)
        except BaseException as error:
            self._error = error

    def _execute(self, job: Job, context: JobExecutionContext) -> None:
        # The lease may have expired, or somebody may have asked the job to stop, while listeners and middleware ran.
        if not self.epoch.wait_until_trusted():
            raise LeaseLostError(NOT_BEGUN)
        self._refuse_if_asked_to_stop()
        result = job.execute(context)
        if result is not None:
            if inspect.isawaitable(result):
                result = self._awaited(result)
            self._set_result(context, result)

    async def _run_async(self, job: Job, context: JobExecutionContext) -> None:
        self._error = None
        middleware = self.runner.middleware
        try:
            if middleware or self.log_capture is not None or is_capturing():
                with self._capturing(), surrounding(middleware, context):
                    await self._execute_async(job, context)
            elif self.epoch.trusted:
                self._refuse_if_asked_to_stop()
                # Not in a coroutine of its own, which would be one more object for each job.
                result: Any = await job.execute(context)
                if result is not None:
                    await self._keep_result(context, result)
            else:
                await self._execute_async(job, context)
        except BaseException as error:
            # SystemExit and KeyboardInterrupt of a job must not stop the loop.
            self._error = error

    async def _execute_async(self, job: Job, context: JobExecutionContext) -> None:
        # The lease may have expired while the coroutine waited for its turn on the loop.
        while not self.epoch.trusted:
            if self.epoch.lost:
                raise LeaseLostError(NOT_BEGUN)
            await asyncio.sleep(TRUST_REST)
        self._refuse_if_asked_to_stop()
        result: Any = job.execute(context)
        result = await result
        if result is not None:
            await self._keep_result(context, result)

    def _refuse_if_asked_to_stop(self) -> None:
        if self.cancelled.is_set():
            raise asyncio.CancelledError(NOT_STARTED)

    async def _keep_result(self, context: JobExecutionContext, result: Any) -> None:
        if inspect.isawaitable(result):
            result = await result
        self._set_result(context, result)

    def _capturing(self) -> AbstractContextManager[None]:
        # The test harness can run a job inside another one, whose log must not have the lines of both.
        return capturing(self.log_capture) if self.log_capture is not None or is_capturing() else _NOT_CAPTURED

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
            raise asyncio.CancelledError(NOT_STARTED)
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
        if not self._asks_to_refire or self.runner.is_closing or self.cancelled.is_set():
            return False
        if self.is_over or self._committed or self.context is None:
            return False
        self.context.job_run_time = self.runner.store_time.now() - self._attempt_started_at
        if self.runner.listeners:
            self.runner.listeners.emit(JobWasExecuted(self.context, Outcome.FAILED, self._error))
        return True

    # --- after the job

    def _finish(self) -> None:
        """End the execution. All paths lead here; an error in this method is recorded as well."""
        try:
            completion = self._final_completion()
            if self.runner.listeners:
                self.runner.begin_notifying(self, completion)
                self._notify(self.runner.listeners, completion)
            self.runner.end_as(self, completion)
        except BaseException as error:
            self.runner.fail(self, error, self._started_at)

    def _notify(self, listeners: Listeners, completion: Completion) -> None:
        if self._error and completion.instruction is CompletionInstruction.SET_ALL_JOB_TRIGGERS_ERROR:
            listeners.emit(TriggersInError(self.fired.job_key, self._error))
        if self.context is not None:
            if not self._vetoed:
                event = JobWasExecuted(self.context, completion.outcome, self._error, completion.retry_after)
                listeners.emit(event)
            listeners.emit(TriggerComplete(self.context, completion.instruction, completion.outcome))
            if completion.ends_its_trigger or completion.instruction.finalizes:
                listeners.emit(TriggerFinalized(self.fired.trigger_key))

    # --- for the context

    def report_progress(self, progress: Progress) -> None:
        """See `JobExecutionContext.progress`."""
        self.runner.report_progress(self, progress)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """See `JobExecutionContext.transaction`."""
        self._refuse_if_recorded("transaction")
        transaction = self.runner.store.begin_job_transaction()
        try:
            yield transaction.connection
            completion = self._completion()
            self._store_data(completion)
            self._ask_trigger(completion)
            self.is_recording = True
            outcome = transaction.complete(self.epoch.node, completion)
        except BaseException as error:
            # If the commit may have succeeded, a missing row must not be taken for a lost execution.
            self.is_recording = isinstance(error, OutcomeUnknownError)
            raise
        finally:
            transaction.close()
        completion.is_recorded = True
        self._committed = completion
        if outcome.earliest_unblocked is not None:
            self.runner.unblocked(outcome.earliest_unblocked)

    @contextmanager
    def fenced_transaction(self) -> Iterator[Any]:
        """See `JobExecutionContext.fenced_transaction`."""
        self._refuse_if_recorded("fenced_transaction")
        transaction = self.runner.store.begin_job_transaction()
        try:
            yield transaction.connection
            self._refuse_if_recorded("fenced_transaction")
            transaction.commit(self.epoch.node, self.fired.fire_id)
        finally:
            transaction.close()

    def _refuse_if_recorded(self, what: str) -> None:
        if self._committed is not None:
            raise InvalidValueError(f"{what}: this execution has already committed its transaction and is recorded")
