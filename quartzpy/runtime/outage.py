"""An outage of the database is two log lines, it began and it ended, and waits that grow in between."""

from __future__ import annotations

import logging
import random

FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0
"""Seconds."""


class Outage:
    """What one loop knows of the database's absence."""

    def __init__(self, logger: logging.Logger, what: str, longest_wait: float = LONGEST_WAIT) -> None:
        self._logger = logger
        self._what = what
        self._longest_wait = longest_wait
        self._failures = 0

    @property
    def ongoing(self) -> bool:
        return self._failures > 0

    def failed(self, error: BaseException) -> float:
        """Note a failure; how many seconds to wait before the next try (full jitter, so that nodes spread)."""
        self._failures += 1
        if self._failures == 1:
            self._logger.warning("%s: the store is unavailable: %s", self._what, error)
        else:
            self._logger.debug("%s: still unavailable: %s", self._what, error)
        longest = min(self._longest_wait, FIRST_WAIT * 2 ** min(self._failures, 10))
        return random.uniform(longest / 2, longest)

    def succeeded(self) -> bool:
        """Note a success; whether it ended an outage."""
        if not self._failures:
            return False
        self._logger.warning("%s: the store is back after %d failed tries", self._what, self._failures)
        self._failures = 0
        return True
