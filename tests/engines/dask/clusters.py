"""A Dask cluster of real processes: a scheduler and workers, each of which a test can kill, stop and start again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.docs.code_blocks import ROOT
from tests.waiting import wait_until

QUIET = {"DASK_LOGGING__DISTRIBUTED": "error"}
URL = {"QUARTZPY_WORKER_URL": "postgresql://nobody@localhost/nothing"}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class DaskProcesses:
    """A scheduler on a port that it keeps, and workers without nannies."""

    def __init__(
        self,
        directory: Path,
        *,
        environment: Mapping[str, str] = URL,
        scheduler: Mapping[str, str] = {},
        preload: str = "",
    ) -> None:
        self.directory = directory
        self.port = free_port()
        self.environment = dict(environment)
        self.preload = preload
        self.workers: list[subprocess.Popen[bytes]] = []
        self._of_scheduler = dict(scheduler)
        self._log = (directory / "dask.log").open("ab")
        self.scheduler = self._started_scheduler()

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    @property
    def scheduler_file(self) -> Path:
        return self.directory / "scheduler.json"

    @property
    def log(self) -> str:
        return (self.directory / "dask.log").read_text()

    def add_worker(self, *, threads: int = 1, environment: Mapping[str, str] = {}) -> subprocess.Popen[bytes]:
        options = ["--nthreads", str(threads), "--no-nanny", "--no-dashboard", "--local-directory", str(self.directory)]
        if self.preload:
            options += ["--preload", self.preload]
        worker = self._started("worker", self.address, *options, environment={**self.environment, **environment})
        self.workers.append(worker)
        return worker

    def kill_worker(self, worker: subprocess.Popen[bytes]) -> None:
        self.workers.remove(worker)
        worker.kill()
        worker.wait()

    def restart_scheduler(self) -> None:
        """Kill the scheduler, and start one that knows nothing. The workers of the old one end by themselves."""
        self.scheduler.kill()
        self.scheduler.wait()
        self.scheduler = self._started_scheduler()

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
        self._log.close()

    def _started_scheduler(self) -> subprocess.Popen[bytes]:
        options = ("--host", "127.0.0.1", "--port", str(self.port), "--dashboard-address", "127.0.0.1:0")
        scheduler = self._started(
            "scheduler", *options, "--scheduler-file", str(self.scheduler_file), environment=self._of_scheduler
        )
        wait_until(self._listens, seen=lambda: self.log)
        return scheduler

    def _listens(self) -> bool:
        with socket.socket() as caller:
            return caller.connect_ex(("127.0.0.1", self.port)) == 0

    def _started(self, *words: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        path = os.pathsep.join(filter(None, (environment.get("PYTHONPATH"), str(ROOT))))
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("QUARTZPY_")}
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *words],
            env={**inherited, **QUIET, **environment, "PYTHONPATH": path},
            cwd=self.directory,
            stdout=self._log,
            stderr=self._log,
        )
