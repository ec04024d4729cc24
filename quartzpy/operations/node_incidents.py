"""What is wrong with the nodes of the cluster, and the actions that mend it."""

from __future__ import annotations

from quartzpy.operations.cluster import Cluster, NodeState, NodeView
from quartzpy.operations.incidents import MOST_REMEDIES, Incident, Remedy, short_span
from quartzpy.states import NodeMode
from quartzpy.store import node_facts
from quartzpy.store.findings import Severity
from quartzpy.texts import numbered


def of_nodes(cluster: Cluster) -> list[Incident]:
    """Return incidents about nodes that do not check in, differ from each other, or have a wrong clock."""
    found = [] if cluster.alive else [_no_node(cluster)]
    found += _none_takes(cluster)
    found += [_silent(node) for node in cluster.nodes if node.state is not NodeState.ALIVE]
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
    found += [
        Incident(
            Severity.WARNING,
            "clock-skew",
            node.node,
            f"The clock of node {node.node} is {node.clock_ahead.total_seconds():+.1f} s off.",
            ("Fire times follow the store's clock and are not affected, but recorded starts and ends are.",),
        )
        for node in cluster.nodes
        if node.clock_ahead is not None and abs(node.clock_ahead.total_seconds()) > node_facts.MOST_SKEW
    ]
    return found


def _no_node(cluster: Cluster) -> Incident:
    what = "No node is alive, so nothing fires." if cluster.nodes else "No node is running, so nothing fires."
    return Incident(
        Severity.ERROR, "no-node", "cluster", what, ("Start one with `quartzpy node --app MODULE:SCHEDULER`.",)
    )


def _none_takes(cluster: Cluster) -> list[Incident]:
    alive = [node for node in cluster.nodes if node.state is not NodeState.DEAD]
    if not alive or any(node.mode is NodeMode.RUNNING for node in alive):
        return []
    return [
        Incident(
            Severity.ERROR,
            "none-takes",
            "cluster",
            "No node takes triggers: operators have put all of them into standby, or drain them.",
            tuple(f"Node {node.node} is {node.mode}." for node in alive[:MOST_REMEDIES]),
            max((node.mode_since for node in alive if node.mode_since), default=None),
            tuple(
                Remedy("resume_node", {"node": node.node}, f"resume node {node.node}") for node in alive[:MOST_REMEDIES]
            ),
        )
    ]


def _silent(node: NodeView) -> Incident:
    dead = node.state is NodeState.DEAD
    return Incident(
        Severity.ERROR if dead else Severity.WARNING,
        "dead-node" if dead else "late-node",
        node.node,
        f"Node {node.node} is {node.state}: it last checked in {short_span(node.checkin_age)} ago.",
        (
            f"It ran on host {node.host} as process {node.pid}, with"
            f" {numbered(node.executing, 'execution', 'executions')} and {numbered(node.claimed, 'claim', 'claims')}.",
            "Another node that has watched it for its whole failure window"
            f" ({short_span(node.failure_window)}) recovers them. To recover them at once, start it again under the"
            " same name.",
            f"It should check in every {short_span(node.checkin_interval)}.",
        ),
        node.last_checkin,
    )
