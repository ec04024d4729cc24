"""The names of all schedulers that share a database."""

from __future__ import annotations

from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile

NAMES = SqlFile("scheduler_names.sql")("names")


def scheduler_names(session: SqlSession) -> list[str]:
    """Return the names of the schedulers that have a job, a calendar, a node or a history, sorted."""
    return [name for (name,) in session.read_one(NAMES)]
