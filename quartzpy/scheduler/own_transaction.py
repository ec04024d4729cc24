"""A transaction of the scheduler's own, in which several verbs take effect together."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from quartzpy.events.events import Event
from quartzpy.scheduler.lifecycle import SchedulerLifecycle
from quartzpy.scheduler.transaction_methods import TransactionMethods
from quartzpy.store.protocol import JobStore, Notification

_T = TypeVar("_T")


class OwnTransactionMethods(TransactionMethods):
    """The verbs of one such transaction. Listeners and this node learn of the changes after the commit."""

    def __init__(self, scheduler: SchedulerLifecycle, store: JobStore) -> None:
        super().__init__(store, scheduler._config, scheduler._clock, scheduler._job_types, scheduler._job_defaults)
        self._scheduler = scheduler
        self._events: list[Event] = []
        self._changes: list[tuple[datetime | None, Notification]] = []

    @property
    def store(self) -> JobStore:
        """The store inside the transaction."""
        return self._store

    def _emit(self, event: Event) -> None:
        self._events.append(event)

    def _changed(self, earliest: datetime | None, notification: Notification = Notification.SCHEDULED) -> None:
        self._changes.append((earliest, notification))

    def committed(self) -> None:
        """Wake this node and notify the listeners."""
        for earliest, notification in self._changes:
            self._scheduler._changed(earliest, notification)
        for event in self._events:
            self._scheduler._emit(event)


def in_own_transaction(scheduler: SchedulerLifecycle, work: Callable[[OwnTransactionMethods], _T]) -> _T:
    """Call `work` with the verbs inside a new transaction, commit it, and return the result.

    If `work` raises an error, nothing that it changed remains in a database.
    """
    verbs: list[OwnTransactionMethods] = []

    def inside(store: JobStore) -> _T:
        verbs[:] = [OwnTransactionMethods(scheduler, store)]
        return work(verbs[0])

    done = scheduler._usable_store().together(inside)
    verbs[0].committed()
    return done
