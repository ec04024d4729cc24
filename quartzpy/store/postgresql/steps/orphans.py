"""Orphans: jobs that are not durable and whose last trigger has gone."""

from __future__ import annotations

from collections.abc import Collection

from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile

_SQL = SqlFile("steps/orphans.sql")


def orphans(session: SqlSession, jobs: Collection[tuple[str, str]]) -> list[BoundStatement]:
    """Return the statements that remove those of the jobs that are not durable and have no trigger left."""
    keys = sorted(set(jobs))
    values = {"job_groups": [group for group, _ in keys], "job_names": [name for _, name in keys]}
    return [session.bind(text, **values) for text in (_SQL.hold_orphans, _SQL.orphaned_jobs)] if keys else []
