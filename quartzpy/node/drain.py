"""The drain of a node: waiting for executions within a time limit, and steps that must not delay the stop."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection

from quartzpy.clock import Clock
from quartzpy.errors import QuartzpyError
from quartzpy.node.workers.execution import Execution
from quartzpy.texts import numbered

logger = logging.getLogger(__name__)

GRACE = 2.0
"""The time, in seconds, that the steps after the end of the executions may take beyond the limit."""
SHARE = 3
"""Each step takes at most 1/SHARE of the remaining grace, so that some is left for the next ones."""
LEAST = 0.1
WAIT_SLICE = 0.25
"""The length, in seconds, of one wait for executions. A limit that is shortened meanwhile takes effect within it."""
PROGRESS_EVERY = 5.0
"""The interval, in seconds, of log lines that name the executions which a drain waits for."""
MAX_NAMED = 10
"""The maximum number of jobs named in such a line."""


class Allowance:
    """The time allowed for a drain: `timeout` seconds from now, or None for no limit."""

    def __init__(self, clock: Clock, timeout: float | None) -> None:
        self._clock = clock
        self._limit: float | None = None
        self.shorten(timeout)

    def shorten(self, timeout: float | None) -> None:
        """Limit the remaining time to `timeout` seconds from now. None changes nothing."""
        if timeout is not None:
            limit = self._clock.monotonic() + timeout
            self._limit = limit if self._limit is None else min(limit, self._limit)

    def remaining(self) -> float | None:
        """Return the seconds for which executions may still run. None means no limit."""
        return None if self._limit is None else max(0.0, self._limit - self._clock.monotonic())

    def in_time(self, seconds: float) -> float:
        """Return `seconds`, or the remaining time if that is less."""
        remaining = self.remaining()
        return seconds if remaining is None else min(seconds, remaining)

    def at_most(self, seconds: float) -> float:
        """Return the seconds, at most `seconds`, for a step that may end within the grace after the limit."""
        if self._limit is None:
            return seconds
        return min(seconds, max(LEAST, (self._limit + GRACE - self._clock.monotonic()) / SHARE))


def wait_for_executions(
    ended: Callable[[float], bool], running: Callable[[], Collection[Execution]], allowance: Allowance, node: str
) -> bool:
    """Wait until all executions have ended, and regularly log which ones are still running.

    `ended(seconds)` waits for at most `seconds`. Returns whether all ended within the allowance.
    """
    waited = 0.0
    while not ended(waiting := allowance.in_time(WAIT_SLICE)):
        if allowance.remaining() == 0.0:
            return False
        if waited == 0.0 or waited >= PROGRESS_EVERY:
            waited = 0.0
            _log_progress(running(), allowance.remaining(), node)
        waited += waiting
    return True


def _log_progress(running: Collection[Execution], remaining: float | None, node: str) -> None:
    if running:
        limit = "" if remaining is None else f", for at most another {remaining:.0f} s"
        logger.info("node %s is stopping and waits for %s%s", node, described(running), limit)


def described(executions: Collection[Execution]) -> str:
    """Describe executions by their number and their jobs."""
    jobs = Counter(str(execution.fired.job_key) for execution in executions)
    named = [f"{job} ({count} times)" if count > 1 else job for job, count in sorted(jobs.items())]
    more = f" and {numbered(len(named) - MAX_NAMED, 'other job', 'other jobs')}" if len(named) > MAX_NAMED else ""
    count = len(executions)
    return f"{numbered(count, 'execution', 'executions')}: {', '.join(named[:MAX_NAMED])}{more}"


def within(seconds: float, step: Callable[[], None]) -> None:
    """Perform a step of stopping, and wait at most `seconds` for it. If it fails, other nodes recover from that."""

    def attempt() -> None:
        try:
            step()
        except QuartzpyError as error:
            logger.warning("a step of stopping failed: %s", error)
        except Exception:
            logger.exception("a step of stopping failed")

    helper = threading.Thread(target=attempt, name="quartzpy-stopping", daemon=True)
    try:
        helper.start()
    except RuntimeError:  # The system refuses another thread.
        attempt()
        return
    helper.join(seconds)
