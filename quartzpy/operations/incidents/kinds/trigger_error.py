"""Triggers of a job are in ERROR for the same reason, and never fire again by themselves.

- *The job could not be instantiated, or is not importable*: deploy the code that it needs, then reset.
- *Too many nodes died while running the job*: the job kills its process (memory, a native crash). Give it an executor
  of kind `processes` with a `memory_limit`, then reset.
- *The next fire time cannot be computed*: the schedule or its calendar is wrong: store it again.

`quartzpy triggers --state error` lists them. Then reset one, or all of a group:

```bash
quartzpy reset billing.import --reason "release 1.4 has the class again"
quartzpy reset --group billing --reason "release 1.4 has the class again"
```
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from quartzpy.keys import JobKey
from quartzpy.operations.incidents.cluster_facts import ClusterFacts
from quartzpy.operations.incidents.incident import MORE, About, Incident, IncidentKind, Remedy
from quartzpy.operations.incidents.words import named_first
from quartzpy.states import TriggerState
from quartzpy.store.health_findings import Severity
from quartzpy.store.records import TriggerRecord
from quartzpy.texts import error_summary, headline


def judge(facts: ClusterFacts) -> list[Incident]:
    """Return the jobs with triggers in ERROR, one for each error."""
    records = facts.in_error()
    by_cause: defaultdict[tuple[JobKey, str | None], list[TriggerRecord]] = defaultdict(list)
    for record in records:
        by_cause[record.job_key, headline(record.error)].append(record)
    incidents = [_of_cause(job, error, of_cause) for (job, error), of_cause in by_cause.items()]
    rest = facts.tallies.triggers.get(TriggerState.ERROR, 0) - len(records)
    if rest > 0:
        what = f"And {rest:,} more triggers are in ERROR."
        incidents.append(Incident(Severity.ERROR, "trigger-error", f"{rest} more", what, lasting=MORE))
    return incidents


def _of_cause(job: JobKey, error: str | None, records: Sequence[TriggerRecord]) -> Incident:
    why = error_summary(records[0].error) or "No reason was recorded."
    keys = [record.key for record in records]
    is_one = len(keys) == 1
    return Incident(
        Severity.ERROR,
        "trigger-error",
        str(keys[0] if is_one else job),
        f"Trigger {keys[0]} is in ERROR and does not fire."
        if is_one
        else f"{len(keys):,} triggers of job {job} are in ERROR and do not fire.",
        (why, *([] if is_one else [f"Triggers: {named_first(keys)}."])),
        min((at for record in records if (at := record.previous_fire_time)), default=None),
        (Remedy("reset", {"selection": keys[0]}, "reset trigger"),)
        if is_one
        else (Remedy("reset", {"selection": keys}, f"reset these {len(keys)}"),),
        keys[0] if is_one else None,
        job,
        lasting=f"{job}\n{error or ''}",
    )


KIND = IncidentKind(("trigger-error",), About.JOBS, __doc__, judge)
