"""Does something at an instant of the steady clock, unless it is called off: the timeouts of executions."""

from __future__ import annotations

import heapq
import logging
import threading
from collections.abc import Callable
from itertools import count

from quartzpy.clock import Clock
from quartzpy.runtime.thread_start import ThreadStart

logger = logging.getLogger(__name__)


LONGEST_WAIT = 3_600.0
"""A wait of years is more than a condition takes, and each wait is a chance to find what went wrong."""
MOST_CALLED_OFF = 1_000
"""So many entries that were called off may stay in the heap before it is made anew."""


class Deadlines:
    """A thread that waits for the next deadline; started when there is a first one.

    Where no thread can be started, the deadlines are kept, and `keep_running` or the next `add` tries again.
    """

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self._clock = clock
        self._changed = threading.Condition()
        self._heap: list[tuple[float, int]] = []
        self._actions: dict[int, Callable[[], None]] = {}
        self._numbers = count(1)
        self._thread: threading.Thread | None = None
        self._starting = ThreadStart(logger)
        self._closed = False

    def add(self, seconds: float, action: Callable[[], None]) -> int:
        """Do `action` in so many seconds; a number to call it off with."""
        with self._changed:
            number = next(self._numbers)
            self._actions[number] = action
            heapq.heappush(self._heap, (self._clock.monotonic() + seconds, number))
            self._ensure_thread()
            if self._heap[0][1] == number:
                self._changed.notify()
            return number

    def call_off(self, number: int) -> None:
        with self._changed:
            self._actions.pop(number, None)
            if len(self._heap) > 2 * len(self._actions) + MOST_CALLED_OFF:
                self._heap = [entry for entry in self._heap if entry[1] in self._actions]
                heapq.heapify(self._heap)

    def close(self) -> None:
        """End the thread; nothing more is done."""
        with self._changed:
            self._closed = True
            self._actions.clear()
            self._changed.notify()

    def keep_running(self) -> None:
        """Start the thread where it is needed and does not run."""
        with self._changed:
            if self._actions:
                self._ensure_thread()

    def _ensure_thread(self) -> None:
        if self._closed or (self._thread is not None and self._thread.is_alive()):
            return
        self._thread = self._starting.of(self._run, self.name)

    # --- supervision

    def is_alive(self) -> bool:
        """Return whether the thread runs, or is not needed."""
        with self._changed:
            return self._thread is None or self._closed or self._thread.is_alive()

    def restart(self) -> None:
        """Go on in a new thread; where none can be started, `keep_running` tries again."""
        with self._changed:
            self._ensure_thread()

    def _run(self) -> None:
        while (action := self._next()) is not None:
            try:
                action()
            except BaseException:
                # It costs this one entry: no other execution shall lose its timeout.
                logger.exception("what was to be done at a deadline failed")

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            while not self._closed:
                if not self._heap:
                    self._changed.wait(LONGEST_WAIT)
                    continue
                at, number = self._heap[0]
                left = at - self._clock.monotonic()
                if number in self._actions and left > 0:
                    self._changed.wait(min(left, LONGEST_WAIT))
                    continue
                heapq.heappop(self._heap)
                action = self._actions.pop(number, None)
                if action is not None:
                    return action
            return None
