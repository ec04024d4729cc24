"""An execution on this node: its state, and the ways to stop it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from quartzpy.config.executors import ExecutorKind
from quartzpy.jobs.cancellation import Cancellation
from quartzpy.jobs.context import JobExecutionContext
from quartzpy.jobs.job import Job
from quartzpy.logs.captured import LogLines
from quartzpy.node.workers.epoch import Epoch
from quartzpy.node.workers.worker_pool import WorkerPool
from quartzpy.store.protocol import FiredTrigger

CUT_OFF_AFTER = 0.2
"""The time, in seconds, that an `async def` job has to end after a request to stop, before it is cancelled.

A job on a thread cannot be cancelled."""


class Stoppable(Protocol):
    """A running job that can be cancelled from outside."""

    def cancel_after(self, seconds: float) -> None:
        """Cancel the job after `seconds` unless it ends before. It may be called repeatedly, and after the end."""
        ...


class JobProcesses(Protocol):
    """Child processes that run the jobs of an executor; `ProcessWorkers` implements it."""

    def proxy_for(self, execution: Execution) -> Job: ...

    def keep_running(self) -> None: ...

    def close(self, timeout: float) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class Executor:
    """A worker pool of a node. With `processes`, its threads only wait for jobs in child processes."""

    name: str
    kind: ExecutorKind
    pool: WorkerPool
    processes: JobProcesses | None


class Execution:
    """A committed fire that is running or about to run.

    The class has slots, and no lock of its own: a node makes thousands of executions in a second.
    """

    __slots__ = (
        "_disowned",
        "_scheduler",
        "_unfreed",
        "_unrecorded",
        "began_at",
        "cancelled",
        "context",
        "deadline",
        "epoch",
        "executor",
        "fired",
        "is_recording",
        "log_lines",
        "timed_out",
        "work",
    )

    def __init__(
        self, fired: FiredTrigger, epoch: Epoch, executor: Executor | None = None, scheduler: str = ""
    ) -> None:
        self.fired = fired
        self.epoch = epoch
        self.executor = executor
        self._scheduler = scheduler
        self.cancelled = Cancellation()
        self.timed_out = False
        self.is_recording = False
        """True if a transaction of the job itself is recording, or has recorded, the execution."""
        self._disowned = False
        self.context: JobExecutionContext | None = None
        self.work: Stoppable | None = None
        self.log_lines: LogLines | None = None
        """The captured log lines, if the job asks for them."""
        self.deadline: int | None = None
        """The number of its entry in `Deadlines`."""
        self.began_at: float | None = None
        """The monotonic time at which it began to run on this node. None before."""
        # `bytearray.pop` is atomic, and the garbage collector does not visit a bytearray.
        self._unrecorded = bytearray(1)
        self._unfreed = bytearray(1)

    @property
    def log_attributes(self) -> dict[str, str | int]:
        """The attributes of log records about this execution."""
        return {
            "job": str(self.fired.job_key),
            "trigger": str(self.fired.trigger_key),
            "fire_id": self.fired.fire_id,
            "node": self.epoch.node.instance_id,
            "scheduler": self._scheduler,
        }

    @property
    def log_text(self) -> str | None:
        """The captured log lines so far; None if there are none."""
        return None if self.log_lines is None else self.log_lines.text()

    def is_recorded_first(self) -> bool:
        """Return True for the first caller only, which reports the completion."""
        return _popped(self._unrecorded)

    def is_freed_first(self) -> bool:
        """Return True for the first caller only, which frees the slot."""
        return _popped(self._unfreed)

    @property
    def has_ended(self) -> bool:
        """True if the completion was reported."""
        return not self._unrecorded

    @property
    def lease_lost(self) -> bool:
        """True if another node may be running the job.

        The epoch is lost, the row of the execution is gone, or the lease has expired by this node's own clock.
        """
        return self._disowned or not self.epoch.trusted

    @property
    def is_over(self) -> bool:
        """True if the execution is certainly invalid: its epoch is lost, or its row is gone."""
        return self._disowned or self.epoch.lost

    def disown(self) -> None:
        """Mark the execution as invalid because its row is gone, and stop it."""
        self._disowned = True
        self.stop()

    def stop(self) -> None:
        """Ask the job to stop, and cancel it soon after if that is possible."""
        self.cancelled.set()
        # Read once, because the loop drops it when the job ends.
        work = self.work
        if work is not None:
            work.cancel_after(CUT_OFF_AFTER)

    def time_out(self) -> None:
        self.timed_out = True
        self.stop()


def _popped(token: bytearray) -> bool:
    try:
        token.pop()
    except IndexError:
        return False
    return True
