"""Calm soak: two nodes with 50 fires a second of every kind of job, and what their processes hold in memory."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime, timedelta

from benchmarks.bench import Bench
from benchmarks.calm_jobs import JOBS
from benchmarks.drains import client
from benchmarks.figures import Chart, Goal, Line, Result, Table, rounded
from benchmarks.nodes import nodes
from quartzpy import JobDetail, SimpleTrigger

FIRES_PER_SECOND = 50
SAMPLES = 120
GROWS_AT_MOST = 1.0
"""The most that a node may grow, in MiB an hour."""
LONG_ENOUGH_SECONDS = 1_200.0
TYPES = 12
"""The number of types of objects whose growth is shown."""
NODES = 2


def store_jobs(url: str) -> None:
    """Store the jobs, with triggers of every second at instants of their own."""
    names = list(JOBS)
    begin = datetime.now(UTC).replace(microsecond=0)
    with client(url) as scheduler:
        for number in range(FIRES_PER_SECOND):
            name = names[number % len(names)]
            kind = JOBS[name]
            detail = JobDetail(kind, name, durable=True) if isinstance(kind, type) else kind.detail(name, durable=True)
            trigger = SimpleTrigger(
                f"calm-{number}",
                start_time=begin + timedelta(seconds=number / FIRES_PER_SECOND),
                interval="1s",
            )
            scheduler.schedule_job(detail, trigger, replace=True)


def run(bench: Bench) -> Result:
    total, warm_up = bench.scale.calm_seconds, bench.scale.calm_warm_up_seconds
    url = bench.new_database()
    store_jobs(url)
    with nodes(url, NODES, workers=10, history_retention="10m", misfire_threshold="1m") as several:
        for node in several:
            node.start()
        time.sleep(warm_up)
        began, ran = time.monotonic(), sum(node.runs for node in several)
        before = [node.objects() for node in several]
        samples: list[list[tuple[float, float]]] = [[] for _ in several]
        used: list[list[tuple[float, float]]] = [[] for _ in several]
        heaps = [[node.heap()] for node in several]
        for number in range(1, SAMPLES + 1):
            time.sleep(max(0.0, began + number * total / SAMPLES - time.monotonic()))
            minute = (time.monotonic() - began) / 60
            for position, node in enumerate(several):
                heaps[position].append(node.heap())
                samples[position].append((minute, node.resident_mebibytes))
                used[position].append((minute, heaps[position][-1].malloc_used_mebibytes))
        rate = (sum(node.runs for node in several) - ran) / (time.monotonic() - began)
        after = [node.objects() for node in several]
    bench.server.drop(url)

    growth = max(per_hour(series) for series in samples)
    long_enough = total >= LONG_ENOUGH_SECONDS
    rows = []
    for position, heap in enumerate(heaps):
        first, last = heap[0], heap[-1]
        series = samples[position]
        for what, one, other in (
            ("resident, MiB", series[0][1], series[-1][1]),
            ("handed out by malloc, MiB", first.malloc_used_mebibytes, last.malloc_used_mebibytes),
            ("kept back by malloc, MiB", first.malloc_free_mebibytes, last.malloc_free_mebibytes),
            ("blocks of the interpreter", first.python_blocks, last.python_blocks),
            ("threads", first.threads, last.threads),
            ("open files", first.files, last.files),
        ):
            rows.append((f"node {position + 1}, {what}", rounded(one), rounded(other)))
    grown = [grown_types(one, other) for one, other in zip(before, after, strict=True)]
    return Result(
        "calm-soak",
        goals=[
            Goal(
                f"growth of a node in {total / 60:.3g} min at {FIRES_PER_SECOND} fires a second, MiB an hour",
                GROWS_AT_MOST,
                growth if long_enough else None,
                at_most=True,
            ),
        ],
        tables=[
            Table(f"{total / 60:.3g} minutes, {rate:.1f} jobs a second", ("", "at the beginning", "at the end"),
                  tuple(rows)),
            *(
                Table(f"Objects of node {position} that became more", ("type", "more"),
                      tuple((name, rounded(count)) for name, count in types))
                for position, types in enumerate(grown, 1)
            ),
        ],
        charts=[
            Chart("calm-soak-memory", "Calm soak: resident memory", "minutes", "MiB",
                  tuple(Line(f"node {position}", tuple(series)) for position, series in enumerate(samples, 1))),
        ],
        figures={f"node {position}, MiB": series for position, series in enumerate(samples, 1)}
        | {f"node {position}, handed out by malloc, MiB": series for position, series in enumerate(used, 1)},
    )  # fmt: skip


def per_hour(series: list[tuple[float, float]]) -> float:
    """Return the slope of a series whose instants are minutes, an hour: Theil and Sen's median of all slopes."""
    slopes = [
        (later - earlier) / (end - begin) * 60
        for position, (begin, earlier) in enumerate(series)
        for end, later in series[position + 1 :]
        if end > begin
    ]
    return statistics.median(slopes)


def grown_types(before: dict[str, int], after: dict[str, int]) -> list[tuple[str, int]]:
    """Return the types of which there are more objects, with how many more, the most first."""
    growth = [(name, count - before.get(name, 0)) for name, count in after.items()]
    return sorted(((name, more) for name, more in growth if more > 0), key=lambda one: -one[1])[:TYPES]
