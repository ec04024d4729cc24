"""The engines of a chaos run: pools of processes on the nodes, and a Dask cluster beside them where it is installed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from quartzpy.config.pools import ExecutorConfig
from tests.chaos import history
from tests.ports import free_port

WORKER_URL = "QUARTZPY_WORKER_URL"
LINK = "engine"
"""The way of all workers to the database."""
SIZE = 2
DASK = "dask"
WINDOW = 6
"""The setting `engine_window`, in seconds."""


def names(*, short: bool) -> list[str]:
    """The executors with an engine, which are also part of the names of their jobs. A short run has no cluster."""
    return ["cpu", "pool"] if short or find_spec("distributed") is None else ["cpu", "pool", DASK]


def pool() -> Executor:
    """The pool of the engine "futures"."""
    return ProcessPoolExecutor(SIZE, mp_context=get_context("spawn"))


def executors(texts: Mapping[str, str]) -> dict[str, str | ExecutorConfig]:
    """The setting `executors` of a node. The pool's calls take tickets, as if it repeated them."""
    return {
        name: replace(ExecutorConfig.of(text), tickets=True) if name == "pool" else text for name, text in texts.items()
    }


def busy_worker(path: Path, executor: str, node: str) -> int | None:
    """A process that runs a job of an executor now. Those of a node's own engine are its children."""
    latest = {
        line["pid"]: line["event"]
        for line in history.read(path)
        if line["event"] in ("start", "end")
        and line["job"].startswith(f"engine-{executor}-")
        and line["node"] in (node, DASK)
    }
    busy = [pid for pid, event in latest.items() if event == "start" and Path(f"/proc/{pid}").exists()]
    return busy[-1] if busy else None


class DaskCluster:
    """A scheduler and its workers, each a process, which are started again when they have ended."""

    def __init__(self, log: Path, environment: Mapping[str, str]) -> None:
        self.address = f"tcp://127.0.0.1:{free_port()}"
        self._log, self._environment = log, {**environment, history.NODE_VARIABLE: DASK}
        self.scheduler = self._start("scheduler", "--port", self.address.rpartition(":")[2])
        self._workers = [self._start_worker() for _ in range(SIZE)]
        self._stopping = threading.Event()
        self._tending = threading.Thread(target=self._tend, daemon=True)
        self._tending.start()

    def _start(self, what: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--host", "127.0.0.1", "--no-dashboard"]
        with self._log.open("ab") as log:
            return subprocess.Popen([*command, *options], env=self._environment, stdout=log, stderr=log)

    def _start_worker(self) -> subprocess.Popen[bytes]:
        return self._start("worker", self.address, "--no-nanny", "--nthreads", "2", "--death-timeout", "60")

    def _tend(self) -> None:
        while not self._stopping.wait(0.2):
            self._workers = [one if one.poll() is None else self._start_worker() for one in self._workers]

    def kill_scheduler(self) -> Callable[[], None]:
        """End the scheduler; return what starts another one at its address."""
        self.scheduler.kill()
        self.scheduler.wait()

        def again() -> None:
            self.scheduler = self._start("scheduler", "--port", self.address.rpartition(":")[2])

        return again

    def close(self) -> None:
        self._stopping.set()
        self._tending.join()
        for one in (*self._workers, self.scheduler):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGCONT)
            one.kill()
            one.wait()


def settings_of(cluster: DaskCluster | None) -> dict[str, Any]:
    """The settings of a node with all engines."""
    texts = {"cpu": f"processes:{SIZE}", "pool": f"futures:{SIZE}:tests.chaos.engines:pool"}
    if cluster is not None:
        texts[DASK] = f"dask:{cluster.address}"
    return {"executors": texts, "engine_window": f"{WINDOW}s"}
