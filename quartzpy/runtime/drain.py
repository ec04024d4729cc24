"""The steps of stopping a node: executions end within a limit, the node leaves the cluster, its threads end."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection

from quartzpy.clock import Clock
from quartzpy.errors import QuartzpyError
from quartzpy.runtime.execution import Execution

logger = logging.getLogger(__name__)

GRACE = 2.0
"""Seconds that a drain may take longer than its limit, for the steps that follow the end of the executions."""
SHARE = 3
"""A step takes at most this part of the grace, so that some is left for those after it."""
LEAST = 0.1
TURN = 0.25
"""Seconds of one wait for executions. A limit that is set meanwhile is heeded after so long."""
PROGRESS_EVERY = 5.0
"""Seconds between two log lines that name what a drain waits for."""
MOST_NAMED = 10
"""The most jobs that such a line names."""


class Allowance:
    """The time that a drain has: `timeout` seconds from now, or without limit."""

    def __init__(self, clock: Clock, timeout: float | None) -> None:
        self._clock = clock
        self._limit: float | None = None
        self.shorten(timeout)

    def shorten(self, timeout: float | None) -> None:
        """End the allowance after `timeout` seconds at the latest, counted from now. None changes nothing."""
        if timeout is not None:
            limit = self._clock.monotonic() + timeout
            self._limit = limit if self._limit is None else min(limit, self._limit)

    def left(self) -> float | None:
        """Return for how many seconds executions may still run; None stands for any length of time."""
        return None if self._limit is None else max(0.0, self._limit - self._clock.monotonic())

    def in_time(self, seconds: float) -> float:
        """Return `seconds`, or less where the limit comes sooner."""
        left = self.left()
        return seconds if left is None else min(seconds, left)

    def at_most(self, seconds: float) -> float:
        """Return how many seconds, up to `seconds`, a step may take that is allowed to end after the limit."""
        if self._limit is None:
            return seconds
        return min(seconds, max(LEAST, (self._limit + GRACE - self._clock.monotonic()) / SHARE))


def wait_for_executions(
    ended: Callable[[float], bool], running: Callable[[], Collection[Execution]], allowance: Allowance, node: str
) -> bool:
    """Wait until all executions have ended, and log every few seconds which ones are still running.

    `ended(seconds)` waits for at most so long. Returns whether all ended within the allowance.
    """
    waited = 0.0
    while not ended(turn := allowance.in_time(TURN)):
        if allowance.left() == 0.0:
            return False
        if waited == 0.0 or waited >= PROGRESS_EVERY:
            waited = 0.0
            _log_progress(running(), allowance.left(), node)
        waited += turn
    return True


def _log_progress(running: Collection[Execution], left: float | None, node: str) -> None:
    if running:
        limit = "" if left is None else f", for at most another {left:.0f} s"
        logger.info("node %s is stopping and waits for %s%s", node, described(running), limit)


def described(executions: Collection[Execution]) -> str:
    """Return how many executions these are, and of which jobs."""
    jobs = Counter(str(one.fired.job_key) for one in executions)
    named = [f"{job} ({count} times)" if count > 1 else job for job, count in sorted(jobs.items())]
    more = f" and {len(named) - MOST_NAMED} other jobs" if len(named) > MOST_NAMED else ""
    count = len(executions)
    return f"{count} execution{'' if count == 1 else 's'}: {', '.join(named[:MOST_NAMED])}{more}"


def within(seconds: float, step: Callable[[], None]) -> None:
    """Do a step of stopping, and wait at most `seconds` for it. Other nodes notice by themselves where it fails."""

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
