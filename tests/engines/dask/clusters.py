"""A Dask cluster of real processes: a scheduler and workers, each of which a test can kill and start again."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path

import dask.config
from distributed import Worker

from tests.ports import free_port
from tests.waiting import wait_until

QUIET = {"DASK_LOGGING__DISTRIBUTED": "error"}
URL = {"QUARTZPY_WORKER_URL": "postgresql://nobody@localhost/nothing"}
_FORKING = multiprocessing.get_context("forkserver")
# A worker that imports all of this itself takes seconds of processor time to start.
_FORKING.set_forkserver_preload(["distributed", "tests.engines.dask.jobs", "tests.engines.dask.clusters"])


def _work(address: str, threads: int, directory: str, environment: dict[str, str], has_quartzpy: bool) -> None:
    os.environ.pop("QUARTZPY_WORKER_URL", None)
    os.environ.update(environment)
    if not has_quartzpy:
        sys.path[:] = [path for path in sys.path if not Path(path, "quartzpy", "__init__.py").exists()]
        for name in [name for name in sys.modules if name.partition(".")[0] in ("quartzpy", "tests")]:
            del sys.modules[name]

    async def work() -> None:
        async with Worker(address, nthreads=threads, local_directory=directory) as worker:
            await worker.finished()

    with Path(directory, "dask.log").open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    dask.config.set({"logging.distributed": "error"})
    asyncio.run(work())


class DaskProcesses:
    """A scheduler on a port that it keeps, and workers without nannies."""

    def __init__(
        self,
        directory: Path,
        *,
        environment: Mapping[str, str] = URL,
        scheduler: Mapping[str, str] = {},
        has_quartzpy: bool = True,
    ) -> None:
        self.directory = directory
        self.port = free_port()
        self.environment = dict(environment)
        self.has_quartzpy = has_quartzpy
        self.workers: list[BaseProcess] = []
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

    def add_worker(self, *, threads: int = 1) -> BaseProcess:
        values = (self.address, threads, str(self.directory), self.environment, self.has_quartzpy)
        worker = _FORKING.Process(target=_work, args=values, daemon=True)
        worker.start()
        self.workers.append(worker)
        return worker

    def kill_worker(self, worker: BaseProcess) -> None:
        self.workers.remove(worker)
        worker.kill()
        worker.join()

    def restart_scheduler(self) -> None:
        """Kill the scheduler, and start one that knows nothing. The workers of the old one end by themselves."""
        self.scheduler.kill()
        self.scheduler.wait()
        self.scheduler = self._started_scheduler()

    def close(self) -> None:
        for worker in [*self.workers]:
            self.kill_worker(worker)
        self.scheduler.send_signal(signal.SIGCONT)
        self.scheduler.kill()
        self.scheduler.wait()
        self._log.close()

    def _started_scheduler(self) -> subprocess.Popen[bytes]:
        options = ("--host", "127.0.0.1", "--port", str(self.port), "--dashboard-address", "127.0.0.1:0")
        scheduler = subprocess.Popen(
            [sys.executable, "-m", "dask", "scheduler", *options, "--scheduler-file", str(self.scheduler_file)],
            env={**os.environ, **QUIET, **self._of_scheduler},
            cwd=self.directory,
            stdout=self._log,
            stderr=self._log,
        )
        wait_until(self._listens, seen=lambda: self.log)
        return scheduler

    def _listens(self) -> bool:
        with socket.socket() as caller:
            return caller.connect_ex(("127.0.0.1", self.port)) == 0
