"""Looks after what cannot look after itself: what is blocked, what takes long, what could not be started."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from quartzpy.runtime.service import Service

logger = logging.getLogger(__name__)

REST = 0.25
"""Seconds between two looks: a quarter of the shortest time after which something is reported."""


class Watchdog(Service):
    """A thread that runs these looks, each quick, again and again."""

    def __init__(self, name: str, looks: Sequence[Callable[[], None]]) -> None:
        super().__init__(name)
        self._looks = looks

    def run_once(self) -> float:
        for look in self._looks:
            try:
                look()
            except BaseException:
                # The others look all the same.
                logger.exception("%s: a look failed", self.name)
        return REST
