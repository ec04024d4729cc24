"""Pure functions that compute the next fire times of a trigger outside the lock, for the store to apply."""

from __future__ import annotations

from datetime import datetime

from quartzpy.states import OverlapPolicy
from quartzpy.store.protocol import AcquiredTrigger, FiredTrigger, FireRequest
from quartzpy.triggers.misfire import MOST_MISSED
from quartzpy.triggers.upcoming import UpcomingFireTimes, look_ahead, refill


def fire_request_of(claim: AcquiredTrigger, now: datetime) -> FireRequest:
    """Return the request to fire a claimed trigger at `now`, with its upcoming fire times.

    If the overlap policy coalesces due fires, the list begins with the fire times that this fire covers.

    Raises:
        UnsupportedKindError, UnknownTimeZoneError: only this release or this node cannot compute the trigger.
        Exception: the row or the schedule is invalid, so that no next fire time can be computed.
    """
    progress = claim.trigger.triggered(claim.progress, claim.calendar)
    coalesced: list[datetime] = []
    if OverlapPolicy(claim.overlap_policy).coalesces:
        while progress.next_fire_time is not None and progress.next_fire_time <= now and len(coalesced) < MOST_MISSED:
            coalesced.append(progress.next_fire_time)
            progress = claim.trigger.triggered(progress, claim.calendar)
    if progress.next_fire_time is None:
        return FireRequest(claim, UpcomingFireTimes(tuple(coalesced), is_complete=True))
    beyond = look_ahead(claim.trigger, progress, claim.calendar)
    return FireRequest(
        claim, UpcomingFireTimes((*coalesced, progress.next_fire_time, *beyond.instants), beyond.is_complete)
    )


def refill_of(fired: FiredTrigger) -> UpcomingFireTimes | None:
    """Return further upcoming fire times for a fired trigger if it has few left, else None."""
    upcoming = fired.upcoming
    if upcoming is None or upcoming.is_complete or fired.next_fire_time is None:
        return None
    return refill(fired.trigger, fired.next_fire_time, upcoming, fired.times_triggered, fired.calendar)
