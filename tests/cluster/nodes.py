"""Node processes, and the client that a test schedules with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from quartzpy import Scheduler
from tests.cluster import app, journal
from tests.database import execute
from tests.waiting import LIMIT, wait_until

ROOT = Path(__file__).resolve().parents[2]
# A node that gets little time does not lose its lease: a test that kills one says that its lease is over.
QUICK = {
    "name": "cluster-test",
    "workers": 10,
    "checkin_interval": "300ms",
    "lock_timeout": "1s",
    "failure_window": "30s",
    "idle_wait": "2s",
}


class Cluster:
    def __init__(
        self, dsn: str, directory: Path, *, app: str = "tests.cluster.app:make_scheduler", **settings: Any
    ) -> None:
        self.dsn = dsn
        self.app = app
        self.directory = directory
        self.settings = {**QUICK, **settings}
        self.journal = journal.Journal(directory / "journal.jsonl")
        self.client = Scheduler(dsn, **self.settings)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, *names: str, dsn: str | None = None, **settings: Any) -> None:
        """Start nodes and wait until they have joined."""
        for name in names:
            self.launch(name, dsn=dsn, **settings)
        self.wait_for_nodes(names)

    def launch(
        self, name: str, /, *, dsn: str | None = None, environment: Mapping[str, str] | None = None, **settings: Any
    ) -> None:
        """Start a node and do not wait for it. `environment` is added to that of its process."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            **(environment or {}),
            app.DSN_VARIABLE: dsn or self.dsn,
            app.SETTINGS_VARIABLE: json.dumps({**self.settings, "instance_id": name, **settings}),
            journal.VARIABLE: str(self.journal.path),
        }
        with (self.directory / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "quartzpy", "node", "--app", self.app],
                env=environment,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def wait_for_nodes(self, names: Collection[str]) -> None:
        self.wait(lambda: set(names) <= {node.instance_id for node in self.client.nodes().nodes}, f"{names} to join")

    def wait(self, reached: Callable[[], Any], what: str) -> None:
        wait_until(reached, what, every=0.02, seen=self.logs)

    def logs(self) -> str:
        return "\n".join(
            f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}"
            for path in sorted(self.directory.glob("*.log"))
        )

    def pid(self, name: str) -> int:
        return self.processes[name].pid

    def name_of(self, pid: int) -> str:
        return next(name for name, process in self.processes.items() if process.pid == pid)

    def send(self, name: str, number: signal.Signals) -> None:
        self.processes[name].send_signal(number)

    def kill(self, name: str) -> None:
        self.send(name, signal.SIGKILL)
        self.processes[name].wait()

    def expire(self, *names: str) -> None:
        """End the leases of nodes, as if they had been silent for long."""
        listed = ", ".join(f"'{name}'" for name in ("", *names))
        execute(self.dsn, f"UPDATE qrtz_scheduler_state SET failure_window = '0' WHERE instance_id IN ({listed})")

    def dead(self) -> list[str]:
        return [name for name, process in self.processes.items() if process.poll() is not None]

    def terminate(self, name: str) -> int:
        self.send(name, signal.SIGTERM)
        return self.processes[name].wait(LIMIT)

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.client.shutdown()
