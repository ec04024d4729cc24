"""The owner of the tables in a run that plays a day: no superuser, with a password that changes."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import URL, make_url

from tests.managed import make_owner

ROLE = "chaos_owner"


class Owner:
    """Makes the role. Its password is in a file, which nodes read by their `password_command`."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]], dsn: str, file: Path) -> None:
        self._connect, self._server, self._file = connect, make_url(dsn), file
        password = uuid.uuid4().hex
        with connect() as connection:
            make_owner(connection, ROLE, password)
        self._store(password)

    @property
    def url(self) -> URL:
        """The URL, without a password."""
        server = self._server
        return URL.create(server.drivername, ROLE, None, server.host, server.port, server.database, server.query)

    @property
    def url_with_password(self) -> str:
        return self.url.set(password=self._file.read_text()).render_as_string(hide_password=False)

    @property
    def command(self) -> str:
        return shlex.join(["cat", str(self._file)])

    def let_use(self, *tables: str) -> None:
        """Grant what jobs do with tables of the suite's."""
        with self._connect() as connection:
            for table in tables:
                connection.execute(sql.SQL("GRANT ALL ON {} TO {}").format(sql.Identifier(table), sql.Identifier(ROLE)))
            connection.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {ROLE}")

    def renew(self) -> None:
        """Change the password: the one before is refused from then on."""
        password = uuid.uuid4().hex
        with self._connect() as connection:
            connection.execute(f"ALTER ROLE {ROLE} PASSWORD '{password}'")
        self._store(password)

    def end_sessions(self) -> None:
        with self._connect() as connection:
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", [ROLE])

    def upgrade(self, release: Path) -> None:
        """Move the tables to the newest revision that a release knows."""
        url = self.url.render_as_string()
        subprocess.run(
            [sys.executable, "-m", "quartzpy", "db", "upgrade", "--url", url, "--password-command", self.command],
            cwd=release,
            check=True,
            timeout=300,
        )

    def _store(self, password: str) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(password)
        os.replace(new, self._file)
