"""One execution on an engine: what is known of its call, and how it goes on after it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from contextvars import copy_context

from quartzpy.errors import WorkerDiedError
from quartzpy.job_data import decode
from quartzpy.jobs.context import JobExecutionContext, surrounding
from quartzpy.logs.captured import capturing
from quartzpy.node.engines.process_messages import Ending, ending_from_json, error_from_json
from quartzpy.node.workers.endings import ask_trigger, completion_of, store_data
from quartzpy.node.workers.execution import Execution
from quartzpy.store.protocol import Node


class EngineRun:
    """One execution on the engine; its `Stoppable`."""

    __slots__ = (
        *("_ask_to_stop", "context", "execution", "exit_code", "is_over", "is_void", "lost", "message", "not_before"),
        *("outlives", "seen_at", "submission", "surroundings", "takes_ticket", "token", "tries", "within", "worker"),
    )

    def __init__(
        self,
        ask_to_stop: Callable[[EngineRun], None],
        execution: Execution,
        context: JobExecutionContext,
        *,
        ticket: bool,
        outlives: bool,
    ) -> None:
        self._ask_to_stop, self.execution, self.context = ask_to_stop, execution, context
        self.takes_ticket, self.outlives = ticket, outlives
        self.message = ""
        self.token = ""
        """The name of the latest submission; "" before the first."""
        self.submission: int | None = None
        self.tries = 0
        self.not_before = 0.0
        self.worker: str | None = None
        self.lost: str | None = None
        """Why the engine does not run the latest submission, as far as it knows."""
        self.exit_code: int | None = None
        self.seen_at = 0.0
        """When its row was last seen to be that of this node."""
        self.is_void = False
        """True if the submission was made void although a worker may still run it."""
        self.is_over = False
        self.within = copy_context()
        self.surroundings = ExitStack()

    @property
    def fire_id(self) -> int:
        return self.execution.fired.fire_id

    @property
    def node(self) -> Node:
        return self.execution.epoch.node

    def cancel_after(self, seconds: float) -> None:
        self._ask_to_stop(self)

    def may_start(self) -> bool | None:
        execution = self.execution
        return False if execution.is_over else (True if execution.epoch.trusted else None)

    def enter(self) -> None:
        """Enter the middleware, in a copy of this thread's context, because another thread will leave it."""
        if middleware := self.execution.runner.middleware:
            self.within.run(self.surroundings.enter_context, capturing(self.execution.log_capture))
            entered = self.within.run(surrounding, middleware, self.context)
            self.within.run(self.surroundings.enter_context, entered)

    def leave(self, error: BaseException | None) -> BaseException | None:
        """Leave the middleware, which may replace the error of the job, or suppress it. Return the error."""
        kind, trace = (None, None) if error is None else (type(error), error.__traceback__)
        try:
            return None if self.within.run(self.surroundings.__exit__, kind, error, trace) else error
        except BaseException as other:
            return other

    def died(self) -> WorkerDiedError:
        return WorkerDiedError(self.lost or "its worker was lost", exit_code=self.exit_code)

    def conclude(self, end: Ending | str | BaseException) -> None:
        """Let the execution go on after this end of its job, on this thread."""
        execution, error = self.execution, None
        execution.work = None
        try:
            ending = ending_from_json(json.loads(end)) if isinstance(end, str) else end
            if isinstance(ending, BaseException):
                raise ending
            _take_over(ending, execution, self.context)
        except BaseException as raised:
            error = raised
        execution.error = self.leave(error)
        execution.go_on()


def _take_over(ending: Ending, execution: Execution, context: JobExecutionContext) -> None:
    """Give the execution what its job has come to. Raises the error of the job."""
    if ending.noticed_stop:
        execution.cancelled.notice()
    if ending.log is not None and execution.log_lines is not None:
        execution.log_lines.add(ending.log)
    execution.result_problem = ending.result_problem
    try:
        if ending.job_data is not None:
            changed = decode(ending.job_data)
            context.job_detail_data.clear()
            context.job_detail_data.update(changed)
        if ending.result is not None:
            context.result = decode(ending.result)["result"]
    finally:
        if ending.is_committed:
            # It has succeeded, whether or not this node can read and keep what has come of it.
            execution.committed = completion = completion_of(execution)
            ask_trigger(execution, completion)
            store_data(execution, completion)
    if ending.error is not None:
        raise error_from_json(ending.error)
