"""The node processes of the demo."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path

from quartzpy.demo import jobs

DRAIN_SECONDS = 15


class Cluster:
    """Node processes, by their instance ids."""

    def __init__(self, dsn: str, logs: Path) -> None:
        self._dsn = dsn
        self._logs = logs
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.killed: dict[str, datetime] = {}
        """The instant at which each node was killed, by the database's clock."""

    def start_another(self) -> str:
        """Start one more node and return its instance id. Its output goes to a log file."""
        instance_id = f"node-{len(self.processes) + 1}"
        environment = {**os.environ, jobs.DSN_VARIABLE: self._dsn, jobs.INSTANCE_VARIABLE: instance_id}
        command = [sys.executable, "-m", "quartzpy", "node", "--app", f"{jobs.__name__}:make_scheduler"]
        with (self._logs / f"{instance_id}.log").open("wb") as log:
            # Ctrl-C must reach the demo alone, which then stops its nodes: they get a process group of their own.
            self.processes[instance_id] = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return instance_id

    def alive(self) -> dict[str, int]:
        """The process ids of the nodes that run, by instance id."""
        return {name: process.pid for name, process in self.processes.items() if process.poll() is None}

    def kill(self, instance_id: str, now: datetime) -> int:
        """Kill a node with SIGKILL and return its process id."""
        process = self.processes[instance_id]
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.killed[instance_id] = now
        return process.pid

    def stop(self) -> None:
        """Drain and stop all nodes; kill those that take longer than 15 seconds."""
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(DRAIN_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def log_tail(self, instance_id: str) -> str:
        """Return the end of a node's log."""
        return (self._logs / f"{instance_id}.log").read_text(errors="replace")[-2_000:]
