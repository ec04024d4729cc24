"""The rows of the scenario: a figure beside its baseline of the same round, their ratio and the goal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.figures import Goal, Line, Spread, Table, interleaved, rounded

Values = dict[str, float]
"""What one measurement takes, by name."""


@dataclass(frozen=True)
class Row:
    """One figure: the median of the rounds. Without a figure, it was not measured."""

    what: str
    figure: float | None
    unit: str
    baseline: float | None = None
    ratio: float | None = None
    """Of the figure to the baseline: the median of the ratios of the rounds."""
    ratio_goal: float | None = None
    figure_goal: float | None = None
    at_most: bool = False
    """Whether the goal is an upper limit."""
    server_us: float | None = None
    """The server's processor time for a fire."""

    @property
    def goal(self) -> Goal | None:
        if self.ratio_goal is not None:
            return Goal(f"{self.what}: the ratio", self.ratio_goal, self.ratio, at_most=self.at_most)
        if self.figure_goal is not None:
            return Goal(self.what, self.figure_goal, self.figure, self.unit, at_most=self.at_most)
        return None

    @property
    def cells(self) -> tuple[str, ...]:
        bound = "at most" if self.at_most else "at least"
        target = ""
        if self.ratio_goal is not None:
            target = f"{bound} {rounded(self.ratio_goal)}"
        elif self.figure_goal is not None:
            target = f"{bound} {rounded(self.figure_goal)} {self.unit}"
        return (
            self.what,
            "not measured" if self.figure is None else f"{rounded(self.figure)} {self.unit}",
            "" if self.baseline is None else f"{rounded(self.baseline)} {self.unit}",
            "" if self.ratio is None else f"{self.ratio:.3g}",
            target,
            "" if self.server_us is None else rounded(self.server_us),
        )


COLUMNS = ("", "figure", "baseline", "ratio", "goal", "server, µs a fire")


@dataclass
class Part:
    """The rows of one kind."""

    rows: list[Row] = field(default_factory=list)
    points: list[tuple[float, float]] = field(default_factory=list)
    """Of the chart: a number, and the cost of a fire at this number, times that of the baseline."""
    notes: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)


def table(parts: Mapping[str, Part]) -> Table:
    rows = tuple(row.cells for part in parts.values() for row in part.rows)
    return Table("What grows with what: medians of the rounds", COLUMNS, rows)


def lines(parts: Mapping[str, Part], labels: Mapping[str, str]) -> tuple[Line, ...]:
    """Return a line of the chart for each kind whose cost was measured at several numbers, or at one."""
    return tuple(Line(labels[name], tuple(sorted(part.points))) for name, part in parts.items() if part.points)


def in_rounds(
    rounds: int, contestants: Mapping[str, Callable[[], Values]]
) -> tuple[dict[str, dict[str, Spread]], list[str]]:
    """Measure several values of each contestant once a round; return their spreads, as `interleaved` does for one."""
    taken: dict[str, list[Values]] = {name: [] for name in contestants}

    def noting(name: str) -> Callable[[], float]:
        def measure() -> float:
            taken[name].append(contestants[name]())
            return 0.0

        return measure

    measured, notes = interleaved(rounds, {name: noting(name) for name in contestants})
    spreads = {}
    for name in measured:
        in_all = [what for what in taken[name][0] if all(what in values for values in taken[name])]
        spreads[name] = {what: Spread(tuple(values[what] for values in taken[name])) for what in in_all}
    return spreads, notes


def as_figures(spreads: Mapping[str, Mapping[str, Spread]]) -> dict[str, Any]:
    """Return all values, for the JSON file."""
    return {name: {what: list(spread.values) for what, spread in of.items()} for name, of in spreads.items()}


def median(spreads: Mapping[str, Spread], what: str) -> float | None:
    return spreads[what].median if what in spreads else None


def compared(
    what: str,
    unit: str,
    value: str,
    name: str,
    baseline: str,
    spreads: Mapping[str, Mapping[str, Spread]],
    **goals: Any,
) -> Row:
    """Return the row of a contestant's value beside the baseline's value of the same rounds."""
    ours, theirs = spreads.get(name, {}), spreads.get(baseline, {})
    both = value in ours and value in theirs
    return Row(
        what,
        median(ours, value),
        unit,
        baseline=median(theirs, value),
        ratio=ours[value].ratio(theirs[value]) if both else None,
        server_us=median(ours, SERVER),
        **goals,
    )


SERVER = "server, µs a fire"


def server_values(before: float | None, after: float | None, fires: int) -> Values:
    """Return the server's processor time for a fire; nothing where it cannot be read."""
    return {} if before is None or after is None or not fires else {SERVER: (after - before) * 1_000_000 / fires}
