"""Throughput: one node drains due triggers of a job that does nothing, beside the ceiling and the peers."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.bench import Bench
from benchmarks.drains import drain
from benchmarks.figures import Goal, Result, Spread, interleaved, rate_table
from benchmarks.jobs import AsyncNothing
from benchmarks.peers import Peer
from benchmarks.peers.ceiling_peer import ceiling_rate

CEILING = "ceiling (bare SQL)"
RECURRING = "quartzpy, recurring"
ONE_SHOT = "quartzpy, one-shot"
ASYNC = "quartzpy, async jobs"
_OURS = "200 workers, batches of 200, history on"


def run(bench: Bench) -> Result:
    def ceiling() -> float:
        url = bench.server.new_database(with_tables=False)
        try:
            return ceiling_rate(url, bench.scale.drained)
        finally:
            bench.server.drop(url)

    def peer_drain(peer: Peer) -> Callable[[], float]:
        def measured() -> float:
            url = bench.server.new_database(with_tables=False)
            try:
                return peer.drain(bench.server, url, max(int(peer.drained * bench.scale.peer_share), 10))
            finally:
                bench.server.drop(url)

        return measured

    contestants: dict[str, Callable[[], float]] = {
        CEILING: ceiling,
        RECURRING: lambda: drain(bench),
        ONE_SHOT: lambda: drain(bench, recurring=False),
        ASYNC: lambda: drain(bench, job=AsyncNothing),
        **{peer.name: peer_drain(peer) for peer in bench.peers},
    }
    settings = {
        CEILING: "one thread, batches of 200, one transaction a batch; no jobs, no history",
        RECURRING: _OURS,
        ONE_SHOT: _OURS,
        ASYNC: _OURS,
        **{peer.name: peer.settings for peer in bench.peers},
    }
    spreads, notes = interleaved(bench.scale.rounds, contestants)

    def ratio(ours: str, theirs: str) -> float | None:
        return spreads[ours].ratio(spreads[theirs]) if theirs in spreads else None

    return Result(
        "throughput",
        goals=[
            Goal("recurring triggers on threads, of the ceiling", 0.85, ratio(RECURRING, CEILING)),
            Goal("recurring triggers on threads, times pgqueuer", 1.2, ratio(RECURRING, "pgqueuer")),
            Goal("one-shot triggers, of the ceiling", 0.75, ratio(ONE_SHOT, CEILING)),
            Goal("async jobs, of jobs on threads", 1.0, ratio(ASYNC, RECURRING)),
        ],
        tables=[rate_table(f"Jobs that do nothing, one node, {bench.scale.drained:,} due", spreads, settings)],
        notes=notes,
        figures={name: _values(spread) for name, spread in spreads.items()},
    )


def _values(spread: Spread) -> list[float]:
    return list(spread.values)
