"""The call of a job's `execute`, plain or `async def`, on its worker or on the event loop."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from quartzpy.errors import InvalidJobError, LeaseLostError
from quartzpy.jobs.context import Cancellation, JobExecutionContext, Middleware, surrounding
from quartzpy.jobs.job import Job
from quartzpy.logs.captured import LogCapture, capturing, current_capture
from quartzpy.node.registration import Epoch
from quartzpy.node.workers.forks import end_child, ended_if_forked
from quartzpy.store.protocol import FiredTrigger

TRUST_REST = 0.05
"""The interval, in seconds, at which an `async def` job checks whether the lease was renewed."""
NOT_BEGUN = "the cluster declared this node dead before the job started; the job was not run"
NOT_STARTED = "the job was cancelled before it started"
_NOT_CAPTURED = nullcontext()


class Surroundings(Protocol):
    """What the calls of a node's jobs share."""

    middleware: Sequence[Middleware]


class Calling(Protocol):
    """An execution whose job is called; `Execution` implements it."""

    fired: FiredTrigger
    epoch: Epoch
    cancelled: Cancellation
    log_capture: LogCapture | None
    error: BaseException | None
    """The error of the job: its call raises nothing."""

    @property
    def runner(self) -> Surroundings: ...

    def run_on_loop(self, work: Coroutine[Any, Any, None], done: Callable[..., None]) -> None: ...


def call(run: Calling, job: Job, context: JobExecutionContext) -> None:
    """Run a job on this thread."""
    middleware = run.runner.middleware
    try:
        if middleware or run.log_capture is not None or current_capture.get() is not None:
            with _capturing(run), surrounding(middleware, context):
                _execute(run, job, context)
        else:
            _execute(run, job, context)
    except BaseException as error:
        run.error = error


async def call_async(run: Calling, job: Job, context: JobExecutionContext) -> None:
    """Run an `async def` job on the event loop."""
    run.error = None
    middleware = run.runner.middleware
    try:
        if middleware or run.log_capture is not None or current_capture.get() is not None:
            with _capturing(run), surrounding(middleware, context):
                await _execute_async(run, job, context)
        elif run.epoch.trusted:
            _refuse_if_asked_to_stop(run)
            # Not in a coroutine of its own, which would be one more object for each job.
            pid = os.getpid()
            try:
                result: Any = await job.execute(context)
            finally:
                if os.getpid() != pid:
                    end_child(pid, f"job {run.fired.job_key}")
            if result is not None:
                await _keep_result(context, result)
        else:
            await _execute_async(run, job, context)
    except BaseException as error:
        # SystemExit and KeyboardInterrupt of a job must not stop the loop.
        run.error = error


def _execute(run: Calling, job: Job, context: JobExecutionContext) -> None:
    # The lease may have expired, or somebody may have asked the job to stop, while listeners and middleware ran.
    if not run.epoch.wait_until_trusted():
        raise LeaseLostError(NOT_BEGUN)
    _refuse_if_asked_to_stop(run)
    pid = os.getpid()
    try:
        result = job.execute(context)
    finally:
        if os.getpid() != pid:
            end_child(pid, f"job {run.fired.job_key}")
    if result is not None:
        if inspect.isawaitable(result):
            result = _awaited(run, result)
        _set_result(context, result)


async def _execute_async(run: Calling, job: Job, context: JobExecutionContext) -> None:
    # The lease may have expired while the coroutine waited for its turn on the loop.
    while not run.epoch.trusted:
        if run.epoch.lost:
            raise LeaseLostError(NOT_BEGUN)
        await asyncio.sleep(TRUST_REST)
    _refuse_if_asked_to_stop(run)
    result: Any = job.execute(context)
    with ended_if_forked(os.getpid(), f"job {run.fired.job_key}"):
        result = await result
    if result is not None:
        await _keep_result(context, result)


def _refuse_if_asked_to_stop(run: Calling) -> None:
    if run.cancelled.is_requested:
        raise asyncio.CancelledError(NOT_STARTED)


async def _keep_result(context: JobExecutionContext, result: Any) -> None:
    if inspect.isawaitable(result):
        result = await result
    _set_result(context, result)


def _capturing(run: Calling) -> AbstractContextManager[None]:
    # The test harness can run a job inside another one, whose log must not have the lines of both.
    return (
        capturing(run.log_capture)
        if run.log_capture is not None or current_capture.get() is not None
        else _NOT_CAPTURED
    )


def _awaited(run: Calling, awaitable: Awaitable[Any]) -> Any:
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

    run.run_on_loop(wait(), done)
    ended.wait()
    if not answers:
        raise asyncio.CancelledError(NOT_STARTED)
    result, error = answers[0]
    if error is not None:
        raise error
    return result


def _set_result(context: JobExecutionContext, result: Any) -> None:
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise InvalidJobError(
            "execute returned a generator, so none of its code has run; remove the yield, or return a list instead"
        )
    if result is not None:
        context.result = result
