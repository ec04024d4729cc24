"""The values of metrics: families of samples, and histograms that are cheap to fill."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

Labels = tuple[tuple[str, str], ...]
"""The labels of a sample, as pairs of a name and a value."""


class Kind(StrEnum):
    """The types of metrics that we have; the words are those of the exposition formats."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Histogram:
    """Counts of values in ranges. `bounds` are the inclusive upper ends, in ascending order."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def copy(self) -> Histogram:
        other = Histogram(self.bounds)
        other.counts, other.total = list(self.counts), self.total
        return other

    @property
    def count(self) -> int:
        return sum(self.counts)


@dataclass(slots=True)
class Family:
    """A metric with its samples. The name ends with the unit; that of a counter has no "_total"."""

    name: str
    kind: Kind
    help: str
    samples: dict[Labels, float | Histogram] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        return "seconds" if self.name.endswith("_seconds") else ""

    def add(self, value: float | Histogram, **labels: str) -> None:
        self.samples[tuple(labels.items())] = value

    def with_labels(self, more: Mapping[str, str]) -> Family:
        """Return this family with more labels in each sample."""
        before = tuple(more.items())
        samples = {(*before, *labels): value for labels, value in self.samples.items()}
        return Family(self.name, self.kind, self.help, samples)
