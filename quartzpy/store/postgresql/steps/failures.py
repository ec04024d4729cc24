"""Pausing a job after several executions in a row have failed. Part of the complete step, for jobs that ask for it."""

from __future__ import annotations

from collections.abc import Sequence

from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.protocol import Completion

_SQL = SqlFile("steps/failures.sql")
COUNT = _SQL("count")
COUNT_AT_LENGTH = _SQL("count", at_length=True)


def count(session: SqlSession, completions: Sequence[Completion], *, at_length: bool = False) -> BoundStatement:
    """Return what counts these ends, and pauses the jobs that have reached their limit; its rows are those jobs.

    With `at_length`, the same transaction has paused them before.
    """
    return session.bind(COUNT_AT_LENGTH if at_length else COUNT, fire_ids=[c.fired.fire_id for c in completions])
