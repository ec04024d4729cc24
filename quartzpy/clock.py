"""The clocks of this machine, which no other module reads, and the jitter of waits.

The in-memory store and log lines use wall-clock time; a SQL store decides by the database's clock. Waits
and leases use `monotonic`, which also counts the time during which the machine was suspended.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial
from random import SystemRandom
from typing import Protocol

# It is not the generator that the `random` module shares: a program that seeds that one alike on all nodes would
# otherwise make the nodes wait in step.
uniform = SystemRandom().uniform
"""Return a random number between two bounds, as `random.uniform` does."""
_MONOTONIC = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def seconds_suspended() -> float:
    """Return how many seconds this machine has spent in suspension since it was started.

    The waits of the operating system do not count this time, `Clock.monotonic` does. Between calls, the value may vary
    by milliseconds, or by more if this thread was not scheduled.
    """
    return time.clock_gettime(_MONOTONIC) - time.clock_gettime(time.CLOCK_MONOTONIC)


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

    # No function of Python, because a fire reads this clock some twenty times.
    monotonic = staticmethod(partial(time.clock_gettime, _MONOTONIC))
