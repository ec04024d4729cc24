"""What an execution on this node comes to: its outcome, its result, the data to store, and what follows.

A job ends with a result, an error, a request to snooze, or because somebody has stopped it. `outcomes` says what each
error means.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Protocol

from quartzpy.errors import InvalidValueError, JobSnoozedError
from quartzpy.job_data import encode_value
from quartzpy.jobs.context import Cancellation, JobExecutionContext
from quartzpy.node.workers.error_handling import (
    STOPPED,
    asks_to_refire,
    describe,
    instruction_after,
    log_failure,
    retry_delay,
    timeout_error,
)
from quartzpy.states import CompletionInstruction, Outcome
from quartzpy.store.protocol import Completion, FiredTrigger
from quartzpy.store.store_time import StoreTime
from quartzpy.texts import reason
from quartzpy.triggers.trigger import CompletedExecution, any_kind_chooses

logger = logging.getLogger(__name__)

MAX_RESULT_BYTES = 8_192
"""The largest result, in bytes of JSON, that is stored in the history."""
_RESULTS_NOT_KEPT: set[str] = set()
"""The job types of which a result was not kept, and said so."""


class EndingContext(Protocol):
    """What the ends of a node's executions share."""

    store_time: StoreTime
    max_job_data_bytes: int

    def leaves_refires(self) -> bool: ...


class Run(Protocol):
    """What is known of an execution when its job has ended; `Execution` implements it."""

    fired: FiredTrigger
    started_at: datetime
    attempt_started_at: datetime
    context: JobExecutionContext | None
    error: BaseException | None
    result_problem: str | None
    cancelled: Cancellation
    timed_out: bool
    is_vetoed: bool
    is_instantiated: bool
    committed: Completion | None

    @property
    def runner(self) -> EndingContext: ...

    @property
    def is_over(self) -> bool: ...

    @property
    def log_text(self) -> str | None: ...

    @property
    def log_attributes(self) -> dict[str, str | int]: ...


def final_completion(run: Run) -> Completion:
    """Return the completion: the outcome, the data to store, and the instruction for the trigger."""
    if run.committed is not None:
        if run.error is not None:
            log_failure(
                logger,
                run.fired,
                run.error,
                describe(run.error),
                "failed after it committed its transaction",
                run.log_attributes,
            )
        return run.committed
    completion = completion_of(run)
    try:
        store_data(run, completion)
    except BaseException as error:
        run.error = run.error or error
    if run.context is not None:
        run.context.job_run_time = completion.ended_at - min(run.attempt_started_at, completion.ended_at)
    if run.timed_out:
        run.error = timeout_error(run.fired, run.error)
    if run.is_vetoed:
        completion.outcome = Outcome.SKIPPED
    elif _is_cancelled(run):
        completion.outcome = Outcome.CANCELLED
    elif isinstance(run.error, JobSnoozedError):
        _snooze(run, completion, run.error)
    elif run.error is not None:
        _fail(run, completion, run.error)
    if completion.outcome not in (Outcome.SNOOZED, Outcome.FAILED):
        ask_trigger(run, completion)
    return completion


def refuse_if_recorded(method: str, recorded: object | None) -> None:
    """Refuse a transaction of a job that has recorded its execution by one before.

    Raises:
        InvalidValueError: `recorded` is not None.
    """
    if recorded is not None:
        raise InvalidValueError(f"{method}: this execution has already committed its transaction and is recorded")


def completion_of(run: Run) -> Completion:
    ended_at = max(run.runner.store_time.now(), run.started_at)
    result = _result(run)
    return Completion(
        run.fired,
        run.started_at,
        ended_at,
        Outcome.SUCCEEDED,
        result=result,
        log=run.log_text,
        error=None if run.result_problem is None else f"result not kept: {run.result_problem}",
    )


def _result(run: Run) -> str | None:
    """Return the result as JSON for the history. Of one that cannot be stored, the record says why."""
    result = None if run.context is None else run.context.result
    if result is None:
        return None
    try:
        return encode_value(result, "result", max_bytes=MAX_RESULT_BYTES)
    except BaseException as error:
        # What the job did is done, and its follower may read the reason.
        run.result_problem = reason(error)
        # Once for each type of job: it would say the same at each fire.
        level = logging.DEBUG if run.fired.job_type in _RESULTS_NOT_KEPT else logging.WARNING
        _RESULTS_NOT_KEPT.add(run.fired.job_type)
        logger.log(
            level,
            "job %s succeeded, but its result is not kept in the history: %s",
            run.fired.job_key,
            error,
            extra=run.log_attributes,
        )
        return None


def store_data(run: Run, completion: Completion) -> None:
    """Add the job's changed data to the completion. Raises InvalidJobDataError if it cannot be stored."""
    if run.fired.persists_data and run.context is not None:
        limit = run.runner.max_job_data_bytes
        completion.job_data = run.context.job_detail_data.encode_if_changed(max_bytes=limit)


def _is_cancelled(run: Run) -> bool:
    if run.timed_out or not run.cancelled.is_requested:
        return False
    return run.cancelled.noticed if run.error is None else isinstance(run.error, STOPPED)


def _snooze(run: Run, completion: Completion, snooze: JobSnoozedError) -> None:
    completion.outcome = Outcome.SNOOZED
    completion.result = None
    completion.error = str(snooze) or None
    completion.retry_after = snooze.delay_from(completion.ended_at)
    run.error = None


def _fail(run: Run, completion: Completion, error: BaseException) -> None:
    completion.outcome = Outcome.FAILED
    completion.error = describe(error)
    # As in Quartz: the triggers of a class that cannot be created stay in ERROR until they are reset.
    completion.instruction = (
        instruction_after(error) if run.is_instantiated else CompletionInstruction.SET_ALL_JOB_TRIGGERS_ERROR
    )
    if asks_to_refire(error) and run.runner.leaves_refires() and not run.is_over:
        # This node is shutting down, so the refire is left to another node.
        completion.retry_after = timedelta()
    else:
        ask_trigger(run, completion)
        if completion.instruction is CompletionInstruction.NOOP:
            completion.retry_after = _retry_delay(run, error)
    retry = "" if completion.retry_after is None else f" (retry in {completion.retry_after})"
    log_failure(logger, run.fired, error, completion.error, f"failed{retry}", run.log_attributes)


def ask_trigger(run: Run, completion: Completion) -> None:
    """Let the trigger choose the instruction; see `Trigger.execution_complete`. Its failure changes nothing."""
    if not any_kind_chooses() or not run.is_instantiated:
        return
    fired = run.fired
    try:
        chosen = fired.trigger.execution_complete(
            CompletedExecution(
                fire_id=fired.fire_id,
                scheduled_fire_time=fired.scheduled_fire_time,
                coalesced_fire_times=fired.coalesced_fire_times or (fired.scheduled_fire_time,),
                next_fire_time=fired.next_fire_time,
                times_triggered=fired.times_triggered,
                outcome=completion.outcome,
                error=run.error,
                result=None if run.context is None else run.context.result,
                instruction=completion.instruction,
            )
        )
        completion.instruction = CompletionInstruction(chosen)
    except Exception:
        logger.exception(
            "trigger %s: its execution_complete failed; %s remains the instruction",
            fired.trigger_key,
            completion.instruction,
            extra=run.log_attributes,
        )


def _retry_delay(run: Run, error: BaseException) -> timedelta | None:
    try:
        return retry_delay(run.fired, error)
    except Exception:
        logger.exception("job %s: its retry policy failed", run.fired.job_key, extra=run.log_attributes)
        return None
