"""Triggers are late for none of the other reasons on this page.

The incident lists problems that nodes report about themselves, and transactions that hold rows for long: end these. The
part "late" of the overview has the reason of each trigger, and `quartzpy why GROUP.NAME` explains one. In SQL:

```sql
SELECT reason, job_group, job_name, trigger_name, late_by FROM qrtz_late ORDER BY late_by DESC LIMIT 20;
```

Some reasons in this view are separate incidents: [no node](#no-node) is alive, no live node knows its [job
type](#unknown-type), no worker that can run it [is free](#full-pool) or [exists](#no-node-for-job), its job is at its
[limit of concurrent executions](#blocked-job). A rate limit, or a limit that jobs share, holds fires back as intended;
one that is always reached is too low. `quartzpy limits` says who uses it.
"""

from __future__ import annotations

from quartzpy.operations.incidents.cluster_facts import ClusterFacts
from quartzpy.operations.incidents.incident import About, Incident, IncidentKind, Rounds
from quartzpy.operations.incidents.words import MAX_NAMED, short_span, triggers_of, waiting
from quartzpy.store.health_findings import Severity
from quartzpy.store.node_states import takes_work


def judge(facts: ClusterFacts) -> Rounds:
    for _ in range(4):
        yield
    late = facts.late_jobs.without(facts.explained)
    if not late or not any(map(takes_work, facts.alive())):
        return []
    holders = [str(holder) for holder in facts.holders()]
    reasons = next((row.why for row in facts.late() if row.trigger == late.first), ())
    first = [f"Trigger {late.first}: {sentence}" for sentence in reasons if sentence not in holders]
    alive = [node for node in facts.cluster.nodes if node.state.is_alive]
    # Where all nodes check in, the cause is what they report about themselves, or who holds the rows.
    reported = [f"Node {node.node}: {problem.what}." for node in alive for problem in node.problems][:MAX_NAMED]
    kinds = sorted({problem.kind for node in alive for problem in node.problems})
    since, number = late.since or facts.now, late.number()
    return [
        Incident(
            Severity.WARNING,
            "late-triggers",
            str(next(iter(late.numbers))) if len(late.numbers) == 1 else f"{late.total} triggers",
            f"{triggers_of(number, late.numbers, 'is', 'are')} late by up to {short_span(facts.now - since)}, and no"
            f" node has fired {'it' if number == 1 else 'them'}.",
            (*reported, *holders, *first, *([waiting(late.keys(), number)] if late.keys() else [])),
            since,
            cause=", ".join([*kinds, *(["held-rows"] if holders else [])]),
            trigger=late.first,
            lasting="late triggers",
        )
    ]


KIND = IncidentKind(("late-triggers",), About.LATE, __doc__, judge)
