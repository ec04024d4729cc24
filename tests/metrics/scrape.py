"""Scrapes that are read by the parsers of Prometheus's own client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.request import Request, urlopen

from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics_families
from prometheus_client.parser import text_string_to_metric_families as plain_families

from quartzpy.metrics.families import OPEN_METRICS


@dataclass(frozen=True)
class Scrape:
    """The samples of one scrape, by name and labels."""

    samples: Mapping[tuple[str, frozenset[tuple[str, str]]], float]
    kinds: Mapping[str, str]
    units: Mapping[str, str]
    helps: Mapping[str, str]

    def value(self, name: str, **labels: str) -> float:
        """The sum of the samples that have these labels, among others."""
        found = self._found(name, labels)
        assert found, f"{name} {labels} is not in the scrape"
        return sum(found)

    def so_far(self, name: str, **labels: str) -> float:
        """The same of a counter, which has no sample before the first that it counts."""
        return sum(self._found(name, labels))

    def _found(self, name: str, labels: Mapping[str, str]) -> list[float]:
        return [
            value
            for (own, having), value in self.samples.items()
            if own == name and labels.items() <= dict(having).items()
        ]

    def names(self) -> set[str]:
        return {name for name, _ in self.samples}

    def labels_of(self, name: str) -> set[str]:
        return {label for own, having in self.samples for label, _ in having if own == name}


def parsed(text: str, *, is_open: bool = False) -> Scrape:
    families = list(open_metrics_families(text) if is_open else plain_families(text))
    samples = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }
    return Scrape(
        samples,
        {family.name: family.type for family in families},
        {family.name: family.unit for family in families},
        {family.name: family.documentation for family in families},
    )


def fetched(url: str, accept: str = "") -> tuple[str, str]:
    """The content type and the text of an answer."""
    assert url.startswith("http://127.0.0.1")
    with urlopen(Request(url, headers={"Accept": accept}), timeout=60) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def scraped(port: int | None, *, is_open: bool = False) -> Scrape:
    _, text = fetched(f"http://127.0.0.1:{port}/metrics", OPEN_METRICS if is_open else "")
    return parsed(text, is_open=is_open)
