"""The child process of a node: it runs the jobs that the node sends, one after another.

Jobs run on the main thread, which event loops and signal handlers require. Another thread receives the messages of the
node, and ends the process at once when the node is gone. Signals that the node receives too, from Ctrl-C or from a
service manager that stops all processes of a service, are ignored: the node drains, and then ends its children.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import resource
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from types import FrameType
from typing import Any, NoReturn

from quartzpy.errors import InvalidValueError, JobExecutionError, UnknownJobTypeError
from quartzpy.job_data import MAX_BYTES, encode
from quartzpy.jobs.context import Cancellation, JobExecutionContext, Progress
from quartzpy.jobs.internal_entries import TraceContext, Within
from quartzpy.jobs.job import Job, JobFactory, job_types
from quartzpy.keys import MAIN, MAIN_IN_CHILD
from quartzpy.logs.captured import LogCapture, capturing, level_number
from quartzpy.node.engines.process_messages import (
    BEGUN,
    DONE,
    END,
    LOG,
    PROGRESS,
    READY,
    RUN,
    STOP,
    Ending,
    bounded,
    error_to_json,
    fired_from_json,
    import_modules,
    pack,
    unpack,
)
from quartzpy.node.workers.execution import CUT_OFF_AFTER
from quartzpy.node.workers.forks import ended_if_forked
from quartzpy.node.workers.loop_work import LoopWork
from quartzpy.store.process_identity import PROCESS_WORKER
from quartzpy.store.protocol import FiredTrigger
from quartzpy.texts import reason

SIGNALS_OF_THE_NODE = (signal.SIGINT, signal.SIGTERM)
"""Blocked while a child starts, because they would end it before it can ignore them."""


_IN_A_FILE = (
    "define it at the top level of the program's file. A notebook and an interactive session have no file: write the"
    " function into one (begin a cell with %%writefile my_jobs.py), and import it from there"
)


def serve(
    connection: Connection[bytes, bytes],
    job_factory: JobFactory,
    max_job_data_bytes: int,
    memory_limit: int | None = None,
    within_trace: Within | None = None,
) -> None:
    """Run jobs until the node ends this process."""
    with contextlib.suppress(PermissionError):  # It already leads a session, and so a process group.
        # Killing this process group also kills the processes that jobs have started.
        os.setpgid(0, 0)
    if memory_limit is not None:
        resource.setrlimit(resource.RLIMIT_AS, (memory_limit, memory_limit))
    for number in SIGNALS_OF_THE_NODE:
        # A handler and not SIG_IGN, which programs that a job starts would inherit.
        signal.signal(number, _ignore)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS_OF_THE_NODE)
    os.set_inheritable(connection.fileno(), False)
    ChildProcess(connection, job_factory, max_job_data_bytes, memory_limit, within_trace).serve()


def _ignore(number: int, frame: FrameType | None) -> None: ...


@dataclass
class _ChildExecution:
    """An execution in this process, like `Execution` in the node."""

    refire_count: int
    instance_id: str
    fired: dict[str, Any]
    trace: TraceContext = field(default_factory=dict)
    cancelled: Cancellation = field(default_factory=Cancellation)
    lease_lost: bool = False
    work: LoopWork | None = None
    has_ended: bool = False

    def stop(self, cut_off_after: float, lease_lost: bool) -> None:
        self.lease_lost = self.lease_lost or lease_lost
        self.cancelled.set()
        if self.work is not None:
            self.work.cancel_after(cut_off_after)


class ChildProcess:
    """The two threads of a child process: one receives messages, the main thread runs jobs."""

    def __init__(
        self,
        connection: Connection[bytes, bytes],
        job_factory: JobFactory,
        max_job_data_bytes: int,
        memory_limit: int | None,
        within_trace: Within | None,
    ) -> None:
        self._memory_limit = memory_limit
        self._within_trace = within_trace
        self._connection = connection
        self._sending = threading.Lock()
        self._job_factory = job_factory
        self._max_job_data_bytes = max_job_data_bytes
        self._running: _ChildExecution | None = None
        self._tasks: SimpleQueue[_ChildExecution | None] = SimpleQueue()

    def serve(self) -> None:
        threading.Thread(target=self._receive_all, name=f"{PROCESS_WORKER}-receiver", daemon=True).start()
        self._connection.send_bytes(pack(READY))
        while (running := self._tasks.get()) is not None:
            self._connection.send_bytes(pack(BEGUN))
            ending = self._run(running)
            for stream in (sys.stdout, sys.stderr):
                # Buffered output of a job would be lost if the process is killed later.
                with contextlib.suppress(Exception):
                    stream.flush()
            with self._sending:
                # A thread that the job left behind must send nothing more.
                running.has_ended = True
                self._connection.send_bytes(pack(DONE, **vars(ending)))

    # --- the receiving thread

    def _receive_all(self) -> None:
        try:
            while True:
                self._receive(*unpack(self._connection.recv_bytes()))
        except (EOFError, OSError):
            os._exit(0)

    def _receive(self, kind: str, values: dict[str, Any]) -> None:
        if kind == RUN:
            self._running = _ChildExecution(**values)
            self._tasks.put(self._running)
        elif kind == END:
            self._tasks.put(None)
        elif kind == STOP and self._running is not None and self._running.fired["fire_id"] == values.pop("fire_id"):
            # A STOP with another fire_id is for an execution that has just ended.
            self._running.stop(**values)

    # --- the main thread

    def _run(self, running: _ChildExecution) -> Ending:
        ending = Ending(noticed_stop=False)
        error: BaseException | None = None
        try:
            fired, context, capture = self._begin(running)
            try:
                with nullcontext() if capture is None else capturing(capture), self._traced(running):
                    returned = self._execute(running, context)
                if returned is not None:
                    context.result = returned
            except BaseException as raised:
                error = raised
            refires = isinstance(error, JobExecutionError) and error.refire_immediately
            self._keep(ending, context, keeps_data=fired.persists_data or refires)
        except BaseException as raised:
            error = error or raised
        ending.noticed_stop = running.cancelled.noticed
        if self._memory_limit is not None and isinstance(error, MemoryError):
            # The memory may not be freed completely, so a new process replaces this one.
            ending.is_spent = True
            error = MemoryError(
                f"{str(error) or 'out of memory'}: this executor's processes have a memory_limit of"
                f" {self._memory_limit // 2**20} MB"
            ).with_traceback(error.__traceback__)
        if error is not None:
            ending.error = error_to_json(error)
        return ending

    def _traced(self, running: _ChildExecution) -> AbstractContextManager[object]:
        return nullcontext() if self._within_trace is None else self._within_trace(running.trace)

    def _begin(self, running: _ChildExecution) -> tuple[FiredTrigger, JobExecutionContext, LogCapture | None]:
        import_modules(running.fired)
        try:
            job_class = job_types.find(running.fired["type_name"])
        except UnknownJobTypeError as unknown:
            module = running.fired["modules"][0]
            raise UnknownJobTypeError(
                f"job type {running.fired['type_name']!r} is not defined by {module} when a process worker imports it;"
                f" {_IN_A_FILE if module in (MAIN, MAIN_IN_CHILD) else 'define it at the top level of that module'}"
            ) from unknown
        fired = fired_from_json(running.fired)
        capture = self._log_capture(running, fired.capture_logs)
        context = JobExecutionContext(
            fired,
            _ExecutionInChild(running, self._report_progress, capture),
            scheduler=_NoScheduler(),
            job_instance=self._job_factory(job_class),
            data_type=job_class.data_type,
            instance_id=running.instance_id,
            refire_count=running.refire_count,
        )
        return fired, context, capture

    def _log_capture(self, running: _ChildExecution, level_name: str | None) -> LogCapture | None:
        level = level_number(level_name)
        if level is None:
            return None
        root = logging.getLogger()
        if not root.handlers:
            # Nothing has configured logging in this process, so the level has no other purpose.
            root.setLevel(level)
        return LogCapture(level, partial(self._send_log, running))

    def _send_log(self, running: _ChildExecution, text: str) -> None:
        # Sent at once, so that the node has the lines of a job whose process is killed.
        with self._sending, suppress(OSError):
            if not running.has_ended:
                self._connection.send_bytes(pack(LOG, text=bounded(text)))

    def _report_progress(self, running: _ChildExecution, progress: Progress) -> None:
        with self._sending:
            if not running.has_ended:
                self._connection.send_bytes(pack(PROGRESS, fraction=progress.fraction, message=progress.message))

    def _execute(self, running: _ChildExecution, context: JobExecutionContext) -> Any:
        job = context.job_instance
        with ended_if_forked(os.getpid(), f"job {context.job_key}"):
            if inspect.iscoroutinefunction(job.execute):
                return asyncio.run(_execute_async(running, job, context))
            result = job.execute(context)
            return asyncio.run(_awaited(running, result)) if inspect.isawaitable(result) else result

    def _keep(self, ending: Ending, context: JobExecutionContext, *, keeps_data: bool) -> None:
        """Add the job's data and result to the answer, or why the result cannot be kept.

        Raises:
            InvalidJobDataError: the data cannot be encoded.
        """
        if keeps_data:
            ending.job_data = context.job_detail_data.encode_if_changed(max_bytes=self._max_job_data_bytes)
        if context.result is not None:
            try:
                result = encode({"result": context.result})
                # The node would keep far less of it, and has to read it as a whole.
                if result is not None and len(result) > MAX_BYTES:
                    ending.result_problem = f"result: {len(result)} bytes are too many"
                else:
                    ending.result = result
            except Exception as error:
                ending.result_problem = reason(error).replace("data['result']", "result")


async def _execute_async(running: _ChildExecution, job: Job, context: JobExecutionContext) -> Any:
    return await _awaited(running, job.execute(context))


async def _awaited(running: _ChildExecution, work: Awaitable[Any]) -> Any:
    running.work = LoopWork(asyncio.get_running_loop())
    running.work.task = asyncio.current_task()
    if running.cancelled.is_requested:
        running.work.cancel_after(CUT_OFF_AFTER)
    return await work


class _ExecutionInChild:
    """The execution behind a context in a process worker."""

    def __init__(
        self,
        running: _ChildExecution,
        report: Callable[[_ChildExecution, Progress], None],
        log_capture: LogCapture | None,
    ) -> None:
        self._running = running
        self._report = report
        self.log_capture = log_capture

    @property
    def cancelled(self) -> Cancellation:
        return self._running.cancelled

    @property
    def lease_lost(self) -> bool:
        return self._running.lease_lost

    def transaction(self) -> NoReturn:
        _no_transaction("transaction")

    def fenced_transaction(self) -> NoReturn:
        _no_transaction("fenced_transaction")

    def report_progress(self, progress: Progress) -> None:
        self._report(self._running, progress)


class _NoScheduler:
    """The value of `context.scheduler` in a process worker. It only raises errors."""

    def __getattr__(self, name: str) -> Any:
        raise InvalidValueError(
            f"context.scheduler.{name}: a process worker has no scheduler; create a Scheduler(url) in the job, let a"
            " listener schedule the result of the job, or run the job on a thread"
        )


def _no_transaction(method: str) -> NoReturn:
    raise InvalidValueError(
        f"context.{method}(): a process worker has no connection to the store; run the job on a thread, or use its own"
        " transaction and context.fire_id as a fencing token"
    )
