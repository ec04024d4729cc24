"""The dashboard and the alert rules ask only for what a real scrape has, in valid PromQL."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger
from quartzpy.errors import StoreUnavailableError
from quartzpy.metrics import Metrics
from quartzpy.metrics.families import Histogram
from tools import grafana

OPERATE = Path(__file__).parents[2] / "docs" / "operate"
DASHBOARD = json.loads(grafana.PATH.read_text())
RULES = [
    rule
    for group in yaml.safe_load((OPERATE / "prometheus" / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
OF_THE_TARGET = {"instance", "job"}
"""The labels that Prometheus adds."""


class Failing(Job):
    def execute(self, context: JobExecutionContext) -> None:
        raise ValueError("on purpose")


class Quick(Job):
    def execute(self, context: JobExecutionContext) -> None: ...


@pytest.fixture(scope="module")
def labels() -> dict[str, dict[str, set[str]]]:
    """The labels of each sample of a real scrape, with their values."""
    metrics = Metrics(by_job=True, cluster=True)
    # On the in-memory store; only the metrics of connections need a database, and their labels are in the family.
    with Scheduler("memory://", name="shop", plugins=[metrics]) as scheduler:
        hourly = timedelta(hours=1)
        scheduler.schedule_job(JobDetail(Quick, "quick"), SimpleTrigger("q", interval=hourly, repeat_count=9))
        scheduler.schedule_job(JobDetail(Failing, "failing"), SimpleTrigger("f"))
        assert scheduler.wait_until_recorded(2, "20s")
        metrics._recorder.failed("acquire", 0.1, StoreUnavailableError("gone"))
        assert metrics._collector is not None
        families = metrics._collector.collect()
    found: dict[str, dict[str, set[str]]] = {}
    for family in families:
        total = "_total" if family.kind == "counter" else ""
        names = (
            [f"{family.name}{end}" for end in ("_bucket", "_sum", "_count")]
            if family.kind == "histogram"
            else [family.name + total]
        )
        for name in names:
            of = found.setdefault(name, {})
            for pairs, value in family.samples.items():
                assert isinstance(value, Histogram) == (family.kind == "histogram")
                for label, text in pairs:
                    of.setdefault(label, set()).add(text)
            if name.endswith("_bucket"):
                of["le"] = set()
    found["quartzpy_connections"] |= {"state": {"in_use", "most"}, "scheduler": {"shop"}}
    found["quartzpy_connections_opened_total"] |= {"scheduler": {"shop"}}
    return found


def queries() -> Iterator[tuple[str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield f"panel {panel['title']}", target["expr"]
    for rule in RULES:
        yield rule["alert"], rule["expr"]


def parsed(query: str) -> Any:
    return promql.parse(query.replace("$__rate_interval", "5m").replace("$scheduler", ".*"))


def parts(node: Any) -> Iterator[Any]:
    yield node
    for name in ("expr", "lhs", "rhs", "vector_selector", "vs"):
        if (child := getattr(node, name, None)) is not None:
            yield from parts(child)
    for child in getattr(node, "args", None) or ():
        yield from parts(child)


def selectors(node: Any) -> list[Any]:
    return [part for part in parts(node) if isinstance(part, promql.VectorSelector)]


@pytest.mark.parametrize(("where", "query"), list(queries()), ids=lambda value: value if "(" not in value else "")
def test_a_query_asks_for_what_exists(where: str, query: str, labels: dict[str, dict[str, set[str]]]) -> None:
    tree = parsed(query)
    used = selectors(tree)
    assert {one.name for one in used} == set(re.findall(r"quartzpy_\w+", query)), "the walk finds all metrics"
    for one in used:
        assert one.name in labels, f"{where}: there is no metric {one.name}"
        for matcher in one.matchers.matchers:
            values = labels[one.name].get(matcher.name)
            assert values is not None, f"{where}: {one.name} has no label {matcher.name}"
            if matcher.name not in ("scheduler", "outcome", "step"):
                assert set(matcher.value.split("|")) <= values, f"{where}: {matcher.name}={matcher.value}"
    for part in parts(tree):
        if isinstance(part, promql.AggregateExpr) and part.modifier is not None:
            below = set[str]().union(*({*labels[one.name]} for one in selectors(part)), OF_THE_TARGET)
            assert set(part.modifier.labels) <= below, f"{where}: {part.modifier.labels}"


def test_legends_use_labels_that_the_query_keeps() -> None:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
                assert re.search(rf"by \([^)]*\b{label}\b", target["expr"]), (panel["title"], label)


def test_the_dashboard_is_the_rendered_one_and_its_panels_do_not_overlap() -> None:
    assert grafana.PATH.read_text() == grafana.rendered(), "renew it: python -m tools.grafana"
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + dx, at["y"] + dy) for dx in range(at["w"]) for dy in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= grafana.WIDTH
        taken |= cells
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(numbers) == len(set(numbers))


def test_each_alert_leads_to_a_section_of_the_runbook() -> None:
    sections = {
        f"{page}#{re.sub(r'[^a-z0-9 -]', '', title.lower()).replace(' ', '-')}"
        for page in ("runbook.md", "incidents.md")
        for title in re.findall(r"^###? (.+)$", (OPERATE / page).read_text(), re.M)
    }
    for rule in RULES:
        assert rule["annotations"]["runbook"] in sections, rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert f"`{rule['alert']}`" in (OPERATE / "watching.md").read_text(), f"{rule['alert']} is not explained"


def test_the_walk_finds_a_metric_and_a_label_that_do_not_exist() -> None:
    """The check of the checks: without it, a parser that finds nothing would pass everything."""
    tree = parsed('sum by (nowhere) (rate(quartzpy_nothing{x="y"}[5m])) / (1 + abs(quartzpy_b))')
    assert [one.name for one in selectors(tree)] == ["quartzpy_nothing", "quartzpy_b"]
    with pytest.raises(ValueError, match="parenthesis"):
        parsed("sum by (x rate(quartzpy_nothing[5m])")
