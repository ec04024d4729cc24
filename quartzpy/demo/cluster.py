"""The database and the node processes of the demo."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from quartzpy.demo import jobs
from quartzpy.embedded import EmbeddedPostgres
from quartzpy.embedded.account import UNPRIVILEGED, VARIABLE
from quartzpy.embedded.binaries import find_programs
from quartzpy.embedded.copies import place_of_root
from quartzpy.errors import SettingsError
from quartzpy.keys import unique_name

DRAIN_SECONDS = 15


class DemoCluster:
    """Node processes, by their instance ids."""

    def __init__(self, dsn: str, logs: Path) -> None:
        self._dsn = dsn
        self._logs = logs
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.killed: dict[str, datetime] = {}
        """The instant at which each node was killed, by the database's clock."""

    def start_another(self) -> str:
        """Start one more node and return its instance id. Its output goes to a log file."""
        instance_id = f"node-{len(self._processes) + 1}"
        environment = {
            **os.environ,
            jobs.DSN_VARIABLE: self._dsn,
            jobs.INSTANCE_VARIABLE: instance_id,
            jobs.HELD_VARIABLE: "1",
        }
        command = [sys.executable, "-m", "quartzpy", "node", "--app", f"{jobs.__name__}:make_scheduler"]
        with (self._logs / f"{instance_id}.log").open("wb") as log:
            # Ctrl-C must reach the demo alone, which then stops its nodes: they get a process group of their own.
            # They end when the demo lets go of their standard input, at the latest by its death.
            self._processes[instance_id] = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )
        return instance_id

    def alive(self) -> list[str]:
        """Return the instance ids of the nodes that run."""
        return [name for name, process in self._processes.items() if process.poll() is None]

    def kill(self, instance_id: str, now: datetime) -> int:
        """Kill a node with SIGKILL and return its process id."""
        process = self._processes[instance_id]
        process.kill()
        _wait(process)
        self.killed[instance_id] = now
        return process.pid

    def stop(self) -> None:
        """Drain and stop all nodes; kill those that take longer than 15 seconds."""
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            try:
                _wait(process, DRAIN_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                _wait(process)

    def log_tail(self, instance_id: str) -> str:
        """Return the end of a node's log."""
        return (self._logs / f"{instance_id}.log").read_text(errors="replace")[-2_000:]


def _wait(process: subprocess.Popen[bytes], seconds: float | None = None) -> None:
    process.wait(seconds)
    assert process.stdin is not None
    process.stdin.close()


@contextmanager
def new_database(keep: bool, report: Callable[..., None]) -> Iterator[str]:
    """Yield the URL of a new database on the embedded server.

    It is dropped at the end, unless `keep` is True: then its server also keeps running. `report` is called with the
    name of an event, its text, and its facts by keyword.
    """
    report("starting", "starting PostgreSQL")
    directory = data_directory()
    if directory.is_relative_to(_temporary_home()):
        text = f"your data directory cannot be written to: the database is in {directory}"
        report("temporary", text, directory=str(directory))
    with _server(directory) as server:
        report("postgres", f"PostgreSQL {server.version} is running", version=server.version)
        # Demos that run at the same time share the server, but not the database.
        name = f"demo_{unique_name()[:12]}"
        yield server.create_database(name)
        if keep:
            server.keep_running()
        else:
            server.drop_database(name)


def _server(directory: Path) -> EmbeddedPostgres:
    # Nobody minds what other processes of that user do to the data of a demo.
    run_as = UNPRIVILEGED if os.geteuid() == 0 and not os.environ.get(VARIABLE) else None
    return EmbeddedPostgres(directory, durable=True, run_as=run_as)


def data_home() -> Path:
    """Return the directory that holds the demo's servers: the user's data directory.

    For root it is a directory of the system. Where the user's cannot be written to, it is one for temporary files.

    Raises:
        SettingsError: none can be used; the message says why.
    """
    if os.geteuid() == 0:
        return place_of_root() / "demo"
    try:
        home = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "quartzpy" / "demo"
        home.mkdir(parents=True, exist_ok=True)
        if home.is_absolute() and os.access(home, os.W_OK | os.X_OK):
            return home
    except (OSError, RuntimeError):
        pass
    temporary = _temporary_home()
    temporary.mkdir(mode=0o700, exist_ok=True)
    status = temporary.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise SettingsError(f"{temporary} is not a directory of yours alone: set XDG_DATA_HOME to one, or TMPDIR")
    return temporary


def _temporary_home() -> Path:
    """Return the directory for a user without a data directory, who may have no name either."""
    return Path(tempfile.gettempdir()) / f"quartzpy-demo-{os.geteuid()}"


def data_directory() -> Path:
    """Return the directory of the server of the installed major version: another cannot use the same data."""
    return data_home() / f"postgresql-{find_programs().version.partition('.')[0]}"


def stop_database() -> bool:
    """Stop the servers of all versions that demos left running. Returns True if there was one."""
    servers = [_server(directory) for directory in sorted(data_home().glob("postgresql-*"))]
    running = [server for server in servers if server.postmaster_pid is not None]
    for server in running:
        with server:
            pass
    return bool(running)
