"""Exit statuses of the command line, and the errors that they stand for."""

from __future__ import annotations

from quartzpy import errors

PROMISE_BROKEN = 1
USAGE = 2
UNREACHABLE = 3
SCHEMA = 4
NOT_FOUND = 5
ABANDONED = 6
INTERNAL = 70
"""An error that is not ours: a fault of quartzpy, or of the program that it was told to load (EX_SOFTWARE)."""
INTERRUPTED = 130
"""Ctrl-C: 128 and the signal's number, as shells say."""
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
