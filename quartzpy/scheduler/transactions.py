"""The methods of a scheduler inside a transaction of the user, or inside one of the scheduler's own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from quartzpy.errors import SchedulerStateError
from quartzpy.events.events import Event
from quartzpy.scheduler.methods.scheduling import SchedulingMethods
from quartzpy.store.protocol import JobStore, Notification

_T = TypeVar("_T")


class TransactionMethods(SchedulingMethods):
    """The methods of one transaction; `Scheduler.using` returns them. They cannot be used after the transaction."""

    def __init__(self, scheduler: SchedulingMethods, store: JobStore) -> None:
        self._store = store
        self._config = scheduler._config
        self._clock = scheduler._clock
        self._job_types = scheduler._job_types
        self._job_defaults = scheduler._job_defaults
        self._current_trace = scheduler._current_trace

    def _usable_store(self) -> JobStore:
        return self._store

    def _inside(self, store: JobStore) -> TransactionMethods:
        return TransactionMethods(self, store)

    def _rest(self, seconds: float, has_begun: Callable[[], bool]) -> None:
        raise SchedulerStateError(
            "a transaction's jobs run only after its commit; wait with the scheduler's own methods"
        )

    def _emit(self, event: Event) -> None:
        """Notify nobody, because the transaction may still be rolled back."""

    def _changed(self, earliest: datetime | None, notification: Notification = Notification.SCHEDULED) -> None:
        """Do nothing: all nodes, including this one, are notified when the transaction commits."""


class OwnTransactionMethods(TransactionMethods):
    """The methods of a transaction of the scheduler's own. Listeners and this node learn of it after the commit."""

    def __init__(self, scheduler: SchedulingMethods, store: JobStore) -> None:
        super().__init__(scheduler, store)
        # What an operator does is no part of the traces of the jobs.
        self._current_trace = None
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


def in_own_transaction(
    scheduler: SchedulingMethods, work: Callable[[OwnTransactionMethods], _T], *, exclusively: bool = False
) -> _T:
    """Call `work` with the methods inside a new transaction, commit it, and return the result.

    If `work` raises an error, nothing that it changed remains in a database. With `exclusively`, such transactions run
    one after the other, and may compute for long.
    """
    attempts: list[OwnTransactionMethods] = []

    def inside(store: JobStore) -> _T:
        attempts.append(OwnTransactionMethods(scheduler, store))
        return work(attempts[-1])

    result = scheduler._usable_store().together(inside, exclusively=exclusively)
    attempts[-1].committed()
    return result
