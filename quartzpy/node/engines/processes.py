"""Process workers: they run jobs in child processes, which use other cores and can be killed.

A worker thread of the node owns the execution, and runs a proxy job that waits for the child. Listeners, retries and
the completion are the same as for a job on a thread, and stay in the node.
"""

from __future__ import annotations

import atexit
import errno
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from multiprocessing import resource_tracker
from multiprocessing.reduction import ForkingPickler
from typing import Any

from quartzpy.clock import Clock
from quartzpy.errors import (
    InvalidValueError,
    JobCancelledError,
    LeaseLostError,
    SchedulerStateError,
    WorkerDiedError,
)
from quartzpy.job_data import decode
from quartzpy.jobs.context import JobExecutionContext
from quartzpy.jobs.internal_entries import Tracing
from quartzpy.jobs.job import Job, JobFactory, JobTypes
from quartzpy.node.engines.child_process import SIGNALS_OF_THE_NODE, serve
from quartzpy.node.engines.process_messages import (
    LOG,
    PROGRESS,
    RUN,
    STOP,
    Ending,
    error_from_json,
    fired_to_json,
    pack,
    unpack,
)
from quartzpy.node.engines.worker_process import WorkerProcess, died
from quartzpy.node.workers.deadlines import Deadlines
from quartzpy.node.workers.execution import Execution
from quartzpy.node.workers.job_calls import NOT_BEGUN
from quartzpy.store.process_identity import PROCESS_WORKER
from quartzpy.texts import quoted

KILL_AFTER = 2.0
"""The time, in seconds, that a job in a child process has to end after a request to stop, before it is killed."""
START_AGAIN_AFTER = 0.5
"""The delay, in seconds, before another attempt to start a process if the system refuses one."""
JOIN_SECONDS = 1.0
"""The time, in seconds, that a process may take to end after its pipe was closed."""

# Temporary errors: too many processes, too many open files, too little memory.
_PASSES = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})

logger = logging.getLogger(__name__)

# A forked child would inherit locks that other threads of the node hold, and never release them.
_SPAWN = multiprocessing.get_context("spawn")


class ProcessWorkers:
    """A pool of at most `size` child processes, which start on demand. The most recently used one is reused first.

    `job_factory` creates the job instances in the child. If it raises, or if the child cannot import the job's module,
    the execution fails like one whose job raises: the triggers do not go to ERROR.

    Raises:
        InvalidValueError: `job_factory` cannot be pickled.
    """

    def __init__(
        self,
        name: str,
        size: int,
        *,
        job_types: JobTypes,
        job_factory: JobFactory,
        max_job_data_bytes: int,
        clock: Clock,
        tracing: Tracing | None = None,
        memory_limit: int | None = None,
    ) -> None:
        try:
            ForkingPickler.dumps(job_factory)
        except Exception as error:
            raise InvalidValueError(
                "job_factory: with process workers it must be picklable: a function at the top level of a module, or an"
                f" instance with picklable attributes (got {quoted(job_factory)}: {error})"
            ) from None
        self._name = name
        self._job_types = job_types
        self._job_factory = job_factory
        # Without a function for the child, no trace context is sent.
        self._tracing = None if tracing is None or tracing.within is None else tracing
        self._max_job_data_bytes = max_job_data_bytes
        self._clock = clock
        self._memory_limit = memory_limit
        self._refused = False
        self._deadlines = Deadlines(f"{name}-cut-off", clock)
        self._slots = threading.BoundedSemaphore(size)
        self._changed = threading.Condition()
        self._idle: list[WorkerProcess] = []
        self._runs: set[_ProcessRun] = set()
        self._numbers = count(1)
        self._closed = False
        self._program_ends = False
        self._pid = os.getpid()

    def proxy_for(self, execution: Execution) -> Job:
        """Return a proxy job, whose `execute(context)` runs the real job in a child, with its result or its error.

        Changes to `context.job_detail_data` are copied back if they are to be stored. Values that `context.put` stores
        are not shared between the processes.

        Raises:
            UnknownJobTypeError: the job type is not registered in this process.
        """
        return _ProxyJob(self._run, execution, self._job_types.find(execution.fired.job_type))

    def keep_running(self) -> None:
        """Start the thread that kills unresponsive children, if it could not be started before."""
        self._deadlines.keep_running()

    def close(self, timeout: float) -> None:
        """End the children. Ask running jobs to stop, and kill those that have not ended within `timeout` seconds."""
        deadline = self._clock.monotonic() + timeout
        with self._changed:
            self._closed = True
            runs = list(self._runs)
        for run in runs:
            run.execution.stop()
        with self._changed:
            for child in self._idle:
                child.send_end()
            self._changed.wait_for(lambda: not self._runs, timeout)
            for run in self._runs:
                run.kill()
            self._changed.wait_for(lambda: not self._runs, JOIN_SECONDS)
            idle, self._idle = self._idle, []
        for child in idle:
            child.send_end()
            child.reap(max(0.0, deadline - self._clock.monotonic()), on_request=True)
        self._deadlines.close()
        atexit.unregister(self._kill_all)

    # --- an execution

    def _run(self, execution: Execution, job_class: type[Job], context: JobExecutionContext) -> Ending:
        changed = context.job_detail_data.encode_if_changed() if context.refire_count else None
        task = pack(
            RUN,
            fired=fired_to_json(execution.fired, job_class, changed),
            trace={} if self._tracing is None else dict(self._tracing.current()),
            refire_count=context.refire_count,
            instance_id=context.instance_id,
        )
        with self._slots:
            while True:
                run = self._begin_with_retry(execution)
                try:
                    ending = Ending(**run.result_of(task, context))
                    run.is_spent = ending.is_spent
                    return ending
                except WorkerDiedError as error:
                    if self._memory_limit is not None:
                        error.add_note(f"Its memory_limit was {self._memory_limit // 2**20} MB.")
                    if not run.may_be_repeated:
                        raise
                finally:
                    self._end(run)

    def _begin_with_retry(self, execution: Execution) -> _ProcessRun:
        """Begin a run, and retry while the system refuses another process."""
        while True:
            try:
                run = self._begin(execution)
            except OSError as error:
                if error.errno not in _PASSES or execution.cancelled.is_requested:
                    raise
                if not self._refused:
                    logger.error("a worker process cannot be started (%s); executions wait for it", error)
                self._refused = True
            else:
                if self._refused:
                    logger.warning("worker processes can be started again")
                self._refused = False
                return run
            with self._changed:
                self._changed.wait(START_AGAIN_AFTER)

    def _begin(self, execution: Execution) -> _ProcessRun:
        with self._changed:
            if self._closed:
                raise SchedulerStateError("the process workers of this node are closed and start no more jobs")
            child = None
            while child is None and self._idle:
                latest = self._idle.pop()
                if latest.has_ended:
                    latest.reap(JOIN_SECONDS)
                else:
                    child = latest
            run = _ProcessRun(child or self._start_child(), execution, self._deadlines)
            self._runs.add(run)
            return run

    def _end(self, run: _ProcessRun) -> None:
        if self._program_ends:
            # The killed child must not be recorded as a failure of the job: other nodes recover the execution.
            threading.Event().wait()
        is_usable = run.end()
        if not is_usable:
            run.child.kill()
            run.child.reap(JOIN_SECONDS)
        with self._changed:
            self._runs.discard(run)
            if is_usable:
                self._idle.append(run.child)
            self._changed.notify_all()

    def _start_child(self) -> WorkerProcess:
        number = next(self._numbers)
        if number == 1:
            atexit.register(self._kill_all)
        ours, theirs = _SPAWN.Pipe()
        with theirs:
            process = _SPAWN.Process(
                target=serve,
                args=(
                    theirs,
                    self._job_factory,
                    self._max_job_data_bytes,
                    self._memory_limit,
                    None if self._tracing is None else self._tracing.within,
                ),
                name=f"{PROCESS_WORKER}-{self._name}-{number}",
                daemon=True,
            )
            # Starting it also unblocks signals, so it must not start together with the first child below.
            resource_tracker.ensure_running()
            before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS_OF_THE_NODE)
            try:
                process.start()
            except BaseException:
                ours.close()
                raise
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return WorkerProcess(process, ours)

    def _kill_all(self) -> None:
        """Kill all children when the program exits without `close`.

        multiprocessing would only send SIGTERM, which the children ignore, and wait for ever.
        """
        if os.getpid() != self._pid:
            # A fork of the program does not own the children.
            return
        self._program_ends = True
        for child in [*self._idle, *(run.child for run in self._runs)]:
            child.kill()


class _ProxyJob(Job, type_name="<process worker>"):
    """A job that runs another one in a child process. It is not a registered job type."""

    def __init__(
        self,
        run: Callable[[Execution, type[Job], JobExecutionContext], Ending],
        execution: Execution,
        job_class: type[Job],
    ) -> None:
        self._run = run
        self._execution = execution
        self._job_class = job_class

    def execute(self, context: JobExecutionContext) -> Any:
        ending = self._run(self._execution, self._job_class, context)
        if ending.noticed_stop:
            self._execution.cancelled.notice()
        if ending.job_data is not None:
            context.job_detail_data.clear()
            context.job_detail_data.update(decode(ending.job_data))
        self._execution.result_problem = ending.result_problem
        if ending.result is not None:
            context.result = decode(ending.result)["result"]
        if ending.error is not None:
            raise error_from_json(ending.error)
        return context.result


class _ProcessRun:
    """The run of one execution in a child. Any thread may stop it."""

    def __init__(self, child: WorkerProcess, execution: Execution, deadlines: Deadlines) -> None:
        self.child = child
        self.execution = execution
        self._deadlines = deadlines
        self._lock = threading.Lock()
        self._kill_at: int | None = None
        self._killed = False
        self._ended = False
        self._is_answered = False
        self.is_spent = False
        self.may_be_repeated = False
        """True if a reused child died before it started the job, so that the job has certainly not run."""

    def result_of(self, task: bytes, context: JobExecutionContext) -> dict[str, Any]:
        """Let the child run a task, pass on the progress and the log lines that it sends, and return its answer.

        Raises:
            WorkerDiedError: the child died.
            JobCancelledError: the child was killed.
        """
        child = self.child
        # Set before the task is sent, so that a child that never becomes ready can be killed too.
        self.execution.work = self
        has_worked, has_begun = child.is_ready, False
        try:
            if not child.is_ready:
                child.receive()
                child.is_ready = True
            if not self.execution.epoch.wait_until_trusted():
                # The lease may have expired while this thread waited for the child.
                self._is_answered = True
                raise LeaseLostError(NOT_BEGUN)
            child.send(task)
            if self.execution.cancelled.is_requested:
                # The request to stop may have come before the child had the task.
                self.execution.stop()
            child.receive()
            has_begun = True
            kind, answer = unpack(child.receive())
            while kind in (PROGRESS, LOG):
                if kind == PROGRESS:
                    context.progress(answer["fraction"], answer["message"])
                elif self.execution.log_lines is not None:
                    self.execution.log_lines.add(answer["text"])
                kind, answer = unpack(child.receive())
        except (EOFError, OSError):
            code = child.reap(JOIN_SECONDS)
            if self._killed:
                raise JobCancelledError(
                    "this execution ignored the request to stop, and its process was killed"
                ) from None
            self.may_be_repeated = has_worked and not has_begun
            raise died(code, child.is_ready) from None
        self._is_answered = True
        return answer

    def cancel_after(self, seconds: float) -> None:
        """Ask the job to stop; cancel an `async def` job after `seconds`; kill the process after `KILL_AFTER`."""
        with self._lock:
            if self._ended:
                return
            if self._kill_at is None:
                self._kill_at = self._deadlines.add(KILL_AFTER, self.kill)
        fire_id, lease_lost = self.execution.fired.fire_id, self.execution.lease_lost
        with suppress(OSError):
            self.child.send(pack(STOP, fire_id=fire_id, cut_off_after=seconds, lease_lost=lease_lost))

    def kill(self) -> None:
        with self._lock:
            if not self._ended:
                self._killed = True
                self.child.kill()

    def end(self) -> bool:
        """Detach the child from this execution. Return whether it can be reused."""
        with self._lock:
            self._ended = True
        if self._kill_at is not None:
            self._deadlines.cancel(self._kill_at)
        return self._is_answered and not self._killed and not self.is_spent
