"""Executions ended with their node within a day, and nothing has run them again.

Their jobs do not request recovery. Run again those that are needed, all at once or by a filter:

```bash
quartzpy executions --state terminated --since 2h
quartzpy run-again --state terminated --since 2h --job billing.import --reason "node app-02 was lost"
```

To recover a job automatically, set `requests_recovery=True`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from quartzpy.keys import Naming
from quartzpy.operations.incidents.cluster_facts import ClusterFacts
from quartzpy.operations.incidents.incident import About, Incident, IncidentKind, Remedy, Rounds
from quartzpy.operations.incidents.words import MAX_NAMED
from quartzpy.store.health_findings import Severity
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import LostExecution
from quartzpy.texts import instant_text, numbered

MAX_LOST = 200
"""The number of lost executions that are looked at."""


def judge(facts: ClusterFacts) -> Rounds:
    lost = facts.reading.defer(lambda store: admin(store).lost_executions(MAX_LOST))
    yield
    return lost_executions(lost())


def lost_executions(lost: Sequence[LostExecution]) -> list[Incident]:
    """Return the incidents. One is over when each of its executions runs again, and after a day."""
    by_node: defaultdict[str, list[LostExecution]] = defaultdict(list)
    for execution in lost:
        by_node[execution.node].append(execution)
    return [_of_node(node, executions, is_cut=len(lost) >= MAX_LOST) for node, executions in by_node.items()]


def _of_node(node: str, executions: Sequence[LostExecution], *, is_cut: bool) -> Incident:
    first, jobs = executions[0], {execution.job_key for execution in executions}
    number = f"{len(executions)} or more executions" if is_cut else numbered(len(executions), "execution", "executions")
    is_one = len(executions) == 1
    can_run = [execution.fire_id for execution in executions if execution.is_stored]
    again = numbered(len(can_run), "lost execution", "lost executions")
    rest = len(executions) - MAX_NAMED
    return Incident(
        Severity.WARNING,
        "executions-lost",
        node,
        f"{number} {'was' if is_one else 'were'} lost with node {node}, and {'does' if is_one else 'do'}"
        " not run again.",
        (
            *(_named(execution) for execution in executions[:MAX_NAMED]),
            *([f"And {rest:,} more."] if rest > 0 else []),
            "The job does not request recovery." if len(jobs) == 1 else "Their jobs do not request recovery.",
        ),
        first.ended_at,
        (Remedy("run_again", {"selection": can_run}, f"run {again} again"),) if can_run else (),
        first.trigger_key if is_one else None,
        first.job_key if len(jobs) == 1 else None,
        lasting=f"{node}\n{instant_text(first.ended_at)}",
    )


def _named(execution: LostExecution) -> str:
    gone = "" if execution.is_stored else "; the job is not stored any more"
    return Naming(
        f"Execution {execution.fire_id} of job {execution.job_key}, of trigger {execution.trigger_key}, due at"
        f" {instant_text(execution.scheduled_fire_time)}{gone}.",
        execution.job_key,
        execution.trigger_key,
    )


KIND = IncidentKind(("executions-lost",), About.JOBS, __doc__, judge)
