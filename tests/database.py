"""The tests' PostgreSQL: `QUARTZPY_TEST_DSN`, a container where Docker answers, or the embedded server of a world.

A missing database is an error, never a skipped test.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import URL, make_url

from quartzpy.store.postgresql import migrations

DSN_VARIABLE = "QUARTZPY_TEST_DSN"
IMAGE_VARIABLE = "QUARTZPY_TEST_PG"
DOCKER_SOCKET = Path("/var/run/docker.sock")
DOCKER_ANSWERS_WITHIN = 2
TEMPLATE = "quartzpy_template"
PATIENCE = 60
"""The limit of a connection attempt, in seconds: a busy machine takes longer than the few seconds of a program."""


def libpq_url(dsn: str) -> str:
    """A database URL as psycopg and the programs of PostgreSQL take it."""
    return dsn.replace("+psycopg", "", 1)


def connect_to(dsn: str, *, autocommit: bool = True, **options: Any) -> psycopg.Connection[Any]:
    """A connection of a user's own."""
    return psycopg.connect(libpq_url(dsn), autocommit=autocommit, **options)


def execute(dsn: str, *statements: str) -> list[tuple[Any, ...]]:
    """Execute statements on a connection of its own. Return the rows of the last one."""
    with connect_to(dsn) as connection:
        for statement in statements:
            found = connection.execute(statement.encode())
        return found.fetchall() if found.description else []


def end_sessions(connection: psycopg.Connection[Any], condition: str, *parameters: object) -> None:
    """End the other sessions of this database for which a condition on `pg_stat_activity` holds, and wait for it."""
    statement = (
        f"SELECT pg_terminate_backend(pid, {round(PATIENCE * 1000)}) FROM pg_stat_activity"
        f" WHERE datname = current_database() AND pid <> pg_backend_pid() AND {condition}"
    )
    connection.execute(statement.encode(), parameters)


def waiting_sessions(connection: psycopg.Connection[Any], application: str = "%") -> int:
    """The number of this database's sessions that wait for a lock, of applications whose names are LIKE this."""
    # A transaction that has looked once sees no session that is newer.
    connection.execute("SELECT pg_stat_clear_snapshot()")
    [(count,)] = connection.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        " AND application_name LIKE %s",
        [application],
    )
    return int(count)


LARGE = 2**20
"""The bytes from which on a table without rows is vacuumed: so much is read in a millisecond."""
IN_TRANSACTION = "state LIKE 'idle in transaction%%'"
"""The condition of sessions whose transactions wait for their clients."""


class Server:
    """A server on which databases are made and dropped.

    `url` is the way that tests take to it, and `administrator` the fixtures' own: TCP, a superuser, no pooler.
    """

    def __init__(self, dsn: str, kind: str, *, administrator: str | None = None) -> None:
        self.url: URL = make_url(dsn)
        self.administrator: URL = make_url(administrator or dsn)
        self.kind = kind

    def dsn_of(self, database: str) -> str:
        return self.url.set(database=database).render_as_string(hide_password=False)

    def administrator_dsn_of(self, database: str) -> str:
        return self.administrator.set(database=database).render_as_string(hide_password=False)

    @property
    def is_restricted(self) -> bool:
        return self.url.username != self.administrator.username

    def connect(self, database: str | None = None) -> psycopg.Connection[Any]:
        """A connection of the administrator's."""
        dsn = self.administrator_dsn_of(database or str(self.administrator.database))
        return connect_to(dsn, connect_timeout=PATIENCE)

    @property
    def version(self) -> str:
        with self.connect() as connection:
            return str(connection.execute("SHOW server_version").fetchone()[0])  # type: ignore[index]

    def create(self, name: str, template: str | None = None, locale: str | None = None) -> str:
        """Create a database. With a locale, the template has to be "template0"."""
        with self.connect() as connection:
            # Half the work of copying by the log.
            statement = sql.SQL("CREATE DATABASE {} STRATEGY file_copy").format(sql.Identifier(name))
            if locale is not None:
                statement += sql.SQL(" ENCODING 'UTF8' LOCALE {}").format(sql.Literal(locale))
            if template is not None:
                statement += sql.SQL(" TEMPLATE {}").format(sql.Identifier(template))
            if self.is_restricted:
                statement += sql.SQL(" OWNER {}").format(sql.Identifier(str(self.url.username)))
            connection.execute(statement)
        return self.dsn_of(name)

    @cached_property
    def tables(self) -> str:
        """The name of a database with our tables: a copy of it costs a sixth of the migrations."""
        name = f"quartzpy_tables_{uuid.uuid4().hex[:12]}"
        self.create(name)
        # A pooler would keep a session, and a template must have none.
        url = (self.url if self.is_restricted else self.administrator).set(database=name)
        patient = url.update_query_dict({"connect_timeout": str(PATIENCE)})
        migrations.upgrade(patient.render_as_string(hide_password=False))
        return name

    def drop_tables(self) -> None:
        """Drop the template of this process, if there is one."""
        if "tables" in self.__dict__:
            self.drop(self.tables)
            del self.tables

    def drop(self, name: str) -> None:
        with self.connect() as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    @contextmanager
    def temporary(self, name: str, template: str | None = None, locale: str | None = None) -> Iterator[str]:
        """Give the URL of a new database whose name begins with `name`: the workers of a run share one server."""
        unique = f"{name}_{uuid.uuid4().hex[:12]}"
        try:
            yield self.create(unique, template, locale)
        finally:
            self.drop(unique)


@contextmanager
def given_server() -> Iterator[Server | None]:
    """The server that the caller chose: `QUARTZPY_TEST_DSN`, or a container where Docker answers; None without one."""
    if (dsn := os.environ.get(DSN_VARIABLE)) is not None:
        yield Server(dsn, DSN_VARIABLE)
    elif _docker_answers():
        from testcontainers.community.postgres import PostgresContainer

        image = f"postgres:{os.environ.get(IMAGE_VARIABLE, '17')}"
        with PostgresContainer(image, driver="psycopg") as container:
            yield Server(container.get_connection_url(), f"container {image}")
    else:
        yield None


def _docker_answers() -> bool:
    if "DOCKER_HOST" not in os.environ and not DOCKER_SOCKET.exists():
        return False
    try:
        import docker

        with contextlib.closing(docker.from_env(timeout=DOCKER_ANSWERS_WITHIN)) as client:
            return bool(client.ping())
    except Exception:
        return False


def empty_tables(connection: psycopg.Connection[Any]) -> None:
    """Remove all rows of our tables; faster than making a database for each test."""
    connection.execute(
        "DELETE FROM qrtz_executions; DELETE FROM qrtz_misfires; DELETE FROM qrtz_fired_triggers;"
        # A job that has switched triggers off leaves the keys of what was deleted.
        " DELETE FROM qrtz_triggers; DELETE FROM qrtz_trigger_keys;"
        " DELETE FROM qrtz_job_details; DELETE FROM qrtz_job_upstreams; DELETE FROM qrtz_calendars;"
        " DELETE FROM qrtz_paused_trigger_groups;"
        " DELETE FROM qrtz_owners; DELETE FROM qrtz_audit;"
        " DELETE FROM qrtz_limits; DELETE FROM qrtz_zone_rules;"
        " DELETE FROM qrtz_scheduler_state; DELETE FROM qrtz_locks;"
        " DELETE FROM qrtz_joins; DELETE FROM qrtz_incidents; DELETE FROM qrtz_health_runs;"
        " DELETE FROM qrtz_maintenance_windows; DELETE FROM qrtz_notifications;"
        " DELETE FROM qrtz_expectations; DELETE FROM qrtz_breaches;"
        " DROP TABLE IF EXISTS test_clock"
    )
    # The server has no autovacuum.
    large = connection.execute(
        "SELECT relname FROM pg_class WHERE relname LIKE 'qrtz%%' AND relkind = 'r' AND pg_relation_size(oid) > %s",
        [LARGE],
    ).fetchall()
    for (table,) in large:
        connection.execute(sql.SQL("VACUUM {}").format(sql.Identifier(table)))
