"""A node checks in, and does not do all of its work: it reports problems, which `curl HOST:9464/readyz` lists as well.

- *The database has not answered*: the network of this machine.
- *The tables are of a newer revision and do not say that this release can use them, or are missing*: somebody has
  upgraded or dropped them. Start nodes of the release that they belong to, or restore them.
- *This node has no lease*: the cluster declared it dead, and it rejoins by itself. If it says that its id is in use,
  two processes have the same `instance_id`.
- *A thread is overdue*: the log has its stack. A machine that stalls (swapping, CPU limits) is the usual cause;
  otherwise restart this node, and report the stack.
- *A thread does none of its work: its last passes failed*: the text ends with the error. If all nodes say so, the cause
  is in the database, and a restart does not help: `quartzpy doctor` lists rows that contradict each other, privileges
  and locks. If one node says so, compare its release and settings with the others.
- *A thread has ended*: it is restarted within a second; if that fails, the process ends with status 75.

`systemctl restart quartzpy@1` is always safe: the node drains first.
"""

from __future__ import annotations

from collections.abc import Sequence

from quartzpy.operations.incidents.cluster_facts import ClusterFacts
from quartzpy.operations.incidents.incident import About, Incident, IncidentKind
from quartzpy.operations.views.cluster import NodeView
from quartzpy.store.health_findings import Severity
from quartzpy.store.node_problems import ENGINE_UNAVAILABLE, NodeProblem
from quartzpy.texts import numbered


def judge(facts: ClusterFacts) -> list[Incident]:
    problems = {
        node.node: [problem for problem in node.problems if problem.kind != ENGINE_UNAVAILABLE]
        for node in facts.cluster.nodes
        if node.state.is_alive
    }
    return [_unhealthy(node, problems[node.node]) for node in facts.cluster.nodes if problems.get(node.node)]


def _unhealthy(node: NodeView, problems: Sequence[NodeProblem]) -> Incident:
    return Incident(
        Severity.ERROR,
        "unhealthy-node",
        node.node,
        f"Node {node.node} checks in, and does not do all of its work: it reports"
        f" {numbered(len(problems), 'problem', 'problems')}.",
        (
            *(f"{problem.what[:1].upper()}{problem.what[1:]}." for problem in problems),
            f"It runs on host {node.host} as process {node.pid}; its log and its `health()` say more.",
        ),
        min((problem.since for problem in problems if problem.since), default=None),
        cause=", ".join(sorted({problem.kind for problem in problems})),
    )


KIND = IncidentKind(("unhealthy-node",), About.NODES, __doc__, judge, names_node=True)
