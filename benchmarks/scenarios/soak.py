"""Soak: one node at full rate for long, with the rate, the dead rows and the memory over time."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime, timedelta

from benchmarks.bench import Bench
from benchmarks.drains import client
from benchmarks.figures import Chart, Goal, Line, Result, Table, rounded
from benchmarks.jobs import Nothing
from benchmarks.nodes import nodes
from quartzpy import JobDetail, SimpleTrigger

# Deleting old history is part of the load, and the tables find their size.
HISTORY_RETENTION = "2m"
SAMPLES = 60
ENDS_AT = 0.95
DEAD_ROWS_GROW_AT_MOST = 1.5
# Autovacuum looks for dead rows once a minute, so a shorter soak says nothing about them.
LONG_ENOUGH_SECONDS = 300.0


def store_endless(url: str, count: int) -> None:
    """Store triggers that are always due: each has a long backlog, and fires ten times a second.

    A soak of 20 minutes must not bring its end to an hour: executions that are later than that have a further index.
    """
    due = datetime.now(UTC) - timedelta(minutes=35)
    triggers = [
        SimpleTrigger(
            f"endless-{number}",
            start_time=due + number * timedelta(microseconds=20),
            interval=timedelta(milliseconds=100),
            repeat_count=None,
        )
        for number in range(count)
    ]
    with client(url) as scheduler:
        scheduler.schedule_job(JobDetail(Nothing, "endless", durable=True), triggers)


def run(bench: Bench) -> Result:
    total = bench.scale.soak_seconds
    step = total / SAMPLES
    url = bench.new_database()
    store_endless(url, bench.scale.soak_triggers)
    bench.server.settle(url)
    rates, dead, memory, size = [], [], [], []
    with nodes(url, history_retention=HISTORY_RETENTION) as (node,):
        node.start()
        time.sleep(bench.scale.warm_up_seconds)
        began = last = time.monotonic()
        runs = node.runs
        for number in range(1, SAMPLES + 1):
            time.sleep(max(0.0, began + number * step - time.monotonic()))
            now, ran = time.monotonic(), node.runs
            minute = (now - began) / 60
            rates.append((minute, (ran - runs) / (now - last)))
            dead.append((minute, float(bench.server.dead_rows(url))))
            size.append((minute, bench.server.size_mebibytes(url)))
            memory.append((minute, node.resident_mebibytes))
            last, runs = now, ran
    bench.server.drop(url)

    # A minute of a full soak; the same share of a shorter one.
    ends = max(round(SAMPLES * 60 / max(total, 240)), 1)
    first = statistics.mean(rate for _, rate in rates[:ends])
    final = statistics.mean(rate for _, rate in rates[-ends:])
    third = SAMPLES // 3
    growth = max(count for _, count in dead[-third:]) / max(1.0, *(count for _, count in dead[third:-third]))
    rows = (
        ("fires per second", rounded(first), rounded(final)),
        ("dead rows", rounded(dead[0][1]), rounded(dead[-1][1])),
        ("database, MiB", rounded(size[0][1]), rounded(size[-1][1])),
        ("memory of the node, MiB", rounded(memory[0][1]), rounded(memory[-1][1])),
    )
    minutes = "minutes"
    return Result(
        "soak",
        goals=[
            Goal(f"rate at the end of {total / 60:.3g} min at full rate, of that at the beginning", ENDS_AT,
                 final / first),
            Goal("most dead rows in the last third, times the middle third", DEAD_ROWS_GROW_AT_MOST,
                 growth if total >= LONG_ENOUGH_SECONDS else None,
                 at_most=True),
        ],
        tables=[Table(f"{total / 60:.3g} minutes at full rate", ("", "at the beginning", "at the end"), rows)],
        charts=[
            Chart("soak-rate", "Soak: throughput", minutes, "fires per second", (Line("quartzpy", tuple(rates)),)),
            Chart("soak-dead-rows", "Soak: dead rows", minutes, "dead rows", (Line("all tables", tuple(dead)),)),
            Chart("soak-memory", "Soak: memory and size", minutes, "MiB",
                  (Line("memory of the node", tuple(memory)), Line("database", tuple(size)))),
        ],
        notes=[f"The node keeps its history for {HISTORY_RETENTION}."],
        figures={"per second": rates, "dead rows": dead, "memory, MiB": memory, "database, MiB": size},
    )  # fmt: skip
