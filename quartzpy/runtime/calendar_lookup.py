"""Calendars by name, read from the store and kept for a moment: a batch of fires asks once."""

from __future__ import annotations

import threading

from quartzpy.calendars.calendar import Calendar
from quartzpy.clock import Clock
from quartzpy.store.protocol import JobStore

KEPT_SECONDS = 1.0


class CalendarLookup:
    """Finds the calendars that triggers name."""

    def __init__(self, store: JobStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[float, Calendar | None]] = {}

    def __call__(self, name: str) -> Calendar | None:
        """The calendar; None where none is stored."""
        now = self._clock.monotonic()
        with self._lock:
            found = self._kept.get(name)
        if found is not None and now - found[0] < KEPT_SECONDS:
            return found[1]
        calendar = self._store.calendars([name]).get(name)
        with self._lock:
            self._kept[name] = (now, calendar)
        return calendar
