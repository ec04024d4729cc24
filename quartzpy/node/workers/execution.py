"""An execution on this node, from its committed fire to its `Completion`.

Any exception of a job, including SystemExit and KeyboardInterrupt, ends that execution only.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from types import MethodType
from typing import Any, Protocol

from quartzpy.errors import OutcomeUnknownError
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
from quartzpy.jobs.context import Cancellation, JobExecutionContext, Middleware, Progress
from quartzpy.jobs.job import Job
from quartzpy.logs.captured import LogCapture, LogLines
from quartzpy.node.opened_gates import gates_of
from quartzpy.node.registration import Epoch
from quartzpy.node.workers.endings import ask_trigger, completion_of, final_completion, refuse_if_recorded, store_data
from quartzpy.node.workers.error_handling import asks_to_refire
from quartzpy.node.workers.job_calls import NOT_STARTED, call, call_async
from quartzpy.node.workers.worker_pool import WorkerPool
from quartzpy.placement import EngineCapability
from quartzpy.states import CompletionInstruction, Outcome
from quartzpy.store.node_problems import NodeProblem
from quartzpy.store.protocol import Completion, FiredTrigger, Gate, JobStore, Submitted
from quartzpy.store.store_time import StoreTime

logger = logging.getLogger(__name__)

CUT_OFF_AFTER = 0.2
"""The time, in seconds, that an `async def` job has to end after a request to stop, before it is cancelled.

A job on a thread cannot be cancelled."""
MAX_LEAD = 0.025
"""The longest time, in seconds, before its instant at which a fire is committed; see `scheduler_thread`."""
HANDED_BACK = "the workers of the node were busy for longer than expected; any node may run it"

_UNSTARTED = asyncio.CancelledError(NOT_STARTED)
"""Stands for the error of a coroutine until its first step, so that not each one needs an error of its own."""
MAX_REMEMBERED = 16_384
"""The number of job types of which a node remembers what is the same for all their executions."""
_is_coroutine_function = lru_cache(maxsize=MAX_REMEMBERED)(inspect.iscoroutinefunction)


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

    def start_timeout(self, execution: Execution, elapsed: float = 0.0) -> None: ...

    def report_progress(self, execution: Execution, progress: Progress) -> None: ...

    def begin_notifying(self, execution: Execution, completion: Completion) -> None: ...

    def end_as(self, execution: Execution, completion: Completion | None) -> None: ...

    def fail(self, execution: Execution, error: BaseException, started_at: datetime | None = None) -> None: ...

    def unblocked(self, earliest: datetime) -> None: ...

    def opened(self, gates: Collection[Gate]) -> None: ...


class ExecutorEngine(Protocol):
    """Runs the jobs of an executor outside of this process; `EngineRuns` implements it."""

    def begin(self, execution: Execution, context: JobExecutionContext) -> bool:
        """Begin the job, and call `go_on` of the execution at its end. Return False if it has failed before."""
        ...

    def adopt(self, execution: Execution, context: JobExecutionContext, row: Submitted) -> None:
        """Wait for the end of a job that another node has begun, and call `go_on` of the execution then."""
        ...

    def hand_over(self, chosen: Callable[[Execution], bool] = ...) -> None:
        """Forget the executions that outlive this node: others adopt them."""
        ...

    def problem(self) -> NodeProblem | None: ...

    def capability(self, engine: str) -> EngineCapability: ...

    def close(self, timeout: float) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class Executor:
    """A worker pool of a node. With an engine, its threads only begin and end the executions."""

    name: str
    kind: str
    """An `ExecutorKind`, or the name of an engine."""
    pool: WorkerPool
    engine: ExecutorEngine | None = None


class Elsewhere(Job, type_name="<on an engine>"):
    """Stands for the instance of a job that an engine makes. It is not a registered job type."""

    def execute(self, context: JobExecutionContext) -> Any:
        raise NotImplementedError


class Execution:
    """A committed fire that is running or about to run; a task of a worker. It repeats a job that asks for a refire.

    The class has slots, and no lock of its own: a node makes thousands of executions in a second.
    """

    __slots__ = (
        "_is_abandoned",
        "_scheduler",
        "_unfreed",
        "_unrecorded",
        "attempt_started_at",
        "began_at",
        "cancelled",
        "committed",
        "context",
        "deadline",
        "epoch",
        "error",
        "executor",
        "fired",
        "is_instantiated",
        "is_recording",
        "is_vetoed",
        "log_capture",
        "log_lines",
        "result_problem",
        "runner",
        "started_at",
        "timed_out",
        "work",
    )

    def __init__(
        self, runner: Runner, fired: FiredTrigger, epoch: Epoch, executor: Executor | None = None, scheduler: str = ""
    ) -> None:
        self.runner = runner
        self.fired = fired
        self.epoch = epoch
        self.executor = executor
        self._scheduler = scheduler
        self.started_at = self.attempt_started_at = fired.fire_time
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
        self.is_instantiated = False
        self.is_vetoed = False
        self.error: BaseException | None = None
        self.result_problem: str | None = None
        """Why the result cannot be kept in the history."""
        self.is_recording = False
        """True if a transaction of the job itself is recording, or has recorded, the execution."""
        self.committed: Completion | None = None
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
            self.started_at = self.attempt_started_at = max(runner.store_time.now(), self.fired.fire_time)
            if runner.can_begin_on_loop(self):
                # The worker only passes it on, so that the loop gets many at once.
                runner.loop.call(self._begin_on_loop)
            else:
                self._run()
        except BaseException as error:
            runner.fail(self, error)

    def adopt(self, row: Submitted) -> None:
        """Wait for what a node that is gone has begun on an engine. No listener of this node has seen it begin."""
        runner, fired = self.runner, self.fired
        try:
            assert self.executor is not None
            assert self.executor.engine is not None
            self.began_at = runner.clock()
            if fired.timeout is not None:
                runner.start_timeout(self, (runner.store_time.now() - fired.fire_time).total_seconds())
            if fired.capture_logs is not None:
                self.log_capture = runner.log_capture_of(self)
            # It has begun, whether or not this node knows the type of the job.
            self.is_instantiated = True
            self.context = runner.context_for(self, self.epoch.node.instance_id, Elsewhere())
            self.executor.engine.adopt(self, self.context, row)
        except BaseException as error:
            runner.fail(self, error)

    def _wait_for_the_instant(self) -> None:
        # The fire was committed a little early. The worker waits, so that no thread has to be woken at the instant.
        early = self.runner.store_time.seconds_until_surely(self.fired.scheduled_fire_time)
        if early > 0:
            self.cancelled.wait(min(early, MAX_LEAD))

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
        """Run the execution to its end, or pass its job to the event loop or to an engine, which then lets it go on."""
        while True:
            context = self._begin()
            if context is None:
                break
            job = context.job_instance
            if self.executor is not None and (engine := self.executor.engine) is not None:
                if engine.begin(self, context):
                    return
                if not self._may_refire():
                    break
                continue
            if _is_async(job):
                # The coroutine resets this when it starts. It may be cancelled before its first step.
                self.error = _UNSTARTED
                self.run_on_loop(call_async(self, job, context), self._ended_on_loop)
                return
            call(self, job, context)
            if not self._may_refire():
                break
        self._finish()

    def _begin_on_loop(self) -> None:
        try:
            if self.cancelled.is_requested:
                self.error = asyncio.CancelledError(NOT_STARTED)
                self._finish()
            else:
                self._run()
        except BaseException as error:
            self.runner.fail(self, error, self.started_at)

    def run_on_loop(self, work: Coroutine[Any, Any, None], done: Callable[..., None]) -> None:
        fired = self.fired
        name = f"job {fired.job_group}.{fired.job_name}, fire {fired.fire_id}"
        self.work = self.runner.loop.run(work, name, done)
        if self.cancelled.is_requested:
            self.stop()

    def _ended_on_loop(self, lost: BaseException | None = None) -> None:
        self.work = None
        if lost is not None and (self.error is None or self.error is _UNSTARTED):
            self.error = lost
        if self.error is _UNSTARTED:
            self.error = asyncio.CancelledError(NOT_STARTED)
        executor = self.executor
        if executor is not None and self.runner.listeners.registered:
            # Listeners may block, so they run on the worker whose slot this execution occupies, not on the loop.
            executor.pool.resume(self.go_on)
        else:
            self.go_on()

    def go_on(self) -> None:
        """Continue after the job, on this thread."""
        try:
            if self._may_refire():
                self._run()
            else:
                self._finish()
        except BaseException as error:
            self.runner.fail(self, error, self.started_at)

    def _instantiate(self) -> Job | None:
        try:
            job = self.runner.new_instance(self)
        except BaseException as error:
            self.error = error
            return None
        self.is_instantiated = True
        return job

    def _begin(self) -> JobExecutionContext | None:
        """Return the context for the job, or None if the job must not run.

        All refires of an execution share one job instance and one context, as in Quartz.
        """
        self.error = None
        if self.context is None:
            self.context = self._new_context()
        else:
            self.context.prepare_refire()
            self.attempt_started_at = self.runner.store_time.now()
        context, listeners = self.context, self.runner.listeners
        if context is not None and listeners.registered:
            listeners.emit(TriggerFired(context))
            if listeners.is_vetoed(context):
                self.is_vetoed = True
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
            self.error = error
            return None

    def _may_refire(self) -> bool:
        """Return whether the job requested an immediate refire, and is allowed to have it."""
        if (
            self.error is None
            or not asks_to_refire(self.error)
            or self.runner.leaves_refires()
            or self.cancelled.is_requested
        ):
            return False
        if self.is_over or self.committed or self.context is None:
            return False
        self.context.job_run_time = self.runner.store_time.now() - self.attempt_started_at
        if self.runner.listeners.registered:
            self.runner.listeners.emit(JobWasExecuted(self.context, Outcome.FAILED, self.error))
        return True

    # --- after the job

    def _finish(self) -> None:
        """End the execution. All paths lead here; an error in this method is recorded as well."""
        try:
            completion = final_completion(self)
            if self.runner.listeners.registered:
                self.runner.begin_notifying(self, completion)
                self._notify(self.runner.listeners, completion)
            self.runner.end_as(self, completion)
        except BaseException as error:
            self.runner.fail(self, error, self.started_at)

    def _notify(self, listeners: Listeners, completion: Completion) -> None:
        if self.error and completion.instruction is CompletionInstruction.SET_ALL_JOB_TRIGGERS_ERROR:
            listeners.emit(TriggersInError(self.fired.job_key, self.error))
        if self.context is not None:
            if not self.is_vetoed:
                event = JobWasExecuted(self.context, completion.outcome, self.error, completion.retry_after)
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
        refuse_if_recorded("transaction", self.committed)
        transaction = self.runner.store.begin_job_transaction()
        try:
            yield transaction.connection
            completion = completion_of(self)
            store_data(self, completion)
            ask_trigger(self, completion)
            self.is_recording = True
            outcome = transaction.complete(self.epoch.node, completion)
        except BaseException as error:
            # If the commit may have succeeded, a missing row must not be taken for a lost execution.
            self.is_recording = isinstance(error, OutcomeUnknownError)
            raise
        finally:
            transaction.close()
        completion.is_recorded = True
        self.committed = completion
        self.runner.opened(gates_of([completion]))
        if outcome.earliest_unblocked is not None:
            self.runner.unblocked(outcome.earliest_unblocked)

    @contextmanager
    def fenced_transaction(self) -> Iterator[Any]:
        """See `JobExecutionContext.fenced_transaction`."""
        refuse_if_recorded("fenced_transaction", self.committed)
        transaction = self.runner.store.begin_job_transaction()
        try:
            yield transaction.connection
            refuse_if_recorded("fenced_transaction", self.committed)
            transaction.commit(self.epoch.node, self.fired.fire_id)
        finally:
            transaction.close()


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
