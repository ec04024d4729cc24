"""The supervisor: starts threads again that ended, and says which of them make no progress.

A loop catches whatever its pass raises. What ends its thread all the same (an error while an error is handled, an
exception that something threw into it) is made good here. Where that does not help the node has failed, and says so.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from quartzpy.clock import Clock
from quartzpy.runtime.health import ThreadHealth
from quartzpy.runtime.service import Service
from quartzpy.runtime.wakeup import Wakeup

logger = logging.getLogger(__name__)

LOOK_EVERY = 1.0
"""Seconds between two looks at the threads."""
OVERDUE_PERIODS = 3.0
SHORTEST_PERIOD = 1.0
"""Seconds: what is due more often than that is not overdue within moments."""
STUCK_PERIODS, STUCK_SECONDS = 10.0, 60.0
"""Without a pass for both of these a thread is taken for stuck: only a new process helps."""
MOST_RESTARTS, RESTARTS_WITHIN = 5, 60.0
"""More restarts of one thread than that, within so many seconds, do not help it."""


class Supervised(Protocol):
    """A thread, or a group of them, that can be started again."""

    @property
    def name(self) -> str: ...

    def is_alive(self) -> bool:
        """Return whether all threads run that should; also before the first is needed, and after it was stopped."""
        ...

    def restart(self) -> None:
        """Put new threads in the place of those that ended. RuntimeError: none can be started."""
        ...


@dataclass
class _Watched:
    supervised: Supervised
    restarts: int = 0
    recent: deque[float] = field(default_factory=deque)
    error: str | None = None
    told_overdue: bool = False


class Supervisor:
    """Looks at threads each second, in a thread that whoever asks for their health starts again."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.failure: str | None = None
        """Why only a new process helps."""
        self._clock = clock
        self._watched: list[_Watched] = []
        self._stopping = threading.Event()
        self._wakeup = Wakeup()
        self._turn = threading.Lock()
        self._looked_at: float | None = None
        self._restarts = 0
        self._thread: threading.Thread | None = None

    def watch(self, *supervised: Supervised) -> None:
        self._watched.extend(_Watched(one) for one in supervised)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._wakeup.set()

    def ensure_alive(self) -> None:
        """Start the supervisor again where it ended itself."""
        thread = self._thread
        if thread is None or thread.is_alive() or self._stopping.is_set():
            return
        with self._turn:
            if not thread.is_alive() and self._thread is thread:
                self._restarts += 1
                self.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.look()
            except BaseException as error:
                _tell(logging.ERROR, "the supervisor failed: %r", error)
            self._wakeup.wait(LOOK_EVERY)

    def look(self) -> None:
        """Look at all threads once."""
        now = self._clock.monotonic()
        paused = self._looked_at is not None and now - self._looked_at > OVERDUE_PERIODS * LOOK_EVERY
        self._looked_at = now
        if self._stopping.is_set():
            return
        for watched in self._watched:
            if not watched.supervised.is_alive():
                self._restart(watched, now)
            # Where this thread slept too, the machine or the process did: all others get their time first.
            elif not paused:
                self._look_for_progress(watched, now)

    def _restart(self, watched: _Watched, now: float) -> None:
        name = watched.supervised.name
        watched.recent.append(now)
        while watched.recent and now - watched.recent[0] > RESTARTS_WITHIN:
            watched.recent.popleft()
        if len(watched.recent) > MOST_RESTARTS:
            self._fail(f"thread {name} ended {len(watched.recent)} times within {RESTARTS_WITHIN:.0f} s")
            return
        try:
            watched.supervised.restart()
        except BaseException as error:
            watched.error = f"{type(error).__name__}: {error}"
            _tell(logging.ERROR, "thread %s ended and cannot be started again: %s", name, watched.error)
            return
        watched.restarts += 1
        _tell(
            logging.ERROR,
            "thread %s ended (%s) and was started again",
            name,
            getattr(watched.supervised, "last_error", None) or "without an error",
        )

    def _look_for_progress(self, watched: _Watched, now: float) -> None:
        service = watched.supervised
        if not isinstance(service, Service):
            return
        late = _late(service, now)
        if late is None:
            watched.told_overdue = False
            return
        if not watched.told_overdue:
            watched.told_overdue = True
            _tell(logging.ERROR, "thread %s has made no pass for %.0f s:\n%s", service.name, late, _stack(service))
        if late > max(STUCK_PERIODS * _period(service), STUCK_SECONDS):
            self._fail(f"thread {service.name} has made no pass for {late:.0f} s")

    def _fail(self, reason: str) -> None:
        if self.failure is None:
            self.failure = reason
            _tell(logging.CRITICAL, "%s: this node cannot go on", reason)

    def threads(self) -> tuple[ThreadHealth, ...]:
        """All threads that are watched, and the one that watches."""
        now = self._clock.monotonic()
        thread, looked_at = self._thread, self._looked_at
        own = ThreadHealth(
            self.name,
            alive=thread is None or thread.is_alive(),
            last_pass_age=None if looked_at is None else timedelta(seconds=now - looked_at),
            overdue=looked_at is not None and now - looked_at > OVERDUE_PERIODS * LOOK_EVERY,
            restarts=self._restarts,
        )
        return (own, *(_health(watched, now) for watched in self._watched))


def _health(watched: _Watched, now: float) -> ThreadHealth:
    one = watched.supervised
    passed_at = one.passed_at if isinstance(one, Service) else None
    return ThreadHealth(
        one.name,
        alive=one.is_alive(),
        last_pass_age=None if passed_at is None else timedelta(seconds=now - passed_at),
        overdue=isinstance(one, Service) and _late(one, now) is not None,
        restarts=watched.restarts,
        last_error=getattr(one, "last_error", None) or watched.error,
    )


def _period(service: Service) -> float:
    return max(service.period, SHORTEST_PERIOD)


def _late(service: Service, now: float) -> float | None:
    """For how many seconds a service should have made a pass, where that is overdue."""
    expected = service.expected_at
    if expected is None or service.stopping or now - expected <= OVERDUE_PERIODS * _period(service):
        return None
    return now - expected


def _stack(service: Service) -> str:
    frame = sys._current_frames().get(service.ident or 0)
    return "".join(traceback.format_stack(frame)) if frame is not None else "(its stack is not known)"


def _tell(level: int, message: str, *values: object) -> None:
    """Log; a handler that raises must not cost the thread that keeps the others alive."""
    try:
        logger.log(level, message, *values)
    except BaseException as error:
        try:
            sys.stderr.write(f"{message % values} (logging failed: {error!r})\n")
        except BaseException:  # There is nobody left to tell.
            return
