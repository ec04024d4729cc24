"""Renders the dashboard for Grafana; `python -m tools.grafana` renews the file in docs/operate/grafana.

A dashboard is mostly positions and options that repeat; here a panel is a title, a unit and its queries.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

PATH = Path(__file__).parents[1] / "docs" / "operate" / "grafana" / "quartzpy.json"
OURS = 'scheduler=~"$scheduler"'
"""Restricts a query to the scheduler that is chosen at the top of the dashboard."""
WIDTH = 24
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True)
class Panel:
    """A panel. `queries` are pairs of PromQL and the legend of its series."""

    title: str
    about: str
    queries: Sequence[tuple[str, str]]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    bad_from: float | None = None
    """The value from which the panel is red."""


def quantile(of: float, metric: str, *by: str) -> str:
    labels = ", ".join(["le", *by])
    return f"histogram_quantile({of}, sum by ({labels}) (rate({metric}_bucket{{{OURS}}}[$__rate_interval])))"


def rate(metric: str, *by: str, where: str = "") -> str:
    return f"sum by ({', '.join(by)}) (rate({metric}{{{OURS}{where}}}[$__rate_interval]))"


def number(title: str, about: str, query: str, *, unit: str = "short", bad_from: float | None = None) -> Panel:
    return Panel(title, about, [(query, "")], unit, "stat", 4, 4, bad_from)


ROWS: Sequence[tuple[str, Sequence[Panel]]] = (
    (
        "Is all well?",
        (
            number(
                "Nodes alive", "Nodes that check in in time.", f'max(quartzpy_cluster_nodes{{{OURS}, state="alive"}})'
            ),
            number(
                "Nodes silent",
                "Dead nodes that no other node has recovered yet.",
                f'max(quartzpy_cluster_nodes{{{OURS}, state="silent"}})',
                bad_from=1,
            ),
            number(
                "Triggers late",
                "Not paused, and due for more than 5 s. The view qrtz_late has them with the reason.",
                f'max(quartzpy_cluster_triggers{{{OURS}, state="late"}})',
                bad_from=1,
            ),
            number(
                "Triggers in ERROR",
                "They do not fire until they are reset. The view qrtz_errors has them.",
                f'max(quartzpy_cluster_triggers{{{OURS}, state="error"}})',
                bad_from=1,
            ),
            number(
                "Failures in an hour",
                "Executions that failed, retries included.",
                f'sum(increase(quartzpy_executions_total{{{OURS}, outcome="FAILED"}}[1h]))',
                bad_from=1,
            ),
            number(
                "Misfires in an hour",
                "Triggers that nobody fired within their misfire threshold.",
                f"sum(increase(quartzpy_misfires_total{{{OURS}}}[1h]))",
                bad_from=1,
            ),
        ),
    ),
    (
        "Jobs",
        (
            Panel(
                "Fires",
                "Triggers fired, by job group.",
                [(rate("quartzpy_fires_total", "job_group"), "{{job_group}}")],
                "ops",
            ),
            Panel(
                "Executions by outcome",
                "Executions that ended.",
                [(rate("quartzpy_executions_total", "outcome"), "{{outcome}}")],
                "ops",
            ),
            Panel(
                "Failures by group",
                "Executions that failed.",
                [(rate("quartzpy_executions_total", "job_group", where=', outcome="FAILED"'), "{{job_group}}")],
                "ops",
            ),
            Panel(
                "Lateness",
                "From the scheduled fire time to the fire.",
                [
                    (quantile(0.5, "quartzpy_fire_lateness_seconds"), "p50"),
                    (quantile(0.99, "quartzpy_fire_lateness_seconds"), "p99"),
                ],
                "s",
            ),
            Panel(
                "Lateness p99 by group",
                "Groups whose workers are busy are later than the others.",
                [(quantile(0.99, "quartzpy_fire_lateness_seconds", "job_group"), "{{job_group}}")],
                "s",
            ),
            Panel(
                "Duration p95 by group",
                "From the start of an execution to its end.",
                [(quantile(0.95, "quartzpy_execution_duration_seconds", "job_group"), "{{job_group}}")],
                "s",
            ),
        ),
    ),
    (
        "Capacity",
        (
            Panel(
                "Busy workers",
                "The share of the workers that run an execution.",
                [
                    (
                        f"sum by (executor) (quartzpy_workers_busy{{{OURS}}})"
                        f" / sum by (executor) (quartzpy_workers{{{OURS}}})",
                        "{{executor}}",
                    )
                ],
                "percentunit",
            ),
            Panel(
                "Due and late triggers",
                "Due triggers wait for a worker or for a node that knows their job.",
                [(f"max by (state) (quartzpy_cluster_triggers{{{OURS}}})", "{{state}}")],
            ),
            Panel(
                "Claimed and running",
                "In the whole cluster.",
                [(f"max by (state) (quartzpy_cluster_executions{{{OURS}}})", "{{state}}")],
            ),
            Panel(
                "Age of the oldest due trigger",
                "0 if all are fired in time.",
                [(f"max(quartzpy_cluster_longest_due_seconds{{{OURS}}})", "age")],
                "s",
            ),
            Panel(
                "Waiting for a worker",
                "Fires that a node made a little ahead.",
                [(f"sum by (executor) (quartzpy_executions_waiting{{{OURS}}})", "{{executor}}")],
            ),
            Panel(
                "Skipped fires",
                "The job was at its concurrency limit, and its overlap policy skips fires.",
                [(rate("quartzpy_skipped_fires_total", "scheduler"), "{{scheduler}}")],
                "ops",
            ),
        ),
    ),
    (
        "Database",
        (
            Panel(
                "Duration of steps, p99",
                "A step is one round trip.",
                [(quantile(0.99, "quartzpy_step_duration_seconds", "step"), "{{step}}")],
                "s",
            ),
            Panel(
                "Steps",
                "Round trips.",
                [(rate("quartzpy_step_duration_seconds_count", "step"), "{{step}}")],
                "ops",
            ),
            Panel(
                "Errors of steps",
                "By the class of the error.",
                [(rate("quartzpy_step_errors_total", "step", "error"), "{{step}}: {{error}}")],
                "ops",
            ),
            Panel(
                "Connections in use",
                "For steps and calls, and the most there may be.",
                [(f"max by (instance, state) (quartzpy_connections{{{OURS}}})", "{{instance}} {{state}}")],
            ),
            Panel(
                "Connections opened",
                "It rises with reconnections.",
                [(rate("quartzpy_connections_opened_total", "instance"), "{{instance}}")],
                "ops",
            ),
            Panel(
                "Triggers in a batch",
                "The mean size of what was claimed or fired at once.",
                [
                    (
                        f"{rate('quartzpy_claim_batch_size_sum', 'scheduler')}"
                        f" / {rate('quartzpy_claim_batch_size_count', 'scheduler')}",
                        "{{scheduler}}",
                    )
                ],
            ),
        ),
    ),
    (
        "Nodes",
        (
            Panel(
                "Age of the check-in",
                "Other nodes take over after the failure window, 20 s by default.",
                [(f"max by (instance) (quartzpy_checkin_age_seconds{{{OURS}}})", "{{instance}}")],
                "s",
            ),
            Panel(
                "State",
                "Nodes by state.",
                [(f"sum by (state) (quartzpy_node_state{{{OURS}}})", "{{state}}")],
            ),
            Panel(
                "Recoveries",
                "Dead nodes, and their executions that run again or are lost.",
                [
                    (f"sum(increase(quartzpy_recovered_nodes_total{{{OURS}}}[$__rate_interval]))", "nodes"),
                    (f"sum(increase(quartzpy_recovered_executions_total{{{OURS}}}[$__rate_interval]))", "run again"),
                    (f"sum(increase(quartzpy_lost_executions_total{{{OURS}}}[$__rate_interval]))", "lost"),
                ],
            ),
            Panel(
                "Clock ahead of the database",
                "It does not affect scheduling, only times in logs.",
                [(f"max by (instance) (quartzpy_clock_ahead_seconds{{{OURS}}})", "{{instance}}")],
                "s",
            ),
            Panel(
                "Threads",
                "Threads that hang, and restarts of threads.",
                [
                    (f"sum(quartzpy_threads_overdue{{{OURS}}})", "overdue"),
                    (f"sum(increase(quartzpy_thread_restarts_total{{{OURS}}}[$__rate_interval]))", "restarts"),
                ],
            ),
            Panel(
                "Not yet recorded",
                "Executions that have ended. A node with 2,000 of them fires nothing more.",
                [(f"max by (instance) (quartzpy_unrecorded_executions{{{OURS}}})", "{{instance}}")],
            ),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    return {
        "title": "quartzpy",
        "uid": "quartzpy",
        "tags": ["quartzpy", "scheduler"],
        "editable": True,
        "graphTooltip": 1,
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": list(_panels()),
    }


def _variables() -> list[dict[str, Any]]:
    return [
        {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"},
        {
            "name": "scheduler",
            "type": "query",
            "label": "Scheduler",
            "datasource": SOURCE,
            "query": {"query": "label_values(quartzpy_node_info, scheduler)", "refId": "scheduler"},
            "refresh": 2,
            "includeAll": True,
            "multi": True,
            "current": {"text": "All", "value": "$__all"},
        },
    ]


def _panels() -> Iterator[dict[str, Any]]:
    numbers = count(1)
    top = 0
    for title, panels in ROWS:
        yield {
            "id": next(numbers),
            "type": "row",
            "title": title,
            "gridPos": {"h": 1, "w": WIDTH, "x": 0, "y": top},
            "panels": [],
        }
        top += 1
        column = 0
        for panel in panels:
            if column + panel.width > WIDTH:
                column, top = 0, top + panel.height
            yield _panel(panel, next(numbers), column, top)
            column += panel.width
        top += panels[-1].height


def _panel(panel: Panel, number: int, column: int, top: int) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.bad_from is not None:
        steps.append({"color": "red", "value": panel.bad_from})
    options: dict[str, Any] = (
        {"colorMode": "background", "graphMode": "area", "reduceOptions": {"calcs": ["lastNotNull"]}}
        if panel.kind == "stat"
        else {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}
    )
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": {"h": panel.height, "w": panel.width, "x": column, "y": top},
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "options": options,
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": SOURCE, "expr": query, "legendFormat": legend}
            for index, (query, legend) in enumerate(panel.queries)
        ],
    }


def rendered() -> str:
    return json.dumps(dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    PATH.parent.mkdir(parents=True, exist_ok=True)
    PATH.write_text(rendered())
