"""Engines: what an execution costs beyond the engine's own submission, and the node's lateness beside a thousand."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from typing import Any

from benchmarks.bench import Bench
from benchmarks.drains import RECORDED, client, store_due
from benchmarks.figures import Goal, Result, Table, percentile, rounded
from benchmarks.jobs import Nothing, Remote
from benchmarks.machine import ROOT
from benchmarks.nodes import NodeProcess, nodes, wait_for
from benchmarks.server import Server
from benchmarks.steady import PERCENTILE_COLUMNS, percentile_cells, steady_lateness_ms, store_steady
from quartzpy import JobDetail, SimpleTrigger

WORKERS = 2
RATE = 10
TIMEOUT_SECONDS = 600.0
REMOTE = "remote"
ENDED = RECORDED.format(job=REMOTE)
SECONDS = f"SELECT extract(epoch FROM max(ended_at) - min(fired_time)) FROM qrtz_executions WHERE job_name = '{REMOTE}'"
RUNNING = f"SELECT count(*) FROM qrtz_fired_triggers WHERE job_name = '{REMOTE}' AND worker IS NOT NULL"
ROWS = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del)::bigint FROM pg_stat_user_tables WHERE relname LIKE 'qrtz_%'"
CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
CLUSTER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    workers, threads = map(int, sys.argv[1:])
    with LocalCluster(n_workers=workers, threads_per_worker=threads, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


def pool() -> Executor:
    """Return the pool of the engine `futures`."""
    return ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn"))


def run(bench: Bench) -> Result:
    result = Result("engines")
    costs: dict[str, dict[int, tuple[float, ...]]] = {
        "processes": {}, "futures, a ProcessPoolExecutor": {}, "dask, with tickets": {},
    }  # fmt: skip
    for count in bench.scale.remote_counts:
        in_pool, in_dask = _alone_in_pool(count), _alone_in_dask(count)
        costs["processes"][count] = _cost(bench, count, f"processes:{WORKERS}", in_pool)
        costs["futures, a ProcessPoolExecutor"][count] = _cost(
            bench, count, f"futures:{WORKERS}:{__name__}:pool", in_pool
        )
        costs["dask, with tickets"][count] = _cost(bench, count, "dask", in_dask)
    result.tables.append(
        Table(
            f"An execution that does nothing, on {WORKERS} workers",
            ("engine", "at once", "ms", "ms of the engine alone", "ms beyond it", "rows written", "connections"),
            tuple(
                (engine, f"{count:,}", *(rounded(value) for value in values))
                for engine, by_count in costs.items()
                for count, values in by_count.items()
            ),
        )
    )
    lateness = _lateness(bench)
    result.tables.append(
        Table(
            f"Lateness of {RATE} plain fires a second, in ms",
            ("", "fires", *PERCENTILE_COLUMNS),
            tuple((name, f"{len(values):,}", *percentile_cells(values)) for name, values in lateness.items()),
        )
    )
    without, beside = lateness.values()
    for percent in (50, 99):
        result.goals.append(
            Goal(
                f"p{percent} of the lateness beside {bench.scale.remote:,} remote executions, as a multiple of that"
                " without",
                1.1,
                percentile(beside, percent) / percentile(without, percent),
                at_most=True,
            )
        )
    result.figures = {"costs": costs, "lateness": lateness}
    return result


# --- the cost of an execution


def _cost(bench: Bench, count: int, setting: str, alone_ms: float) -> tuple[float, ...]:
    """Return the milliseconds of an execution, those of the engine alone, the difference, the rows, the connections."""
    url = bench.new_database()
    with ExitStack() as stack:
        if setting == "dask":
            address = stack.enter_context(dask_cluster(WORKERS, 1, {"QUARTZPY_WORKER_URL": url}))
            setting = f"dask:{WORKERS}:{address}"
        [node] = stack.enter_context(nodes(url, executors={"big": setting}))
        # Processes and connections start with the first calls.
        _drain(bench.server, url, node, "warm-up", 2 * WORKERS)
        node.standby()
        rows = int(bench.server.one(url, ROWS))
        most = stack.enter_context(_most_connections(bench.server, url))
        _drain(bench.server, url, node, REMOTE, count)
        connections = most()
    # What a session has written is counted at its end at the latest.
    written = int(bench.server.one(url, ROWS)) - rows
    each_ms = 1000 * float(bench.server.one(url, SECONDS)) / count
    bench.server.drop(url)
    return each_ms, alone_ms, each_ms - alone_ms, written / count, connections


def _drain(server: Server, url: str, node: NodeProcess, name: str, count: int) -> None:
    store_due(url, Nothing, count, recurring=False, name=name, executor="big")
    node.start()
    recorded = RECORDED.format(job=name)
    wait_for(lambda: server.one(url, recorded) >= count, TIMEOUT_SECONDS, f"{count} records", every=0.1)


@contextmanager
def _most_connections(server: Server, url: str) -> Iterator[Callable[[], int]]:
    """Provide the largest number of connections that were there at the same time."""
    counts = [0]
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.1):
            counts.append(int(server.one(url, CONNECTIONS)))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield lambda: max(counts)
    finally:
        over.set()
        thread.join()


def nothing(number: int) -> None:
    """Do nothing, as the job."""


def _alone_in_pool(count: int) -> float:
    """Return the milliseconds of a call in a pool of the same size, without quartzpy."""
    with pool() as executor:
        list(executor.map(nothing, range(2 * WORKERS)))
        began = time.perf_counter()
        list(executor.map(nothing, range(count)))
        return 1000 * (time.perf_counter() - began) / count


def _alone_in_dask(count: int) -> float:
    """Return the milliseconds of a call of the same function in a Dask cluster of the same size, without quartzpy."""
    from distributed import Client

    with dask_cluster(WORKERS, 1) as address, Client(address) as dask:
        dask.gather(dask.map(nothing, range(2 * WORKERS), pure=False))
        began = time.perf_counter()
        dask.gather([dask.submit(nothing, number, pure=False) for number in range(count)])
        return 1000 * (time.perf_counter() - began) / count


@contextmanager
def dask_cluster(workers: int, threads: int, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """Provide the address of a Dask cluster in processes of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER, str(workers), str(threads)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


# --- the lateness of the node


def _lateness(bench: Bench) -> dict[str, list[float]]:
    remote = bench.scale.remote
    return {"without": _late_ms(bench, 0), f"beside {remote:,} remote executions": _late_ms(bench, remote)}


def _late_ms(bench: Bench, remote: int) -> list[float]:
    """Return how late plain jobs start while so many executions run on an engine."""
    url, scale = bench.new_database(), bench.scale
    settings: dict[str, Any] = {}
    with ExitStack() as stack:
        if remote:
            # They only wait, so that one process of the engine runs them all.
            address = stack.enter_context(dask_cluster(1, remote, {"QUARTZPY_WORKER_URL": url}))
            settings["executors"] = {"big": f"dask:{remote}:{address}"}
        [node] = stack.enter_context(nodes(url, **settings))
        begin = datetime.now(UTC) + timedelta(seconds=1)
        store_steady(url, RATE, begin)
        node.start()
        if remote:
            _begin_remote(bench.server, url, remote, scale.latency_seconds)
        time.sleep(scale.warm_up_seconds)
        node.starts()
        time.sleep(scale.latency_seconds)
        late_ms = steady_lateness_ms(node)
        with client(url) if remote else nullcontext() as scheduler:
            if scheduler is not None:
                scheduler.cancel_job(REMOTE)
    bench.server.drop(url)
    return late_ms


def _begin_remote(server: Server, url: str, count: int, seconds: float) -> None:
    """Let executions begin on the engine that last until the measurement is over."""
    detail = JobDetail(Remote, REMOTE, durable=True, executor="big", data={"seconds": 10 * seconds + 60})
    with client(url) as scheduler:
        scheduler.schedule_job(detail, [SimpleTrigger(f"{REMOTE}-{number}") for number in range(count)])
    wait_for(lambda: server.one(url, RUNNING) >= count, TIMEOUT_SECONDS, f"{count} remote executions", every=0.5)
