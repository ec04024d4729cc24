"""The report of a run: Markdown for readers, JSON for programs, and the charts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks import plots
from benchmarks.figures import Goal, Result, Table, rounded

VERDICTS = {True: "met", False: "**not met**", None: "not measured"}


@dataclasses.dataclass
class Run:
    """A run of several scenarios on one machine."""

    started: datetime
    command: str
    machine: Mapping[str, Any]
    server_settings: Mapping[str, str]
    peers: Mapping[str, str]
    """The settings of each peer, or how to install it if it was skipped."""
    results: list[Result] = dataclasses.field(default_factory=list)
    failures: dict[str, str] = dataclasses.field(default_factory=dict)
    """The error of each scenario that failed."""


def write(run: Run, directory: Path) -> None:
    """Write `report.md`, `results.json` and the charts into a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    if plots.can_draw():
        for result in run.results:
            for chart in result.charts:
                plots.draw(chart, directory)
    (directory / "report.md").write_text(markdown(run))
    (directory / "results.json").write_text(json.dumps(as_json(run), indent=1) + "\n")


def as_json(run: Run) -> dict[str, Any]:
    """Return everything that was measured as values of JSON."""
    whole = dataclasses.asdict(run)
    whole["started"] = run.started.isoformat()
    for stored, result in zip(whole["results"], run.results, strict=True):
        for stored_goal, goal in zip(stored["goals"], result.goals, strict=True):
            stored_goal["is_met"] = goal.is_met
    return whole


def markdown(run: Run) -> str:
    """Return the report as Markdown."""
    parts = [
        f"# Benchmarks of {run.started:%Y-%m-%d %H:%M} UTC",
        f"`{run.command}`",
        _table(("the machine", ""), [(name, str(value)) for name, value in run.machine.items()]),
        "The server: " + ", ".join(f"{name} {value}" for name, value in run.server_settings.items()) + ".",
        _table(("peer", "settings, or how to install it"), list(run.peers.items())) if run.peers else "No peers.",
        "## Goals",
        _table(
            ("scenario", "goal", "target", "measured", ""),
            [(result.scenario, *goal_cells(goal)) for result in run.results for goal in result.goals],
        ),
    ]
    drawn = plots.can_draw()
    if not drawn:
        parts.append(f"The charts were not drawn, because matplotlib is not installed: `{plots.HOW_TO_INSTALL}`.")
    for result in run.results:
        parts.append(f"## {result.scenario}")
        parts.append(f"It took {rounded(result.seconds)} s.")
        for table in result.tables:
            parts += [f"**{table.title}**", _shown(table)]
        parts += [f"![{chart.title}]({chart.name}.svg)" for chart in result.charts if drawn]
        parts += result.notes
    for scenario, error in run.failures.items():
        parts += [f"## {scenario}", f"The scenario failed: {error}"]
    return "\n\n".join(parts) + "\n"


def goal_cells(goal: Goal) -> tuple[str, str, str, str]:
    """Return the cells of a goal: its text, its target, the measured value and whether it was met."""
    unit = f" {goal.unit}" if goal.unit else ""
    bound = "at most" if goal.at_most else "at least"
    measured = "" if goal.measured is None else f"{rounded(goal.measured)}{unit}"
    return goal.text, f"{bound} {rounded(goal.target)}{unit}", measured, VERDICTS[goal.is_met]


def _shown(table: Table) -> str:
    return _table(table.columns, table.rows)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)
