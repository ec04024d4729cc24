"""The estimated time of the store: its answer that was the quickest lately, extrapolated by the monotonic clock."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from quartzpy.clock import Clock

logger = logging.getLogger(__name__)

REPORTED_SKEW = 5.0
"""The difference between this machine's wall clock and the database's, in seconds, from which a warning is logged."""

DRIFT = 0.0002
"""The share of the time that has passed since an answer by which the estimate from it is less accurate."""
WINDOW = 10.0
"""The time, in seconds, for which the best bound of the store's clock is kept: for one to two windows."""


class StoreTime:
    """An estimate of the store's time. It does not depend on the wall clock of this machine."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._learned: tuple[datetime, float, float] | None = None
        """The store's time, the monotonic time, and by how many seconds the difference of both may be wrong."""
        self._earliest: float | None = None
        self._earlier: float | None = None
        self._window_began_at = 0.0
        self._is_reported = False
        self._published_skew: float | None = None

    def learn(self, now: datetime, asked_at: float) -> None:
        """Record the store's time `now` from the answer to a request sent at `asked_at` (of `Clock.monotonic`)."""
        answered = self._clock.monotonic()
        # The store read its clock during the round trip. The middle is wrong by at most half of it.
        middle, error = (asked_at + answered) / 2, (answered - asked_at) / 2
        if self._says_more(now, middle, error):
            self._learned = (now, middle, error)
        self._learn_bounds(now.timestamp(), asked_at, answered)

    def _says_more(self, now: datetime, middle: float, error: float) -> bool:
        """Return whether an answer says more than the one before: it was quicker, or that one is old or is refuted."""
        if self._learned is None:
            return True
        at, then, error_then = self._learned
        passed = middle - then
        error_now = error_then + DRIFT * passed
        return error <= error_now or abs((now - at).total_seconds() - passed) > error + error_now

    def _learn_bounds(self, now: float, asked_at: float, answered: float) -> None:
        """Learn by how much the store's clock is ahead of this machine's monotonic clock at least.

        The store read its clock before the answer came, so each answer gives a lower bound. The greatest one counts:
        that of the answer that took the least time. Old answers are forgotten, because clocks drift.
        """
        at_least, at_most = now - answered, now - asked_at
        bound, previous_bound = self._earliest, self._earlier
        if bound is None or at_most < bound or (previous_bound is not None and at_most < previous_bound):
            # The first answer, or the store's clock was set back: no bound of an earlier answer holds any more.
            self._earliest, self._earlier, self._window_began_at = at_least, None, answered
        elif answered - self._window_began_at > WINDOW:
            self._earliest, self._earlier, self._window_began_at = at_least, bound, answered
        elif at_least > bound:
            self._earliest = at_least

    def now(self) -> datetime:
        """Return the estimate. Before the first answer it is the wall clock of this machine."""
        learned = self._learned
        if learned is None:
            return self._clock.now()
        at, then, _ = learned
        return at + timedelta(seconds=self._clock.monotonic() - then)

    @property
    def skew(self) -> timedelta:
        """The time by which this machine's wall clock is ahead of the store's; negative if it is behind."""
        return timedelta() if self._learned is None else self._clock.now() - self.now()

    def report_skew(self, node: str) -> bool:
        """Log one warning if the wall clock of this machine is wrong, as then its log and its jobs show wrong times.

        Return whether one of the clocks has been set since the last call, so that what is published of them is wrong.
        """
        skew = self.skew.total_seconds()
        told_before = skew if self._published_skew is None else self._published_skew
        is_set = abs(skew - told_before) >= REPORTED_SKEW
        self._published_skew = skew if is_set else told_before
        # A clock that goes wrong again is told again.
        self._is_reported &= not is_set
        if abs(skew) >= REPORTED_SKEW and not self._is_reported:
            self._is_reported = True
            logger.warning(
                "node %s: this machine's clock is %.1f s %s the database's, which decides when triggers are due",
                node,
                abs(skew),
                "ahead of" if skew > 0 else "behind",
            )
        return is_set

    def seconds_until_surely(self, instant: datetime) -> float:
        """Return the seconds after which the store's clock has certainly reached `instant`, as far as it is steady."""
        bound, previous_bound = self._earliest, self._earlier
        if bound is None:
            return self.seconds_until(instant)
        ahead = bound if previous_bound is None else max(bound, previous_bound)
        return instant.timestamp() - (self._clock.monotonic() + ahead)

    def seconds_until(self, instant: datetime) -> float:
        """Return the seconds until the store's clock shows `instant`; negative when it has passed."""
        return (instant - self.now()).total_seconds()
