"""The PostgreSQL server of a run, with durable settings, and the figures that the server itself keeps."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import URL, make_url

from benchmarks.processes import cpu_seconds_with_children
from quartzpy.embedded import EmbeddedPostgres
from quartzpy.store.postgresql import migrations

SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
    # No checkpoint falls into one measurement and not into another: each measurement begins with one.
    "checkpoint_timeout": "30min",
    "max_connections": "200",
}


class Server:
    """A server on which each measurement has a database of its own."""

    def __init__(self, url: str, postmaster: int | None) -> None:
        self._url: URL = make_url(url)
        self._postmaster = postmaster
        self._numbers = itertools.count(1)
        self._made: list[str] = []

    def url_of(self, database: str) -> str:
        return self._url.set(database=database).render_as_string(hide_password=False)

    def connect(self, url: str | None = None) -> psycopg.Connection[Any]:
        """Return a connection in autocommit mode, to the database of a URL or to the server's own."""
        plain = make_url(url or self._url).set(drivername="postgresql").render_as_string(hide_password=False)
        return psycopg.connect(plain, autocommit=True)

    def new_database(self, *, with_tables: bool = True, template: str | None = None) -> str:
        """Create a database, empty, with quartzpy's tables or as a copy of another one, and return its URL."""
        name = f"quartzpy_benchmark_{os.getpid()}_{next(self._numbers)}"
        statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        if template is not None:
            statement += sql.SQL(" TEMPLATE {}").format(sql.Identifier(str(make_url(template).database)))
        with self.connect() as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
            connection.execute(statement)
        self._made.append(name)
        url = self.url_of(name)
        if with_tables and template is None:
            migrations.upgrade(url)
        return url

    def drop(self, url: str) -> None:
        self._drop(str(make_url(url).database))

    def drop_all(self) -> None:
        for name in list(self._made):
            self._drop(name)

    def _drop(self, name: str) -> None:
        with self.connect() as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        self._made.remove(name)

    def settle(self, url: str) -> None:
        """Begin from tables without dead rows, with statistics, and from a fresh checkpoint."""
        with self.connect(url) as connection:
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")

    def one(self, url: str, query: str) -> Any:
        """Return the single value of a query."""
        with self.connect(url) as connection:
            row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]

    @property
    def version(self) -> str:
        return str(self.one(self.url_of(str(self._url.database)), "SHOW server_version"))

    @property
    def settings(self) -> dict[str, str]:
        """The server's values of the settings that decide about durability and speed."""
        with self.connect() as connection:
            shown = connection.execute(
                "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY(%s) ORDER BY name",
                [list(SETTINGS)],
            )
            return dict(shown.fetchall())

    @property
    def cpu_seconds(self) -> float | None:
        """The processor time of the server's processes, ended ones included; None for a server of another machine."""
        return None if self._postmaster is None else cpu_seconds_with_children(self._postmaster)

    def wal_bytes(self, url: str) -> int:
        """Return the number of bytes ever written to the server's write-ahead log."""
        return int(self.one(url, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"))

    def transactions(self, url: str) -> int:
        """Return the number of transactions of a database that have ended."""
        with self.connect(url) as connection:
            connection.execute("SELECT pg_stat_force_next_flush()")
            row = connection.execute(
                "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
            ).fetchone()
        assert row is not None
        return int(row[0])

    def dead_rows(self, url: str) -> int:
        """Return the number of dead rows in the tables of a database."""
        return int(self.one(url, "SELECT coalesce(sum(n_dead_tup), 0) FROM pg_stat_user_tables"))

    def size_mebibytes(self, url: str) -> float:
        """Return the size of a database on disk."""
        return float(self.one(url, "SELECT pg_database_size(current_database())")) / 2**20


@contextmanager
def running_server(url: str | None) -> Iterator[Server]:
    """Provide the server of a URL, or an embedded one that is removed at the end."""
    if url is not None:
        server = Server(url, None)
        try:
            yield server
        finally:
            server.drop_all()
        return
    with (
        tempfile.TemporaryDirectory(prefix="quartzpy-benchmark-") as directory,
        EmbeddedPostgres(Path(directory), durable=True, settings=SETTINGS) as embedded,
    ):
        yield Server(embedded.dsn, embedded.postmaster_pid)
