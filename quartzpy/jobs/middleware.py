"""Middleware: context managers around each execution, for example for tracing, database sessions or locks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack

from quartzpy.jobs.context import JobExecutionContext

Middleware = Callable[[JobExecutionContext], AbstractContextManager[object]]
"""A function that returns the context manager in which `execute` runs, on the same thread or in the same coroutine.

An exception on entry fails the execution without running the job. On exit the context manager receives the job's
exception. It may replace it with another one, or suppress it; in that case the execution has succeeded.
"""


def surrounding(middleware: Sequence[Middleware], context: JobExecutionContext) -> ExitStack:
    """Enter all middleware, the first outermost. If one raises, those before it are exited."""
    with ExitStack() as entering:
        for one in middleware:
            entering.enter_context(one(context))
        return entering.pop_all()
