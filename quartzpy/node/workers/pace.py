"""The pace of a worker pool: how many executions may wait behind those that run.

While executions are short, the node fires more triggers than it has workers, so that the workers go on while the next
ones are fetched. See docs/decisions/0025-short-jobs-are-fired-ahead.md.
"""

from __future__ import annotations

HORIZON = 0.025
"""The time, in seconds, within which an execution that was fired ahead should start."""
WINDOW = 0.02
"""The shortest time, in seconds, over which the rate is measured."""
_FADES = 0.98
"""The factor by which the longest run counts less with each later one."""


class Pace:
    """Measures how fast the executions of one pool end. The caller holds the lock of the pool."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._longest: float | None = None
        self._ended = 0
        self._since = 0.0
        self._per_second = 0.0

    def ended(self, seconds: float) -> None:
        """Note the end of an execution that has run for `seconds`."""
        faded = 0.0 if self._longest is None else self._longest * _FADES
        self._longest = max(seconds, faded)
        self._ended += 1

    def stalled(self) -> None:
        """Forget that executions were short: those that run now are not. Nothing is fired ahead until one has ended."""
        self._longest = None

    @property
    def is_fast(self) -> bool:
        """True if none of the last executions ran for longer than `HORIZON`."""
        return self._longest is not None and self._longest <= HORIZON

    def ahead(self, now: float) -> int:
        """Return the number of executions that would start within `HORIZON` behind those that run.

        It is 0 until an execution has ended, and as long as a recent one ran for longer than `HORIZON`.
        """
        count = self.within(HORIZON, now)
        return min(self._most, count) if self.is_fast else 0

    def within(self, seconds: float, now: float) -> int:
        """Return the number of executions that end within `seconds` at the present pace."""
        elapsed = now - self._since
        if elapsed >= WINDOW:
            # In a part of the window the workers may have been idle, so the rate falls by no more than a half.
            self._per_second = max(self._ended / elapsed, self._per_second / 2)
            self._ended, self._since = 0, now
        return int(self._per_second * seconds)
