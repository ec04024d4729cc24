"""Fixtures of the tests of the engine on Dask."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from quartzpy.node.engines import dask_cluster
from quartzpy.node.engines.dask_cluster import DaskEngine
from tests.docs.code_blocks import ROOT
from tests.engines.dask.clusters import QUIET, URL, DaskProcesses
from tests.engines.dask.events import RecordedEvents, settings
from tests.waiting import LIMIT

NewEngine = Callable[..., tuple[DaskEngine, RecordedEvents]]


@pytest.fixture(scope="package")
def shared_cluster() -> Iterator[DaskProcesses]:
    """A cluster with two workers, each with one thread. Tests that break something start their own."""
    with tempfile.TemporaryDirectory(prefix="quartzpy-dask-") as directory:
        cluster = DaskProcesses(Path(directory))
        try:
            for _ in range(2):
                cluster.add_worker()
            yield cluster
        finally:
            cluster.close()


@pytest.fixture
def new_cluster(tmp_path: Path) -> Iterator[Callable[..., DaskProcesses]]:
    with ExitStack() as stack:

        def new(**values: object) -> DaskProcesses:
            cluster = DaskProcesses(tmp_path, **values)  # type: ignore[arg-type]
            stack.callback(cluster.close)
            return cluster

        yield new


@pytest.fixture
def calls_of_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers run the calls of these tests, which need no database."""
    module = "tests.engines.dask.calls"
    monkeypatch.setattr(dask_cluster, "_RUN", dask_cluster._RUN.replace("quartzpy.node.engines.worker", module))


@pytest.fixture
def new_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[NewEngine]:
    """Start an engine at an address, and close it after the test. A busy machine is not taken for a broken cluster."""
    for limit in ("CONNECT_SECONDS", "ANSWER_SECONDS", "CHECK_SECONDS"):
        monkeypatch.setattr(dask_cluster, limit, 30.0)
    with ExitStack() as stack:

        def new(address: str, workers: int | None = None) -> tuple[DaskEngine, RecordedEvents]:
            engine, events = DaskEngine(settings(address, workers)), RecordedEvents()
            stack.callback(engine.close, 0)
            engine.start(events)
            return engine, events

        yield new


@pytest.fixture
def adaptive_address(tmp_path: Path) -> Iterator[str]:
    """A `LocalCluster` in a process of its own, with no worker until something waits."""
    program = f"""
from distributed import LocalCluster
with LocalCluster(
    n_workers=0, threads_per_worker=1, dashboard_address=None, local_directory={str(tmp_path)!r}
) as cluster:
    cluster.adapt(minimum=0, maximum=2, interval="200ms")
    print(cluster.scheduler_address, flush=True)
    input()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, **QUIET, **URL, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate("\n", timeout=LIMIT)
