"""Where a trigger goes next: the pure functions that run outside the lock, with what the store is told of it."""

from __future__ import annotations

from datetime import datetime

from quartzpy.states import WhenFull
from quartzpy.store.protocol import AcquiredTrigger, FiredTrigger, Move
from quartzpy.triggers.horizon import REFILL_BELOW, Horizon, look_ahead, refill
from quartzpy.triggers.misfire import MOST_MISSED


def move_of(claim: AcquiredTrigger, now: datetime) -> Move:
    """Where a claimed trigger goes when it fires at `now`, and for a while after: the store moves it past as many
    instants as its fire stands for.

    Raises:
        UnsupportedKindError, UnknownTimeZoneError: another release, or another node, can.
        Exception: its row, or its schedule, is wrong: its next fire time cannot be computed.
    """
    progress = claim.trigger.triggered(claim.progress, claim.calendar)
    passed: list[datetime] = []
    if WhenFull(claim.when_full).one_stands_for_all:
        while progress.next_fire_time is not None and progress.next_fire_time <= now and len(passed) < MOST_MISSED:
            passed.append(progress.next_fire_time)
            progress = claim.trigger.triggered(progress, claim.calendar)
    if progress.next_fire_time is None:
        return Move(claim, Horizon(tuple(passed), is_complete=True))
    beyond = look_ahead(claim.trigger, progress, claim.calendar)
    return Move(claim, Horizon((*passed, progress.next_fire_time, *beyond.instants), beyond.is_complete))


def refill_of(fired: FiredTrigger) -> Horizon | None:
    """The instants that a fired trigger will need next, where it has few left."""
    if fired.next_fire_time is None or fired.pending.is_complete or len(fired.pending.instants) >= REFILL_BELOW:
        return None
    return refill(fired.trigger, fired.next_fire_time, fired.pending, fired.times_triggered, fired.calendar)
