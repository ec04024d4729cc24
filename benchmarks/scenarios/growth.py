"""Growth: what a fire costs by the number of types, placements, jobs, triggers of a job, keys and nodes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.bench import Bench
from benchmarks.contestants import CEILING, ceiling, peer_drain
from benchmarks.drains import drain
from benchmarks.figures import Chart, Result
from benchmarks.growth import backlogs, bulk, clusters, lateness, rows
from benchmarks.growth.rows import Part, Row
from benchmarks.peers.python_peers import PGQUEUER
from benchmarks.scenarios import cost

OURS = "baseline: one job, no limit"
MAX_WAL_BYTES = 1_414.0


def baseline(bench: Bench) -> Part:
    """The baseline itself: beside bare SQL and pgqueuer, and its write-ahead log."""

    def rate(measure: Callable[[], float]) -> Callable[[], rows.Values]:
        return lambda: {backlogs.RATE: measure()}

    contestants = {OURS: rate(lambda: drain(bench)), CEILING: rate(partial(ceiling, bench))}
    if PGQUEUER in bench.peers:
        contestants[PGQUEUER.name] = rate(partial(peer_drain, bench, PGQUEUER))
    spreads, notes = rows.in_rounds(bench.scale.size_rounds, contestants)
    part = Part(notes=notes, figures=rows.as_figures(spreads))
    for name, goal in ((CEILING, 0.88), (PGQUEUER.name, 1.1)):
        part.rows.append(
            rows.compared(
                f"the baseline itself, of {name}", "a second", backlogs.RATE, OURS, name, spreads, ratio_goal=goal
            )
        )
    _, wal_bytes = cost.load(bench)
    part.rows.append(Row("write-ahead log of a fire", wal_bytes, "bytes", figure_goal=MAX_WAL_BYTES, at_most=True))
    part.figures["write-ahead log of a fire, bytes"] = wal_bytes
    return part


KINDS: dict[str, tuple[Callable[[Bench], Part], str]] = {
    "baseline": (baseline, ""),
    "types": (backlogs.types, "job types, of a fire"),
    "types-latency": (lateness.types, "job types, of p99 at 10 fires a second"),
    "placements": (backlogs.placements, "placements"),
    "jobs": (backlogs.jobs, "jobs of one type"),
    "serial": (backlogs.serial, "triggers of each serial job"),
    "keys": (backlogs.keys, "triggers of each key"),
    "limits": (backlogs.limits, "triggers of one job with a limit"),
    "beside": (backlogs.beside, "triggers beside it that wait or are skipped"),
    "beside-deep": (backlogs.beside_deep, ""),
    "beside-serial": (lateness.beside_serial, ""),
    "nodes": (clusters.part, "nodes"),
    "bulk": (bulk.part, ""),
}
"""The kinds of rows: how each is measured, and its label in the chart, if it is drawn."""


def run(bench: Bench) -> Result:
    parts = {name: KINDS[name][0](bench) for name in bench.scale.growth_kinds or KINDS}
    lines = rows.lines(parts, {name: label for name, (_, label) in KINDS.items()})
    return Result(
        "growth",
        goals=[row.goal for part in parts.values() for row in part.rows if row.goal is not None],
        tables=[rows.table(parts)],
        charts=[
            Chart(
                "growth", "Cost by number", "number", "cost, times that of the baseline", lines, log_x=True, log_y=True
            )
        ]
        if lines
        else [],
        notes=[note for part in parts.values() for note in part.notes],
        figures={name: part.figures for name, part in parts.items()},
    )
