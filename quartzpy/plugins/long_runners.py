"""A plugin that asks long-running executions to stop (Quartz's `JobInterruptMonitorPlugin`)."""

from __future__ import annotations

import threading

from quartzpy.clock import SystemClock
from quartzpy.errors import SettingsError
from quartzpy.events.events import Event, JobToBeExecuted, JobWasExecuted
from quartzpy.instants import Span, as_span
from quartzpy.node.workers.deadlines import Deadlines
from quartzpy.scheduler.scheduler import BaseScheduler


class InterruptLongRunners:
    """Asks executions on this node to stop once they have run for `after` ("10m"): `context.cancelled` becomes True.

    The key `interrupt_after` in the job's data overrides it with another span, or "never". Prefer the job's own
    `timeout` where you know the limit, because it also fails the execution.
    """

    KEY = "interrupt_after"

    _scheduler: BaseScheduler

    def __init__(self, after: Span) -> None:
        self._after = as_span(after, "after", SettingsError)
        self._deadlines = Deadlines("quartzpy-long-runners", SystemClock())
        self._lock = threading.Lock()
        self._numbers: dict[int, int] = {}

    def initialize(self, scheduler: BaseScheduler) -> None:
        self._scheduler = scheduler
        scheduler.listeners.add_listener(self._watch, JobToBeExecuted, JobWasExecuted)

    def start(self) -> None: ...

    def shutdown(self) -> None:
        self._deadlines.close()

    def _watch(self, event: Event) -> None:
        if isinstance(event, JobToBeExecuted):
            own = event.context.job_data.get(self.KEY)
            if own == "never":
                return
            span = self._after if own is None else as_span(own, self.KEY, SettingsError)
            identity = event.context.fire_id

            def interrupt() -> None:
                self._scheduler.interrupt_execution(identity)

            number = self._deadlines.add(span.total_seconds(), interrupt)
            with self._lock:
                self._numbers[identity] = number
        elif isinstance(event, JobWasExecuted):
            with self._lock:
                ended = self._numbers.pop(event.context.fire_id, None)
            if ended is not None:
                self._deadlines.cancel(ended)
