"""The database of the demo: a new one on an embedded server, or the one that the user names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from quartzpy.embedded import EmbeddedPostgres
from quartzpy.embedded.binaries import find_programs
from quartzpy.keys import unique_name


@contextmanager
def demo_database(dsn: str | None, keep: bool, tell: Callable[..., None]) -> Iterator[str]:
    """Yield the URL of a database: `dsn` itself, or a new database on the embedded server.

    The new database is dropped at the end, unless `keep` is True: then its server also keeps running.
    `tell` is called with the name of an event, its text, and its facts by
    keyword.
    """
    if dsn is not None:
        yield dsn
        return
    tell("starting", "starting PostgreSQL")
    with EmbeddedPostgres(data_directory(), durable=True) as server:
        tell("postgres", f"PostgreSQL {server.version} is running", version=server.version)
        # Demos that run at the same time share the server, but not the database.
        name = f"demo_{unique_name()[:12]}"
        yield server.create_database(name)
        if keep:
            server.keep_running()
        else:
            server.drop_database(name)


def data_home() -> Path:
    """Return the directory that holds the demo's servers: the user's data directory.

    For root it is a directory that PostgreSQL's own user can reach.
    """
    if os.geteuid() == 0:
        return Path("/var/tmp/quartzpy/demo")  # noqa: S108 - its parent is checked by the server's wrapper
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "quartzpy" / "demo"


def data_directory() -> Path:
    """Return the directory of the server of the installed major version.

    A server of another version cannot use the same data: each version has its own directory.

    Raises:
        SettingsError: PostgreSQL is not installed.
    """
    major = find_programs().version.partition(".")[0]
    return data_home() / f"postgresql-{major}"


def stop_database() -> bool:
    """Stop the servers of all versions that demos left running. Returns True if there was one."""
    stopped = False
    for directory in sorted(data_home().glob("postgresql-*")):
        server = EmbeddedPostgres(directory)
        if server.postmaster_pid is not None:
            with server:
                stopped = True
    return stopped
