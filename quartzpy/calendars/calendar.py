"""What a calendar is: a set of instants at which triggers that name it may fire."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Calendar(Protocol):
    """Excludes instants from a trigger's schedule (Quartz's `Calendar`)."""

    def is_included(self, instant: datetime) -> bool:
        """Whether a trigger may fire at `instant`."""
        ...

    def next_included(self, instant: datetime) -> datetime | None:
        """The first included instant at or after `instant`; None where there is none within 100 years."""
        ...
