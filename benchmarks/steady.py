"""Steady load: triggers that fire at a constant rate, and how late their jobs start."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from benchmarks.drains import client
from benchmarks.figures import percentile, rounded
from benchmarks.jobs import NoteStart
from benchmarks.nodes import NodeProcess
from benchmarks.server import Server
from quartzpy import JobDetail, SimpleTrigger

STEADY = "steady"
PERCENTILES = (50.0, 90.0, 99.0, 99.9)


def store_steady(url: str, rate: int, begin: datetime) -> None:
    """Store triggers that fire once a second each, so many that one fires every 1/`rate` seconds."""
    triggers = [
        SimpleTrigger(
            f"{STEADY}-{number}",
            start_time=begin + timedelta(seconds=number / rate),
            interval=timedelta(seconds=1),
            repeat_count=None,
        )
        for number in range(rate)
    ]
    with client(url) as scheduler:
        scheduler.schedule_job(JobDetail(NoteStart, STEADY, durable=True), triggers)


def lateness_ms(
    server: Server, url: str, node: NodeProcess, rate: int, *, warm_up: float, seconds: float
) -> list[float]:
    """Start a node with triggers that fire at a steady rate; return how late their jobs start after a warm-up."""
    # The triggers are stored before, so the first of them are not late already.
    begin = datetime.now(UTC) + timedelta(seconds=1 + rate / 1000)
    store_steady(url, rate, begin)
    server.settle(url)
    node.start()
    rest = (begin - datetime.now(UTC)).total_seconds()
    time.sleep(max(rest, 0.0) + warm_up)
    node.starts()
    time.sleep(seconds)
    return steady_lateness_ms(node)


def steady_lateness_ms(node: NodeProcess) -> list[float]:
    """Return the lateness of the steady jobs since the last call."""
    return [start.late_ms for start in node.starts() if start.job == STEADY]


def percentile_cells(lateness_ms: list[float]) -> tuple[str, ...]:
    """Return the cells of a table: the percentiles and the maximum."""
    return (*(rounded(percentile(lateness_ms, percent)) for percent in PERCENTILES), rounded(max(lateness_ms)))


PERCENTILE_COLUMNS = (*(f"p{percent:g}" for percent in PERCENTILES), "most")


def distribution(lateness_ms: list[float]) -> tuple[tuple[float, float], ...]:
    """Return the points of a chart: the share of jobs, in per cent, that start later than each lateness."""
    ordered = sorted(lateness_ms)
    shares = (100 * 10 ** (-step / 8) for step in range(33))
    points = []
    for share in shares:
        if share * len(ordered) < 100:
            break
        late = ordered[min(int(len(ordered) * (1 - share / 100)), len(ordered) - 1)]
        points.append((max(late, 0.01), share))
    return tuple(points)
