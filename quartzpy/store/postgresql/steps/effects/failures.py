"""Pausing a job after several executions in a row have failed, for jobs that ask for it."""

from __future__ import annotations

from quartzpy.keys import JobKey
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps.effects.effect import Completed, Flight, Results, fire_ids_of

_SQL = SqlFile("steps/effects/failures.sql")
COUNT_AT_LENGTH = _SQL("count", at_length=True)


def count_failures(ends: Completed) -> Flight:
    """Return what counts these ends, and pauses the jobs that have reached their limit."""
    counting = [c for c in ends.completions if c.counts_for_pause]
    if not counting:
        return {}
    text = COUNT_AT_LENGTH if ends.at_length else _SQL.count
    return {"count_failures": ends.session.bind(text, fire_ids=fire_ids_of(counting))}


def paused_jobs(results: Results) -> tuple[JobKey, ...]:
    """Return the jobs that these ends have paused."""
    if "count_failures" not in results:
        return ()
    return tuple(JobKey(name, group) for group, name in results["count_failures"].rows)
