"""What time the store has, between its answers: learned from them, carried on by this machine's steady clock."""

from __future__ import annotations

from datetime import datetime, timedelta

from quartzpy.clock import Clock


class StoreTime:
    """Estimates the store's time. A wrong wall clock of this machine has no part in it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._learned: tuple[datetime, float] | None = None

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

    def seconds_until(self, instant: datetime) -> float:
        """How long until the store's clock shows `instant`; negative when it has passed."""
        return (instant - self.now()).total_seconds()
