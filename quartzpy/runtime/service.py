"""A thread whose body is one pass, again and again: the pass returns its rest."""

from __future__ import annotations

import contextlib
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

from quartzpy.clock import Clock, SystemClock
from quartzpy.errors import LeaseLostError, OutcomeUnknownError, SchemaError, StoreUnavailableError
from quartzpy.runtime.epoch import Epoch
from quartzpy.runtime.outage import LONGEST_WAIT, Outage, StoreWatch, is_without_connection
from quartzpy.runtime.wakeup import Wakeup

NO_REST = 0.0
LAST_RESORT_REST = 1.0
"""Seconds, after the handling of an error failed itself."""
PERIOD = 15.0
"""Seconds within which a thread that has nothing to wait for makes a pass, however slow its steps are."""


class Service(ABC):
    """Runs `run_once` until stopped. Nothing that a pass raises ends the thread; what ends it all the same is made
    good by `restart`.
    """

    period = PERIOD
    report_error: Callable[[str, BaseException], None] = staticmethod(lambda message, error: None)
    """Called with each failure of a pass that is not the database's absence."""

    def __init__(
        self,
        name: str,
        *,
        watch: StoreWatch | None = None,
        longest_wait: float = LONGEST_WAIT,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.wakeup = Wakeup()
        self.last_error: str | None = None
        """What last failed in a pass, or ended the thread."""
        self.passed_at: float | None = None
        """When the last pass ended, by the steady clock."""
        self.expected_at: float | None = None
        """When the present pass began, or the next one is to."""
        self._steady = (clock or SystemClock()).monotonic
        self._watch = watch
        self._logger = logging.getLogger(f"{type(self).__module__}")
        self._stopping = threading.Event()
        self._outage = Outage(self._logger, name, longest_wait)
        self._thread = self._new_thread()

    @abstractmethod
    def run_once(self) -> float:
        """Do one pass; the seconds to rest after it. Tests call it directly."""

    def after_failure(self, error: BaseException) -> None:
        """Called when a pass failed because of the store, before the next one."""

    def on_lease_lost(self) -> None:
        """Called when a pass found that this node's epoch is gone."""

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end after its present pass."""
        self._stopping.set()
        self.wakeup.set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the thread's end; whether it came."""
        if self._thread.ident is None or self._thread is threading.current_thread():
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    # --- supervision

    @property
    def ident(self) -> int | None:
        """The thread's number."""
        return self._thread.ident

    def is_alive(self) -> bool:
        """Return whether the thread runs, or is not meant to."""
        return self._thread.ident is None or self.stopping or self._thread.is_alive()

    def restart(self) -> None:
        """Go on in a new thread, in place of one that ended. RuntimeError: no thread can be started."""
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
                rest = self._pass_at_any_rate()
                self.passed_at = self._steady()
                self.expected_at = self.passed_at + rest
                self.wakeup.wait(rest)
        except BaseException as error:
            self.last_error = _named(error)
            raise

    def _pass_at_any_rate(self) -> float:
        try:
            return self._pass()
        except BaseException as error:
            # The handling of an error failed, as where a logging handler raises: there is nobody left to tell.
            self.last_error = _named(error)
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
            self.last_error = _named(error)
            self.after_failure(error)
            return self.retry_in(error)
        except BaseException as error:
            # A bug, or no memory: the loop must go on, for nobody else does its work on this node.
            self.last_error = _named(error)
            self.after_failure(error)
            self._logger.exception("%s: a pass failed", self.name)
            self.report_error(f"{self.name}: a pass failed", error)
            return self._outage.failed(error)
        self._outage.succeeded()
        return rest

    def retry_in(self, error: BaseException) -> float:
        """How many seconds to wait after a pass that failed because of the store."""
        if self._watch is not None and is_without_connection(error):
            self._logger.debug("%s: no connection: %s", self.name, error)
            return self._watch.try_failed()
        return self._outage.failed(error)


def _named(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


class EpochService(Service):
    """A service whose every pass acts for one epoch of the node, the one that was present when it began."""

    def __init__(
        self,
        name: str,
        *,
        epoch: Callable[[], Epoch],
        lease_lost: Callable[[Epoch], None],
        watch: StoreWatch | None = None,
        longest_wait: float = LONGEST_WAIT,
    ) -> None:
        super().__init__(name, watch=watch, longest_wait=longest_wait)
        self._epoch = epoch
        self._lease_lost = lease_lost
        self._acting: Epoch | None = None

    @abstractmethod
    def run_as(self, epoch: Epoch) -> float:
        """Do one pass for `epoch`; the seconds to rest after it."""

    def run_once(self) -> float:
        self._acting = self._epoch()
        return self.run_as(self._acting)

    def on_lease_lost(self) -> None:
        # Not the epoch that is present by now: another thread may have rejoined meanwhile.
        if self._acting is not None:
            self._lease_lost(self._acting)
