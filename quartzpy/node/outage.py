"""Outages of the database: one log line at the begin and one at the end, and retries with exponential backoff.

`Outage` tracks the failures of one loop. `StoreWatch` tracks those of a node by its check-ins, so that a single failed
or empty statement of some thread neither starts nor ends an outage. The retries of the other threads share one
schedule, and all threads are woken when a check-in succeeds.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from quartzpy.clock import Clock, uniform
from quartzpy.errors import OutcomeUnknownError, StoreUnavailableError

FIRST_WAIT, LONGEST_WAIT = 0.1, 15.0
"""Seconds."""
LONGEST_PROBE_WAIT = 5.0
"""The longest delay, in seconds, between the attempts of the check-in thread."""
PROBE_SHARE = 1 / 4
"""The longest delay between these attempts as a share of the failure window. The first node that checks in after an
outage watches the others for one window: within it, each of them must get several attempts."""
WARN_AFTER = 2
"""The number of consecutive failures that is logged as an outage. A single failure has no consequences."""
_NO_CONNECTION = ("08", "57P0", "53", "25006")


def is_without_connection(error: BaseException) -> bool:
    """Return whether the database is unreachable or accepts no work, instead of refusing one statement."""
    if isinstance(error, OutcomeUnknownError):
        return True
    return isinstance(error, StoreUnavailableError) and (
        error.sqlstate is None or error.sqlstate.startswith(_NO_CONNECTION)
    )


def back_off(failures: int, longest: float) -> float:
    """Return the seconds to wait after this number of failures, with jitter so that the nodes do not retry at once."""
    most = min(longest, FIRST_WAIT * 2 ** min(failures, 16))
    return uniform(0.75 * most, most)


class Outage:
    """Counts the failures of one loop, logs the begin and the end of an outage, and computes the backoff."""

    def __init__(self, logger: logging.Logger, what: str, longest_wait: float = LONGEST_WAIT) -> None:
        self._logger = logger
        self._what = what
        self._longest_wait = longest_wait
        self._failures = 0
        self._is_without_connection = False

    def failed(self, error: BaseException) -> float:
        """Record a failure. Return the seconds to wait before the next attempt."""
        self._failures += 1
        level = logging.WARNING if self._failures == WARN_AFTER else logging.DEBUG
        if not is_without_connection(error):
            self._logger.log(level, "%s failed and is retried: %s", self._what, error)
        else:
            self._is_without_connection = True
            self._logger.log(level, "%s: the database is unavailable: %s", self._what, error)
        return back_off(self._failures, self._longest_wait)

    def succeeded(self) -> bool:
        """Record a success. Return whether it ended an outage."""
        failures, self._failures = self._failures, 0
        was_without, self._is_without_connection = self._is_without_connection, False
        if failures >= WARN_AFTER:
            what = "the database answers again" if was_without else "it works again"
            self._logger.warning("%s: %s after %d failed attempts", self._what, what, failures)
        return failures > 0


class StoreWatch:
    """Tracks for all threads of a node whether the database is available, by the check-ins of the node."""

    def __init__(
        self,
        logger: logging.Logger,
        what: str,
        clock: Clock,
        report_error: Callable[[str, BaseException], None] = lambda message, error: None,
    ) -> None:
        self._logger = logger
        self._what = what
        self._clock = clock
        self._report_error = report_error
        self._wakes: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._failures = 0
        self._first_failure: float | None = None
        self._tries = 0
        self._next_try = 0.0

    def wake_when_back(self, wake: Callable[[], None]) -> None:
        """Call `wake` when the database is available again."""
        self._wakes.append(wake)

    @property
    def outage(self) -> float | None:
        """The seconds for which check-ins have failed. None if one of the last two succeeded."""
        with self._lock:
            since = self._first_failure if self._failures >= WARN_AFTER else None
        return None if since is None else self._clock.monotonic() - since

    def check_in_failed(self, error: BaseException, window: float) -> float:
        """Record a failed check-in of a node with this failure window, in seconds.

        Return the seconds to wait before the next one, 0 after the first failure.
        """
        with self._lock:
            self._failures += 1
            failures = self._failures
            if self._first_failure is None:
                self._first_failure = self._clock.monotonic()
        if failures == WARN_AFTER:
            self._logger.warning("%s: the database is unavailable: %s", self._what, error)
            self._report_error("the database is unavailable", error)
        else:
            self._logger.debug("%s: a check-in failed: %s", self._what, error)
        return 0.0 if failures == 1 else back_off(failures - 1, min(LONGEST_PROBE_WAIT, PROBE_SHARE * window))

    def checked_in(self) -> None:
        """Record a successful check-in, and wake the threads that wait for the store."""
        with self._lock:
            failures, self._failures = self._failures, 0
            since, self._first_failure = self._first_failure, None
            waited, self._tries = self._tries > 0, 0
            self._next_try = 0.0
        if failures >= WARN_AFTER and since is not None:
            seconds = self._clock.monotonic() - since
            self._logger.warning(
                "%s: the database is back after %.1f s and %d failed check-ins", self._what, seconds, failures
            )
        if failures or waited:
            for wake in self._wakes:
                wake()

    def try_failed(self) -> float:
        """Record that a thread got no connection. Return the seconds to wait before its next attempt.

        All threads share one schedule. A successful check-in wakes them earlier.
        """
        with self._lock:
            self._tries += 1
            now = self._clock.monotonic()
            # While check-ins succeed, a retry is cheap and likely to succeed. Otherwise the check-in is the real probe.
            first = FIRST_WAIT if self._first_failure is None else LONGEST_PROBE_WAIT
            most = min(LONGEST_WAIT, max(first, FIRST_WAIT * 2 ** min(self._tries, 16)))
            self._next_try = max(self._next_try, now) + uniform(0.75 * most, most)
            return self._next_try - now
