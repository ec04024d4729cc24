"""A PostgreSQL server in a directory, shared by the processes that use it, and stopped when the last of them ends."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import psycopg
from psycopg import sql

from quartzpy.embedded.account import VARIABLE, environment
from quartzpy.embedded.binaries import Programs
from quartzpy.embedded.data_directory import USER, DataDirectory
from quartzpy.errors import StoreUnavailableError

logger = logging.getLogger(__name__)

DATABASE = "quartzpy"
_FAST_AND_FORGETFUL = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_START_TRIES = 5
_ROOM = 128 * 2**20
"""What the data of a temporary server may need at first, in bytes."""
_MAX_WATCHERS = 3
"""A server has one watcher, or another one for each time that it was kept running and used again."""
CONNECT_TIMEOUT = 30
"""The limit of a connection attempt, in seconds. A server that is not there refuses at once; one on a busy machine may
take long, and must not be taken for one that does not run."""

StopMode = Literal["fast", "immediate"]


class EmbeddedPostgres:
    """A server on loopback with a random password; use it as a context manager.

    Several processes may use one directory at the same time: the first starts the server, the others join it. With
    `durable=False` the server is faster, but loses its data if the machine crashes. With `removed=True` the directory
    is deleted when the last user ends, even if that process is killed. `binaries` is the directory of `initdb` and
    `postgres`, for a server of another version than the one that is found without it. Relative paths are relative to
    the working directory at the time of this call. A new directory is for its owner alone; the mode of one that exists
    stays as it is.

    PostgreSQL refuses to run as root. In a program of root it runs as `run_as`, otherwise as the user that the variable
    `QUARTZPY_PG_USER` names, otherwise as the owner of the data, and as `nobody` if there are none yet.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        durable: bool = True,
        removed: bool = False,
        settings: Mapping[str, str] | None = None,
        binaries: str | os.PathLike[str] | None = None,
        run_as: str | None = None,
    ) -> None:
        # The programs of the server run in other working directories.
        self._root = Path(directory).absolute()
        self._removed = removed
        self._settings = {
            "max_connections": "200",
            **({} if durable else _FAST_AND_FORGETFUL),
            **(settings or {}),
        }
        self._files = DataDirectory(self._root, None if binaries is None else Path(binaries).absolute(), run_as)
        self._lease: int | None = None

    @classmethod
    def temporary(
        cls, *, settings: Mapping[str, str] | None = None, binaries: str | os.PathLike[str] | None = None
    ) -> EmbeddedPostgres:
        """Return a server whose data is deleted when it stops.

        The data is in the directory for temporary files, or in another one where that has not enough room.
        """
        directory = tempfile.mkdtemp(prefix="quartzpy-pg-", dir=_temporary_directory())
        if os.geteuid() == 0:
            Path(directory).chmod(0o711)  # the user of the server passes through
        return cls(directory, durable=False, removed=True, settings=settings, binaries=binaries)

    # --- what it is

    @property
    def dsn(self) -> str:
        """The URL of the server's database."""
        return self.dsn_of(DATABASE)

    @property
    def running_dsn(self) -> str:
        """The URL of the server's database, for a process that does not start the server.

        Raises:
            StoreUnavailableError: no server runs in the directory, or it belongs to another user.
        """
        if self.postmaster_pid is None:
            raise StoreUnavailableError(f"no PostgreSQL of yours runs in {self._root}; quartzpy serve starts it")
        return self.dsn

    def dsn_of(self, database: str) -> str:
        """Return the URL of another database of the server."""
        return f"postgresql+psycopg://{USER}:{self._files.password}@127.0.0.1:{self.port}/{database}"

    @property
    def port(self) -> int:
        """The port of the server on loopback. It may differ after each start."""
        return self._files.port

    @property
    def version(self) -> str:
        """The version of PostgreSQL."""
        return self.programs.version

    @property
    def log_path(self) -> Path:
        """The file that the server writes its log to."""
        return self._files.log_path

    @property
    def postmaster_pid(self) -> int | None:
        """The id of the server's process; None if it is not running."""
        return self._files.postmaster_pid

    @property
    def programs(self) -> Programs:
        """The programs of PostgreSQL, and the user that runs them."""
        return self._files.programs

    # --- life

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the server, or join the one that runs in this directory.

        Raises:
            SettingsError: PostgreSQL's programs were not found or do not run, or what is in the directory is a link or
                belongs to another user.
            StoreUnavailableError: the server did not start (the message ends with its log), or the directory contains
                the data of another major version of PostgreSQL.
        """
        if self._lease is not None:
            return
        self._files.make()
        self._files.claim()
        self._warn_about_nobody()
        with self._start_lock():
            if self._removed:
                os.close(self._files.open("removed"))
            lease = self._files.open("lease.lock")
            fcntl.flock(lease, fcntl.LOCK_SH)
            self._lease = lease
            try:
                runs = self.postmaster_pid is not None and self._answers()
                if not runs:
                    self._files.initialise()
                    self._start_server()
                if not runs or self._files.has("kept"):
                    self._files.remove("kept")
                    self._watch()
            except BaseException:
                self._give_up_lease()
                raise

    def keep_running(self) -> None:
        """Keep the server running after its users have ended, until another user starts and stops it."""
        os.close(self._files.open("kept"))

    def stop(self) -> None:
        """Leave the server; it stops with its last user."""
        if self._lease is None:
            return
        with self._start_lock():
            self._give_up_lease()
            if self._files.has("kept"):
                return
            lease = self._files.open("lease.lock")
            try:
                if not _is_free(lease):
                    return  # somebody else uses it
                if self.postmaster_pid is not None:
                    self._files.pg_ctl("-m", "fast", "-w", "stop")
                if self._removed:
                    shutil.rmtree(self._root, ignore_errors=True)
            finally:
                os.close(lease)

    def open_file(self, name: str) -> int:
        """Open a file of yours in the directory of a server that was started, such as a lock; make it if it is missing.

        Raises:
            SettingsError: it is a link, or belongs to another user.
        """
        return self._files.open(name)

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop the server, immediately or gracefully, and start it again on the same port.

        Raises:
            StoreUnavailableError: the server did not start again.
        """
        if self._files.pg_ctl("-m", mode, "-w", "restart").returncode:
            raise self._failure("PostgreSQL did not come back after a restart")

    def create_database(self, name: str, template: str | None = None) -> str:
        """Create a database, as a copy of `template` if it is given, and return its URL."""
        with self._administrator() as connection:
            statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
            if template is not None:
                statement += sql.SQL(" TEMPLATE {}").format(sql.Identifier(template))
            connection.execute(statement)
        return self.dsn_of(name)

    def drop_database(self, name: str) -> None:
        """Drop a database, and terminate the sessions that are connected to it."""
        with self._administrator() as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    # --- how

    @contextmanager
    def _start_lock(self) -> Iterator[None]:
        """Hold the lock that lets only one process at a time start, join or stop the server."""
        descriptor = self._files.open("start.lock")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _give_up_lease(self) -> None:
        if self._lease is not None:
            os.close(self._lease)
            self._lease = None

    @contextmanager
    def _administrator(self) -> Iterator[psycopg.Connection[Any]]:
        with self._connect("postgres") as connection:
            yield connection

    def _connect(self, database: str) -> psycopg.Connection[Any]:
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=USER,
            password=self._files.password,
            dbname=database,
            autocommit=True,
            connect_timeout=CONNECT_TIMEOUT,
        )

    def _answers(self) -> bool:
        try:
            with self._connect("postgres"):
                return True
        except (psycopg.Error, OSError, ValueError):
            return False

    def _start_server(self) -> None:
        for _ in range(_START_TRIES):
            # Another process may take the port before the server does; then the next port is tried.
            self._files.configure(_free_port(), self._settings)
            if self._files.pg_ctl("-w", "-t", "30", "start").returncode == 0:
                self._make_database()
                return
        raise self._failure("PostgreSQL did not start")

    def _make_database(self) -> None:
        with self._administrator() as connection:
            row = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
        if row is None:
            self.create_database(DATABASE)

    def _watch(self) -> None:
        """Start the process that stops the server when all users are gone."""
        account = self.programs.account
        ids = ("-", "-") if account is None else (str(account.uid), str(account.gid))
        name, *arguments = self._files.pg_ctl_command
        script = Path(__file__).with_name("watcher.py")
        subprocess.run(
            [
                *(sys.executable, "-I", str(script), str(self._root), *ids),
                *(str(self.programs.directory / name), *arguments, "-m", "fast", "-w", "stop"),
            ],
            cwd="/",
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            check=True,
        )

    def _warn_about_nobody(self) -> None:
        account = self.programs.account
        if account is not None and account.is_default and not self._removed:
            logger.warning(
                "PostgreSQL runs as the user %s, whose other processes can read and change its data in %s: make a user"
                " for it alone, such as by useradd --system quartzpy, and name it by run_as or %s",
                account.name,
                self._root,
                VARIABLE,
            )

    def _failure(self, what: str) -> StoreUnavailableError:
        return StoreUnavailableError(f"{what}; its log is {self.log_path}:\n{self._files.log_tail()}")


def _is_free(lease: int) -> bool:
    """Take the exclusive lock of a lease, if nobody has a shared one. The caller holds the start lock.

    A watcher that waits for the lease has it exclusively for a moment as soon as it is free, and then waits for the
    start lock. A shared lock has to wait for that moment to pass; another user's lock lets it through at once.
    """
    for _ in range(_MAX_WATCHERS + 1):
        try:
            fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(lease, fcntl.LOCK_SH)
        else:
            return True
    return False


def _temporary_directory() -> str:
    usual = tempfile.gettempdir()
    for directory in (usual, "/var/tmp", "/dev/shm", os.getcwd()):  # noqa: S108 - mkdtemp makes a private one there
        with suppress(OSError):
            if os.access(directory, os.W_OK | os.X_OK) and shutil.disk_usage(directory).free >= _ROOM:
                return directory
    return usual


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
