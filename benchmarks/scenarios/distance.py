"""Distance: throughput of one node while a proxy adds to each round trip."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

from benchmarks.bench import Bench
from benchmarks.drains import drain
from benchmarks.figures import Chart, Goal, Line, Result, interleaved, rate_table
from benchmarks.network import delaying

GOAL_MS = 1.35


def _label(delay_ms: float) -> str:
    return f"{delay_ms:g} ms added" if delay_ms else "direct"


def run(bench: Bench) -> Result:
    delays = bench.scale.delays_ms
    with ExitStack() as stack:
        contestants = {
            _label(delay): partial(drain, bench, delayed=stack.enter_context(delaying(bench.server, delay)))
            for delay in delays
        }
        spreads, notes = interleaved(bench.scale.rounds, contestants)
    direct = spreads[_label(0)]
    points = tuple((delay, spreads[_label(delay)].median) for delay in delays)
    return Result(
        "distance",
        goals=[Goal(f"with {GOAL_MS} ms added, of direct", 0.9, spreads[_label(GOAL_MS)].ratio(direct))],
        tables=[rate_table("Recurring triggers, one node", spreads, {})],
        charts=[
            Chart(
                "distance", "Throughput by distance", "milliseconds added to a round trip", "fires per second",
                (Line("quartzpy", points),),
            )
        ],
        notes=notes,
        figures={name: list(spread.values) for name, spread in spreads.items()},
    )  # fmt: skip
