"""A role as `quartzpy db roles` makes it for nodes, with what the tests' own tables need."""

from __future__ import annotations

import psycopg
from psycopg import sql
from sqlalchemy import URL

from quartzpy.store.postgresql import roles
from quartzpy.store.postgresql.schema.privileges import Use

LOGIN = "quartzpy_app"
_PASSWORD = "of-the-tests"
_LOCK = 4_711


def login(server: URL) -> URL:
    return server.set(username=LOGIN, password=_PASSWORD)


def create(administrator: psycopg.Connection) -> None:
    """Create the role, which may log in, unless it is there. All workers of a run do so at once."""
    with administrator.transaction():
        administrator.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        if administrator.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [LOGIN]).fetchone() is None:
            administrator.execute(
                sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(LOGIN), sql.Literal(_PASSWORD))
            )
            administrator.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(_node())))
            administrator.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(_node()), sql.Identifier(LOGIN)))


def let_use_tables(dsn: str, administrator: psycopg.Connection) -> None:
    """Grant what a node needs on the tables of a database, whose owner is somebody else, and tables of one's own."""
    roles.apply(dsn, roles.statements({Use.NODE: _node()}))
    name = sql.Identifier(administrator.info.dbname)
    administrator.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(name, sql.Identifier(LOGIN)))
    administrator.execute(sql.SQL("GRANT CREATE ON SCHEMA public TO {}").format(sql.Identifier(LOGIN)))


def _node() -> str:
    return roles.DEFAULT_NAMES[Use.NODE]
