"""The exit statuses of the command line, and their mapping from errors."""

from __future__ import annotations

from quartzpy import errors

PROMISE_BROKEN = 1
USAGE = 2
UNREACHABLE = 3
SCHEMA = 4
NOT_FOUND = 5
ABANDONED = 6
INTERNAL = 70
"""An unexpected error, in quartzpy or in the program that it loaded (EX_SOFTWARE of sysexits.h)."""
INTERRUPTED = 130
"""Ctrl-C: 128 plus the number of the signal, as in shells."""
UNHEALTHY = 70
"""A node that cannot continue (EX_SOFTWARE of sysexits.h), so that a process supervisor restarts it."""


def status_of(error: errors.QuartzpyError) -> int:
    """Return the exit status for an error."""
    match error:
        case errors.StoreUnavailableError() | errors.OutcomeUnknownError():
            return UNREACHABLE
        case errors.SchemaError():
            return SCHEMA
        case errors.ObjectNotFoundError():
            return NOT_FOUND
    return USAGE
