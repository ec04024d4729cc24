"""Distance: throughput of one node, of the ceiling and of the fastest peer while a proxy adds to each round trip."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from benchmarks.bench import Bench
from benchmarks.contestants import CEILING, ceiling, peer_drain
from benchmarks.drains import drain
from benchmarks.figures import Chart, Goal, Line, Result, interleaved, rate_table
from benchmarks.network import delaying
from benchmarks.peers.python_peers import PGQUEUER

GOAL_MS = 1.35
OURS = "quartzpy"


def run(bench: Bench) -> Result:
    delays = bench.scale.delays_ms
    measures: dict[str, Callable[[Callable[[str], str]], float]] = {
        OURS: lambda delayed: drain(bench, delayed=delayed),
        CEILING: partial(ceiling, bench),
    }
    if PGQUEUER in bench.peers:
        measures[PGQUEUER.name] = partial(peer_drain, bench, PGQUEUER)
    with ExitStack() as stack:
        networks = {delay: stack.enter_context(delaying(bench.server, delay)) for delay in delays}
        spreads, notes = interleaved(
            bench.scale.rounds,
            {
                _label(name, delay): partial(measure, networks[delay])
                for name, measure in measures.items()
                for delay in delays
            },
        )
    lines = []
    for name in measures:
        measured = [(delay, spreads.get(_label(name, delay))) for delay in delays]
        lines.append(Line(name, tuple((delay, spread.median) for delay, spread in measured if spread is not None)))
    far, direct = spreads[_label(OURS, GOAL_MS)], spreads[_label(OURS, 0)]
    return Result(
        "distance",
        goals=[Goal(f"with {GOAL_MS} ms added, of direct", 0.9, far.ratio(direct))],
        tables=[rate_table("Jobs that do nothing, one node", spreads, {})],
        charts=[
            Chart(
                "distance",
                "Throughput by distance",
                "milliseconds added to a round trip",
                "jobs per second",
                tuple(lines),
            )
        ],
        notes=notes,
        figures={name: list(spread.values) for name, spread in spreads.items()},
    )


def _label(name: str, delay_ms: float) -> str:
    return f"{name}, {delay_ms:g} ms added" if delay_ms else f"{name}, direct"
