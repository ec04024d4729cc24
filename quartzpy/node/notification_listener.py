"""The notification listener: it receives notifications of other processes. Polling covers those that are lost."""

from __future__ import annotations

from collections.abc import Callable, Collection

from quartzpy.node.outage import StoreWatch
from quartzpy.node.service import NO_REST, Service
from quartzpy.store.protocol import JobStore, Notification, Subscription

LONGEST_WAIT = 2.0
"""The longest single wait, in seconds. Each wait begins with a check that the connection leads to the primary."""


class NotificationListener(Service):
    """The thread that waits for the notifications of the store."""

    def __init__(
        self,
        name: str,
        *,
        store: JobStore,
        on_notification: Callable[[Collection[Notification]], None],
        watch: StoreWatch,
    ) -> None:
        super().__init__(name, watch=watch)
        self._store = store
        self._on_notification = on_notification
        self._subscription: Subscription | None = None

    def stop(self) -> None:
        super().stop()
        if (subscription := self._subscription) is not None:
            subscription.interrupt()

    def after_failure(self, error: BaseException) -> None:
        self.close()

    def run_once(self) -> float:
        if self._subscription is None:
            self._subscription = self._store.subscribe()
            if self._subscription is None:
                self.stop()
                return NO_REST
            # Notifications may have been missed while there was no subscription.
            self._on_notification((Notification.SCHEDULED, Notification.CANCELLED))
        if self.stopping:
            # A subscription that was made after the request to stop was not interrupted.
            return NO_REST
        received = self._subscription.wait(LONGEST_WAIT)
        if received:
            self._on_notification(received)
        return NO_REST

    def close(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            subscription.close()
