"""A fire that is running on this node: who can ask it to stop, and how."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from quartzpy.cancellation import Cancellation
from quartzpy.context import JobExecutionContext
from quartzpy.runtime.epoch import Epoch
from quartzpy.store.protocol import FiredTrigger

if TYPE_CHECKING:
    from quartzpy.runtime.executors import Executor

CUT_OFF_AFTER = 0.2
"""Seconds that an `async def` job has to end by itself when it is asked to stop. A thread cannot be cut off."""


class Stoppable(Protocol):
    """Where a job runs that can be cut off."""

    def cancel_after(self, seconds: float) -> None:
        """Cut it off in so many seconds, unless it ends before. May be called again, and after its end."""
        ...


class Execution:
    """A fire that is running, or about to."""

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
        """True if it is being recorded, or was, by a transaction of its job's own."""
        self._disowned = False
        self.context: JobExecutionContext | None = None
        self.work: Stoppable | None = None
        self.deadline: int | None = None
        """The number of what is to be done at its deadline."""
        self._recorded = threading.Lock()
        self._freed = threading.Lock()

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

    def is_recorded_first(self) -> bool:
        """Return whether this is the first time that its completion is handed on: there is one, whoever ends it."""
        return self._recorded.acquire(blocking=False)

    def is_freed_first(self) -> bool:
        """Return whether this is the first time that its slot is given back."""
        return self._freed.acquire(blocking=False)

    @property
    def has_ended(self) -> bool:
        """True if its completion was handed on."""
        return self._recorded.locked()

    @property
    def lease_lost(self) -> bool:
        """True if it may not count any more: its epoch or its own row is gone, or its lease ran out by the node's own
        clock, so that others may have judged it."""
        return self._disowned or not self.epoch.trusted

    @property
    def is_over(self) -> bool:
        """True if it does not count any more: its epoch, or its own row, is gone."""
        return self._disowned or self.epoch.lost

    def disown(self) -> None:
        """Its row is gone: it no longer counts."""
        self._disowned = True
        self.stop()

    def stop(self) -> None:
        """Ask it to stop; cut off what can be."""
        self.cancelled.set()
        if self.work is not None:
            self.work.cancel_after(CUT_OFF_AFTER)

    def time_out(self) -> None:
        self.timed_out = True
        self.stop()
