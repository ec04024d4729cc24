"""What all verbs rest on: a store that is ready, and who is to hear of what was done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime

from quartzpy.clock import Clock
from quartzpy.config import SchedulerConfig
from quartzpy.events import Event
from quartzpy.store.protocol import JobStore


class Verbs(ABC):
    """Where verbs act."""

    _config: SchedulerConfig
    _clock: Clock

    @abstractmethod
    def _usable_store(self) -> JobStore:
        """The store, ready to be asked."""

    @abstractmethod
    def _changed(self, earliest: datetime | None) -> None:
        """Something may fire from `earliest` on."""

    @abstractmethod
    def _tell(self, event: Event) -> None:
        """Listeners hear of what was done."""

    @property
    def name(self) -> str:
        """The name of the scheduler; all nodes with this name on one database are one cluster."""
        return self._config.name
