"""The progress writer: it stores the progress that running jobs report."""

from __future__ import annotations

import threading
from collections import defaultdict

from quartzpy.clock import Clock
from quartzpy.execution.epoch import Epoch
from quartzpy.execution.execution import Execution
from quartzpy.jobs.progress import Progress
from quartzpy.runtime.outage import StoreWatch
from quartzpy.runtime.service import Service
from quartzpy.store.protocol import JobStore

INTERVAL = 1.0
"""The shortest time, in seconds, between two writes of a node."""
IDLE_REST = 60.0

_Reports = dict[int, tuple[Execution, Progress]]


class ProgressWriter(Service):
    """A thread that stores the latest progress of all executions of the node with one statement per interval.

    Jobs never wait for the database when they report progress.
    """

    def __init__(self, name: str, *, store: JobStore, clock: Clock, watch: StoreWatch) -> None:
        super().__init__(name, watch=watch, clock=clock)
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._reports: _Reports = {}
        self._written_at = float("-inf")

    def report(self, execution: Execution, progress: Progress) -> None:
        """Take the progress of an execution. It replaces a report that has not been stored yet."""
        with self._lock:
            is_first = not self._reports
            self._reports[execution.fired.fire_id] = (execution, progress)
        if is_first:
            self.wakeup.set()

    def run_once(self) -> float:
        rest = self._written_at + INTERVAL - self._clock.monotonic()
        if rest > 0:
            return rest
        with self._lock:
            reports, self._reports = self._reports, {}
        reports = {fire_id: report for fire_id, report in reports.items() if _is_running(report[0])}
        if not reports:
            return IDLE_REST
        self._written_at = self._clock.monotonic()
        try:
            reports = self._unwritten(reports)
        finally:
            # After an error, these are all of them.
            with self._lock:
                self._reports = reports | self._reports
        return INTERVAL

    def _unwritten(self, reports: _Reports) -> _Reports:
        """Store the reports, and return those that could not be stored because other transactions hold the rows."""
        by_epoch: defaultdict[Epoch, dict[int, Progress]] = defaultdict(dict)
        for fire_id, (execution, progress) in reports.items():
            by_epoch[execution.epoch][fire_id] = progress
        written: set[int] = set()
        for epoch, values in by_epoch.items():
            written.update(self._store.report_progress(epoch.node, values))
        return {fire_id: report for fire_id, report in reports.items() if fire_id not in written}


def _is_running(execution: Execution) -> bool:
    return not (execution.has_ended or execution.is_recording or execution.is_over)
