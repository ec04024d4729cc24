"""Timers for the timeouts of executions, on the monotonic clock."""

from __future__ import annotations

import heapq
import logging
import threading
from collections.abc import Callable
from itertools import count

from quartzpy.clock import Clock
from quartzpy.node.workers.worker_pool import ThreadStart

logger = logging.getLogger(__name__)


MAX_WAIT = 3_600.0
"""The longest single wait, in seconds. A condition does not accept a timeout of years."""
MAX_CANCELLED = 1_000
"""The number of cancelled entries in the heap above which it is rebuilt."""


class Deadlines:
    """A thread that performs actions at their deadlines. It starts with the first deadline.

    If no thread can be started, the deadlines are kept, and `keep_running` or the next `add` tries again.
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
        """Schedule `action` in `seconds`. Return a number with which `cancel` cancels it."""
        with self._changed:
            number = next(self._numbers)
            self._actions[number] = action
            heapq.heappush(self._heap, (self._clock.monotonic() + seconds, number))
            self._ensure_thread()
            if self._heap[0][1] == number:
                self._changed.notify()
            return number

    def cancel(self, number: int) -> None:
        with self._changed:
            self._actions.pop(number, None)
            if len(self._heap) > 2 * len(self._actions) + MAX_CANCELLED:
                self._heap = [entry for entry in self._heap if entry[1] in self._actions]
                heapq.heapify(self._heap)

    def close(self) -> None:
        """End the thread and cancel all actions."""
        with self._changed:
            self._closed = True
            self._actions.clear()
            self._changed.notify()

    def keep_running(self) -> None:
        """Start the thread if it is needed and not running."""
        with self._changed:
            if self._actions:
                self._ensure_thread()

    def _ensure_thread(self) -> None:
        if self._closed or (self._thread is not None and self._thread.is_alive()):
            return
        self._thread = self._starting.of(self._run, self.name)

    # --- supervision

    def is_alive(self) -> bool:
        """Return whether the thread is running, or is not needed."""
        with self._changed:
            return self._thread is None or self._closed or self._thread.is_alive()

    def restart(self) -> None:
        """Continue in a new thread. If none can be started, `keep_running` tries again."""
        with self._changed:
            self._ensure_thread()

    def _run(self) -> None:
        while (action := self._next()) is not None:
            try:
                action()
            except BaseException:
                # An error must not cost other executions their timeouts.
                logger.exception("the action of a deadline raised an error")

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            while not self._closed:
                if not self._heap:
                    self._changed.wait(MAX_WAIT)
                    continue
                at, number = self._heap[0]
                seconds = at - self._clock.monotonic()
                if number in self._actions and seconds > 0:
                    self._changed.wait(min(seconds, MAX_WAIT))
                    continue
                heapq.heappop(self._heap)
                action = self._actions.pop(number, None)
                if action is not None:
                    return action
            return None
