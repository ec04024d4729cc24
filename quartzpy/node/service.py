"""The base class of the node's background threads, which repeat a pass and rest as long as the pass asks for."""

from __future__ import annotations

import contextlib
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

from quartzpy.clock import Clock, SystemClock
from quartzpy.errors import LeaseLostError, OutcomeUnknownError, SchemaError, StoreUnavailableError
from quartzpy.node.outage import LONGEST_WAIT, Outage, StoreWatch, is_without_connection
from quartzpy.node.signals import Wakeup
from quartzpy.node.workers.epoch import Epoch

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
    report_error: Callable[[str, BaseException], None] = staticmethod(lambda message, error: None)
    """Called with each error of a pass, except errors of the store."""

    def __init__(
        self,
        name: str,
        *,
        watch: StoreWatch | None = None,
        longest_wait: float = LONGEST_WAIT,
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
        self._outage = Outage(self._logger, name, longest_wait)
        self._thread = self._new_thread()

    @abstractmethod
    def run_once(self) -> float:
        """Perform one pass. Return the seconds to rest after it. Tests call it directly."""

    def after_failure(self, error: BaseException) -> None:
        """Handle a failed pass before the next one."""

    def on_lease_lost(self) -> None:
        """Handle a pass that found that the epoch of this node is lost."""

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
            self._logger.exception("%s: a pass failed", self.name)
            self.report_error(f"{self.name}: a pass failed", error)
            return self._outage.failed(error)
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
        return self._outage.failed(error)


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
        longest_wait: float = LONGEST_WAIT,
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
