"""Executions still run 10 seconds after their timeout, and occupy workers.

`quartzpy cancel 85`, with the id of the execution, asks it to stop, on any node. A job on a thread has to check
`context.cancelled`; an `async def` job is stopped at its next `await`; a process worker is killed. If a thread
ignores the request, restart its node, which `quartzpy running` names; on an engine, restart the worker that it names.
A job without a `timeout` that hangs is no incident: give it a timeout.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from quartzpy.keys import JobKey
from quartzpy.operations.incidents.cluster_facts import ClusterFacts
from quartzpy.operations.incidents.incident import About, Incident, IncidentKind, Rounds
from quartzpy.operations.incidents.words import MAX_NAMED, longest, runs, short_span
from quartzpy.operations.read_context import attempt
from quartzpy.operations.views.executions import GRACE, RunningView
from quartzpy.store.health_findings import Severity
from quartzpy.store.records import JobHeader
from quartzpy.texts import numbered

MAX_SLOW = 200
"""The number of running executions, the longest first, whose timeouts are looked up."""


def judge(facts: ClusterFacts) -> Rounds:
    yield
    slow = longest(row for row in facts.running if row.elapsed is not None and row.elapsed > GRACE)[:MAX_SLOW]
    headers: Callable[[], dict[JobKey, JobHeader]] = dict
    if jobs := {row.job for row in slow}:
        headers = facts.reading.defer(lambda store: store.job_headers(jobs))
    yield
    timeouts = {key: header.timeout for key, header in (attempt(headers)[0] or {}).items() if header.timeout}
    return ignored_timeouts(slow, timeouts)


def ignored_timeouts(running: Sequence[RunningView], timeouts: Mapping[JobKey, timedelta]) -> list[Incident]:
    """Return the jobs of which executions still run long after their timeout."""
    by_job: defaultdict[JobKey, list[RunningView]] = defaultdict(list)
    for row in running:
        if row.job in timeouts and not row.is_unrecorded and (row.elapsed or timedelta()) > timeouts[row.job] + GRACE:
            by_job[row.job].append(row)
    incidents = []
    for job, rows in sorted(by_job.items()):
        timeout, first = timeouts[job], longest(rows)[0]
        ignore, worker = "ignores its", "occupies a worker"
        if len(rows) > 1:
            ignore, worker = "ignore their", f"occupy {len(rows)} workers"
        incidents.append(
            Incident(
                Severity.WARNING,
                "ignored-timeout",
                str(job),
                f"{numbered(len(rows), 'execution', 'executions')} of job {job} {ignore} timeout of"
                f" {short_span(timeout)} and {worker}.",
                (
                    *map(runs, longest(rows)[:MAX_NAMED]),
                    "A thread cannot be stopped from outside: restart the node to free the worker. A job that calls"
                    " context.raise_if_cancelled() stops by itself, and one in a worker process is killed. On an engine"
                    " that cannot kill, restart its worker.",
                ),
                None if first.fire_time is None else first.fire_time + min(timeout, first.elapsed or timedelta()),
                trigger=first.trigger,
            )
        )
    return incidents


KIND = IncidentKind(("ignored-timeout",), About.JOBS, __doc__, judge)
