"""The only module that reads the clocks of this machine.

The in-memory store and log lines use wall-clock time; a SQL store decides by the database's clock. Waits
and leases use `monotonic`, which also counts the time during which the machine was suspended.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

_MONOTONIC = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


LONGEST_SLICE = 1.0
"""The longest wait in seconds by the operating system, which does not count the time of a suspension."""


def wait_by_boot_time(wait: Callable[[float], bool], seconds: float) -> bool:
    """Call `wait`, a wait of the operating system with a timeout, until it returns True or `seconds` have passed.

    The time of a suspension of the machine counts: after it, the wait ends at most LONGEST_SLICE later.
    """
    if seconds <= LONGEST_SLICE:
        return wait(max(0.0, seconds))
    deadline = time.clock_gettime(_MONOTONIC) + seconds
    while (left := deadline - time.clock_gettime(_MONOTONIC)) > 0:
        if wait(min(left, LONGEST_SLICE)):
            return True
    return False


class Clock(Protocol):
    """The source of time; tests pass one that they control."""

    def now(self) -> datetime:
        """Return the wall-clock time in UTC."""
        ...

    def monotonic(self) -> float:
        """Return the seconds since a fixed point. The value never decreases, and counts time in suspension."""
        ...


class SystemClock:
    """The clocks of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.clock_gettime(_MONOTONIC)
