"""The base class of all methods: access to an opened store, and notification of listeners."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from quartzpy.clock import Clock
from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import JobNotFoundError, TriggerNotFoundError
from quartzpy.events.events import Event
from quartzpy.jobs.internal_entries import CurrentTrace
from quartzpy.jobs.job import JobTypes
from quartzpy.keys import JobKey, Key, TriggerKey, nearest
from quartzpy.name_hints import SCHEDULER_NAMES, KeyHints, NameHints
from quartzpy.store.protocol import JobStore, Notification

MAX_NEAR = 100
"""The number of keys, of each part of `JobStore.near_keys`, among which the one is found that a user meant."""


class Methods(NameHints, KeyHints, ABC):
    """Methods on one store. A method that names one job or trigger raises an error if that is not stored."""

    _quartz_sections = ("Scheduler", "Matchers and listeners")

    _name_hints = SCHEDULER_NAMES

    _config: SchedulerConfig
    _clock: Clock
    _job_types: JobTypes
    _job_defaults: Mapping[str, Any]
    _current_trace: CurrentTrace | None = None

    @abstractmethod
    def _usable_store(self) -> JobStore:
        """Return the store, opened."""

    @abstractmethod
    def _changed(self, earliest: datetime | None, notification: Notification = Notification.SCHEDULED) -> None:
        """Wake this node, because a trigger may fire from `earliest` on. None means that no trigger may."""

    @abstractmethod
    def _emit(self, event: Event) -> None:
        """Notify the listeners of an event."""

    @abstractmethod
    def _rest(self, seconds: float, has_begun: Callable[[], bool]) -> None:
        """Wait between two polls of the store for the end of an execution.

        `has_begun` reads whether a node has begun it.

        Raises:
            SchedulerStateError: the awaited event can no longer occur: the scheduler was shut down, or the methods
                belong to a transaction whose changes other connections do not see yet.
        """

    @property
    def name(self) -> str:
        """The name of the scheduler; all nodes with this name on one database are one cluster."""
        return self._config.name

    @property
    def job_types(self) -> JobTypes:
        """The registry in which this scheduler looks up job types."""
        return self._job_types

    def _require_job(self, key: JobKey) -> None:
        if not self._usable_store().job_headers([key]):
            raise self._no_job(key)

    def _require_trigger(self, key: TriggerKey) -> None:
        if not self._usable_store().triggers([key]):
            raise self._no_trigger(key)

    def _no_job(self, key: JobKey) -> JobNotFoundError:
        stored = self._usable_store().near_keys(key, MAX_NEAR)
        return JobNotFoundError(f"job {key} is not stored{_hint(nearest(key, stored))}")

    def _no_trigger(self, key: TriggerKey, note: str = "") -> TriggerNotFoundError:
        stored = self._usable_store().near_keys(key, MAX_NEAR)
        return TriggerNotFoundError(f"trigger {key} is not stored{note}{_hint(nearest(key, stored))}")


def _hint(key: Key | None) -> str:
    if key is None:
        return ""
    return f'; did you mean {type(key).__name__}("{key.name}", "{key.group}")?'
