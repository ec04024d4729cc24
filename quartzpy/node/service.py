"""The base class of the node's background threads, and what an outage of the database does to them.

A service repeats a pass, and rests as long as the pass asks for. `Outage` tracks the failures of one loop: one log line
at the begin and one at the end, and retries with exponential backoff. `StoreWatch` tracks those of a node by its
check-ins, so that a single failed or empty statement of some thread neither starts nor ends an outage. The retries of
the other threads share one schedule, and all threads are woken when a check-in succeeds.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

from quartzpy.clock import Clock, SystemClock, uniform
from quartzpy.errors import LeaseLostError, OutcomeUnknownError, SchemaError, StoreUnavailableError
from quartzpy.node.registration import Epoch
from quartzpy.node.signals import Wakeup
from quartzpy.store.node_states import MAX_PROBE_WAIT, PROBE_SHARE
from quartzpy.texts import reason

FIRST_WAIT, MAX_WAIT = 0.1, 15.0
"""Seconds."""
WARN_AFTER = 2
"""The number of consecutive failures that is logged as an outage. A single failure has no consequences."""
TOLD_AGAIN_AFTER, TOLD_AGAIN_AT_LEAST = 60.0, 3_600.0
"""The time, in seconds, after which an error that a loop repeats is logged again: it doubles, up to the second one."""
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


class Repetitions:
    """Decides which of the errors that a loop repeats are logged: the first, one of another kind, and then ever fewer.

    So a loop that fails for days fills no disk, and its log still says that it fails.
    """

    def __init__(self, steady: Callable[[], float]) -> None:
        self._steady = steady
        self._kind: object = None
        self._next_at = 0.0
        self._interval = TOLD_AGAIN_AFTER

    def are_told(self, error: BaseException) -> bool:
        """Return whether to log this error."""
        now, kind = self._steady(), (type(error), getattr(error, "sqlstate", None))
        if kind != self._kind:
            self._kind, self._interval = kind, TOLD_AGAIN_AFTER
        elif now < self._next_at:
            return False
        else:
            self._interval = min(2 * self._interval, TOLD_AGAIN_AT_LEAST)
        self._next_at = now + self._interval
        return True

    def end(self) -> None:
        """Take note of a success: the next error is logged, whatever it is."""
        self._kind = None


class Outage:
    """Counts the failures of one loop, logs the begin and the end of an outage, and computes the backoff."""

    def __init__(
        self,
        logger: logging.Logger,
        what: str,
        longest_wait: float = MAX_WAIT,
        steady: Callable[[], float] | None = None,
    ) -> None:
        self._logger = logger
        self._what = what
        self._longest_wait = longest_wait
        self._failures = 0
        self._is_without_connection = False
        self._repetitions = Repetitions(steady or SystemClock().monotonic)
        self._is_told = False

    def failed(self, error: BaseException, *, quietly: bool = False) -> float:
        """Record a failure, and log it if it lasts, unless `quietly`.

        Return the seconds to wait before the next attempt.
        """
        self._failures += 1
        self._is_without_connection |= is_without_connection(error)
        is_told = not quietly and self._failures >= WARN_AFTER and self._repetitions.are_told(error)
        self._is_told |= is_told
        what = "the database is unavailable" if is_without_connection(error) else "it failed and is retried"
        self._logger.log(logging.WARNING if is_told else logging.DEBUG, "%s: %s: %s", self._what, what, error)
        return self.wait()

    def failed_by_bug(self, error: BaseException) -> bool:
        """Record a failure that no retry is expected to mend. Return whether it was logged, with its traceback."""
        self._failures += 1
        is_told = self._repetitions.are_told(error)
        if is_told:
            self._is_told = True
            self._logger.error("%s: a pass failed", self._what, exc_info=error)
        return is_told

    def wait(self) -> float:
        """Return the seconds to wait before the next attempt."""
        return back_off(self._failures, self._longest_wait)

    def succeeded(self) -> bool:
        """Record a success. Return whether it ended an outage."""
        failures, self._failures = self._failures, 0
        was_without, self._is_without_connection = self._is_without_connection, False
        was_told, self._is_told = self._is_told, False
        if was_told:
            self._repetitions.end()
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
        self.what = what
        """The name of the node in the log."""
        self._clock = clock
        self._report_error = report_error
        self._wakes: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._failures = 0
        self._first_failure: float | None = None
        self._tries = 0
        self._next_try = 0.0
        self.answers = 0
        """The number of check-ins that succeeded."""
        self.outages = 0
        """The number of times that check-ins began to fail."""
        self.last_error: str | None = None
        """The error of the last failed check-in."""

    def wake_when_back(self, wake: Callable[[], None]) -> None:
        """Call `wake` when the database is available again."""
        self._wakes.append(wake)

    @property
    def is_failing(self) -> bool:
        """True if the last check-in failed."""
        return self._failures > 0

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
            self.last_error = reason(error)
            if self._first_failure is None:
                self._first_failure = self._clock.monotonic()
                self.outages += 1
        if failures == WARN_AFTER:
            self._logger.warning("%s: the database is unavailable: %s", self.what, error)
            self._report_error("the database is unavailable", error)
        else:
            self._logger.debug("%s: a check-in failed: %s", self.what, error)
        return 0.0 if failures == 1 else back_off(failures - 1, min(MAX_PROBE_WAIT, PROBE_SHARE * window))

    def checked_in(self) -> None:
        """Record a successful check-in, and wake the threads that wait for the store."""
        with self._lock:
            failures, self._failures = self._failures, 0
            since, self._first_failure = self._first_failure, None
            waited, self._tries = self._tries > 0, 0
            self._next_try = 0.0
            self.answers += 1
        if failures >= WARN_AFTER and since is not None:
            seconds = self._clock.monotonic() - since
            self._logger.warning(
                "%s: the database is back after %.1f s and %d failed check-ins", self.what, seconds, failures
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
            first = FIRST_WAIT if self._first_failure is None else MAX_PROBE_WAIT
            most = min(MAX_WAIT, max(first, FIRST_WAIT * 2 ** min(self._tries, 16)))
            self._next_try = max(self._next_try, now) + uniform(0.75 * most, most)
            return self._next_try - now


# --- the threads

NO_REST = 0.0
LAST_RESORT_REST = 1.0
"""The rest, in seconds, after an error handler itself failed."""
PERIOD = 15.0
"""The longest expected duration of a pass, in seconds, including slow steps."""


class Service(ABC):
    """A thread that calls `run_once` until it is stopped.

    Exceptions of a pass do not end the thread. If it ends nevertheless, the supervisor calls `restart`.
    """

    period = PERIOD
    is_told_elsewhere = False
    """True if the errors of the store are logged by whom they reach first."""
    report_error: Callable[[str, BaseException], None] = staticmethod(lambda message, error: None)
    """Called with each error of a pass, except errors of the store."""

    def __init__(
        self,
        name: str,
        *,
        watch: StoreWatch | None = None,
        longest_wait: float = MAX_WAIT,
        clock: Clock | None = None,
        wakeup: Wakeup | None = None,
    ) -> None:
        self.name = name
        self.wakeup = wakeup or Wakeup()
        if watch is not None:
            watch.wake_when_back(self.wakeup.set)
        self.last_error: str | None = None
        """The last error of a pass or of the thread."""
        self.passed_at: float | None = None
        """The end of the last pass, whether it failed or not, by the monotonic clock."""
        self.failed_passes = 0
        """The number of passes that have failed since the last success, except for want of a connection."""
        self.failing_since: float | None = None
        """The end of the first of them, by the monotonic clock."""
        self.expected_at: float | None = None
        """The start of the current pass, or the planned start of the next one."""
        self._steady = (clock or SystemClock()).monotonic
        self._watch = watch
        self._logger = logging.getLogger(f"{type(self).__module__}")
        self._stopping = threading.Event()
        self._outage = Outage(self._logger, name, longest_wait, self._steady)
        self._thread = self._new_thread()

    @abstractmethod
    def run_once(self) -> float:
        """Perform one pass. Return the seconds to rest after it. Tests call it directly."""

    def after_failure(self, error: BaseException) -> None:
        """Handle a failed pass before the next one."""

    def on_lease_lost(self) -> None:
        """Handle a pass that found that the epoch of this node is lost."""

    def wake_after_suspension(self) -> None:
        """Begin a pass: the operating system does not count the time of a suspension as part of a wait."""
        self.wakeup.set()

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end after its current pass."""
        self._stopping.set()
        self.wakeup.set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the thread to end. Return False on timeout."""
        if self._thread.ident is None or self._thread is threading.current_thread():
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    # --- supervision

    @property
    def ident(self) -> int | None:
        """The identifier of the thread; None before `start`."""
        return self._thread.ident

    def is_alive(self) -> bool:
        """Return False if the thread has ended although it should be running."""
        return self._thread.ident is None or self.stopping or self._thread.is_alive()

    def restart(self) -> None:
        """Replace a thread that ended. Raises RuntimeError if no thread can be started."""
        thread = self._new_thread()
        self.expected_at = self._steady()
        thread.start()
        self._thread = thread

    # --- the loop

    def _new_thread(self) -> threading.Thread:
        return threading.Thread(target=self._run, name=self.name, daemon=True)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self.expected_at = self._steady()
                rest = self._guarded_pass()
                self.passed_at = self._steady()
                self.expected_at = self.passed_at + rest
                self.wakeup.wait(rest)
        except BaseException as error:
            self.last_error = _named(error)
            raise

    def _guarded_pass(self) -> float:
        try:
            return self._pass()
        except BaseException as error:
            # The error handler itself failed, for example because a log handler raised, so nothing can be logged.
            self._note_failure(error)
            return LAST_RESORT_REST

    def _pass(self) -> float:
        try:
            rest = self.run_once()
        except LeaseLostError as error:
            with contextlib.suppress(Exception):
                self._logger.warning("%s: %s", self.name, error)
            self.on_lease_lost()
            return NO_REST
        except (StoreUnavailableError, OutcomeUnknownError, SchemaError) as error:
            self._note_failure(error)
            self.after_failure(error)
            return self.retry_in(error)
        except BaseException as error:
            # A bug, or no memory. The loop must continue, because no other thread does this work on this node.
            self._note_failure(error)
            self.after_failure(error)
            if self._outage.failed_by_bug(error):
                self.report_error(f"{self.name}: a pass failed", error)
            return self._outage.wait()
        self._outage.succeeded()
        self.failed_passes, self.failing_since = 0, None
        return rest

    def _note_failure(self, error: BaseException) -> None:
        self.last_error = _named(error)
        # Without a connection every pass fails, and the failed check-ins are what the health reports.
        if not is_without_connection(error):
            self.failed_passes += 1
            if self.failing_since is None:
                self.failing_since = self._steady()

    def retry_in(self, error: BaseException) -> float:
        """Return the seconds to wait after a pass that failed because of the store."""
        if self._watch is not None and is_without_connection(error):
            self._logger.debug("%s: no connection: %s", self.name, error)
            return self._watch.try_failed()
        return self._outage.failed(error, quietly=self.is_told_elsewhere)


def rest_after(spent: float, times: float, bounds: tuple[float, float]) -> float:
    """Return `times` the seconds that a piece of work took, within bounds: so a busy machine is left more time."""
    shortest, longest = bounds
    return min(max(spent * times, shortest), longest)


def _named(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


class EpochService(Service):
    """A service whose passes each act for one epoch, the one that was current when the pass began."""

    def __init__(
        self,
        name: str,
        *,
        epoch: Callable[[], Epoch],
        lease_lost: Callable[[Epoch], None],
        watch: StoreWatch | None = None,
        longest_wait: float = MAX_WAIT,
        wakeup: Wakeup | None = None,
    ) -> None:
        super().__init__(name, watch=watch, longest_wait=longest_wait, wakeup=wakeup)
        self._epoch = epoch
        self._lease_lost = lease_lost
        self._acting: Epoch | None = None

    @abstractmethod
    def run_as(self, epoch: Epoch) -> float:
        """Perform one pass for `epoch`. Return the seconds to rest after it."""

    def run_once(self) -> float:
        self._acting = self._epoch()
        return self.run_as(self._acting)

    def on_lease_lost(self) -> None:
        # Not the current epoch: another thread may have rejoined meanwhile.
        if self._acting is not None:
            self._lease_lost(self._acting)
