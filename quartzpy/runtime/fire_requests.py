"""Where a trigger goes next: the pure functions that run outside the lock, with what the store is told of it."""

from __future__ import annotations

from datetime import datetime

from quartzpy.states import OverlapPolicy
from quartzpy.store.protocol import AcquiredTrigger, FiredTrigger, FireRequest
from quartzpy.triggers.misfire import MOST_MISSED
from quartzpy.triggers.upcoming import REFILL_BELOW, UpcomingFireTimes, look_ahead, refill


def fire_request_of(claim: AcquiredTrigger, now: datetime) -> FireRequest:
    """Where a claimed trigger goes when it fires at `now`, and for a while after: the store moves it past as many
    instants as its fire stands for.

    Raises:
        UnsupportedKindError, UnknownTimeZoneError: another release, or another node, can.
        Exception: its row, or its schedule, is wrong: its next fire time cannot be computed.
    """
    progress = claim.trigger.triggered(claim.progress, claim.calendar)
    passed: list[datetime] = []
    if OverlapPolicy(claim.overlap_policy).coalesces:
        while progress.next_fire_time is not None and progress.next_fire_time <= now and len(passed) < MOST_MISSED:
            passed.append(progress.next_fire_time)
            progress = claim.trigger.triggered(progress, claim.calendar)
    if progress.next_fire_time is None:
        return FireRequest(claim, UpcomingFireTimes(tuple(passed), is_complete=True))
    beyond = look_ahead(claim.trigger, progress, claim.calendar)
    return FireRequest(
        claim, UpcomingFireTimes((*passed, progress.next_fire_time, *beyond.instants), beyond.is_complete)
    )


def refill_of(fired: FiredTrigger) -> UpcomingFireTimes | None:
    """The instants that a fired trigger will need next, where it has few left."""
    if fired.next_fire_time is None or fired.upcoming.is_complete or len(fired.upcoming.instants) >= REFILL_BELOW:
        return None
    return refill(fired.trigger, fired.next_fire_time, fired.upcoming, fired.times_triggered, fired.calendar)
