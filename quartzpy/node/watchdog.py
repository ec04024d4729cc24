"""The watchdog: it runs periodic checks for blocked loops, slow listeners and threads that could not be started."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from quartzpy.node.service import Service

logger = logging.getLogger(__name__)

REST = 0.25
"""The interval of the checks, in seconds: a quarter of the shortest time after which something is reported."""
IDLE_REST = 1.0
"""The interval, in seconds, while the node runs no user code: this is the shortest time after which it is reported."""


class Watchdog(Service):
    """A thread that periodically runs `checks`, each of which must be quick; rarely while `is_busy` returns False."""

    def __init__(self, name: str, checks: Sequence[Callable[[], None]], is_busy: Callable[[], bool]) -> None:
        super().__init__(name)
        self._checks = checks
        self._is_busy = is_busy

    def run_once(self) -> float:
        for check in self._checks:
            try:
                check()
            except BaseException:
                # An error of one check must not stop the others.
                logger.exception("%s: a check raised an error", self.name)
        return REST if self._is_busy() else IDLE_REST
