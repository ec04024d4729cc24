"""Contention: how much a CPU-bound job delays the starts of others, on threads and in the process pool."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from benchmarks.bench import Bench
from benchmarks.drains import client
from benchmarks.figures import Goal, Result, Table, percentile
from benchmarks.jobs import BURN_SECONDS, Burn
from benchmarks.nodes import nodes
from benchmarks.steady import PERCENTILE_COLUMNS, lateness_ms, percentile_cells
from quartzpy import JobDetail, SimpleTrigger

RATE = 100
ADDED_P99_MS = 20.0
POOL = "cpu"
BURNT = "SELECT count(*) FROM qrtz_executions WHERE job_name = 'burn' AND outcome = 'SUCCEEDED'"


def run(bench: Bench) -> Result:
    measured = {"without it": _lateness(bench, burning=None)}
    measured["in the process pool"] = _lateness(bench, burning=POOL)
    for interval in bench.scale.switch_intervals:
        name = f"on a thread, switch interval {interval * 1000:g} ms"
        measured[name] = _lateness(bench, burning="default", switch_interval=interval)
    alone, pooled = (percentile(measured[name], 99) for name in ("without it", "in the process pool"))
    rows = tuple((name, f"{len(values):,}", *percentile_cells(values)) for name, values in measured.items())
    return Result(
        "contention",
        goals=[
            Goal(
                "p99 added to other triggers' starts by a CPU-bound job in the process pool",
                ADDED_P99_MS, max(0.0, pooled - alone), "ms", at_most=True,
            )
        ],
        tables=[
            Table(
                f"Milliseconds late at {RATE} fires/s beside a job of pure Python that is always running",
                ("the CPU-bound job", "jobs", *PERCENTILE_COLUMNS),
                rows,
            )
        ],
        figures=measured,
    )  # fmt: skip


def _lateness(bench: Bench, *, burning: str | None, switch_interval: float | None = None) -> list[float]:
    """Return how late other triggers' jobs start while a job keeps an executor's interpreter busy."""
    scale = bench.scale
    url = bench.new_database()
    options: dict[str, Any] = {"executors": {POOL: "processes:1"}} if burning == POOL else {}
    if burning is not None:
        # One starts as soon as the one before has ended.
        often = SimpleTrigger("burn", interval=timedelta(seconds=BURN_SECONDS * 0.9), repeat_count=None)
        with client(url) as scheduler:
            scheduler.schedule_job(
                JobDetail(Burn, "burn", executor=burning, disallow_concurrent=True, durable=True), often
            )
    with nodes(url, switch_interval=switch_interval, **options) as (node,):
        values = lateness_ms(bench.server, url, node, RATE, warm_up=scale.warm_up_seconds, seconds=scale.burn_seconds)
    burnt = bench.server.one(url, BURNT)
    bench.server.drop(url)
    if burning is not None and not burnt:
        raise RuntimeError(f"the CPU-bound job did not succeed once in the executor {burning!r}")
    return values
