"""The supervisor: it restarts threads that ended, and reports threads that make no progress.

The loop of a service catches the exceptions of its passes. A thread that ends nevertheless (an error in an error
handler, an exception that was injected into the thread) is restarted here. If restarts do not help, the node has
failed. The watchdog looks for what blocks without ending.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from quartzpy.clock import Clock, seconds_suspended
from quartzpy.node.health import ThreadHealth
from quartzpy.node.service import Repetitions, Service
from quartzpy.node.signals import Wakeup

logger = logging.getLogger(__name__)

CHECK_EVERY = 1.0
"""The interval, in seconds, at which the threads are checked."""
SUSPENDED_SECONDS = 0.5
"""The shortest suspension of the machine, in seconds, after which all services are woken."""
OVERDUE_PERIODS = 3.0
SHORTEST_PERIOD = 1.0
"""The shortest period, in seconds, for this purpose: a thread with a shorter one is not overdue at once."""
STUCK_PERIODS, STUCK_SECONDS = 10.0, 60.0
"""A thread without a pass for both of these times is stuck, and only a new process can continue."""
MAX_RESTARTS, RESTARTS_WITHIN = 5, 60.0
"""A thread that ends more often than MAX_RESTARTS within RESTARTS_WITHIN seconds cannot be kept alive."""

WATCHDOG_REST = 0.25
"""The interval of its checks, in seconds: a quarter of the shortest time after which something is reported."""
IDLE_REST = 15.0
"""The interval, in seconds, while the node runs no user code. The supervisor wakes the watchdog once it runs some."""


class Supervised(Protocol):
    """A thread, or a group of threads, that can be restarted."""

    @property
    def name(self) -> str: ...

    def is_alive(self) -> bool:
        """Return False if a thread has ended that should be running."""
        ...

    def restart(self) -> None:
        """Replace the threads that ended. Raises RuntimeError if none can be started."""
        ...


@dataclass
class _Watched:
    supervised: Supervised
    restarts: int = 0
    recent: deque[float] = field(default_factory=deque)
    error: str | None = None
    reported_overdue: bool = False
    refusals: Repetitions = field(default_factory=lambda: Repetitions(time.monotonic))


class Supervisor:
    """A thread that checks other threads every second. A call of `health` restarts the supervisor itself.

    It also wakes the services after a suspension of the machine, because the operating system does not count that time
    in their waits. One thread that looks every second costs less than a wait of at most a second in each thread.
    """

    def __init__(
        self,
        name: str,
        clock: Clock,
        *,
        suspended: Callable[[], float] = seconds_suspended,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """Describe the supervisor.

        Args:
            name: the name of its thread.
            clock: the time for what is overdue.
            suspended: returns for how long the machine has been suspended, in seconds.
            then: called after each check, so that what needs a look every second needs no thread of its own for it.
        """
        self.name = name
        self.failure: str | None = None
        """The reason why only a new process can continue. None while there is none."""
        self._clock = clock
        self._suspended = suspended
        self._then = then
        self._suspended_seconds = suspended()
        self._watched: list[_Watched] = []
        self._stopping = threading.Event()
        self._wakeup = Wakeup()
        self._lock = threading.Lock()
        self._checked_at: float | None = None
        self._restarts = 0
        self._failures = Repetitions(clock.monotonic)
        self._thread: threading.Thread | None = None

    def watch(self, *supervised: Supervised) -> None:
        self._watched.extend(_Watched(thread) for thread in supervised)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._wakeup.set()

    def ensure_alive(self) -> None:
        """Restart the thread of the supervisor if it has ended."""
        thread = self._thread
        if thread is None or thread.is_alive() or self._stopping.is_set():
            return
        with self._lock:
            if not thread.is_alive() and self._thread is thread:
                self._restarts += 1
                self.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.check()
            except BaseException as error:
                if self._failures.are_told(error):
                    _log(logging.ERROR, "the supervisor failed: %r", error)
            self._wakeup.wait(CHECK_EVERY)

    def check(self) -> None:
        """Check all threads once."""
        now = self._clock.monotonic()
        paused = self._checked_at is not None and now - self._checked_at > OVERDUE_PERIODS * CHECK_EVERY
        self._checked_at = now
        if self._stopping.is_set():
            return
        self._wake_after_suspension()
        for watched in self._watched:
            if not watched.supervised.is_alive():
                self._restart(watched, now)
            # If this thread was delayed too, the machine or the process was suspended, and nothing is overdue yet.
            elif not paused:
                self._check_progress(watched, now)
        self._then()

    def _wake_after_suspension(self) -> None:
        before, self._suspended_seconds = self._suspended_seconds, self._suspended()
        if self._suspended_seconds - before < SUSPENDED_SECONDS:
            return
        for watched in self._watched:
            if isinstance(watched.supervised, Service):
                watched.supervised.wake_after_suspension()

    def _restart(self, watched: _Watched, now: float) -> None:
        name = watched.supervised.name
        watched.recent.append(now)
        while watched.recent and now - watched.recent[0] > RESTARTS_WITHIN:
            watched.recent.popleft()
        if len(watched.recent) > MAX_RESTARTS:
            self._fail(f"thread {name} ended {len(watched.recent)} times within {RESTARTS_WITHIN:.0f} s")
            return
        try:
            watched.supervised.restart()
        except BaseException as error:
            watched.error = f"{type(error).__name__}: {error}"
            if watched.refusals.are_told(error):
                _log(logging.ERROR, "thread %s ended and cannot be restarted: %s", name, watched.error)
            return
        watched.restarts += 1
        _log(
            logging.ERROR,
            "thread %s ended (%s) and was restarted",
            name,
            getattr(watched.supervised, "last_error", None) or "without an error",
        )

    def _check_progress(self, watched: _Watched, now: float) -> None:
        service = watched.supervised
        if not isinstance(service, Service):
            return
        late = _late(service, now)
        if late is None:
            watched.reported_overdue = False
            return
        if not watched.reported_overdue:
            watched.reported_overdue = True
            _log(logging.ERROR, "thread %s has made no pass for %.0f s:\n%s", service.name, late, _stack(service))
        if late > max(STUCK_PERIODS * _period(service), STUCK_SECONDS):
            self._fail(f"thread {service.name} has made no pass for {late:.0f} s")

    def _fail(self, reason: str) -> None:
        if self.failure is None:
            self.failure = reason
            _log(logging.CRITICAL, "%s: this node cannot continue", reason)

    def threads(self) -> tuple[ThreadHealth, ...]:
        """Return the health of the supervisor and of all threads that it checks."""
        now = self._clock.monotonic()
        thread, checked_at = self._thread, self._checked_at
        own = ThreadHealth(
            self.name,
            alive=thread is None or thread.is_alive(),
            last_pass_age=None if checked_at is None else timedelta(seconds=now - checked_at),
            overdue=checked_at is not None and now - checked_at > OVERDUE_PERIODS * CHECK_EVERY,
            restarts=self._restarts,
        )
        return (own, *(_health(watched, now) for watched in self._watched))


def _health(watched: _Watched, now: float) -> ThreadHealth:
    thread = watched.supervised
    passed_at = thread.passed_at if isinstance(thread, Service) else None
    failing_since = thread.failing_since if isinstance(thread, Service) else None
    return ThreadHealth(
        thread.name,
        alive=thread.is_alive(),
        last_pass_age=None if passed_at is None else timedelta(seconds=now - passed_at),
        overdue=isinstance(thread, Service) and _late(thread, now) is not None,
        restarts=watched.restarts,
        last_error=getattr(thread, "last_error", None) or watched.error,
        failed_passes=thread.failed_passes if isinstance(thread, Service) else 0,
        failing_for=None if failing_since is None else timedelta(seconds=now - failing_since),
    )


def _period(service: Service) -> float:
    return max(service.period, SHORTEST_PERIOD)


def _late(service: Service, now: float) -> float | None:
    """Return for how many seconds a pass of a service is overdue, or None if it is not."""
    expected = service.expected_at
    if expected is None or service.stopping or now - expected <= OVERDUE_PERIODS * _period(service):
        return None
    return now - expected


def _stack(service: Service) -> str:
    frame = sys._current_frames().get(service.ident or 0)
    return "".join(traceback.format_stack(frame)) if frame is not None else "(no stack)"


def _log(level: int, message: str, *values: object) -> None:
    """Log a message. A log handler that raises must not end the thread that keeps the others alive."""
    try:
        logger.log(level, message, *values)
    except BaseException as error:
        try:
            sys.stderr.write(f"{message % values} (logging failed: {error!r})\n")
        except BaseException:  # Neither logging nor standard error works.
            return


class Watchdog(Service):
    """A thread that checks periodically for blocked loops, slow listeners and threads that could not be started.

    Each check must be quick. They are rare while `is_busy` returns False, and `wake_if_busy` ends that.
    """

    def __init__(self, name: str, checks: Sequence[Callable[[], None]], is_busy: Callable[[], bool]) -> None:
        super().__init__(name)
        self._checks = checks
        self._is_busy = is_busy
        self._is_resting = False
        self._failures = Repetitions(time.monotonic)

    def wake_if_busy(self) -> None:
        """End a long rest if the node runs user code. The caller calls it about every second."""
        if self._is_resting and self._is_busy():
            self.wakeup.set()

    def run_once(self) -> float:
        for check in self._checks:
            try:
                check()
            except BaseException as error:
                # An error of one check must not stop the others.
                if self._failures.are_told(error):
                    logger.exception("%s: a check raised an error", self.name)
        self._is_resting = not self._is_busy()
        return IDLE_REST if self._is_resting else WATCHDOG_REST
