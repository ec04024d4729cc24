"""Size: throughput and latency beside many stored triggers, and the storing of many by one call."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from functools import partial

from benchmarks.bench import Bench
from benchmarks.drains import client, seconds_to_drain, store_due, warm_up
from benchmarks.figures import (
    Chart,
    Goal,
    Line,
    Result,
    Table,
    interleaved,
    percentile,
    rate_table,
    rounded,
)
from benchmarks.jobs import Nothing
from benchmarks.nodes import nodes
from benchmarks.steady import PERCENTILE_COLUMNS, lateness_ms, percentile_cells
from quartzpy import CronTrigger, JobDetail, JobKey, SimpleTrigger, Trigger

RATE = 1_000


def run(bench: Bench) -> Result:
    scale = bench.scale
    few, many = scale.stored[0], scale.stored[-1]
    labels = {count: f"{count:,} stored" for count in scale.stored}
    urls = {labels[count]: bench.new_database() for count in scale.stored}
    seconds = {count: _store(urls[label], _simple(count)) for count, label in labels.items()}
    cron_count = max(many // 10, 1)
    other = bench.new_database()
    cron_seconds = _store(other, _cron(cron_count))
    bench.server.drop(other)
    for url in urls.values():
        bench.server.settle(url)
    rates, notes = interleaved(
        scale.size_rounds, {label: partial(_drain_beside, bench, url) for label, url in urls.items()}
    )
    lateness = {labels[count]: _lateness(bench, urls[labels[count]]) for count in (few, many)}
    for url in urls.values():
        bench.server.drop(url)
    first, last = rates[labels[few]], rates[labels[many]]
    middle = {label: percentile(values, 50) for label, values in lateness.items()}
    points = tuple((float(count), rates[label].median) for count, label in labels.items())
    stored_rows = [
        (f"{count:,} simple triggers", rounded(spent), rounded(count / spent)) for count, spent in seconds.items()
    ]
    stored_rows.append((f"{cron_count:,} cron triggers", rounded(cron_seconds), rounded(cron_count / cron_seconds)))
    return Result(
        "size",
        goals=[
            Goal(f"throughput with {many:,} stored triggers, of that with {few:,}", 0.9, last.ratio(first)),
            Goal(
                f"p50 of latency with {few:,} stored triggers, of that with {many:,}",
                0.9,
                middle[labels[few]] / middle[labels[many]],
            ),
            Goal(f"{many:,} triggers stored by one call, per second", 10_000, many / seconds[many]),
        ],
        tables=[
            rate_table("Recurring triggers drained beside stored ones", rates, {}),
            Table(
                f"Milliseconds late at {RATE:,} fires/s beside stored triggers",
                ("", *PERCENTILE_COLUMNS),
                tuple((name, *percentile_cells(values)) for name, values in lateness.items()),
            ),
            Table("Triggers stored by one call", ("", "seconds", "per second"), tuple(stored_rows)),
        ],
        charts=[
            Chart(
                "size",
                "Throughput by stored triggers",
                "stored triggers",
                "fires per second",
                (Line("quartzpy", points),),
                log_x=True,
            )
        ],
        notes=notes,
        figures={
            "beside stored triggers": {name: list(spread.values) for name, spread in rates.items()},
            "late beside stored triggers, ms": lateness,
            "storing, s": {**{f"{count} simple": spent for count, spent in seconds.items()}, "cron": cron_seconds},
        },
    )


def _simple(count: int) -> list[Trigger]:
    start = datetime.now(UTC) + timedelta(days=1)
    return [
        SimpleTrigger(
            f"kept-{number}",
            start_time=start + timedelta(milliseconds=number % 3_600_000),
            interval=timedelta(minutes=1 + number % 100),
            repeat_count=None,
        )
        for number in range(count)
    ]


def _cron(count: int) -> list[Trigger]:
    return [
        CronTrigger(f"{number % 60} {number % 59} 2 ? * MON-FRI", f"kept-{number}", time_zone="Europe/Berlin")
        for number in range(count)
    ]


def _store(url: str, triggers: list[Trigger]) -> float:
    """Store triggers by one call; return the seconds of the call."""
    with client(url) as scheduler:
        began = time.perf_counter()
        scheduler.schedule_job(JobDetail(Nothing, "kept", durable=True), triggers)
        return time.perf_counter() - began


def _drain_beside(bench: Bench, url: str) -> float:
    """Return the fires per second of a node in a database that holds other triggers, which stay."""
    name = f"drained-{time.monotonic_ns()}"
    with nodes(url) as ready:
        warm_up(bench, url, ready)
        store_due(url, Nothing, bench.scale.drained, recurring=True, name=name)
        bench.server.settle(url)
        seconds = seconds_to_drain(bench.server, url, ready, bench.scale.drained, name)
    with client(url) as scheduler:
        scheduler.delete_job(JobKey(name))
        scheduler.delete_job(JobKey("warm-up"))
    return bench.scale.drained / seconds


def _lateness(bench: Bench, url: str) -> list[float]:
    scale = bench.scale
    with nodes(url) as (node,):
        return lateness_ms(bench.server, url, node, RATE, warm_up=scale.warm_up_seconds, seconds=scale.latency_seconds)
