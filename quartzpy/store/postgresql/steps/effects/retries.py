"""Further attempts: an execution that is retried, was snoozed or was handed back runs again by a trigger of its own."""

from __future__ import annotations

from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps.effects.effect import Ends, Flight

_SQL = SqlFile("steps/effects/retries.sql")
RETRY = _SQL("retry")


def retry(ends: Ends) -> Flight:
    """Return what stores the triggers of executions that run again."""
    again = [c for c in ends.completions if c.retry_after is not None]
    if not again:
        return {}
    handed_back = ends.fire_ids([c for c in again if c.is_handed_back])
    return {"retry": ends.waking(RETRY, again, handed_back_fire_ids=handed_back)}
