"""Joins and batches: the jobs that wait for the ends of several executions."""

from __future__ import annotations

from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps.effects.effect import Ends, Flight

_SQL = SqlFile("steps/effects/joins.sql")


def hold_joins(ends: Ends) -> Flight:
    """Return what holds the joins that these ends concern, and the jobs that they may start."""
    return {"hold_joins": ends.session.bind(_SQL.hold_joins, fire_ids=ends.joining)} if ends.joining else {}


def count_and_start(ends: Ends) -> Flight:
    """Return what counts them, and starts the jobs that have waited for the last of them."""
    if not ends.joining:
        return {}
    return {
        "count_joins": ends.session.bind(_SQL.count_joins, fire_ids=ends.joining),
        "start_joined": ends.waking(_SQL.start_joined, ends.joining),
    }
