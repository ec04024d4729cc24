"""A thread whose body is one pass, again and again: the pass returns its rest."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

from quartzpy.errors import LeaseLostError, OutcomeUnknownError, SchemaError, StoreUnavailableError
from quartzpy.runtime.epoch import Epoch
from quartzpy.runtime.outage import LONGEST_WAIT, Outage
from quartzpy.runtime.wakeup import Wakeup

NO_REST = 0.0


class Service(ABC):
    """Runs `run_once` until stopped. Nothing that a pass raises ends the thread."""

    def __init__(self, name: str, *, longest_wait: float = LONGEST_WAIT) -> None:
        self.name = name
        self.wakeup = Wakeup()
        self._logger = logging.getLogger(f"{type(self).__module__}")
        self._stopping = threading.Event()
        self._outage = Outage(self._logger, name, longest_wait)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

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

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.wakeup.wait(self._pass())

    def _pass(self) -> float:
        try:
            rest = self.run_once()
        except LeaseLostError as error:
            self._logger.warning("%s: %s", self.name, error)
            self.on_lease_lost()
            return NO_REST
        except (StoreUnavailableError, OutcomeUnknownError, SchemaError) as error:
            self.after_failure(error)
            return self._outage.failed(error)
        except BaseException as error:
            # A bug, or no memory: the loop must go on, for nobody else does its work on this node.
            self._logger.exception("%s: a pass failed", self.name)
            self.after_failure(error)
            return self._outage.failed(error)
        self._outage.succeeded()
        return rest


class EpochService(Service):
    """A service whose every pass acts for one epoch of the node, the one that was present when it began."""

    def __init__(
        self,
        name: str,
        *,
        epoch: Callable[[], Epoch],
        lease_lost: Callable[[Epoch], None],
        longest_wait: float = LONGEST_WAIT,
    ) -> None:
        super().__init__(name, longest_wait=longest_wait)
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
