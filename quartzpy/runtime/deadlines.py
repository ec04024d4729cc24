"""Does something at an instant of the steady clock, unless it is called off: the timeouts of executions."""

from __future__ import annotations

import heapq
import logging
import threading
from collections.abc import Callable
from itertools import count

from quartzpy.clock import Clock

logger = logging.getLogger(__name__)


class Deadlines:
    """A thread that waits for the next deadline; started when there is a first one."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self._clock = clock
        self._changed = threading.Condition()
        self._heap: list[tuple[float, int]] = []
        self._actions: dict[int, Callable[[], None]] = {}
        self._numbers = count(1)
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, seconds: float, action: Callable[[], None]) -> int:
        """Do `action` in so many seconds; a number to call it off with."""
        with self._changed:
            number = next(self._numbers)
            self._actions[number] = action
            heapq.heappush(self._heap, (self._clock.monotonic() + seconds, number))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
                self._thread.start()
            elif self._heap[0][1] == number:
                self._changed.notify()
            return number

    def call_off(self, number: int) -> None:
        with self._changed:
            self._actions.pop(number, None)

    def close(self) -> None:
        """End the thread; nothing more is done."""
        with self._changed:
            self._closed = True
            self._actions.clear()
            self._changed.notify()

    def is_alive(self) -> bool:
        """Whether the thread runs, or is not needed."""
        with self._changed:
            return self._thread is None or self._closed or self._thread.is_alive()

    def restart(self) -> None:
        """Go on in a new thread. RuntimeError: none can be started."""
        with self._changed:
            thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            thread.start()
            self._thread = thread

    def _run(self) -> None:
        while (action := self._next()) is not None:
            try:
                action()
            except Exception:
                logger.exception("what was to be done at a deadline failed")

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            while not self._closed:
                if not self._heap:
                    self._changed.wait()
                    continue
                at, number = self._heap[0]
                left = at - self._clock.monotonic()
                if number in self._actions and left > 0:
                    self._changed.wait(left)
                    continue
                heapq.heappop(self._heap)
                action = self._actions.pop(number, None)
                if action is not None:
                    return action
            return None
