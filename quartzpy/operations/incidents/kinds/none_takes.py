"""No node takes triggers: operators have put all of them into standby, or drain them.

`quartzpy audit` says who did this, and why. `quartzpy resume-node NODE` lets a node fire triggers again.
"""

from __future__ import annotations

from quartzpy.operations.incidents.cluster_facts import ClusterFacts
from quartzpy.operations.incidents.incident import About, Incident, IncidentKind, Remedy
from quartzpy.operations.incidents.words import MAX_NAMED
from quartzpy.states import NodeMode
from quartzpy.store.health_findings import Severity


def judge(facts: ClusterFacts) -> list[Incident]:
    alive = [node for node in facts.cluster.nodes if node.state.is_alive]
    if not alive or any(node.mode is NodeMode.RUNNING for node in alive):
        return []
    first = alive[:MAX_NAMED]
    return [
        Incident(
            Severity.ERROR,
            "none-takes",
            "cluster",
            "No node takes triggers: operators have put all of them into standby, or drain them.",
            tuple(f"Node {node.node} is {node.mode}." for node in first),
            max((node.mode_since for node in alive if node.mode_since), default=None),
            tuple(Remedy("resume_node", {"node": node.node}, f"resume node {node.node}") for node in first),
        )
    ]


KIND = IncidentKind(("none-takes",), About.CLUSTER, __doc__, judge)
