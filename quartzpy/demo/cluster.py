"""The database and the node processes of the demo."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from quartzpy.demo import jobs
from quartzpy.embedded import EmbeddedPostgres
from quartzpy.embedded.binaries import find_programs
from quartzpy.keys import unique_name

DRAIN_SECONDS = 15


class Cluster:
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
        environment = {**os.environ, jobs.DSN_VARIABLE: self._dsn, jobs.INSTANCE_VARIABLE: instance_id}
        command = [sys.executable, "-m", "quartzpy", "node", "--app", f"{jobs.__name__}:make_scheduler"]
        with (self._logs / f"{instance_id}.log").open("wb") as log:
            # Ctrl-C must reach the demo alone, which then stops its nodes: they get a process group of their own.
            self._processes[instance_id] = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        return instance_id

    def alive(self) -> list[str]:
        """Return the instance ids of the nodes that run."""
        return [name for name, process in self._processes.items() if process.poll() is None]

    def kill(self, instance_id: str, now: datetime) -> int:
        """Kill a node with SIGKILL and return its process id."""
        process = self._processes[instance_id]
        process.kill()
        process.wait()
        self.killed[instance_id] = now
        return process.pid

    def stop(self) -> None:
        """Drain and stop all nodes; kill those that take longer than 15 seconds."""
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(DRAIN_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def log_tail(self, instance_id: str) -> str:
        """Return the end of a node's log."""
        return (self._logs / f"{instance_id}.log").read_text(errors="replace")[-2_000:]


@contextmanager
def new_database(keep: bool, report: Callable[..., None]) -> Iterator[str]:
    """Yield the URL of a new database on the embedded server.

    It is dropped at the end, unless `keep` is True: then its server also keeps running. `report` is called with the
    name of an event, its text, and its facts by keyword.
    """
    report("starting", "starting PostgreSQL")
    with EmbeddedPostgres(data_directory(), durable=True) as server:
        report("postgres", f"PostgreSQL {server.version} is running", version=server.version)
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
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "quartzpy" / "demo"


def data_directory() -> Path:
    """Return the directory of the server of the installed major version: another cannot use the same data."""
    return data_home() / f"postgresql-{find_programs().version.partition('.')[0]}"


def stop_database() -> bool:
    """Stop the servers of all versions that demos left running. Returns True if there was one."""
    servers = [EmbeddedPostgres(directory) for directory in sorted(data_home().glob("postgresql-*"))]
    running = [server for server in servers if server.postmaster_pid is not None]
    for server in running:
        with server:
            pass
    return bool(running)
