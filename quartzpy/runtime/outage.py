"""An outage of the database is two log lines, it began and it ended, and tries that grow rarer in between.

`Outage` is what one loop knows. `StoreWatch` is what a node knows: its check-ins are the witness, so that an outage is
neither announced nor over because some thread's own statement failed or did nothing. The other threads' tries for a
connection share one schedule, and all of them are woken when a check-in is answered.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from quartzpy.clock import Clock
from quartzpy.errors import OutcomeUnknownError, StoreUnavailableError
from quartzpy.jitter import uniform

FIRST_WAIT, LONGEST_WAIT = 0.1, 15.0
"""Seconds."""
LONGEST_PROBE_WAIT = 5.0
"""Of the thread that checks in."""
WORTH_A_WARNING = 2
"""Failures in a row: a single one passes by itself, and costs nothing."""
_NO_CONNECTION = ("08", "57P0", "53", "25006")


def is_without_connection(error: BaseException) -> bool:
    """Return whether the database could not be spoken to, or takes nothing, rather than refuse one statement."""
    if isinstance(error, OutcomeUnknownError):
        return True
    return isinstance(error, StoreUnavailableError) and (
        error.sqlstate is None or error.sqlstate.startswith(_NO_CONNECTION)
    )


def back_off(failures: int, longest: float) -> float:
    """Seconds to wait after so many failures, with jitter, so that nodes spread."""
    most = min(longest, FIRST_WAIT * 2 ** min(failures, 16))
    return uniform(0.75 * most, most)


class Outage:
    """Counts one loop's failures, logs where an outage begins and ends, and says how long to wait."""

    def __init__(self, logger: logging.Logger, what: str, longest_wait: float = LONGEST_WAIT) -> None:
        self._logger = logger
        self._what = what
        self._longest_wait = longest_wait
        self._failures = 0
        self._is_without_connection = False

    @property
    def ongoing(self) -> bool:
        return self._failures > 0

    def failed(self, error: BaseException) -> float:
        """Note a failure; how many seconds to wait before the next try."""
        self._failures += 1
        level = logging.WARNING if self._failures == WORTH_A_WARNING else logging.DEBUG
        if not is_without_connection(error):
            self._logger.log(level, "%s fails and is tried again: %s", self._what, error)
        else:
            self._is_without_connection = True
            self._logger.log(level, "%s: the database is unavailable: %s", self._what, error)
        return back_off(self._failures, self._longest_wait)

    def succeeded(self) -> bool:
        """Note an answer of the store; whether it ended an outage."""
        failures, self._failures = self._failures, 0
        was_without, self._is_without_connection = self._is_without_connection, False
        if failures >= WORTH_A_WARNING:
            what = "the database answers again" if was_without else "it works again"
            self._logger.warning("%s: %s after %d failed tries", self._what, what, failures)
        return failures > 0


class StoreWatch:
    """Knows for all threads of a node whether the database answers: its check-ins say so."""

    def __init__(self, logger: logging.Logger, what: str, clock: Clock, back: Callable[[], None]) -> None:
        self._logger = logger
        self._what = what
        self._clock = clock
        self._back = back
        self.report_error: Callable[[str, BaseException], None] = lambda message, error: None
        """Called when an outage begins."""
        self._lock = threading.Lock()
        self._failures = 0
        self._first_failure: float | None = None
        self._tries = 0
        self._next_try = 0.0

    @property
    def outage(self) -> float | None:
        """For how many seconds check-ins have failed; None: the last one was answered."""
        since = self._first_failure
        return None if since is None else self._clock.monotonic() - since

    def check_in_failed(self, error: BaseException) -> float:
        """A check-in failed; how many seconds to wait before the next. After the first one: none."""
        with self._lock:
            self._failures += 1
            failures = self._failures
            if self._first_failure is None:
                self._first_failure = self._clock.monotonic()
        if failures == WORTH_A_WARNING:
            self._logger.warning("%s: the database is unavailable: %s", self._what, error)
            self.report_error("the database is unavailable", error)
        else:
            self._logger.debug("%s: a check-in failed: %s", self._what, error)
        return 0.0 if failures == 1 else back_off(failures - 1, LONGEST_PROBE_WAIT)

    def checked_in(self) -> None:
        """A check-in was answered: whoever waits for the store tries now."""
        with self._lock:
            failures, self._failures = self._failures, 0
            since, self._first_failure = self._first_failure, None
            waited, self._tries = self._tries > 0, 0
            self._next_try = 0.0
        if failures >= WORTH_A_WARNING and since is not None:
            seconds = self._clock.monotonic() - since
            self._logger.warning(
                "%s: the database is back after %.1f s and %d failed check-ins", self._what, seconds, failures
            )
        if failures or waited:
            self._back()

    def try_failed(self) -> float:
        """A thread got no connection; how many seconds to wait before it tries again, unless it is woken.

        The tries of all threads follow one another in one schedule.
        """
        with self._lock:
            self._tries += 1
            now = self._clock.monotonic()
            # While check-ins are answered, trying is cheap and soon right; else the check-in is the try that counts.
            first = FIRST_WAIT if self._first_failure is None else LONGEST_PROBE_WAIT
            most = min(LONGEST_WAIT, max(first, FIRST_WAIT * 2 ** min(self._tries, 16)))
            self._next_try = max(self._next_try, now) + uniform(0.75 * most, most)
            return self._next_try - now
