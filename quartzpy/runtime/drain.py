"""How long the steps of a drain may take: what is left of its limit, and a short grace behind it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from quartzpy.clock import Clock
from quartzpy.errors import QuartzpyError

logger = logging.getLogger(__name__)

GRACE = 2.0
"""Seconds that a drain may take longer than its limit, for what is left to do then."""
SHARE = 3
"""A step takes at most so large a part of the grace, that those after it have some."""
LEAST = 0.1


class Allowance:
    """The time that a drain has: `timeout` seconds from now, or without limit."""

    def __init__(self, clock: Clock, timeout: float | None) -> None:
        self._clock = clock
        self._limit = None if timeout is None else clock.monotonic() + timeout

    def left(self) -> float | None:
        """How long executions may still run; None: as long as they like."""
        return None if self._limit is None else max(0.0, self._limit - self._clock.monotonic())

    def in_time(self, seconds: float) -> float:
        """So many seconds, for a step before the limit."""
        left = self.left()
        return seconds if left is None else min(seconds, left)

    def at_most(self, seconds: float) -> float:
        """So many seconds, for a step that may come after the limit."""
        if self._limit is None:
            return seconds
        return min(seconds, max(LEAST, (self._limit + GRACE - self._clock.monotonic()) / SHARE))


def within(seconds: float, step: Callable[[], None]) -> None:
    """Do a last courtesy, and wait for it so many seconds: where it fails, the other nodes find out by themselves."""

    def courtesy() -> None:
        try:
            step()
        except QuartzpyError as error:
            logger.warning("a step of stopping failed: %s", error)
        except Exception:
            logger.exception("a step of stopping failed")

    helper = threading.Thread(target=courtesy, name="quartzpy-stopping", daemon=True)
    try:
        helper.start()
    except RuntimeError:  # No thread can be had.
        courtesy()
        return
    helper.join(seconds)
