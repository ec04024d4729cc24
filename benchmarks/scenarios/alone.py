"""Alone: how late triggers start that have idle nodes with default settings to themselves, and what the nodes spend."""

from __future__ import annotations

import time

from benchmarks.bench import Bench
from benchmarks.figures import Goal, Result, Table, percentile, rounded
from benchmarks.nodes import nodes
from benchmarks.situations import SITUATIONS
from benchmarks.steady import PERCENTILE_COLUMNS, percentile_cells

MEMORY = "memory://"
MAX_LATE_MS, MAX_IDLE_PERCENT = 20.0, 0.1
DEFAULTS = {"workers": 10, "misfire_threshold": "60s"}
IDLE = "nothing"
OF_THE_GOAL = "one of every second"


def run(bench: Bench) -> Result:
    goals: list[Goal] = []
    rows: list[tuple[str, ...]] = []
    notes: list[str] = []
    figures: dict[str, object] = {}
    for place, count in (("memory", 1), ("PostgreSQL", 1), ("PostgreSQL", 3)):
        label = f"{place}, {count} {'node' if count == 1 else 'nodes'}"
        for situation in (IDLE, *SITUATIONS):
            name = f"{situation}; {label}"
            late, percent = _measured(bench, place, count, situation)
            figures[name] = {"late_ms": late, "percent_of_a_core": percent}
            cells = percentile_cells(late) if late else ("",) * len(PERCENTILE_COLUMNS)
            most = rounded(max(late)) if late else ""
            rows.append((name, f"{len(late):,}", *cells, most, rounded(percent)))
            if situation == IDLE:
                goals.append(Goal(f"idle, {label}, each node", MAX_IDLE_PERCENT, percent, "%", at_most=True))
            elif not late:
                notes.append(f"{name}: no fire within the time that was measured")
            elif situation == OF_THE_GOAL:
                goals.append(Goal(f"most lateness, {name}", MAX_LATE_MS, max(late), "ms", at_most=True))
                goals.append(Goal(f"p50, {name}", MAX_LATE_MS, percentile(late, 50), "ms", at_most=True))
    return Result(
        "alone",
        goals=goals,
        tables=[
            Table(
                "Lateness in milliseconds, and the processor time of each node in % of a core",
                ("", "fires", *PERCENTILE_COLUMNS, "most", "% of a core"),
                tuple(rows),
            )
        ],
        notes=notes,
        figures=figures,
    )


def _measured(bench: Bench, place: str, count: int, situation: str) -> tuple[list[float], float]:
    """Return the milliseconds of lateness of each start, and the share of a core, in per cent, of each node."""
    url = MEMORY if place == "memory" else bench.new_database()
    with nodes(url, count, **DEFAULTS) as several:
        for node in several:
            node.start()
        time.sleep(bench.scale.warm_up_seconds)
        if situation != IDLE:
            several[0].schedule(situation)
        spent, began = sum(node.cpu_seconds for node in several), time.monotonic()
        time.sleep(bench.scale.alone_seconds)
        spent, seconds = sum(node.cpu_seconds for node in several) - spent, time.monotonic() - began
        late = [start.late_ms for node in several for start in node.starts()]
    if url != MEMORY:
        bench.server.drop(url)
    return late, spent / seconds / count * 100
