"""The number of rows that one transaction of a long change takes, by the time of the last one."""

from __future__ import annotations


class SliceSize:
    """Begins with `first`, halves after a slice of more than `long` seconds, and doubles after one below `short`."""

    def __init__(self, first: int, *, least: int, most: int, short: float, long: float) -> None:
        self.number = min(first, most)
        self._least, self._most = least, most
        self._short, self._long = short, long

    def adapt(self, seconds: float) -> None:
        """Note how long the last slice took."""
        if seconds > self._long:
            self.number = max(self.number // 2, self._least)
        elif seconds < self._short:
            self.number = min(self.number * 2, self._most)
