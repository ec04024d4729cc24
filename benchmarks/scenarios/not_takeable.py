"""Not takeable: throughput behind many due triggers that need a label which the node does not have."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.bench import Bench
from benchmarks.drains import drain, seconds_to_drain, store_due, warm_up
from benchmarks.figures import Goal, Result, interleaved, rate_table
from benchmarks.jobs import Nothing
from benchmarks.nodes import nodes


def run(bench: Bench) -> Result:
    count = bench.scale.not_takeable
    with_them = f"{count:,} at the front"

    def blocked_drain() -> float:
        url = bench.new_database()
        with nodes(url) as ready:
            warm_up(bench, url, ready)
            # Stored first, so they have been due for longer than all others.
            store_due(url, Nothing, count, recurring=True, name="not-takeable", requires=["absent"])
            store_due(url, Nothing, bench.scale.drained, recurring=True)
            bench.server.settle(url)
            seconds = seconds_to_drain(bench.server, url, ready, bench.scale.drained)
        bench.server.drop(url)
        return bench.scale.drained / seconds

    contestants: dict[str, Callable[[], float]] = {"none at the front": lambda: drain(bench), with_them: blocked_drain}
    rates, notes = interleaved(bench.scale.size_rounds, contestants)
    without, blocked = (rates[name] for name in contestants)
    return Result(
        "not-takeable",
        goals=[Goal(f"throughput with {count:,} due triggers that the node can't take", 0.9, blocked.ratio(without))],
        tables=[rate_table("Recurring triggers behind others that need an absent label", rates, {})],
        notes=notes,
        figures={"behind others": {name: list(spread.values) for name, spread in rates.items()}},
    )
