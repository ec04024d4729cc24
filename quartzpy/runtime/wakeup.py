"""A latched wake-up: signalled while nobody sleeps, the next sleep is skipped (Quartz learned it as QTZ-336)."""

from __future__ import annotations

import threading

from quartzpy.clock import wait_by_boot_time


class Wakeup:
    """One thread waits; any thread wakes it."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        # Whoever was woken clears the event before looking at what there is to do: set once is enough.
        if not self._event.is_set():
            self._event.set()

    def wait(self, seconds: float) -> bool:
        """Sleep for at most `seconds`; whether somebody woke us."""
        woken = wait_by_boot_time(self._event.wait, seconds)
        self._event.clear()
        return woken
