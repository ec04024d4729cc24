"""Throughput: one node drains due triggers of a job that does nothing, beside the ceiling and the peers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.bench import Bench
from benchmarks.contestants import CEILING, CEILING_SETTINGS, ceiling, peer_drain
from benchmarks.drains import drain
from benchmarks.figures import Goal, Result, interleaved, rate_table
from benchmarks.jobs import AsyncNothing
from benchmarks.peers.python_peers import PGQUEUER

RECURRING = "quartzpy, recurring"
ONE_SHOT = "quartzpy, one-shot"
ASYNC = "quartzpy, async jobs"
_OURS = "200 workers, batches of 200, history on"


def run(bench: Bench) -> Result:
    contestants: dict[str, Callable[[], float]] = {
        CEILING: partial(ceiling, bench),
        RECURRING: lambda: drain(bench),
        ONE_SHOT: lambda: drain(bench, recurring=False),
        ASYNC: lambda: drain(bench, job=AsyncNothing),
        **{peer.name: partial(peer_drain, bench, peer) for peer in bench.peers},
    }
    settings = {
        CEILING: CEILING_SETTINGS,
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
            Goal("recurring triggers on threads, times pgqueuer", 1.2, ratio(RECURRING, PGQUEUER.name)),
            Goal("one-shot triggers, of the ceiling", 0.75, ratio(ONE_SHOT, CEILING)),
            Goal("async jobs, of jobs on threads", 1.0, ratio(ASYNC, RECURRING)),
        ],
        tables=[rate_table(f"Jobs that do nothing, one node, {bench.scale.drained:,} due", spreads, settings)],
        notes=notes,
        figures={name: list(spread.values) for name, spread in spreads.items()},
    )
