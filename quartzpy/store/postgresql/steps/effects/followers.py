"""Continuations: the jobs that run after others."""

from __future__ import annotations

from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps.effects.effect import Ends, Flight

_SQL = SqlFile("steps/effects/followers.sql")


def hold_followers(ends: Ends) -> Flight:
    """Return what holds the jobs that run after these ends."""
    if not ends.continuing:
        return {}
    return {"hold_followers": ends.session.bind(_SQL.hold_followers, fire_ids=ends.continuing)}


def start_followers(ends: Ends) -> Flight:
    """Return what starts them."""
    return {"start_followers": ends.waking(_SQL.start_followers, ends.continuing)} if ends.continuing else {}
