"""What a worker of an engine runs: it takes the ticket of a call, runs the job, and writes its ending.

An engine that runs a call twice gets the job once: the ticket is a row of the database, which one run takes, before it
imports anything of the job. All executions of a process share a connection, and a thread that touches their rows.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

from quartzpy.errors import (
    InvalidValueError,
    OutcomeUnknownError,
    SettingsError,
    StoreUnavailableError,
    UnknownJobTypeError,
)
from quartzpy.jobs.context import Progress
from quartzpy.jobs.internal_entries import TraceContext, Within
from quartzpy.jobs.job import Job, new_instance
from quartzpy.keys import MAIN, MAIN_IN_CHILD
from quartzpy.logs.captured import DEFAULT_LIMIT, LogLines
from quartzpy.node.engines.process_messages import Ending
from quartzpy.node.engines.remote_job import RemoteJob, keep
from quartzpy.node.progress_writer import RECENT_LOG_BYTES
from quartzpy.node.workers.endings import refuse_if_recorded
from quartzpy.node.workers.error_handling import describe, log_failure
from quartzpy.object_references import object_at
from quartzpy.store.postgresql.worker_store import Ticket, WorkerReport, WorkerStore
from quartzpy.texts import reason

logger = logging.getLogger(__name__)

URL = "QUARTZPY_WORKER_URL"
"""The environment variable of a worker with the URL of the database."""
PASSWORD_COMMAND = "QUARTZPY_WORKER_PASSWORD_COMMAND"
TAKE_WINDOW = 30.0
"""The time, in seconds, for which a call waits for the database before it begins."""
WINDOW = 60.0
"""The default of the time, in seconds, after which a node may give up an execution whose row is silent."""
TICK = 1.0
"""The shortest interval, in seconds, between two writes of the progress and the log of an execution."""
RETRY_REST = 0.5
_Mark = tuple[Progress | None, int]
"""The progress and the number of the log lines that stand in a row."""
_T = TypeVar("_T")


def run(message: str) -> str:
    """Run the call of an `Engine`, whose `message` this is, and return the answer for `EngineEvents.ended`.

    What engines may rely on:

    - It never raises, whatever the job raises, and returns the answer as JSON: `ending` says how the job ended;
      `refused`, that this run says nothing about the call, and the node looks at its row; `failed`, that the job has
      certainly not begun. The node reads it; an engine only passes it on.
    - A call with a ticket may be run any number of times, at the same time, on several machines, and long after its
      end: the job runs once. A run that comes second imports nothing of the job, and returns at once.
    - If the engine loses the answer, nothing is lost: it stands in the row of the execution.
    - It may be called on any thread on which no event loop runs, on many at once, and in a process that was forked. It
      returns only when the job has ended, also after a request to stop; a process may be killed at any time.

    The process needs the modules of the jobs, and for a call with a ticket the environment variable
    `QUARTZPY_WORKER_URL`.
    """
    may_have_begun = False
    try:
        call = json.loads(message)
        job = _WorkerJob(call) if call.get("submission") is None else _TicketedJob(call, _process)
        if not job.takes_its_ticket():
            return _answer("refused", "another run has the ticket, or the execution is not there any more")
        may_have_begun = True
        return job.answer()
    except BaseException as error:
        # Only an ordinary error of the database says that there is no ticket.
        is_certain = not may_have_begun and isinstance(error, Exception)
        return _answer("failed" if is_certain else "refused", reason(error))


def _answer(kind: str, why: str) -> str:
    return json.dumps({kind: f"worker {_worker_name()}: {why}"})


def _ended(ending: Ending) -> str:
    return json.dumps({"ending": vars(ending)})


def _worker_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


class _WorkerJob(RemoteJob):
    """A job on a worker of an engine, whose call has no ticket: all that it comes to is in the answer."""

    in_the_main_module = "that is the program of the node: define it in a module that the workers can import"
    without_transactions = (
        "its call has no ticket, so that the engine may run it again, and no connection to the store; use its own"
        " transaction and context.fire_id as a fencing token"
    )

    def __init__(self, message: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.place = f"worker {_worker_name()}"
        self._factory: str | None = message.get("job_factory")
        self._within_trace: str | None = message.get("within")
        self._max_job_data_bytes: int = message["max_job_data_bytes"]
        self._lines = LogLines(message.get("max_captured_log_bytes", DEFAULT_LIMIT))
        self._progress: Progress | None = None

    def takes_its_ticket(self) -> bool:
        return True

    def answer(self) -> str:
        """Run the job, and return the answer of the call."""
        return _ended(self._ending())

    def _ending(self) -> Ending:
        ending = self.run(self._new_instance, self._max_job_data_bytes, self._within)
        ending.log = self._lines.text()
        return ending

    def import_modules(self) -> None:
        for name in self.written["modules"]:
            try:
                if name not in (MAIN, MAIN_IN_CHILD):
                    importlib.import_module(name)
            except Exception as error:
                raise UnknownJobTypeError(
                    f"job type {self.written['type_name']!r}: {self.place} cannot import {name}: {reason(error)};"
                    " install the release that the node has, or name its directory in the PYTHONPATH of the worker"
                ) from error

    def _new_instance(self, job_class: type[Job]) -> Job:
        if self._factory is None:
            return new_instance(job_class)
        job: Job = object_at(self._factory, f"job_factory on {self.place}", "myapp.jobs:new_job")(job_class)
        return job

    def _within(self, trace: TraceContext) -> AbstractContextManager[object]:
        if self._within_trace is None:
            return nullcontext()
        try:
            within: Within = object_at(self._within_trace, "tracing", "myapp.tracing:within")
        except SettingsError as error:
            logger.info("an execution of this worker is not traced: %s", error)
            return nullcontext()
        return within(trace)

    def add_log(self, text: str) -> None:
        self._lines.add(text)

    def report_progress(self, progress: Progress) -> None:
        self._progress = progress


class _TicketedJob(_WorkerJob):
    """A job on a worker whose call has a ticket: its progress and its ending stand in the row of the execution."""

    def __init__(self, message: Mapping[str, Any], process: _Process) -> None:
        super().__init__(message)
        self.ticket = Ticket(message["scheduler"], self.fire_id, message["submission"])
        self.store = process.store(message.get("schema"), message["prefix"])
        self._process = process
        self._pid = os.getpid()
        self._window: float = message.get("window", WINDOW)
        self._touch_every: float = message.get("touch_every", self._window / 6)
        self._mark: _Mark = (None, 0)
        self._seen_at = time.monotonic()
        """When the latest touch began that has reached the row."""
        self._is_recording = False
        """True if a transaction of the job itself is recording, or may have recorded, the execution."""
        self._committed: Ending | None = None

    def takes_its_ticket(self) -> bool:
        """Return False if another run has the ticket."""

        def take() -> bool:
            self._seen_at = time.monotonic()
            return self.store.take(self.ticket, _worker_name())

        return _patiently(take, TAKE_WINDOW)

    def answer(self) -> str:
        """Run the job, and return the answer when its ending stands in the row."""
        self._process.touch(self)
        try:
            ending = self._ending()
            if self._committed is not None:
                return _ended(self._committed)
            # The row is touched until then, so that the node does not give it up.
            if _patiently(lambda: self.store.end(self.ticket, json.dumps(vars(ending))), self._window):
                return _ended(ending)
        finally:
            self._process.leave(self)
        return _answer(
            "refused", "the execution was given up while it ran, or has an ending already: this one does not count"
        )

    def failed(self, error: BaseException, ending: Ending) -> BaseException:
        if self._committed is not None and self.fired is not None and self.context is not None:
            what = "failed after it committed its transaction"
            log_failure(logger, self.fired, error, describe(error), what, self.context.log_attributes)
        return error

    # --- for the context

    @property
    def lease_lost(self) -> bool:
        # A node gives up a row that is silent for so long, and may be doing it.
        is_silent = time.monotonic() - self._seen_at >= self._window
        return self._has_lost_lease or (is_silent and not self._is_recording)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        try:
            with self._transaction("transaction", self._recorded) as connection:
                yield connection
        except BaseException as error:
            # If the commit may have succeeded, a row with its ending must not be taken for a void one.
            self._is_recording = isinstance(error, OutcomeUnknownError)
            raise
        self._committed = self._to_commit

    def _recorded(self) -> str:
        assert self.fired is not None
        assert self.context is not None
        ending = self._to_commit = Ending(noticed_stop=False, log=self._lines.text(), is_committed=True)
        keep(ending, self.context, self._max_job_data_bytes if self.fired.persists_data else None)
        self._is_recording = True
        return json.dumps(vars(ending))

    @contextmanager
    def fenced_transaction(self) -> Iterator[Any]:
        with self._transaction("fenced_transaction", None) as connection:
            yield connection
            refuse_if_recorded("fenced_transaction", self._committed)

    @contextmanager
    def _transaction(self, method: str, ending: Callable[[], str] | None) -> Iterator[Any]:
        refuse_if_recorded(method, self._committed)
        if os.getpid() != self._pid:
            raise InvalidValueError(f"context.{method}(): a process that the job has forked has no connection")
        with self.store.transaction(self.ticket, ending) as connection:
            yield connection

    # --- for the thread that touches the rows

    def report(self, now: float) -> tuple[WorkerReport, _Mark] | None:
        """Return what is to be written now, and the mark of what that is; None if it is too early."""
        mark = progress, count = self._progress, self._lines.count
        if self._committed is not None or (mark == self._mark and now - self._seen_at < self._touch_every):
            return None
        is_progress_old, is_log_old = progress is self._mark[0], count == self._mark[1]
        log = None if is_log_old else self._lines.recent(RECENT_LOG_BYTES)
        return WorkerReport(None if is_progress_old else progress, log), mark

    def touched(self, mark: _Mark, began_at: float, is_to_stop: bool | None) -> None:
        """Note what a touch has found; `is_to_stop` is None if the row is void."""
        if is_to_stop is not None:
            self._mark, self._seen_at = mark, began_at
            if is_to_stop and not self.cancelled.is_requested:
                self.stop()
        elif not (self._is_recording or self._has_lost_lease):
            self.stop(lease_lost=True)


def _patiently(call: Callable[[], _T], seconds: float) -> _T:
    """Call until the database can be reached, for at most `seconds`."""
    warn_at, give_up_at = time.monotonic(), time.monotonic() + seconds
    while True:
        try:
            return call()
        except StoreUnavailableError as error:
            now = time.monotonic()
            if now + RETRY_REST >= give_up_at:
                raise
            if now >= warn_at:
                logger.warning("a call of this worker waits for the database: %s", reason(error))
                warn_at = give_up_at
            threading.Event().wait(RETRY_REST)


class _Process:
    """What the executions of this process share. A process that is forked from it begins with nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stores: dict[tuple[str, str | None, str], WorkerStore] = {}
        self._running: set[_TicketedJob] = set()
        self._is_touching = False
        self._trouble: str | None = None

    def store(self, schema: str | None, prefix: str) -> WorkerStore:
        """Return the store of these tables.

        Raises:
            SettingsError: the environment of this process does not say where it is.
        """
        url = os.environ.get(URL)
        if not url:
            raise SettingsError(
                f"the environment variable {URL} is not set here; it must have the URL of the database of the node,"
                " such as postgresql://worker@db.example/app"
            )
        with self._lock:
            store = self._stores.get((url, schema, prefix))
            if store is None:
                command = os.environ.get(PASSWORD_COMMAND)
                store = WorkerStore(url, schema=schema, prefix=prefix, password_command=command)
                self._stores[url, schema, prefix] = store
            return store

    def touch(self, job: _TicketedJob) -> None:
        """Touch the row of an execution until it leaves."""
        with self._lock:
            if not self._is_touching:
                threading.Thread(target=self._touch_all, name="quartzpy-worker-touches", daemon=True).start()
                self._is_touching = True
            self._running.add(job)

    def leave(self, job: _TicketedJob) -> None:
        with self._lock:
            self._running.discard(job)

    def _touch_all(self) -> None:
        while True:
            threading.Event().wait(TICK)
            with self._lock:
                jobs = list(self._running)
                self._is_touching = bool(jobs)
            if not jobs:
                return
            for store in {job.store for job in jobs}:
                try:
                    self._touch(store, [job for job in jobs if job.store is store])
                    self._trouble = None
                except Exception as error:
                    # The jobs go on: the node may not reach the database either, and each touch may be the next.
                    if self._trouble is None:
                        logger.warning("the executions of this worker cannot be touched: %s", reason(error))
                    self._trouble = reason(error)

    def _touch(self, store: WorkerStore, jobs: list[_TicketedJob]) -> None:
        now = time.monotonic()
        reports = {job: report for job in jobs if (report := job.report(now)) is not None}
        if reports:
            written = store.touch({job.ticket: report for job, (report, _) in reports.items()})
            for job, (_, mark) in reports.items():
                job.touched(mark, now, written.get(job.ticket))


_process = _Process()
_of_parents: list[_Process] = []
"""Kept, because a connection that is destroyed in a forked process would end that of its parent."""


def _forget() -> None:
    global _process
    _of_parents.append(_process)
    _process = _Process()


os.register_at_fork(after_in_child=_forget)
