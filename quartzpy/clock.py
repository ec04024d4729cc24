"""The only module that reads this machine's clocks.

Wall time is for the in-memory store and for log lines; a SQL store decides by the database's clock. Waits
and leases use `monotonic`, which also counts the time that a virtual machine was suspended.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

_MONOTONIC = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


LONGEST_SLICE = 1.0
"""Seconds. What waits by the operating system does not count the time that a machine was suspended."""


def wait_by_boot_time(wait: Callable[[float], bool], seconds: float) -> bool:
    """Call `wait`, a wait of the operating system with a limit, until it is true or `seconds` have passed.

    A virtual machine that is suspended meanwhile has waited that long too: the wait ends at most a slice later.
    """
    if seconds <= LONGEST_SLICE:
        return wait(max(0.0, seconds))
    deadline = time.clock_gettime(_MONOTONIC) + seconds
    while (left := deadline - time.clock_gettime(_MONOTONIC)) > 0:
        if wait(min(left, LONGEST_SLICE)):
            return True
    return False


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
