"""Triggers are due whose job needs an executor, labels or a group that no living node has.

The incident says of each node what it lacks. Start a node that has it, or store the job with another
[placement](../placement.md).
"""

from __future__ import annotations

from quartzpy.operations.incidents.cluster_facts import ClusterFacts
from quartzpy.operations.incidents.incident import About, Incident, IncidentKind
from quartzpy.operations.incidents.words import MAX_NAMED, waiting
from quartzpy.scheduler.explain import obstacles
from quartzpy.store.health_findings import Severity
from quartzpy.texts import numbered


def judge(facts: ClusterFacts) -> list[Incident]:
    incidents, late = [], facts.late_jobs
    for job, number in sorted(late.numbers.items()):
        knowing = [node for node in facts.alive() if late.types[job] in node.capabilities.job_types]
        placement = facts.placements.get(job)
        if placement is None or not knowing or any(node.capabilities.allows(placement) for node in knowing):
            continue
        facts.explained.add(job)
        incidents.append(
            Incident(
                Severity.ERROR,
                "no-node-for-job",
                str(job),
                f"No node can run job {job}, and {numbered(number, 'trigger of it is', 'triggers of it are')} due.",
                (
                    *(f"Node {obstacle}." for obstacle in obstacles(placement, knowing)[:MAX_NAMED]),
                    waiting(late.keys([job]), number),
                ),
                trigger=next(iter(late.keys([job])), None),
            )
        )
    return incidents


KIND = IncidentKind(("no-node-for-job",), About.LATE, __doc__, judge)
