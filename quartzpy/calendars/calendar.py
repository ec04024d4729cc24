"""The protocol of calendars: sets of instants at which the triggers that name them may fire."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Calendar(Protocol):
    """A set of instants, which excludes others from a trigger's schedule (Quartz's `Calendar`).

    Previews take any object with these methods. The stores keep calendars that are derived from `BaseCalendar`.
    """

    def is_included(self, instant: datetime) -> bool:
        """Return True if a trigger may fire at `instant`."""
        ...

    def next_included(self, instant: datetime) -> datetime | None:
        """Return the first included instant at or after `instant`; None if there is none within 100 years."""
        ...
