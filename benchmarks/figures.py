"""The values that scenarios return: spreads of repeats, tables, charts, and goals that are met or not."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Spread:
    """The values of several repeats of one measurement, in the order in which they were taken."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def least(self) -> float:
        return min(self.values)

    @property
    def most(self) -> float:
        return max(self.values)

    def ratio(self, other: Spread) -> float:
        """Return the median of the ratios of each round to the same round of another contestant.

        Both were measured within the same minute of each round, so a slow minute of the machine cancels out.
        """
        return statistics.median(
            mine / theirs for mine, theirs in zip(self.values, other.values, strict=True) if theirs
        )


class ContestantError(Exception):
    """A contestant could not be measured; the others go on without it."""


def interleaved(rounds: int, contestants: Mapping[str, Callable[[], float]]) -> tuple[dict[str, Spread], list[str]]:
    """Measure every contestant once in each round, each round beginning with another one.

    Return their spreads, and a note for each contestant that failed, which has no spread.
    """
    values: dict[str, list[float]] = {name: [] for name in contestants}
    notes = []
    for number in range(rounds):
        names = list(values)
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            try:
                values[name].append(contestants[name]())
            except ContestantError as error:
                notes.append(f"{name} was left out: {error}")
                del values[name]
    return {name: Spread(tuple(measured)) for name, measured in values.items()}, notes


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` per cent of the values do not exceed (nearest rank).

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("there is no percentile of no values")
    rank = math.ceil(len(values) * percent / 100)
    return sorted(values)[max(rank, 1) - 1]


@dataclass(frozen=True)
class Goal:
    """A target and the measured value. Without a value the goal was not measured, and is neither met nor missed."""

    text: str
    target: float
    measured: float | None
    unit: str = ""
    at_most: bool = False

    @property
    def is_met(self) -> bool | None:
        if self.measured is None:
            return None
        return self.measured <= self.target if self.at_most else self.measured >= self.target


@dataclass(frozen=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Line:
    """A line of a chart."""

    label: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Chart:
    """A chart, stored as `name`.svg."""

    name: str
    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    log_x: bool = False
    log_y: bool = False
    ticks: tuple[float, ...] = ()
    """The labelled values of the x axis; empty to choose them automatically."""


@dataclass
class Result:
    """Everything that one scenario measured."""

    scenario: str
    goals: list[Goal] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    """All measured values, for the JSON file."""
    seconds: float = 0.0


def rounded(value: float) -> str:
    """Return a value with three significant digits, or as a whole number from 100 on."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def rate_table(title: str, spreads: Mapping[str, Spread], settings: Mapping[str, str]) -> Table:
    """Return a table of rates: the median, the range, the ratio to the first contestant, and the settings."""
    first = next(iter(spreads.values()))
    rows = [
        (
            name,
            rounded(spread.median),
            f"{rounded(spread.least)} to {rounded(spread.most)}",
            f"{spread.ratio(first):.2f}",
            settings.get(name, ""),
        )
        for name, spread in spreads.items()
    ]
    return Table(title, ("", "per second (median)", "range", "ratio", "settings"), tuple(rows))
