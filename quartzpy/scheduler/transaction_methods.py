"""The scheduling verbs inside a user's own transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from quartzpy.clock import Clock
from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import SchedulerStateError
from quartzpy.events.events import Event
from quartzpy.jobs.internal_entries import CurrentTrace
from quartzpy.jobs.job import JobTypes
from quartzpy.scheduler.methods.scheduling import SchedulingMethods
from quartzpy.store.protocol import JobStore, Notification


class TransactionMethods(SchedulingMethods):
    """The verbs of one transaction; `Scheduler.using` returns them. They cannot be used after the transaction."""

    def __init__(
        self,
        store: JobStore,
        config: SchedulerConfig,
        clock: Clock,
        job_types: JobTypes,
        job_defaults: Mapping[str, Any],
        current_trace: CurrentTrace | None = None,
    ) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._job_types = job_types
        self._job_defaults = job_defaults
        self._current_trace = current_trace

    def _usable_store(self) -> JobStore:
        return self._store

    def _inside(self, store: JobStore) -> TransactionMethods:
        return TransactionMethods(
            store, self._config, self._clock, self._job_types, self._job_defaults, self._current_trace
        )

    def _rest(self, seconds: float, has_begun: Callable[[], bool]) -> None:
        raise SchedulerStateError("a transaction's jobs run only after its commit; wait with the scheduler's own verbs")

    def _emit(self, event: Event) -> None:
        """Notify nobody, because the transaction may still be rolled back."""

    def _changed(self, earliest: datetime | None, notification: Notification = Notification.SCHEDULED) -> None:
        """Do nothing: all nodes, including this one, are notified when the transaction commits."""
