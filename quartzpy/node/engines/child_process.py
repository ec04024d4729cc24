"""The child process of a node: it runs the jobs that the node sends, one after another.

Jobs run on the main thread, which event loops and signal handlers require. Another thread receives the messages of the
node, and ends the process at once when the node is gone. Signals that the node receives too, from Ctrl-C or from a
service manager that stops all processes of a service, are ignored: the node drains, and then ends its children.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from types import FrameType
from typing import Any

from quartzpy.jobs.context import Progress
from quartzpy.jobs.internal_entries import Within
from quartzpy.jobs.job import JobFactory
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
    pack,
    unpack,
)
from quartzpy.node.engines.remote_job import RemoteJob
from quartzpy.store.process_identity import PROCESS_WORKER

SIGNALS_OF_THE_NODE = (signal.SIGINT, signal.SIGTERM)
"""Blocked while a child starts, because they would end it before it can ignore them."""


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


class _ChildJob(RemoteJob):
    """A job in this process. What it reports is sent to the node at once, until it has ended."""

    def __init__(
        self, message: dict[str, Any], send_report: Callable[[_ChildJob, bytes], None], memory_limit: int | None
    ) -> None:
        super().__init__(message)
        self._send_report = send_report
        self._memory_limit = memory_limit
        self.has_ended = False

    def report_progress(self, progress: Progress) -> None:
        self._send_report(self, pack(PROGRESS, fraction=progress.fraction, message=progress.message))

    def add_log(self, text: str) -> None:
        # Sent at once, so that the node has the lines of a job whose process is killed.
        with suppress(OSError):
            self._send_report(self, pack(LOG, text=bounded(text)))

    def failed(self, error: BaseException, ending: Ending) -> BaseException:
        if self._memory_limit is None or not isinstance(error, MemoryError):
            return error
        # The memory may not be freed completely, so a new process replaces this one.
        ending.is_spent = True
        return MemoryError(
            f"{str(error) or 'out of memory'}: this executor's processes have a memory_limit of"
            f" {self._memory_limit // 2**20} MB"
        ).with_traceback(error.__traceback__)


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
        self._running: _ChildJob | None = None
        self._tasks: SimpleQueue[_ChildJob | None] = SimpleQueue()

    def serve(self) -> None:
        threading.Thread(target=self._receive_all, name=f"{PROCESS_WORKER}-receiver", daemon=True).start()
        self._connection.send_bytes(pack(READY))
        while (running := self._tasks.get()) is not None:
            self._connection.send_bytes(pack(BEGUN))
            ending = running.run(self._job_factory, self._max_job_data_bytes, self._within_trace)
            for stream in (sys.stdout, sys.stderr):
                # Buffered output of a job would be lost if the process is killed later.
                with contextlib.suppress(Exception):
                    stream.flush()
            with self._sending:
                # A thread that the job left behind must send nothing more.
                running.has_ended = True
                self._connection.send_bytes(pack(DONE, **vars(ending)))

    def _send_report(self, job: _ChildJob, message: bytes) -> None:
        with self._sending:
            if not job.has_ended:
                self._connection.send_bytes(message)

    # --- the receiving thread

    def _receive_all(self) -> None:
        try:
            while True:
                self._receive(*unpack(self._connection.recv_bytes()))
        except (EOFError, OSError):
            os._exit(0)

    def _receive(self, kind: str, values: dict[str, Any]) -> None:
        if kind == RUN:
            self._running = _ChildJob(values, self._send_report, self._memory_limit)
            self._tasks.put(self._running)
        elif kind == END:
            self._tasks.put(None)
        elif kind == STOP and self._running is not None and self._running.fire_id == values.pop("fire_id"):
            # A STOP with another fire_id is for an execution that has just ended.
            self._running.stop(**values)
