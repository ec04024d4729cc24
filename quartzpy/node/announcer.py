"""Announcements of recorded executions to the watchers of the cluster; see `cluster_events`."""

from __future__ import annotations

import logging

from quartzpy.clock import Clock
from quartzpy.errors import QuartzpyError
from quartzpy.store.protocol import JobStore, Notification

logger = logging.getLogger(__name__)

WATCHED_FOR = 15.0
"""The time, in seconds, for which a node announces recorded executions after the notification of a watcher."""
ANNOUNCE_EVERY = 0.1
"""The shortest time between two announcements, in seconds."""


class Announcer:
    """Announces recorded executions while there is a watcher."""

    def __init__(self, store: JobStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._watched_until = self._announced_at = float("-inf")

    @property
    def is_watched(self) -> bool:
        return self._clock.monotonic() < self._watched_until

    def watched(self) -> None:
        """Record the notification of a watcher."""
        self._watched_until = self._clock.monotonic() + WATCHED_FOR

    def announce(self) -> None:
        """Announce that executions were recorded. Errors of the store are ignored, because watchers also poll."""
        now = self._clock.monotonic()
        if now < self._watched_until and now - self._announced_at >= ANNOUNCE_EVERY:
            self._announced_at = now
            try:
                self._store.notify(Notification.ENDED)
            except QuartzpyError as error:
                logger.debug("recorded executions could not be announced: %s", error)
