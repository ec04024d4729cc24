"""Triggers are due whose job type no running node knows.

A deployment removed or renamed the job, or not all nodes import it: see
[rolling releases](../how-to/rolling-releases.md). Start a node that imports it, or store the job under its new type.
"""

from __future__ import annotations

from collections import defaultdict

from quartzpy.jobs.job import how_to_know, run_by_no_node
from quartzpy.keys import JobKey
from quartzpy.operations.incidents.cluster_facts import ClusterFacts
from quartzpy.operations.incidents.incident import About, Incident, IncidentKind
from quartzpy.operations.incidents.words import triggers_of, waiting
from quartzpy.store.health_findings import Severity


def judge(facts: ClusterFacts) -> list[Incident]:
    late = facts.late_jobs
    alive = [node for node in facts.cluster.nodes if node.state.is_alive]
    registered = {name for node in alive for name in node.job_types}
    of_type: defaultdict[str, set[JobKey]] = defaultdict(set)
    for job in late.numbers:
        if alive and late.types[job] not in registered:
            of_type[late.types[job]].add(job)
            facts.explained.add(job)
    return [
        Incident(
            Severity.ERROR,
            "unknown-type",
            job_type,
            f"{run_by_no_node(job_type)}, and {triggers_of(late.number(jobs), jobs, 'is', 'are')} due.",
            (f"{how_to_know(job_type)}.", waiting(late.keys(jobs), late.number(jobs))),
            late.without(late.numbers.keys() - jobs).since,
            trigger=next(iter(late.keys(jobs)), None),
        )
        for job_type, jobs in sorted(of_type.items())
    ]


KIND = IncidentKind(("unknown-type",), About.LATE, __doc__, judge)
