"""A PostgreSQL server in a directory, shared by the processes that use it, and stopped when the last of them ends."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import psycopg
from psycopg import sql

from quartzpy.embedded.binaries import Programs
from quartzpy.embedded.data_directory import USER, DataDirectory
from quartzpy.errors import StoreUnavailableError

DATABASE = "quartzpy"
_FAST_AND_FORGETFUL = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_START_TRIES = 5
_MOST_WATCHERS = 3
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
    the working directory at the time of this call.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        durable: bool = True,
        removed: bool = False,
        settings: Mapping[str, str] | None = None,
        binaries: str | os.PathLike[str] | None = None,
    ) -> None:
        # The programs of the server run in other working directories.
        self._root = Path(directory).absolute()
        self._removed = removed
        self._settings = {
            "max_connections": "200",
            **({} if durable else _FAST_AND_FORGETFUL),
            **(settings or {}),
        }
        self._files = DataDirectory(self._root, None if binaries is None else Path(binaries).absolute())
        self._lease: int | None = None

    @classmethod
    def temporary(
        cls, *, settings: Mapping[str, str] | None = None, binaries: str | os.PathLike[str] | None = None
    ) -> EmbeddedPostgres:
        """Return a server whose data is deleted when it stops."""
        directory = tempfile.mkdtemp(prefix="quartzpy-pg-")
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

    @property
    def _keep_marker(self) -> Path:
        return self._root / "kept"

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
            SettingsError: PostgreSQL's programs were not found.
            StoreUnavailableError: the server did not start (the message ends with its log), or the directory contains
                the data of another major version of PostgreSQL.
        """
        if self._lease is not None:
            return
        self._root.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._root.chmod(0o755)
        with self._start_lock():
            if self._removed:
                (self._root / "removed").touch()
            lease = os.open(self._root / "lease.lock", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(lease, fcntl.LOCK_SH)
            self._lease = lease
            try:
                runs = self.postmaster_pid is not None and self._answers()
                if not runs:
                    self._files.initialise()
                    self._start_server()
                if not runs or self._keep_marker.exists():
                    self._keep_marker.unlink(missing_ok=True)
                    self._watch()
            except BaseException:
                self._give_up_lease()
                raise

    def keep_running(self) -> None:
        """Keep the server running after its users have ended, until another user starts and stops it."""
        self._keep_marker.touch()

    def stop(self) -> None:
        """Leave the server; it stops with its last user."""
        if self._lease is None:
            return
        with self._start_lock():
            self._give_up_lease()
            if self._keep_marker.exists():
                return
            lease = os.open(self._root / "lease.lock", os.O_RDWR)
            try:
                if not _is_free(lease):
                    return  # somebody else uses it
                if self.postmaster_pid is not None:
                    self._files.pg_ctl("-m", "fast", "-w", "stop")
                if self._removed:
                    shutil.rmtree(self._root, ignore_errors=True)
            finally:
                os.close(lease)

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop the server, immediately or gracefully, and start it again on the same port.

        Raises:
            StoreUnavailableError: the server did not start again.
        """
        done = self._files.pg_ctl("-m", mode, "-w", "-l", str(self.log_path), "restart")
        if done.returncode:
            raise self._failure("PostgreSQL did not come back after a restart", done.stdout)

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
        descriptor = os.open(self._root / "start.lock", os.O_RDWR | os.O_CREAT, 0o600)
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
        self._files.prepare_log()
        output = ""
        for _ in range(_START_TRIES):
            # Another process may take the port before the server does; then the next port is tried.
            self._files.configure(_free_port(), self._settings)
            done = self._files.pg_ctl("-w", "-t", "30", "-l", str(self.log_path), "start")
            if done.returncode == 0:
                self._make_database()
                return
            output = done.stdout
        raise self._failure("PostgreSQL did not start", output)

    def _make_database(self) -> None:
        with self._administrator() as connection:
            row = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
        if row is None:
            self.create_database(DATABASE)

    def _watch(self) -> None:
        """Start the process that stops the server when all users are gone."""
        user = self.programs.user
        ids = [str(user.pw_uid), str(user.pw_gid)] if user else []
        script = Path(__file__).with_name("watcher.py")
        subprocess.run(
            [
                sys.executable,
                "-I",
                str(script),
                str(self._root),
                str(self.programs.directory / "pg_ctl"),
                *ids,
            ],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            check=True,
        )

    def _failure(self, what: str, output: str) -> StoreUnavailableError:
        log = self.log_path.read_text(errors="replace")[-2_000:] if self.log_path.exists() else ""
        return StoreUnavailableError(f"{what}; its log is {self.log_path}:\n{output.strip()}\n{log.strip()}")


def _is_free(lease: int) -> bool:
    """Take the exclusive lock of a lease, if nobody has a shared one. The caller holds the start lock.

    A watcher that waits for the lease has it exclusively for a moment as soon as it is free, and then waits for the
    start lock. A shared lock has to wait for that moment to pass; another user's lock lets it through at once.
    """
    for _ in range(_MOST_WATCHERS + 1):
        try:
            fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(lease, fcntl.LOCK_SH)
        else:
            return True
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
