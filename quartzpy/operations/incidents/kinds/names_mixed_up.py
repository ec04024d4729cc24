"""The nodes of this scheduler have no jobs, and the jobs of another one in the same tables have no node.

A node runs only the jobs of the scheduler with its own name: `quartzpy node --name NAME`.
"""

from __future__ import annotations

from quartzpy.operations.incidents.cluster_facts import ClusterFacts
from quartzpy.operations.incidents.incident import About, Incident, IncidentKind
from quartzpy.operations.incidents.words import MAX_NAMED
from quartzpy.store.health_findings import Severity
from quartzpy.texts import numbered


def judge(facts: ClusterFacts) -> list[Incident]:
    alive, scheduler = facts.cluster.alive, facts.context.config.name
    lonely = [other.name for other in facts.others() if other.has_jobs and not other.nodes]
    if facts.tallies.jobs or not alive or not lonely:
        return []
    return [
        Incident(
            Severity.WARNING,
            "names-mixed-up",
            scheduler,
            f"{numbered(alive, 'node', 'nodes')} of the scheduler {scheduler!r}"
            f" {'has' if alive == 1 else 'have'} no jobs, and the jobs of"
            f" {' and '.join(map(repr, lonely[:MAX_NAMED]))} have no node. Is the name of the nodes wrong?",
            ("A node takes the jobs of its scheduler: `quartzpy node --name NAME`.",),
        )
    ]


KIND = IncidentKind(("names-mixed-up",), About.CLUSTER, __doc__, judge)
