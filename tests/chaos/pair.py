"""Two servers of a run that plays a day: a primary, and a standby that has each commit before it is answered."""

from __future__ import annotations

import os
import shutil
import signal

import psycopg
from sqlalchemy import make_url

from quartzpy.embedded import EmbeddedPostgres
from quartzpy.embedded.binaries import find_programs
from tests.database import libpq_url
from tests.waiting import wait_until
from tests.worlds import current
from tests.worlds.stage import binaries_of

COPIES = "pg_basebackup"


def is_possible() -> bool:
    """Whether the programs of this world's server include the one that makes a standby."""
    binaries = None if current.world is None else binaries_of(current.world)
    return (find_programs(binaries).directory / COPIES).is_file()


class Pair:
    """A primary and its standby, which change places with each failover and keep their ports."""

    def __init__(self, primary: EmbeddedPostgres, other: EmbeddedPostgres) -> None:
        self.primary, self._other = primary, other
        url = make_url(primary.dsn)
        self._url, ports = url, f"{primary.port},{other.port}"
        self.dsn = (
            f"postgresql+psycopg://{url.username}:{url.password}@/{url.database}?host=127.0.0.1,127.0.0.1"
            f"&port={ports}&target_session_attrs=read-write"
        )
        self._kill(other)
        self.copy()

    def copy(self) -> None:
        """Make the server that does not run a standby. From then on, no commit is answered that it does not have."""
        files = self._other._files
        data = files._data
        for path in data.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        place = files._path_for_server(data)
        done = files.programs.run(
            COPIES, "-D", place, "-d", self._primary_url, "-R", "-c", "fast", "--no-sync", cwd=data
        )
        assert done.returncode == 0, done.stdout
        files.configure(self._other.port, self._other._settings)
        assert files.pg_ctl("-w", "start").returncode == 0, files.log_tail()
        # Not by ALTER SYSTEM, which this copy would have too: nobody follows a standby when it is promoted.
        files = self.primary._files
        files.configure(self.primary.port, {**self.primary._settings, "synchronous_standby_names": "*"})
        assert files.pg_ctl("reload").returncode == 0, files.log_tail()
        wait_until(self._is_synchronous, "the standby to have what is committed")

    def kill_primary(self) -> None:
        wait_until(self._is_synchronous, "the standby to have what is committed")
        self._kill(self.primary)

    def promote(self) -> None:
        files = self._other._files
        assert files.pg_ctl("-w", "promote").returncode == 0, files.log_tail()
        self.primary, self._other = self._other, self.primary

    def _is_synchronous(self) -> bool:
        with psycopg.connect(self._primary_url, autocommit=True, connect_timeout=5) as connection:
            return connection.execute("SELECT sync_state FROM pg_stat_replication").fetchall() == [("sync",)]

    @property
    def _primary_url(self) -> str:
        return libpq_url(self._url.set(port=self.primary.port).render_as_string(hide_password=False))

    @staticmethod
    def _kill(server: EmbeddedPostgres) -> None:
        postmaster = server.postmaster_pid
        assert postmaster is not None
        os.kill(postmaster, signal.SIGQUIT)
        wait_until(lambda: server.postmaster_pid is None, "a server to end")
