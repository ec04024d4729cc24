"""A clock that stands still until a test moves it."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count

from quartzpy.errors import InvalidValueError
from quartzpy.instants import as_instant

DEFAULT_START = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock:
    """A clock that stands still until it is moved, and calls functions at instants on its way."""

    def __init__(self, start: datetime = DEFAULT_START) -> None:
        self._start = self._now = as_instant(start, "start")
        self._heap: list[tuple[datetime, int]] = []
        self._actions: dict[int, Callable[[], object]] = {}
        self._numbers = count(1)

    def now(self) -> datetime:
        """Return the time that the clock shows."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds since the start of the clock."""
        return (self._now - self._start).total_seconds()

    def move_to(self, instant: datetime) -> None:
        """Set the clock to a later instant, and make the calls of `call_at` that are due on the way.

        Raises:
            InvalidValueError: The clock would go back.
        """
        self.move_while(instant, lambda: True)

    def advance(self, span: timedelta) -> None:
        """Move the clock forward by `span`. A job under test, or a stand-in that it calls, simulates its duration so.

        Raises:
            InvalidValueError: The clock would go back.
        """
        self.move_to(self._now + span)

    def move_while(self, instant: datetime, goes_on: Callable[[], bool]) -> None:
        """Move the clock to `instant`, or only to the first call after which `goes_on()` returns False.

        Raises:
            InvalidValueError: The clock would go back.
        """
        if instant < self._now:
            raise InvalidValueError(f"clock: {instant.isoformat()} is before {self._now.isoformat()}")
        while (following := self.next_call()) is not None and following <= instant:
            _, number = heapq.heappop(self._heap)
            self._now = max(self._now, following)
            self._actions.pop(number)()
            if not goes_on():
                return
        self._now = max(self._now, instant)

    def call_at(self, instant: datetime, action: Callable[[], object]) -> int:
        """Call `action` when the clock passes `instant`. Returns a number for `cancel`."""
        number = next(self._numbers)
        self._actions[number] = action
        heapq.heappush(self._heap, (as_instant(instant, "instant"), number))
        return number

    def cancel(self, number: int) -> None:
        """Cancel a call. Does nothing if the call has been made already."""
        self._actions.pop(number, None)

    def next_call(self) -> datetime | None:
        """Return the instant of the next call, or None if there is none."""
        while self._heap and self._heap[0][1] not in self._actions:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
