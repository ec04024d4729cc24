"""Pausing a job after several executions in a row have failed. Part of the complete step, for jobs that ask for it."""

from __future__ import annotations

from collections.abc import Sequence

from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.protocol import Completion

_SQL = SqlFile("steps/failures.sql")
COUNT = _SQL("count")


def count(session: SqlSession, completions: Sequence[Completion]) -> BoundStatement:
    """Return what counts these ends, and pauses the jobs that have reached their limit; its rows are those jobs."""
    return session.bind(COUNT, fire_ids=[c.fired.fire_id for c in completions])
