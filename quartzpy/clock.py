"""The only module that reads this machine's clocks.

Wall time is for the in-memory store and for log lines; a SQL store decides by the database's clock. Waits
and leases use `monotonic`, which also counts the time that a virtual machine was suspended.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol

_MONOTONIC = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """Where time comes from; tests hand in one that they move."""

    def now(self) -> datetime:
        """The wall-clock time, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed point; never goes back, and goes on while the machine sleeps."""
        ...


class SystemClock:
    """This machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.clock_gettime(_MONOTONIC)
