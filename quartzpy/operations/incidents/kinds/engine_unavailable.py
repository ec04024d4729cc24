"""A node cannot reach the engine of an executor, or the engine has no workers, and triggers for it are due.

It claims none of them until it reaches the engine, which it tries at least every 30 s; everything else is on time.
Do what the reason asks for: start the engine, or its workers. See [where heavy work runs](../engines/index.md).
"""

from __future__ import annotations

from collections import Counter, defaultdict

from quartzpy.operations.incidents.cluster_facts import ClusterFacts
from quartzpy.operations.incidents.incident import About, Incident, IncidentKind
from quartzpy.operations.incidents.words import MAX_NAMED
from quartzpy.placement import Placement
from quartzpy.store.health_findings import Severity
from quartzpy.store.node_problems import ENGINE_UNAVAILABLE, NodeProblem
from quartzpy.texts import numbered


def judge(facts: ClusterFacts) -> list[Incident]:
    pools = {job: placement.pool for job, placement in facts.placements.items()}
    due = Counter(pools.get(record.job_key, Placement().pool) for record in facts.due)
    problems: defaultdict[str, list[tuple[str, NodeProblem]]] = defaultdict(list)
    for node in facts.alive():
        for problem in node.problems:
            if problem.kind == ENGINE_UNAVAILABLE and due[problem.subject]:
                problems[problem.subject].append((node.instance_id, problem))
    able = Counter(pool for node in facts.alive() for pool, number in node.capabilities.workers.items() if number)
    incidents = []
    for executor, of_nodes in sorted(problems.items()):
        number = due[executor]
        triggers = numbered(number, "trigger is", "triggers are")
        others = able[executor]
        if not others:
            facts.explained.update(job for job in facts.late_jobs.numbers if pools.get(job) == executor)
        incidents.append(
            Incident(
                Severity.WARNING if others else Severity.ERROR,
                "engine-unavailable",
                executor,
                f"The engine of executor {executor!r} takes no jobs from"
                f" {numbered(len(of_nodes), 'node', 'nodes')}, and {triggers} due.",
                (
                    *(f"Node {node}, {problem.text}." for node, problem in of_nodes[:MAX_NAMED]),
                    *([f"{numbered(others, 'other node reaches', 'other nodes reach')} it."] if others else []),
                ),
                min((problem.since for _, problem in of_nodes if problem.since), default=None),
            )
        )
    return incidents


KIND = IncidentKind(("engine-unavailable",), About.LATE, __doc__, judge)
