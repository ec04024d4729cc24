"""Incidents: what is wrong now, why, and the actions that mend it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from quartzpy.keys import TriggerKey
from quartzpy.operations.cluster import Cluster, NodeState
from quartzpy.operations.source import last_line
from quartzpy.operations.triggers import TriggerSummary
from quartzpy.store.findings import Severity

MOST_OF_A_KIND = 20
"""The largest number of incidents of one kind that are listed one by one."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """An action that mends an incident: a method of `Operations.actions` and its arguments."""

    action: str
    arguments: Mapping[str, Any]
    label: str


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that is wrong, or soon will be."""

    severity: Severity
    kind: str
    """The kind of incident, for programs; it never changes: "dead-node", "trigger-error", ..."""
    subject: str
    """The affected object: a key, a node or a job type."""
    what: str
    why: tuple[str, ...] = ()
    since: datetime | None = None
    remedies: tuple[Remedy, ...] = ()
    trigger: TriggerKey | None = field(default=None)
    """The trigger, if the incident is about one."""


def by_severity(found: Iterable[Incident]) -> tuple[Incident, ...]:
    """Return incidents with the worst first."""
    return tuple(sorted(found, key=lambda one: list(Severity).index(one.severity)))


def of_nodes(cluster: Cluster) -> list[Incident]:
    found = []
    if not cluster.alive:
        found.append(
            Incident(
                Severity.ERROR,
                "no-node",
                "cluster",
                "No node is running, so nothing fires." if not cluster.nodes else "No node is alive.",
                ("Start one with `quartzpy node --app MODULE:SCHEDULER`.",),
            )
        )
    for node in cluster.nodes:
        if node.state is NodeState.ALIVE:
            continue
        dead = node.state is NodeState.DEAD
        held = f"It holds {node.executing} executions and {node.claimed} claims."
        after = (
            "Another node that has watched it for its whole failure window"
            f" ({node.failure_window.total_seconds():g} s) recovers them."
        )
        found.append(
            Incident(
                Severity.ERROR if dead else Severity.WARNING,
                "dead-node" if dead else "late-node",
                node.node,
                f"Node {node.node} is {node.state}: its last check-in was"
                f" {node.checkin_age.total_seconds():.0f} s ago, and it should check in every"
                f" {node.checkin_interval.total_seconds():g} s.",
                (f"It ran on host {node.host} as process {node.pid}.", held, after),
                node.last_checkin,
            )
        )
    for difference in cluster.differences:
        values = "; ".join(f"{value} on {', '.join(names)}" for value, names in sorted(difference.values.items()))
        found.append(
            Incident(
                Severity.WARNING,
                "nodes-differ",
                difference.subject,
                f"The nodes differ in {difference.subject}.",
                (f"{values}.",),
            )
        )
    return found


def in_error(triggers: Sequence[TriggerSummary]) -> list[Incident]:
    return [
        Incident(
            Severity.ERROR,
            "trigger-error",
            str(trigger.key),
            f"Trigger {trigger.key} is in ERROR and does not fire.",
            (last_line(trigger.error) or "No reason was recorded.",),
            trigger.previous_fire_time,
            (Remedy("reset", {"trigger": trigger.key}, "reset trigger"),),
            trigger.key,
        )
        for trigger in triggers
    ]
