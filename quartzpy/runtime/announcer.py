"""Tells those who watch the events of the cluster that this node has recorded executions; see `cluster_events`."""

from __future__ import annotations

import logging

from quartzpy.clock import Clock
from quartzpy.errors import QuartzpyError
from quartzpy.store.protocol import JobStore, Notification

logger = logging.getLogger(__name__)

WATCHED_FOR = 15.0
"""Seconds for which a node announces what it records after somebody has said that they watch."""
ANNOUNCE_EVERY = 0.1
"""The shortest time between two announcements, in seconds."""


class Announcer:
    """Sends nothing while nobody watches."""

    def __init__(self, store: JobStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._watched_until = self._announced_at = float("-inf")

    @property
    def is_watched(self) -> bool:
        return self._clock.monotonic() < self._watched_until

    def watched(self) -> None:
        """Note that somebody has said that they watch."""
        self._watched_until = self._clock.monotonic() + WATCHED_FOR

    def announce(self) -> None:
        """Announce that executions were recorded. Errors of the store are not raised: watchers look by themselves."""
        now = self._clock.monotonic()
        if now < self._watched_until and now - self._announced_at >= ANNOUNCE_EVERY:
            self._announced_at = now
            try:
                self._store.notify(Notification.ENDED)
            except QuartzpyError as error:
                logger.debug("the end of executions is not announced: %s", error)
