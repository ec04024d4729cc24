"""The tables of an in-memory store with the lock under which each method of the store uses them."""

from __future__ import annotations

import threading

from quartzpy.clock import Clock
from quartzpy.store.memory.tables import Tables


class LockedTables:
    """The tables and their lock, which the parts of the store share."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tables = Tables(clock)
        self._lock = threading.RLock()
