"""No node is alive, so nothing fires.

1. The processes have ended: `systemctl status 'quartzpy@*'`, `kubectl get pods`. Read their last log lines. Exit status
   75 is a thread that could not be kept alive; other statuses are [listed](../command-line.md#programs).
2. They run and are unhealthy: `curl localhost:9464/readyz` says why. Mostly it is
   [the database](runbook.md#the-database-is-unavailable).
3. They refuse to start: the log names the cause, most often tables of another release (`quartzpy db upgrade`) or a
   missing privilege (`quartzpy db roles --apply`).
4. They belong to another scheduler in the same tables, which the incident names: start them with the right `--name`.

Nothing is lost meanwhile: when a node runs again, each trigger's misfire instruction decides about the missed fires.
"""

from __future__ import annotations

from quartzpy.operations.incidents.cluster_facts import ClusterFacts
from quartzpy.operations.incidents.incident import About, Incident, IncidentKind
from quartzpy.operations.incidents.words import MAX_NAMED, named_first
from quartzpy.store.health_findings import Severity
from quartzpy.store.postgresql.admin.records import OtherScheduler
from quartzpy.texts import numbered


def judge(facts: ClusterFacts) -> list[Incident]:
    cluster = facts.cluster
    if cluster.alive:
        return []
    what = "No node is alive, so nothing fires." if cluster.nodes else "No node is running, so nothing fires."
    # Nodes of a scheduler without jobs may have been meant for this one.
    running = [other for other in facts.others() if other.nodes]
    astray = [other for other in running if not other.has_jobs] or running
    why = [_astray(facts.context.config.name, other) for other in astray[:MAX_NAMED]]
    start = "Start one with `quartzpy node --app MODULE:SCHEDULER`."
    return [Incident(Severity.ERROR, "no-node", "cluster", what, (*why, start))]


def _astray(scheduler: str, other: OtherScheduler) -> str:
    return (
        f"No node of the scheduler {scheduler!r} is running, but"
        f" {numbered(len(other.nodes), 'node', 'nodes')} of {other.name!r}"
        f" {'is' if len(other.nodes) == 1 else 'are'} ({named_first(other.nodes)}). Is the name wrong?"
    )


KIND = IncidentKind(("no-node",), About.CLUSTER, __doc__, judge)
