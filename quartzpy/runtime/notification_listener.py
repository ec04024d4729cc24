"""Hears from other processes that something was scheduled, and wakes the scheduler thread. Polling is the net."""

from __future__ import annotations

from collections.abc import Callable, Collection

from quartzpy.runtime.outage import StoreWatch
from quartzpy.runtime.service import NO_REST, Service
from quartzpy.store.protocol import JobStore, Notification, Subscription

LONGEST_WAIT = 0.5
"""Seconds of one wait: so long may stopping take."""


class NotificationListener(Service):
    """The thread that waits for the store's news."""

    def __init__(
        self, name: str, *, store: JobStore, heard: Callable[[Collection[Notification]], None], watch: StoreWatch
    ) -> None:
        super().__init__(name, watch=watch)
        self._store = store
        self._heard = heard
        self._subscription: Subscription | None = None

    def after_failure(self, error: BaseException) -> None:
        self.close()

    def run_once(self) -> float:
        if self._subscription is None:
            self._subscription = self._store.subscribe()
            if self._subscription is None:
                self.stop()
                return NO_REST
            # Whatever was announced while nobody listened.
            self._heard((Notification.SCHEDULED, Notification.CANCELLED))
        heard = self._subscription.wait(LONGEST_WAIT)
        if heard:
            self._heard(heard)
        return NO_REST

    def close(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            subscription.close()
