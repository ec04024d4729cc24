"""Notifications between the schedulers of one process that share a store."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping

from quartzpy.store.protocol import Notification


class Notifications:
    """Sends notifications to all subscribers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscriptions: list[RamSubscription] = []

    def subscribe(self) -> RamSubscription:
        subscription = RamSubscription(self)
        with self._lock:
            self._subscriptions.append(subscription)
        return subscription

    def send(self, notifications: Collection[Notification]) -> None:
        with self._lock:
            for subscription in self._subscriptions:
                subscription.receive(notifications)

    def remove(self, subscription: RamSubscription) -> None:
        with self._lock:
            self._subscriptions = [other for other in self._subscriptions if other is not subscription]


class RamSubscription:
    """The receiving end; see `quartzpy.store.protocol.Subscription`."""

    def __init__(self, sender: Notifications) -> None:
        self._sender = sender
        self._changed = threading.Condition()
        self._received: set[Notification] = set()
        self._interrupted = False

    def receive(self, notifications: Collection[Notification]) -> None:
        with self._changed:
            self._received.update(notifications)
            self._changed.notify_all()

    def wait(self, timeout: float) -> Mapping[Notification, None]:
        with self._changed:
            self._changed.wait_for(lambda: self._received or self._interrupted, timeout)
            received, self._received = self._received, set()
            return dict.fromkeys(received)

    def interrupt(self) -> None:
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()

    def close(self) -> None:
        self._sender.remove(self)
