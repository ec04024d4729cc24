"""The handle of a manually triggered execution, and the wait for an execution.

A handle holds keys only. Each call queries the store, so a handle never becomes stale, no matter how long it is kept
and which node changes the job.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from quartzpy.errors import WaitTimeoutError
from quartzpy.instants import Span, as_span
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.scheduler.methods.base import Methods
from quartzpy.states import BEGUN, ENDED, ExecutionState
from quartzpy.store.protocol import JobStore
from quartzpy.store.queries import ExecutionQuery
from quartzpy.store.records import ExecutionRecord

_SHORTEST, _LONGEST = 0.01, 0.5
"""Seconds between two polls of the store: at first, and the maximum."""


class TriggeredExecution:
    """A manually triggered execution, which may not have started yet; `trigger_job` and `run_again` return one."""

    def __init__(self, scheduler: Methods, key: TriggerKey, job_key: JobKey, since: datetime | None = None) -> None:
        self._scheduler = scheduler
        self._key = key
        self._job_key = job_key
        self._since = since

    @property
    def key(self) -> TriggerKey:
        """The key of the trigger that fires it."""
        return self._key

    @property
    def job_key(self) -> JobKey:
        """The key of the job that runs."""
        return self._job_key

    @property
    def record(self) -> ExecutionRecord | None:
        """The current record of the execution, which waits, runs or has ended; None if nothing is stored about it."""
        store = self._scheduler._usable_store()
        record = self._find(store, frozenset(ExecutionState))
        return None if record is None else _with_log(store, record)

    def _find(self, store: JobStore, states: frozenset[ExecutionState]) -> ExecutionRecord | None:
        query = ExecutionQuery(states=states, trigger_key=self._key, since=self._since)
        return next(iter(store.find(query, 1)), None)

    def cancel(self) -> bool:
        """Cancel the coming fire, or ask the running execution to stop. Return True if either was possible."""
        store = self._scheduler._usable_store()
        taken_back = bool(store.delete_triggers([self._key]))
        record = self._find(store, frozenset(ExecutionState))
        if record is None or record.fire_id is None or record.outcome is not None:
            return taken_back
        return bool(store.request_cancel(record.fire_id))

    def wait(self, timeout: Span | None = None) -> ExecutionRecord:
        """Wait until the execution has ended, on any node; return its record with its log lines.

        If the job is retried, the record is that of the first attempt.

        Raises:
            WaitTimeoutError: the execution did not end within `timeout` (None: wait without a limit).
        """
        store = self._scheduler._usable_store()

        def look() -> ExecutionRecord | None:
            return self._find(store, ENDED)

        def has_begun() -> bool:
            return self._find(store, BEGUN) is not None

        failure = f"the execution of job {self._job_key} by {self._key} did not end"
        return wait_for(self._scheduler, store, look, has_begun, timeout, failure)

    def __repr__(self) -> str:
        return f"TriggeredExecution(job={str(self._job_key)!r}, trigger={str(self._key)!r})"


def _with_log(store: JobStore, record: ExecutionRecord) -> ExecutionRecord:
    """Return the same record with its log lines, which a query of executions does not read."""
    if record.log_is_read or record.outcome is None or record.fire_id is None:
        return record
    # The history may have been purged between the two queries.
    return store.execution(record.fire_id) or record


def wait_for(
    scheduler: Methods,
    store: JobStore,
    look: Callable[[], ExecutionRecord | None],
    has_begun: Callable[[], bool],
    timeout: Span | None,
    failure: str,
) -> ExecutionRecord:
    """Poll the store until `look` finds a record; return it.

    Raises:
        WaitTimeoutError: it found none within `timeout`; the message begins with `failure`.
        SchedulerStateError: the scheduler was shut down, and its drain is over or waits without a limit for a job that
            waits for an execution that no node can begin.
    """
    limit = None if timeout is None else as_span(timeout, "timeout").total_seconds()
    clock = scheduler._clock
    began = clock.monotonic()
    rest = _SHORTEST
    while (record := look()) is None:
        if limit is not None and clock.monotonic() - began >= limit:
            raise WaitTimeoutError(f"{failure} within {limit:g} s")
        scheduler._rest(rest, has_begun)
        rest = min(2 * rest, _LONGEST)
    return _with_log(store, record)
