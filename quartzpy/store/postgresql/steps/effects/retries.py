"""Executions that run again, by a trigger of their own: retried, snoozed, handed back, or lost with their node."""

from __future__ import annotations

from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps.effects.effect import Ends, Flight

_SQL = SqlFile("steps/effects/retries.sql")


def repeat(ends: Ends) -> Flight:
    """Return what stores the triggers of executions that run again."""
    if not ends.repeating:
        return {}
    return {"repeat": ends.waking(_SQL.repeat, ends.repeating)}
