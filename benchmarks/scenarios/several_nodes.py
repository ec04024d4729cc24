"""Nodes: what several node processes do together, with jobs that do nothing and with jobs that wait."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

from benchmarks.bench import Bench
from benchmarks.drains import drain
from benchmarks.figures import Chart, Goal, Line, Result, Spread, interleaved, rate_table
from benchmarks.jobs import WAIT_SECONDS, Wait
from benchmarks.network import delaying

WORKERS = 20
"""Few, so that one node is far from what the database can do."""
DELAY_MS = 1.35
GROWTH = 1.5


def _label(count: int) -> str:
    return f"{count} node{'s' * (count > 1)}"


def run(bench: Bench) -> Result:
    counts = bench.scale.node_counts
    busy, notes = interleaved(
        bench.scale.rounds, {_label(count): partial(drain, bench, node_count=count) for count in counts}
    )
    with delaying(bench.server, DELAY_MS) as delayed:
        full = WORKERS / WAIT_SECONDS

        def waiting(count: int) -> float:
            jobs = int(full * count * bench.scale.waiting_seconds)
            return drain(bench, job=Wait, node_count=count, count=jobs, delayed=delayed, workers=WORKERS)

        waits, more_notes = interleaved(
            bench.scale.rounds, {_label(count): partial(waiting, count) for count in counts}
        )
    one = busy[_label(counts[0])]
    ideal = {_label(count): f"at most {full * count:,.0f}" for count in counts}
    goals = [
        Goal(f"{_label(count)} on the same cores, of one", 0.9, busy[_label(count)].ratio(one)) for count in counts[1:]
    ]
    goals += [
        Goal(
            f"jobs of 50 ms: {_label(count)}, times {_label(before)} (until the database is full)",
            GROWTH,
            waits[_label(count)].ratio(waits[_label(before)]),
        )
        for before, count in pairwise(counts)
    ]

    def points(spreads: dict[str, Spread]) -> tuple[tuple[float, float], ...]:
        return tuple((count, spreads[_label(count)].median) for count in counts)

    return Result(
        "nodes",
        goals=goals,
        tables=[
            rate_table("Jobs that do nothing, 200 workers a node", busy, {}),
            rate_table(f"Jobs of 50 ms, {WORKERS} workers a node, {DELAY_MS} ms added", waits, ideal),
        ],
        charts=[
            Chart(
                "nodes", "Throughput by nodes", "nodes", "fires per second",
                (Line("no-op jobs, 200 workers", points(busy)), Line("jobs of 50 ms, 20 workers", points(waits))),
                ticks=tuple(float(count) for count in counts),
            )
        ],
        notes=notes + more_notes,
        figures={
            "no-op": {name: list(spread.values) for name, spread in busy.items()},
            "50 ms": {name: list(spread.values) for name, spread in waits.items()},
        },
    )  # fmt: skip
