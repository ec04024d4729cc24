"""Joins of jobs that are stored anew or deleted: what they wait for is decided again."""

from __future__ import annotations

from collections.abc import Collection

from quartzpy.keys import JobKey
from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.rows import key_columns
from quartzpy.store.postgresql.schema.sql_files import SqlFile

_SQL = SqlFile("redefined_joins.sql")


def decide(session: SqlSession, keys: Collection[JobKey]) -> BoundStatement:
    """Return the statement that decides what jobs wait for, after their definitions were written."""
    return session.bind(_SQL.decide, **key_columns(keys), channel=session.channel)


def abandon(session: SqlSession, keys: Collection[JobKey]) -> BoundStatement:
    """Return the statement that ends the waiting of jobs that are deleted."""
    return session.bind(_SQL.abandon, **key_columns(keys))


def circle(session: SqlSession, keys: Collection[JobKey]) -> BoundStatement:
    """Return the statement that selects a job which would wait for itself, and the one through which it does."""
    return session.bind(_SQL.circle, **key_columns(keys))
