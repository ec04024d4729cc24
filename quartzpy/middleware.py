"""Middleware surrounds each execution of a job: a trace's span, a session, a lock, variables of a context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack

from quartzpy.context import JobExecutionContext

Middleware = Callable[[JobExecutionContext], AbstractContextManager[object]]
"""Makes the context manager in which `execute` runs, on the thread, or in the coroutine, that runs it.

An error that it raises while it is entered fails the execution, and the job is not run. On the way out it sees what the
job raised, and may raise something else instead, or nothing at all: then the execution has succeeded.
"""


def surrounding(middleware: Sequence[Middleware], context: JobExecutionContext) -> ExitStack:
    """All of them entered, the first outermost. What one raises leaves those before it."""
    with ExitStack() as entering:
        for one in middleware:
            entering.enter_context(one(context))
        return entering.pop_all()
