"""Incidents about jobs that no node can run, and about executions that do not stop."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.executions import GRACE, RunningView
from quartzpy.operations.incidents import MOST_OF_A_KIND, MOST_REMEDIES, Incident, runs, short_span
from quartzpy.placement import Placement
from quartzpy.scheduler.explain import obstacles
from quartzpy.store.findings import Severity
from quartzpy.store.records import NodeRecord
from quartzpy.texts import numbered


def without_node(
    due: Mapping[JobKey, Sequence[TriggerKey]],
    types: Mapping[JobKey, str],
    placements: Mapping[JobKey, Placement],
    alive: Sequence[NodeRecord],
) -> list[Incident]:
    """Return the jobs with due triggers that no living node can run, although some know their types."""
    found = []
    for job, keys in sorted(due.items()):
        knowing = [node for node in alive if types[job] in node.capabilities.job_types]
        placement = placements.get(job)
        if placement is None or not knowing or any(node.capabilities.allows(placement) for node in knowing):
            continue
        found.append(
            Incident(
                Severity.ERROR,
                "no-node-for-job",
                str(job),
                f"No node can run job {job}, and {numbered(len(keys), 'trigger of it is', 'triggers of it are')} due.",
                (
                    *(f"Node {one}." for one in obstacles(placement, knowing)[:MOST_REMEDIES]),
                    f"Waiting: {', '.join(map(str, keys[:MOST_REMEDIES]))}{', ...' * (len(keys) > MOST_REMEDIES)}.",
                ),
                trigger=keys[0],
            )
        )
    return found[:MOST_OF_A_KIND]


def ignored_timeouts(running: Sequence[RunningView], timeouts: Mapping[JobKey, timedelta]) -> list[Incident]:
    """Return the jobs of which executions still run long after their timeout."""
    by_job: defaultdict[JobKey, list[RunningView]] = defaultdict(list)
    for row in running:
        if row.job in timeouts and (row.elapsed or timedelta()) > timeouts[row.job] + GRACE:
            by_job[row.job].append(row)
    found = []
    for job, rows in sorted(by_job.items()):
        timeout = timeouts[job]
        rows.sort(key=lambda row: row.elapsed or timedelta(), reverse=True)
        longest = rows[0].elapsed or timedelta()
        ignore, worker = "ignores its", "occupies a worker"
        if len(rows) > 1:
            ignore, worker = "ignore their", f"occupy {len(rows)} workers"
        found.append(
            Incident(
                Severity.WARNING,
                "ignored-timeout",
                str(job),
                f"{numbered(len(rows), 'execution', 'executions')} of job {job} {ignore} timeout of"
                f" {short_span(timeout)} and {worker}.",
                (
                    *map(runs, rows[:MOST_REMEDIES]),
                    "A thread cannot be stopped from outside: restart the node to free the worker. A job that calls"
                    " context.raise_if_cancelled() stops by itself, and one in a worker process is killed.",
                ),
                None if rows[0].fire_time is None else rows[0].fire_time + min(timeout, longest),
                trigger=rows[0].trigger,
            )
        )
    return found[:MOST_OF_A_KIND]
