"""The progress writer: it stores the progress and the log lines of running jobs."""

from __future__ import annotations

import threading
from collections import defaultdict

from quartzpy.clock import Clock
from quartzpy.jobs.context import Progress
from quartzpy.node.registration import Epoch
from quartzpy.node.service import Service, StoreWatch
from quartzpy.node.workers.execution import Execution
from quartzpy.store.protocol import JobStore

INTERVAL = 1.0
"""The shortest time, in seconds, between two writes of a node."""
IDLE_REST = 60.0
RECENT_LOG_BYTES = 8_192
"""The size of the log lines that are stored of a running execution: each write repeats them."""

_Reports = dict[int, tuple[Execution, Progress]]


class ProgressWriter(Service):
    """A thread that stores the latest progress and log lines of all executions of the node, by one statement a second.

    Jobs never wait for the database when they report progress or log. The lines of a job are stored if they have
    changed, and from its second second on, so that short jobs cost no write.
    """

    def __init__(self, name: str, *, store: JobStore, clock: Clock, watch: StoreWatch) -> None:
        super().__init__(name, watch=watch, clock=clock)
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._reports: _Reports = {}
        self._logging: dict[Execution, int] = {}
        """The executions whose log is followed, with the number of their lines at the last write."""
        self._written_at = float("-inf")

    def report(self, execution: Execution, progress: Progress) -> None:
        """Take the progress of an execution. It replaces a report that has not been stored yet."""
        with self._lock:
            is_first = not self._reports
            self._reports[execution.fired.fire_id] = (execution, progress)
        if is_first:
            self.wakeup.set()

    def follow_log(self, execution: Execution) -> None:
        """Store the log lines of an execution, which has just begun to capture them, until it ends."""
        with self._lock:
            is_first = not self._logging
            self._logging[execution] = 0
        if is_first:
            self.wakeup.set()

    def run_once(self) -> float:
        now = self._clock.monotonic()
        rest = self._written_at + INTERVAL - now
        if rest > 0:
            return rest
        with self._lock:
            reports, self._reports = self._reports, {}
            self._logging = {execution: count for execution, count in self._logging.items() if _is_running(execution)}
            logging = list(self._logging.items())
        reports = {fire_id: report for fire_id, report in reports.items() if _is_running(report[0])}
        changed = [execution for execution, count in logging if _has_new_lines(execution, count, now)]
        if not reports and not changed:
            return INTERVAL if logging else IDLE_REST
        self._written_at = now
        try:
            reports = self._unwritten(reports, changed)
        finally:
            # After an error, these are all of them.
            with self._lock:
                self._reports = reports | self._reports
        return INTERVAL

    def _unwritten(self, reports: _Reports, logging: list[Execution]) -> _Reports:
        """Store what was reported, and return the reports whose rows other transactions hold."""
        by_epoch: defaultdict[Epoch, dict[int, Progress]] = defaultdict(dict)
        for fire_id, (execution, progress) in reports.items():
            by_epoch[execution.epoch][fire_id] = progress
        lines: defaultdict[Epoch, dict[int, str]] = defaultdict(dict)
        counts: dict[int, tuple[Execution, int]] = {}
        for execution in logging:
            assert execution.log_lines is not None
            # Counted first: a line that is added between is written again.
            counts[execution.fired.fire_id] = execution, execution.log_lines.count
            lines[execution.epoch][execution.fired.fire_id] = execution.log_lines.recent(RECENT_LOG_BYTES) or ""
        written: set[int] = set()
        for epoch in by_epoch.keys() | lines.keys():
            written.update(self._store.report_progress(epoch.node, by_epoch[epoch], lines[epoch]))
        with self._lock:
            self._logging |= dict(entry for fire_id, entry in counts.items() if fire_id in written)
        return {fire_id: report for fire_id, report in reports.items() if fire_id not in written}


def _is_running(execution: Execution) -> bool:
    return not (execution.has_ended or execution.is_recording or execution.is_over)


def _has_new_lines(execution: Execution, stored: int, now: float) -> bool:
    lines, began_at = execution.log_lines, execution.began_at
    return lines is not None and lines.count > stored and began_at is not None and now - began_at >= INTERVAL
