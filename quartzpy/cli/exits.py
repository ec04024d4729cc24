"""Exit statuses of the command line, and the errors that they stand for."""

from __future__ import annotations

from quartzpy import errors

PROMISE_BROKEN = 1
USAGE = 2
UNREACHABLE = 3
SCHEMA = 4
NOT_FOUND = 5
ABANDONED = 6
UNHEALTHY = 70
"""EX_SOFTWARE of sysexits.h: a supervisor that restarts what fails does so."""


def status_of(error: errors.QuartzpyError) -> int:
    """The exit status that says what kind of error it was."""
    match error:
        case errors.StoreUnavailableError() | errors.OutcomeUnknownError():
            return UNREACHABLE
        case errors.SchemaError():
            return SCHEMA
        case errors.ObjectNotFoundError():
            return NOT_FOUND
    return USAGE
