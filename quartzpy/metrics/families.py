"""Metrics as values, and their text: the Prometheus text format 0.0.4, and OpenMetrics 1.0.

The rules of the text are those of https://prometheus.io/docs/instrumenting/exposition_formats/ and of the OpenMetrics
specification (https://prometheus.io/docs/specs/om/open_metrics_spec/).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


PLAIN = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_OPEN_METRICS_TYPE = "application/openmetrics-text"
_OPEN_METRICS_VERSIONS = ("1.0.0", "0.0.1")


def negotiated(accept: str) -> str:
    """Return the content type to answer with, for the value of an Accept header.

    OpenMetrics is only sent to clients that ask for it, as the specification says.
    """
    best, quality = PLAIN, 0.0
    for part in accept.lower().split(","):
        name, *parameters = (word.strip() for word in part.split(";"))
        values = dict(word.split("=", 1) for word in parameters if "=" in word)
        weight = _quality(values.get("q", "1"))
        if name == _OPEN_METRICS_TYPE and values.get("version", "1.0.0") in _OPEN_METRICS_VERSIONS:
            candidate = OPEN_METRICS
        elif name in ("text/plain", "text/*", "*/*"):
            candidate = PLAIN
        else:
            continue
        if weight > quality:
            best, quality = candidate, weight
    return best


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def rendered(families: Iterable[Family], content_type: str) -> str:
    """Return the text of these metrics in the format of a content type."""
    is_open = content_type == OPEN_METRICS
    lines = [line for family in families if family.samples for line in _lines(family, is_open)]
    return "".join(f"{line}\n" for line in [*lines, *(["# EOF"] if is_open else [])])


def _lines(family: Family, is_open: bool) -> Iterator[str]:
    total = f"{family.name}_total" if family.kind is Kind.COUNTER else family.name
    # In the older format a counter is called by the name of its sample.
    name = family.name if is_open else total
    yield f"# HELP {name} {_escaped(family.help, quotes=is_open)}"
    yield f"# TYPE {name} {family.kind}"
    if is_open and family.unit:
        yield f"# UNIT {name} {family.unit}"
    for labels, value in family.samples.items():
        if isinstance(value, Histogram):
            yield from _of_histogram(family.name, labels, value)
        else:
            yield f"{total}{_braces(labels)} {_number(value)}"


def _of_histogram(name: str, labels: Labels, histogram: Histogram) -> Iterator[str]:
    below = 0
    for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
        below += count
        yield f"{name}_bucket{_braces((*labels, ('le', _number(bound))))} {below}"
    yield f"{name}_sum{_braces(labels)} {_number(histogram.total)}"
    yield f"{name}_count{_braces(labels)} {below}"


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return repr(float(value))


def _braces(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value, quotes=True)}"' for name, value in labels) + "}"


def _escaped(text: str, *, quotes: bool) -> str:
    # A name may have surrogates, which UTF-8 has no form for.
    text = text.encode(errors="replace").decode().replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quotes else text
