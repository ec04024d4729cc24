"""An estimate of the database's clock, which saves a round trip where a few milliseconds do not matter."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta

LONGEST_AGE = 10.0
"""The age, in seconds, from which on a reading is not used: the clocks may have drifted apart."""
TOLERANCE = timedelta(milliseconds=20)
"""The error of an estimate that is accepted."""


class ClockEstimate:
    """The last reading of the database's clock, continued by the monotonic clock of this machine.

    The answer with the reading arrives after it was made, so the estimate is late by up to one round trip, and never
    early while both clocks are steady. If the database's clock is set, or this machine is suspended, the estimate is
    wrong; therefore whoever uses it compares it with the next reading.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._learned: tuple[datetime, float] | None = None

    def learn(self, reading: datetime) -> None:
        """Note a reading of the database's clock that has just arrived."""
        self._learned = reading, self._monotonic()

    def now(self) -> datetime | None:
        """Return the estimate; None if there is no recent reading."""
        learned = self._learned
        if learned is None:
            return None
        reading, at = learned
        age = self._monotonic() - at
        return reading + timedelta(seconds=age) if age < LONGEST_AGE else None

    def agrees(self, reading: datetime, before: datetime | None) -> bool:
        """Return whether a reading that has just arrived is as expected, and note it.

        `before` is the estimate at an instant before the reading was made, if there was one.
        """
        after = self.now()
        self.learn(reading)
        return before is not None and after is not None and before - TOLERANCE <= reading <= after + TOLERANCE
