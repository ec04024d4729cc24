"""The scheduling verbs inside a user's own transaction."""

from __future__ import annotations

from datetime import datetime

from quartzpy.clock import Clock
from quartzpy.config import SchedulerConfig
from quartzpy.events import Event
from quartzpy.store.protocol import JobStore
from quartzpy.verbs.scheduling import SchedulingVerbs


class TransactionVerbs(SchedulingVerbs):
    """Made by `Scheduler.using`; of no more use when the transaction has ended."""

    def __init__(self, store: JobStore, config: SchedulerConfig, clock: Clock) -> None:
        self._store = store
        self._config = config
        self._clock = clock

    def _usable_store(self) -> JobStore:
        return self._store

    def _inside(self, store: JobStore) -> TransactionVerbs:
        return TransactionVerbs(store, self._config, self._clock)

    def _tell(self, event: Event) -> None:
        """Nobody is told of what may yet be rolled back."""

    def _changed(self, earliest: datetime | None) -> None:
        """All nodes hear of it with the commit, this one too."""
