"""An execution on this node, from its committed fire to its `Completion`.

Any exception of a job, including SystemExit and KeyboardInterrupt, ends that execution only.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from types import MethodType
from typing import Any, Protocol

from quartzpy.config.config import ExecutorKind
from quartzpy.errors import InvalidJobError, InvalidValueError, JobSnoozedError, LeaseLostError, OutcomeUnknownError
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
from quartzpy.job_data import encode_value
from quartzpy.jobs.context import Cancellation, JobExecutionContext, Middleware, Progress, surrounding
from quartzpy.jobs.job import Job
from quartzpy.logs.captured import LogCapture, LogLines, capturing, current_capture
from quartzpy.node.opened_gates import gates_of
from quartzpy.node.registration import Epoch
from quartzpy.node.workers.forks import end_child, ended_if_forked
from quartzpy.node.workers.outcomes import (
    STOPPED,
    asks_to_refire,
    describe,
    instruction_after,
    log_failure,
    retry_delay,
    timeout_error,
)
from quartzpy.node.workers.worker_pool import WorkerPool
from quartzpy.states import CompletionInstruction, Outcome
from quartzpy.store.protocol import Completion, FiredTrigger, Gate, JobStore
from quartzpy.store.store_time import StoreTime
from quartzpy.texts import reason
from quartzpy.triggers.trigger import CompletedExecution, any_kind_chooses

logger = logging.getLogger(__name__)

CUT_OFF_AFTER = 0.2
"""The time, in seconds, that an `async def` job has to end after a request to stop, before it is cancelled.

A job on a thread cannot be cancelled."""
_RESULTS_NOT_KEPT: set[str] = set()
"""The job types of which a result was not kept, and said so."""
MAX_RESULT_BYTES = 8_192
"""The largest result, in bytes of JSON, that is stored in the history."""
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
MOST_REMEMBERED = 16_384
"""The number of job types of which a node remembers what is the same for all their executions."""
_is_coroutine_function = lru_cache(maxsize=MOST_REMEMBERED)(inspect.iscoroutinefunction)


class Stoppable(Protocol):
    """A running job that can be cancelled from outside."""

    def cancel_after(self, seconds: float) -> None:
        """Cancel the job after `seconds` unless it ends before. It may be called repeatedly, and after the end."""
        ...


class Loop(Protocol):
    """Runs `async def` jobs."""

    def run(self, work: Coroutine[Any, Any, None], name: str, done: Callable[[], None]) -> Stoppable | None:
        """Start the coroutine, which must not raise, and call `done` when it ends."""
        ...

    def call(self, begin: Callable[[], None]) -> None:
        """Call `begin`, which must not raise, on the loop."""
        ...


class Runner(Protocol):
    """What the executions of a node share; `JobRunner` implements it."""

    store: JobStore
    store_time: StoreTime
    loop: Loop
    listeners: Listeners
    middleware: Sequence[Middleware]
    max_job_data_bytes: int
    clock: Callable[[], float]
    """The monotonic clock, in seconds."""

    def can_begin_on_loop(self, execution: Execution) -> bool: ...

    def leaves_refires(self) -> bool: ...

    def new_instance(self, execution: Execution) -> Job: ...

    def context_for(self, execution: Execution, instance_id: str, job: Job) -> JobExecutionContext: ...

    def log_capture_of(self, execution: Execution) -> LogCapture | None: ...

    def start_timeout(self, execution: Execution) -> None: ...

    def report_progress(self, execution: Execution, progress: Progress) -> None: ...

    def begin_notifying(self, execution: Execution, completion: Completion) -> None: ...

    def end_as(self, execution: Execution, completion: Completion | None) -> None: ...

    def fail(self, execution: Execution, error: BaseException, started_at: datetime | None = None) -> None: ...

    def unblocked(self, earliest: datetime) -> None: ...

    def opened(self, gates: Collection[Gate]) -> None: ...


class JobProcesses(Protocol):
    """Child processes that run the jobs of an executor; `ProcessWorkers` implements it."""

    def proxy_for(self, execution: Execution) -> Job: ...

    def keep_running(self) -> None: ...

    def close(self, timeout: float) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class Executor:
    """A worker pool of a node. With `processes`, its threads only wait for jobs in child processes."""

    name: str
    kind: ExecutorKind
    pool: WorkerPool
    processes: JobProcesses | None


class Execution:
    """A committed fire that is running or about to run; a task of a worker. It repeats a job that asks for a refire.

    The class has slots, and no lock of its own: a node makes thousands of executions in a second.
    """

    __slots__ = (
        "_attempt_started_at",
        "_committed",
        "_error",
        "_is_abandoned",
        "_is_instantiated",
        "_scheduler",
        "_started_at",
        "_unfreed",
        "_unrecorded",
        "_vetoed",
        "began_at",
        "cancelled",
        "context",
        "deadline",
        "epoch",
        "executor",
        "fired",
        "is_recording",
        "log_capture",
        "log_lines",
        "result_problem",
        "runner",
        "timed_out",
        "work",
    )

    def __init__(
        self,
        runner: Runner,
        fired: FiredTrigger,
        epoch: Epoch,
        executor: Executor | None = None,
        scheduler: str = "",
    ) -> None:
        self.runner = runner
        self.fired = fired
        self.epoch = epoch
        self.executor = executor
        self._scheduler = scheduler
        self._started_at = self._attempt_started_at = fired.fire_time
        self.began_at: float | None = None
        """The monotonic time at which it began to run on this node. None before."""
        self.cancelled = Cancellation()
        self.timed_out = False
        self.deadline: int | None = None
        """The number of its entry in `Deadlines`."""
        self.context: JobExecutionContext | None = None
        self.work: Stoppable | None = None
        self.log_capture: LogCapture | None = None
        self.log_lines: LogLines | None = None
        """The captured log lines, if the job asks for them."""
        self._is_instantiated = False
        self._vetoed = False
        self._error: BaseException | None = None
        self.result_problem: str | None = None
        """Why the result cannot be kept in the history."""
        self.is_recording = False
        """True if a transaction of the job itself is recording, or has recorded, the execution."""
        self._committed: Completion | None = None
        self._is_abandoned = False
        # `bytearray.pop` is atomic, and the garbage collector does not visit a bytearray.
        self._unrecorded = bytearray(1)
        self._unfreed = bytearray(1)

    @property
    def log_attributes(self) -> dict[str, str | int]:
        """The attributes of log records about this execution."""
        return {
            "job": str(self.fired.job_key),
            "trigger": str(self.fired.trigger_key),
            "fire_id": self.fired.fire_id,
            "node": self.epoch.node.instance_id,
            "scheduler": self._scheduler,
        }

    @property
    def log_text(self) -> str | None:
        """The captured log lines so far; None if there are none."""
        return None if self.log_lines is None else self.log_lines.text()

    def is_recorded_first(self) -> bool:
        """Return True for the first caller only, which reports the completion."""
        return _popped(self._unrecorded)

    def is_freed_first(self) -> bool:
        """Return True for the first caller only, which frees the slot."""
        return _popped(self._unfreed)

    @property
    def has_ended(self) -> bool:
        """True if the completion was reported."""
        return not self._unrecorded

    @property
    def lease_lost(self) -> bool:
        """True if another node may be running the job.

        The epoch is lost, the row of the execution is gone, or the lease has expired by this node's own clock.
        """
        return self._is_abandoned or not self.epoch.trusted

    @property
    def is_over(self) -> bool:
        """True if the execution is certainly invalid: its epoch is lost, or its row is gone."""
        return self._is_abandoned or self.epoch.lost

    # --- the ways to stop it

    def abandon(self) -> None:
        """Mark the execution as invalid because its row is gone, and stop it."""
        self._is_abandoned = True
        self.stop()

    def stop(self) -> None:
        """Ask the job to stop, and cancel it soon after if that is possible."""
        self.cancelled.set()
        # Read once, because the loop drops it when the job ends.
        work = self.work
        if work is not None:
            work.cancel_after(CUT_OFF_AFTER)

    def time_out(self) -> None:
        self.timed_out = True
        self.stop()

    # --- the way to its job

    def __call__(self) -> None:
        """Run the execution on this thread, and pass its completion on: None if this node may no longer run it."""
        runner = self.runner
        try:
            if not self.epoch.wait_until_trusted():
                runner.end_as(self, None)
                return
            if self.fired.fire_time <= self.fired.scheduled_fire_time:
                self._wait_for_the_instant()
            if self.cancelled.is_requested:
                self.cancel_before_start()
                return
            self.began_at = runner.clock()
            if self.fired.timeout is not None:
                runner.start_timeout(self)
            if self.fired.capture_logs is not None:
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
            if self.cancelled.is_requested:
                self._error = asyncio.CancelledError(NOT_STARTED)
                self._finish()
            else:
                self._run()
        except BaseException as error:
            self.runner.fail(self, error, self._started_at)

    def _run_on_loop(self, work: Coroutine[Any, Any, None], done: Callable[..., None]) -> None:
        fired = self.fired
        name = f"job {fired.job_group}.{fired.job_name}, fire {fired.fire_id}"
        self.work = self.runner.loop.run(work, name, done)
        if self.cancelled.is_requested:
            self.stop()

    def _ended_on_loop(self, lost: BaseException | None = None) -> None:
        self.work = None
        if lost is not None and (self._error is None or self._error is _UNSTARTED):
            self._error = lost
        if self._error is _UNSTARTED:
            self._error = asyncio.CancelledError(NOT_STARTED)
        executor = self.executor
        if executor is not None and self.runner.listeners.registered:
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
        if context is not None and listeners.registered:
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
            return self.runner.context_for(self, self.epoch.node.instance_id, job)
        except BaseException as error:
            self._error = error
            return None

    # --- the job

    def _run_plain(self, job: Job, context: JobExecutionContext) -> None:
        runner = self.runner
        try:
            if runner.middleware or self.log_capture is not None or current_capture.get() is not None:
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
        pid = os.getpid()
        try:
            result = job.execute(context)
        finally:
            if os.getpid() != pid:
                end_child(pid, f"job {self.fired.job_key}")
        if result is not None:
            if inspect.isawaitable(result):
                result = self._awaited(result)
            self._set_result(context, result)

    async def _run_async(self, job: Job, context: JobExecutionContext) -> None:
        self._error = None
        middleware = self.runner.middleware
        try:
            if middleware or self.log_capture is not None or current_capture.get() is not None:
                with self._capturing(), surrounding(middleware, context):
                    await self._execute_async(job, context)
            elif self.epoch.trusted:
                self._refuse_if_asked_to_stop()
                # Not in a coroutine of its own, which would be one more object for each job.
                pid = os.getpid()
                try:
                    result: Any = await job.execute(context)
                finally:
                    if os.getpid() != pid:
                        end_child(pid, f"job {self.fired.job_key}")
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
        with ended_if_forked(os.getpid(), f"job {self.fired.job_key}"):
            result = await result
        if result is not None:
            await self._keep_result(context, result)

    def _refuse_if_asked_to_stop(self) -> None:
        if self.cancelled.is_requested:
            raise asyncio.CancelledError(NOT_STARTED)

    async def _keep_result(self, context: JobExecutionContext, result: Any) -> None:
        if inspect.isawaitable(result):
            result = await result
        self._set_result(context, result)

    def _capturing(self) -> AbstractContextManager[None]:
        # The test harness can run a job inside another one, whose log must not have the lines of both.
        return (
            capturing(self.log_capture)
            if self.log_capture is not None or current_capture.get() is not None
            else _NOT_CAPTURED
        )

    def _awaited(self, awaitable: Awaitable[Any]) -> Any:
        """Await, on the event loop, an awaitable that a plain `execute` returned, as a decorated `async def` does."""
        answers: list[tuple[Any, BaseException | None]] = []
        ended = threading.Event()

        async def wait() -> None:
            try:
                answers.append((await awaitable, None))
            except BaseException as error:
                answers.append((None, error))

        def done(lost: BaseException | None = None) -> None:
            if lost is not None and not answers:
                answers.append((None, lost))
            ended.set()

        self._run_on_loop(wait(), done)
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
        if (
            self._error is None
            or not asks_to_refire(self._error)
            or self.runner.leaves_refires()
            or self.cancelled.is_requested
        ):
            return False
        if self.is_over or self._committed or self.context is None:
            return False
        self.context.job_run_time = self.runner.store_time.now() - self._attempt_started_at
        if self.runner.listeners.registered:
            self.runner.listeners.emit(JobWasExecuted(self.context, Outcome.FAILED, self._error))
        return True

    # --- after the job

    def _finish(self) -> None:
        """End the execution. All paths lead here; an error in this method is recorded as well."""
        try:
            completion = self._final_completion()
            if self.runner.listeners.registered:
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
            self._error = timeout_error(self.fired, self._error)
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
        result = self._result()
        return Completion(
            self.fired,
            self._started_at,
            ended_at,
            Outcome.SUCCEEDED,
            result=result,
            log=self.log_text,
            error=None if self.result_problem is None else f"result not kept: {self.result_problem}",
        )

    def _result(self) -> str | None:
        """Return the result as JSON for the history. Of one that cannot be stored, the record says why."""
        result = None if self.context is None else self.context.result
        if result is None:
            return None
        try:
            return encode_value(result, "result", max_bytes=MAX_RESULT_BYTES)
        except BaseException as error:
            # What the job did is done, and its follower may read the reason.
            self.result_problem = reason(error)
            # Once for each type of job: it would say the same at each fire.
            level = logging.DEBUG if self.fired.job_type in _RESULTS_NOT_KEPT else logging.WARNING
            _RESULTS_NOT_KEPT.add(self.fired.job_type)
            logger.log(
                level,
                "job %s succeeded, but its result is not kept in the history: %s",
                self.fired.job_key,
                error,
                extra=self.log_attributes,
            )
            return None

    def _store_data(self, completion: Completion) -> None:
        """Add the job's changed data to the completion. Raises InvalidJobDataError if it cannot be stored."""
        if self.fired.persists_data and self.context is not None:
            limit = self.runner.max_job_data_bytes
            completion.job_data = self.context.job_detail_data.encode_if_changed(max_bytes=limit)

    def _is_cancelled(self) -> bool:
        if self.timed_out or not self.cancelled.is_requested:
            return False
        return self.cancelled.noticed if self._error is None else isinstance(self._error, STOPPED)

    def _snooze(self, completion: Completion, snooze: JobSnoozedError) -> None:
        completion.outcome = Outcome.SNOOZED
        completion.result = None
        completion.error = str(snooze) or None
        completion.retry_after = snooze.delay_from(completion.ended_at)
        self._error = None

    def _fail(self, completion: Completion, error: BaseException) -> None:
        completion.outcome = Outcome.FAILED
        completion.error = describe(error)
        # As in Quartz: the triggers of a class that cannot be created stay in ERROR until they are reset.
        completion.instruction = (
            instruction_after(error) if self._is_instantiated else CompletionInstruction.SET_ALL_JOB_TRIGGERS_ERROR
        )
        if asks_to_refire(error) and self.runner.leaves_refires() and not self.is_over:
            # This node is shutting down, so the refire is left to another node.
            completion.retry_after = timedelta()
        else:
            self._ask_trigger(completion)
            if completion.instruction is CompletionInstruction.NOOP:
                completion.retry_after = self._retry_delay(error)
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

    def _retry_delay(self, error: BaseException) -> timedelta | None:
        try:
            return retry_delay(self.fired, error)
        except Exception:
            fired = self.fired
            logger.exception(
                "job %s: its retry policy failed: %s", fired.job_key, fired.retry, extra=self.log_attributes
            )
            return None

    def _log_failure(self, error: BaseException, described: str, what: str) -> None:
        log_failure(logger, self.fired, error, described, what, self.log_attributes)

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
        self.runner.opened(gates_of([completion]))
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


def _is_async(job: Job) -> bool:
    """Return whether `execute` of this job is `async def`. The answer for a method of a class is remembered."""
    execute = job.execute
    if isinstance(execute, MethodType):
        return _is_coroutine_function(execute.__func__)
    return inspect.iscoroutinefunction(execute)


def _popped(token: bytearray) -> bool:
    try:
        token.pop()
    except IndexError:
        return False
    return True
