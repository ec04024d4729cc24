"""A node does not check in: it is late, and dead after its `failure_window` (20 s).

The process was killed (look for the OOM killer: `dmesg | grep -i oom`, `kubectl describe pod`), the machine was lost,
or it stalled. After an outage of the database, a node is late or dead only after it has had the time for a check-in.
Usually there is nothing to do. Other nodes fire the triggers that it has not fired. Executions of jobs that request
recovery run again; the others are [lost](#executions-lost). If no live node can recover it, see [no-node](#no-node).
"""

from __future__ import annotations

from quartzpy.operations.incidents.cluster_facts import ClusterFacts
from quartzpy.operations.incidents.incident import About, Incident, IncidentKind
from quartzpy.operations.incidents.words import short_span
from quartzpy.operations.views.cluster import NodeView
from quartzpy.store.health_findings import Severity
from quartzpy.store.node_states import NodeState
from quartzpy.texts import instant_text, numbered


def judge(facts: ClusterFacts) -> list[Incident]:
    return [_silent(node) for node in facts.cluster.nodes if node.state is not NodeState.ALIVE]


def _silent(node: NodeView) -> Incident:
    dead = not node.state.is_alive
    return Incident(
        Severity.ERROR if dead else Severity.WARNING,
        "dead-node" if dead else "late-node",
        node.node,
        f"Node {node.node} is {node.state}: it last checked in at {instant_text(node.last_checkin)}.",
        (
            f"It ran on host {node.host} as process {node.pid}, with"
            f" {numbered(node.executing + node.claimed, 'execution', 'executions')}.",
            "Another node that has watched it for its whole failure window"
            f" ({short_span(node.failure_window)}) recovers them. To recover them at once, start it again under the"
            " same name.",
            f"It should check in every {short_span(node.checkin_interval)}.",
        ),
        node.last_checkin,
    )


KIND = IncidentKind(("dead-node", "late-node"), About.NODES, __doc__, judge, names_node=True)
