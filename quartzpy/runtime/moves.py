"""Where a trigger goes next: the pure functions that run outside the lock, with what the store is told of it."""

from __future__ import annotations

from quartzpy.store.protocol import AcquiredTrigger, FiredTrigger, Move
from quartzpy.triggers.horizon import REFILL_BELOW, Horizon, look_ahead, refill


def move_of(claim: AcquiredTrigger) -> Move:
    """Where a claimed trigger goes when it fires.

    Raises:
        ArithmeticError: its next fire time cannot be computed.
    """
    progress = claim.trigger.triggered(claim.progress, claim.calendar)
    if progress.next_fire_time is None:
        return Move(claim, progress, Horizon(is_complete=True))
    return Move(claim, progress, look_ahead(claim.trigger, progress, claim.calendar))


def refill_of(fired: FiredTrigger) -> Horizon | None:
    """The instants that a fired trigger will need next, where it has few left."""
    if fired.next_fire_time is None or fired.pending.is_complete or len(fired.pending.instants) >= REFILL_BELOW:
        return None
    return refill(fired.trigger, fired.next_fire_time, fired.pending, fired.times_triggered, fired.calendar)
