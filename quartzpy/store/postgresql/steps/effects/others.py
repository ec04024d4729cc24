"""What ends do to other triggers: the same, whether an execution ends by itself or by the death of its node."""

from __future__ import annotations

from quartzpy.store.postgresql.steps.effects import followers, joins, release, retries
from quartzpy.store.postgresql.steps.effects.effect import Ends, Flight


def hold(ends: Ends) -> Flight:
    """Return what takes out the ends that would write a row which somebody else holds."""
    return {**followers.hold_followers(ends), **joins.hold_joins(ends)}


def change(ends: Ends) -> Flight:
    """Return what releases triggers, and stores those of the jobs that run next."""
    return {
        **release.release(ends),
        **retries.repeat(ends),
        **followers.start_followers(ends),
        **joins.count_and_start(ends),
    }
