"""The store's time between its answers: learned from them, and carried on by this machine's steady clock."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from quartzpy.clock import Clock

logger = logging.getLogger(__name__)

REPORTED_SKEW = 5.0
"""Seconds that this machine's clock and the database's may differ without a warning."""


class StoreTime:
    """Estimates the store's time. A wrong wall clock of this machine has no part in it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._learned: tuple[datetime, float] | None = None
        self._is_reported = False

    def learn(self, now: datetime, asked_at: float) -> None:
        """The store said `now` to a question that left at `asked_at` (by `Clock.monotonic`)."""
        answered = self._clock.monotonic()
        # The store read its clock somewhere between; the middle errs by half the round trip at most.
        self._learned = (now, (asked_at + answered) / 2)

    def now(self) -> datetime:
        """The estimate; this machine's wall clock before anything was learned."""
        learned = self._learned
        if learned is None:
            return self._clock.now()
        at, then = learned
        return at + timedelta(seconds=self._clock.monotonic() - then)

    @property
    def skew(self) -> timedelta:
        """The time by which this machine's wall clock is ahead of the store's; below zero where it is behind."""
        return timedelta() if self._learned is None else self._clock.now() - self.now()

    def report_skew(self, node: str) -> None:
        """Warn once where this machine's clock is wrong: the times in its log and those that its jobs see are too."""
        skew = self.skew.total_seconds()
        if abs(skew) >= REPORTED_SKEW and not self._is_reported:
            self._is_reported = True
            logger.warning(
                "node %s: this machine's clock is %.1f s %s the database's, which decides what is due",
                node,
                abs(skew),
                "ahead of" if skew > 0 else "behind",
            )

    def seconds_until(self, instant: datetime) -> float:
        """Return the seconds until the store's clock shows `instant`; negative when it has passed."""
        return (instant - self.now()).total_seconds()
