"""What several nodes spend together, idle and at a steady rate, beside what one spends."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from functools import partial

from benchmarks.bench import Bench
from benchmarks.figures import ContestantError, percentile
from benchmarks.growth.rows import Part, Row, Values, as_figures, compared, in_rounds, median
from benchmarks.nodes import NodeProcess, nodes
from benchmarks.steady import steady_lateness_ms, store_steady

RATE = 100
WORKERS = 10
GOALS = (None, 1.2, 1.6)
"""The most that a fire may cost 1, 10 and 40 nodes together with the server, of what it costs one node."""
CPU, P99 = "processor time a fire", "p99, ms"
IDLE_NODES, IDLE_SERVER = "idle nodes, % of a core", "idle server, % of a core"


def part(bench: Bench) -> Part:
    names = {count: f"{count} node{'s' * (count > 1)}" for count in bench.scale.growth_nodes}
    spreads, notes = in_rounds(
        bench.scale.size_rounds, {name: partial(spent_together, bench, count) for count, name in names.items()}
    )
    first = next(iter(names.values()))
    result = Part(notes=notes, figures=as_figures(spreads))
    for (count, name), goal in zip(names.items(), GOALS, strict=True):
        cost = compared(
            f"processor time a fire of {name} and the server, {RATE} fires a second", "ms", CPU, name, first, spreads,
            ratio_goal=goal, at_most=True,
        )  # fmt: skip
        result.rows += [
            cost,
            compared(f"lateness of {name}, p99", "ms", P99, name, first, spreads),
            Row(f"{name}, idle, all together", median(spreads.get(name, {}), IDLE_NODES), "% of a core"),
            Row(f"the server of {name}, idle", median(spreads.get(name, {}), IDLE_SERVER), "% of a core"),
        ]
        if cost.ratio:
            result.points.append((count, cost.ratio))
    return result


def spent_together(bench: Bench, count: int) -> Values:
    """Return what a fire costs all nodes and the server, how late fires are, and what is spent when idle.

    Raises:
        ContestantError: the server's processor time cannot be read, or nothing fired.
    """
    scale = bench.scale
    url = bench.new_database()
    bench.server.settle(url)
    with nodes(url, count, workers=WORKERS) as several:
        for node in several:
            node.start()
        time.sleep(scale.warm_up_seconds)
        of_nodes, of_server, elapsed, _ = _spent(bench, several, scale.idle_seconds)
        store_steady(url, RATE, datetime.now(UTC) + timedelta(seconds=1))
        time.sleep(1 + scale.warm_up_seconds)
        nodes_busy, server_busy, _, late = _spent(bench, several, scale.growth_seconds)
    bench.server.drop(url)
    if not late:
        raise ContestantError("no trigger fired")
    return {
        CPU: (nodes_busy + server_busy) * 1_000 / len(late),
        P99: percentile(late, 99),
        IDLE_NODES: of_nodes / elapsed * 100,
        IDLE_SERVER: of_server / elapsed * 100,
    }


def _spent(bench: Bench, several: list[NodeProcess], seconds: float) -> tuple[float, float, float, list[float]]:
    """Return the processor time of the nodes and of the server, the elapsed time, and how late jobs started."""
    for node in several:
        node.starts()
    server, ours, began = bench.server.cpu_seconds, sum(node.cpu_seconds for node in several), time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - began
    ours = sum(node.cpu_seconds for node in several) - ours
    now = bench.server.cpu_seconds
    if server is None or now is None:
        raise ContestantError("the processor time of this server cannot be read")
    return ours, now - server, elapsed, [late for node in several for late in steady_lateness_ms(node)]
