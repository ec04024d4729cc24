"""The child process of a node: runs the jobs that it is given, one after another.

A job has the main thread, as event loops and signal handlers want it. Another thread hears what the node says
meanwhile, and ends the process at once when the node is gone. What signals the node is sent too, by Ctrl-C or by a
service manager that stops all processes of a service, are left to it: it drains, and then ends its children.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import multiprocessing
import os
import resource
import signal
import sys
import threading
from collections.abc import Awaitable
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from types import FrameType
from typing import Any, NoReturn

from quartzpy.cancellation import Cancellation
from quartzpy.context import JobExecutionContext
from quartzpy.errors import InvalidJobDataError, InvalidValueError, JobExecutionError, UnknownJobTypeError
from quartzpy.job import Job, job_types
from quartzpy.job_data import encode
from quartzpy.job_factory import JobFactory
from quartzpy.runtime.event_loop import LoopWork
from quartzpy.runtime.execution import CUT_OFF_AFTER
from quartzpy.runtime.process_messages import (
    BEGUN,
    DONE,
    END,
    READY,
    RUN,
    STOP,
    Ending,
    error_to_json,
    fired_from_json,
    import_modules,
    pack,
    unpack,
)
from quartzpy.store.protocol import FiredTrigger

PROCESS_NAME = "quartzpy-process-worker"
"""What the names of all child processes begin with."""
SIGNALS_OF_THE_NODE = (signal.SIGINT, signal.SIGTERM)
"""Blocked while a child is started, so that none ends it before it can leave them to the node."""


def is_process_worker() -> bool:
    """Return whether this is the child process of a node."""
    return multiprocessing.current_process().name.startswith(PROCESS_NAME)


def serve(
    connection: Connection[bytes, bytes],
    job_factory: JobFactory,
    max_job_data_bytes: int,
    memory_limit: int | None = None,
) -> None:
    """Run jobs until the node says that there are no more."""
    with contextlib.suppress(PermissionError):  # It leads a session, and so a group, already.
        # A group of its own: what its jobs started is killed with it.
        os.setpgid(0, 0)
    if memory_limit is not None:
        resource.setrlimit(resource.RLIMIT_AS, (memory_limit, memory_limit))
    for number in SIGNALS_OF_THE_NODE:
        # Not SIG_IGN, which the programs that a job starts would inherit.
        signal.signal(number, _leave_to_the_node)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS_OF_THE_NODE)
    os.set_inheritable(connection.fileno(), False)
    ChildProcess(connection, job_factory, max_job_data_bytes, memory_limit).serve()


def _leave_to_the_node(number: int, frame: FrameType | None) -> None: ...


@dataclass
class _Running:
    """An execution of this process: as `Execution` is in the node."""

    refire_count: int
    instance_id: str
    fired: dict[str, Any]
    cancelled: Cancellation = field(default_factory=Cancellation)
    lease_lost: bool = False
    work: LoopWork | None = None

    def stop(self, cut_off_after: float, lease_lost: bool) -> None:
        self.lease_lost = self.lease_lost or lease_lost
        self.cancelled.set()
        if self.work is not None:
            self.work.cancel_after(cut_off_after)


class ChildProcess:
    """Hears on one thread, and works on the other."""

    def __init__(
        self,
        connection: Connection[bytes, bytes],
        job_factory: JobFactory,
        max_job_data_bytes: int,
        memory_limit: int | None,
    ) -> None:
        self._memory_limit = memory_limit
        self._connection = connection
        self._job_factory = job_factory
        self._max_job_data_bytes = max_job_data_bytes
        self._running: _Running | None = None
        self._given: SimpleQueue[_Running | None] = SimpleQueue()

    def serve(self) -> None:
        threading.Thread(target=self._hear_all, name=f"{PROCESS_NAME}-hears", daemon=True).start()
        self._connection.send_bytes(pack(READY))
        while (running := self._given.get()) is not None:
            self._connection.send_bytes(pack(BEGUN))
            ending = self._run(running)
            for stream in (sys.stdout, sys.stderr):
                # A process that is killed would keep what its jobs printed.
                with contextlib.suppress(Exception):
                    stream.flush()
            self._connection.send_bytes(pack(DONE, **vars(ending)))

    # --- the thread that hears

    def _hear_all(self) -> None:
        try:
            while True:
                self._hear(*unpack(self._connection.recv_bytes()))
        except (EOFError, OSError):
            os._exit(0)

    def _hear(self, kind: str, said: dict[str, Any]) -> None:
        if kind == RUN:
            self._running = _Running(**said)
            self._given.put(self._running)
        elif kind == END:
            self._given.put(None)
        elif kind == STOP and self._running is not None and self._running.fired["fire_id"] == said.pop("fire_id"):
            # Another fire_id: it was said when the node did not know yet that the execution had ended.
            self._running.stop(**said)

    # --- the thread that works

    def _run(self, running: _Running) -> Ending:
        ending = Ending(noticed_stop=False)
        error: BaseException | None = None
        try:
            fired, context = self._begin(running)
            try:
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
            # Nobody knows what of the memory comes back: a new process takes the place of this one.
            ending.is_spent = True
            error = MemoryError(
                f"{str(error) or 'out of memory'}: this executor's processes have a memory_limit of"
                f" {self._memory_limit // 2**20} MB"
            ).with_traceback(error.__traceback__)
        if error is not None:
            ending.error = error_to_json(error)
        return ending

    def _begin(self, running: _Running) -> tuple[FiredTrigger, JobExecutionContext]:
        import_modules(running.fired)
        try:
            job_class = job_types.find(running.fired["type_name"])
        except UnknownJobTypeError as unknown:
            raise UnknownJobTypeError(
                f"job type {running.fired['type_name']!r} is not there after {running.fired['modules'][0]} was imported"
                " in a process worker; define it at the top of a module that can be imported"
            ) from unknown
        fired = fired_from_json(running.fired)
        context = JobExecutionContext(
            fired,
            scheduler=_NoScheduler(),
            job_instance=self._job_factory(job_class),
            data_type=job_class.data_type,
            instance_id=running.instance_id,
            refire_count=running.refire_count,
            is_lease_lost=lambda: running.lease_lost,
            cancelled=running.cancelled,
            transaction=partial(_no_transaction, "transaction"),
            fenced_transaction=partial(_no_transaction, "fenced_transaction"),
        )
        return fired, context

    def _execute(self, running: _Running, context: JobExecutionContext) -> Any:
        job = context.job_instance
        if inspect.iscoroutinefunction(job.execute):
            return asyncio.run(_execute_async(running, job, context))
        result = job.execute(context)
        return asyncio.run(_awaited(running, result)) if inspect.isawaitable(result) else result

    def _keep(self, ending: Ending, context: JobExecutionContext, *, keeps_data: bool) -> None:
        """Add the job's data and its result to the answer. Raises InvalidJobDataError: they cannot be sent."""
        if keeps_data:
            ending.job_data = context.job_detail_data.encode_if_changed(max_bytes=self._max_job_data_bytes)
        if context.result is not None:
            try:
                ending.result = encode({"result": context.result})
            except InvalidJobDataError as error:
                raise InvalidJobDataError(f"what a job returns in a process worker must be job data: {error}") from None


async def _execute_async(running: _Running, job: Job, context: JobExecutionContext) -> Any:
    return await _awaited(running, job.execute(context))


async def _awaited(running: _Running, work: Awaitable[Any]) -> Any:
    running.work = LoopWork(asyncio.get_running_loop())
    running.work.task = asyncio.current_task()
    if running.cancelled.is_set():
        running.work.cancel_after(CUT_OFF_AFTER)
    return await work


class _NoScheduler:
    """Where `context.scheduler` would be."""

    def __getattr__(self, name: str) -> Any:
        raise InvalidValueError(
            f"context.scheduler.{name}: a process worker has no scheduler; make a Scheduler(url) in the job, return"
            " what is to be scheduled to a listener, or run the job on a thread"
        )


def _no_transaction(verb: str) -> NoReturn:
    raise InvalidValueError(
        f"context.{verb}(): a process worker has no connection of the store's; run the job on a thread, or guard a"
        " transaction of its own by context.fire_id"
    )
