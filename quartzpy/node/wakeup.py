"""A latched wake-up: a signal between two waits makes the next wait return at once (see Quartz's issue QTZ-336)."""

from __future__ import annotations

import threading


class Wakeup:
    """A wake-up for one waiting thread. Any thread may set it."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        # The waiting thread clears the event before it looks for work, so setting it once is enough.
        if not self._event.is_set():
            self._event.set()

    def wait(self, seconds: float) -> bool:
        """Wait for at most `seconds`. Return whether the wake-up was set.

        The time of a suspension of the machine does not count; the supervisor wakes all services after one.
        """
        woken = self._event.wait(max(0.0, seconds))
        self._event.clear()
        return woken
