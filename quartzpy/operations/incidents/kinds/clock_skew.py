"""The clock of a node's machine is more than a second off.

The machine's time synchronization does not work. Scheduling uses the clock of the database only, so fires are right;
times in logs are wrong, and so are times that jobs read from their own clock. If all nodes differ by the same amount,
the clock of the database is the wrong one: then fires are wrong, too.
"""

from __future__ import annotations

from quartzpy.operations.incidents.cluster_facts import ClusterFacts
from quartzpy.operations.incidents.incident import About, Incident, IncidentKind
from quartzpy.operations.views.cluster import Cluster
from quartzpy.store import node_metadata
from quartzpy.store.health_findings import Severity


def judge(facts: ClusterFacts) -> list[Incident]:
    return clock_skew(facts.cluster)


def clock_skew(cluster: Cluster) -> list[Incident]:
    return [
        Incident(
            Severity.WARNING,
            "clock-skew",
            node.node,
            f"The clock of node {node.node} is {node.clock_ahead.total_seconds():+.1f} s off.",
            ("Fire times follow the store's clock and are not affected, but recorded starts and ends are.",),
        )
        for node in cluster.nodes
        if node.clock_ahead is not None and abs(node.clock_ahead.total_seconds()) > node_metadata.REPORTED_CLOCK_SKEW
    ]


KIND = IncidentKind(("clock-skew",), About.NODES, __doc__, judge, names_node=True)
