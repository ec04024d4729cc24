"""The metrics of `quartzpy.metrics` as OpenTelemetry instruments.

Counters and gauges are observed when a reader collects them. Values of histograms are recorded as they occur.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from quartzpy.metrics.collector import Collector
from quartzpy.metrics.families import Family, Histogram, Kind
from quartzpy.metrics.recorder import HISTOGRAMS

_COLLECTED_FOR = 1.0
"""The time, in seconds, for which all instruments share one collection."""


def name_and_unit(family: str) -> tuple[str, str]:
    """Return the name and the unit of the instrument for a family: "quartzpy_fires" is "quartzpy.fires"."""
    stem = family.removesuffix("_seconds")
    return stem.replace("_", ".", 1), "s" if stem != family else "1"


class OtelHistogram(Histogram):
    """A histogram that also records each value with OpenTelemetry."""

    __slots__ = ("_attributes", "_record")

    def __init__(
        self,
        bounds: Sequence[float],
        record: Callable[[float, Mapping[str, str]], None],
        attributes: Mapping[str, str],
    ) -> None:
        super().__init__(bounds)
        self._record = record
        self._attributes = attributes

    def observe(self, value: float) -> None:
        super().observe(value)
        self._record(value, self._attributes)


class Histograms:
    """Makes the histograms of one scheduler for a `Recorder`."""

    def __init__(self, meter: Meter, scheduler: str) -> None:
        self._meter = meter
        self._scheduler = scheduler
        self._records: dict[str, Callable[[float, Mapping[str, str]], None]] = {}

    def new(self, family: str, bounds: Sequence[float], labels: Mapping[str, str]) -> Histogram:
        """Return the histogram of a family for the values of its labels."""
        if family not in self._records:
            name, unit = name_and_unit(family)
            instrument = self._meter.create_histogram(
                name, unit, HISTOGRAMS[family], explicit_bucket_boundaries_advisory=list(bounds)
            )
            self._records[family] = instrument.record
        return OtelHistogram(bounds, self._records[family], {"scheduler": self._scheduler, **labels})


class Observables:
    """Registers the counters and gauges of a collector."""

    def __init__(self, meter: Meter, collector: Collector) -> None:
        self._collector = collector
        self._collected_at = float("-inf")
        self._families: dict[str, Family] = {}
        for family in collector.collect():
            name, unit = name_and_unit(family.name)
            if family.kind is Kind.COUNTER:
                meter.create_observable_counter(name, [self._callback(family.name)], unit, family.help)
            elif family.kind is Kind.GAUGE:
                meter.create_observable_gauge(name, [self._callback(family.name)], unit, family.help)

    def _callback(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(options: CallbackOptions) -> list[Observation]:
            family = self._present().get(name)
            samples = {} if family is None else family.samples
            return [
                Observation(value, dict(labels))
                for labels, value in samples.items()
                if not isinstance(value, Histogram)
            ]

        return observe

    def _present(self) -> dict[str, Family]:
        now = time.monotonic()
        if now - self._collected_at > _COLLECTED_FOR:
            self._families = {family.name: family for family in self._collector.collect()}
            self._collected_at = now
        return self._families
