"""The nodes have different settings or releases, where they should have the same.

During a [rolling release](../how-to/rolling-releases.md) this is normal; otherwise give all the same settings.
"""

from __future__ import annotations

from quartzpy.operations.incidents.cluster_facts import ClusterFacts
from quartzpy.operations.incidents.incident import About, Incident, IncidentKind
from quartzpy.operations.views.cluster import Cluster
from quartzpy.store.health_findings import Severity


def judge(facts: ClusterFacts) -> list[Incident]:
    return nodes_differ(facts.cluster)


def nodes_differ(cluster: Cluster) -> list[Incident]:
    incidents = []
    for difference in cluster.differences:
        values = "; ".join(f"{value} on {', '.join(names)}" for value, names in sorted(difference.values.items()))
        what = f"The nodes differ in {difference.subject}."
        incidents.append(
            Incident(Severity.WARNING, "nodes-differ", difference.subject, what, (f"{values}.",), cause=values)
        )
    return incidents


KIND = IncidentKind(("nodes-differ",), About.CLUSTER, __doc__, judge)
