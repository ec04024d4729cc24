"""What follows from the error of a job: its text, the instruction for the trigger, a retry, and the log record."""

from __future__ import annotations

import asyncio
import logging
import traceback
from contextlib import suppress
from datetime import timedelta

from quartzpy.errors import IncludedJobError, JobCancelledError, JobExecutionError, JobTimeoutError
from quartzpy.jobs.retry import dotted_name
from quartzpy.states import CompletionInstruction
from quartzpy.store.protocol import FiredTrigger
from quartzpy.texts import headline, storable_text

STOPPED = (JobCancelledError, asyncio.CancelledError)
"""The errors with which a cancelled execution ends."""


def timeout_error(fired: FiredTrigger, cause: BaseException | None) -> JobTimeoutError:
    timed_out = JobTimeoutError(f"took longer than its timeout of {fired.timeout}")
    timed_out.__cause__ = cause
    return timed_out


def asks_to_refire(error: BaseException | None) -> bool:
    return isinstance(error, JobExecutionError) and error.refire_immediately


def instruction_after(error: BaseException) -> CompletionInstruction:
    """Return the instruction for the trigger of a job that has raised this error."""
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


def retry_delay(fired: FiredTrigger, error: BaseException) -> timedelta | None:
    """Return the delay of the retry that the job's policy gives after this error; None if it gives none.

    Raises:
        Exception: raised by the policy.
    """
    policy = fired.retry
    if policy is None or (isinstance(error, IncludedJobError) and not error.may_be_retried):
        return None
    wrapped = error.__cause__ if isinstance(error, JobExecutionError) else None
    return policy.delay_after(fired.attempt, wrapped or error)


def log_failure(
    logger: logging.Logger,
    fired: FiredTrigger,
    error: BaseException,
    described: str,
    what: str,
    attributes: dict[str, str | int],
) -> None:
    """Log the failure of a job."""
    # `exc_info` would log the full text of a truncated error, and fail on a text that is not valid Unicode.
    is_short = len(described) < MAX_ERROR_LENGTH and can_be_written(error)
    says_all = isinstance(error, IncludedJobError)
    if says_all and is_short:
        # A traceback of quartzpy itself says nothing about a command that failed.
        described = "; ".join(filter(None, map(str.strip, str(error).splitlines())))
    # A log handler of the program that raises must not change the outcome of the execution.
    with suppress(BaseException):
        logger.error(
            "job %s, fired by %s, %s: %s",
            fired.job_key,
            fired.trigger_key,
            what,
            headline(described) if is_short and not says_all else described,
            exc_info=error if is_short and not says_all else None,
            extra=attributes,
        )


MAX_ERROR_LENGTH = 8_192
"""The maximum length of an error in the history. Its start is cut, as the end of a traceback is the most useful."""
_CUT = "[...]"


def can_be_written(error: BaseException) -> bool:
    """Return whether the text of an error is valid Unicode, so that a log can write it. Never raises."""
    try:
        "".join(traceback.format_exception(error)).encode()
    except BaseException:
        return False
    return True


def describe(error: BaseException) -> str:
    """Return the traceback as text that can be stored, truncated at its start. Never raises.

    Of a job of quartzpy's own types, it is the error alone: where quartzpy raises it says nothing about the command.
    """
    try:
        if isinstance(error, IncludedJobError):
            text = f"{dotted_name(type(error))}: {error}"
        else:
            text = "".join(traceback.format_exception(error))
        if len(text) > MAX_ERROR_LENGTH:
            text = _shortened(text, "".join(traceback.format_exception_only(error)))
        return storable_text(text).rstrip()
    except BaseException:
        return f"<unprintable {type(error).__name__}>"


def _shortened(text: str, message: str) -> str:
    # A message of many kilobytes, such as an SQL statement with all its parameters, names the error at its start.
    if len(message) > MAX_ERROR_LENGTH // 2 and text.endswith(message):
        text = text.removesuffix(message) + message[: MAX_ERROR_LENGTH // 2] + _CUT
    return text if len(text) <= MAX_ERROR_LENGTH else _CUT + text[-MAX_ERROR_LENGTH:]
