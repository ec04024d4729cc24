"""All workers of an executor are busy, and triggers of its jobs are due.

The remedies pause and cancel the job that holds most of the workers, or cancel the longest executions.

```bash
quartzpy running    # what runs, where, for how long, and how far it is
quartzpy limits     # the workers of each node, and how many are free
```

- Few jobs that run for hours: give them a separate executor, so that short jobs do not wait behind them.
- Many short jobs: more `workers`, or more nodes. Jobs of pure Python share one processor: use more processes rather
  than more threads. [Performance and sizes](../performance.md) has numbers.
- Jobs that wait for a slow service: give them a `timeout`, and a `rate_limit` or `max_concurrent`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from quartzpy.keys import JobKey, Naming
from quartzpy.operations.incidents.cluster_facts import ClusterFacts
from quartzpy.operations.incidents.incident import About, Incident, IncidentKind, Remedy, cancels
from quartzpy.operations.incidents.words import MAX_NAMED, longest, runs
from quartzpy.operations.views.executions import RunningView
from quartzpy.operations.views.limits import PoolUsage, pools
from quartzpy.placement import Placement
from quartzpy.store.health_findings import Severity
from quartzpy.texts import numbered


def judge(facts: ClusterFacts) -> list[Incident]:
    due = Counter(record.job_key for record in facts.due)
    if not due or not facts.running:
        return []
    of_running, of_due = facts.placements_of_running, facts.placements
    used = pools(facts.alive(), facts.running_records, of_running)
    incidents = full_pools(used, facts.running, of_running, due, of_due)
    executors = {incident.subject for incident in incidents}
    facts.explained.update(job for job in facts.late_jobs.numbers if of_due.get(job, Placement()).pool in executors)
    return incidents


def full_pools(
    pools: Sequence[PoolUsage],
    running: Sequence[RunningView],
    placements: Mapping[JobKey, Placement],
    due: Mapping[JobKey, int],
    of_due: Mapping[JobKey, Placement],
) -> list[Incident]:
    """Return the executors of which every worker of the cluster is busy while triggers of their jobs are due."""
    by_executor: defaultdict[str, list[PoolUsage]] = defaultdict(list)
    for pool in pools:
        by_executor[pool.executor].append(pool)
    incidents = []
    for executor, of_nodes in sorted(by_executor.items()):
        number = sum(number for job, number in due.items() if of_due.get(job, Placement()).pool == executor)
        workers = sum(pool.workers for pool in of_nodes)
        if not number or not workers or any(pool.headroom for pool in of_nodes):
            continue
        rows = [row for row in running if placements.get(row.job, Placement()).pool == executor]
        first = longest(rows)[:MAX_NAMED]
        holder, held = _largest_holder(rows)
        if 2 * held < workers or held < 2:
            holder = None
        incidents.append(
            Incident(
                Severity.ERROR,
                "full-pool",
                executor,
                f"{'The only worker' if workers == 1 else f'All {workers} workers'} of executor {executor!r}"
                f" {'is' if workers == 1 else 'are'} busy, and {numbered(number, 'trigger is', 'triggers are')} due.",
                (
                    *([Naming(f"{held} of {workers} workers run job {holder}.", holder)] if holder else []),
                    *map(runs, first),
                    *(
                        f"Node {pool.node} has {numbered(pool.workers, 'worker', 'workers')}."
                        for pool in of_nodes[:MAX_NAMED]
                    ),
                ),
                min((row.fire_time for row in first if row.fire_time), default=None),
                _frees(holder, rows) if holder is not None else cancels(first),
                job=holder,
            )
        )
    return incidents


def _largest_holder(rows: Sequence[RunningView]) -> tuple[JobKey | None, int]:
    """Return the job with most of these executions, and their number."""
    return next(iter(Counter(row.job for row in rows).most_common(1)), (None, 0))


def _frees(job: JobKey, rows: Sequence[RunningView]) -> tuple[Remedy, ...]:
    """Return the remedies for a job that holds most workers: one execution less only lets its next one in."""
    running = sum(row.job == job and "cancel" in row.actions for row in rows)
    cancel = [Remedy("cancel", {"selection": job}, f"cancel all {running} executions of {job}")] if running else []
    return (Remedy("pause", {"selection": job}, f"pause job {job}"), *cancel)


KIND = IncidentKind(("full-pool",), About.LATE, __doc__, judge)
