"""A job is at its concurrency limit for unusually long, and its triggers have been due for 10 seconds.

A run takes longer than one and a half times the usual run, or the triggers wait for longer than that. An earlier
execution still runs: the remedy cancels it. If it ignores the request, see [ignored-timeout](#ignored-timeout).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from quartzpy.keys import JobKey
from quartzpy.operations.incidents.cluster_facts import MAX_DUE, ClusterFacts
from quartzpy.operations.incidents.incident import About, Incident, IncidentKind, Rounds, cancels
from quartzpy.operations.incidents.words import MAX_NAMED, longest, runs, waiting
from quartzpy.operations.views.executions import GRACE, RunningView
from quartzpy.operations.views.triggers import OVERDUE
from quartzpy.states import TriggerState
from quartzpy.store.health_findings import Severity
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import BlockedTrigger, Health
from quartzpy.texts import numbered

AMONG = 5_000
"""The number of executions of all jobs by which it is found how long the jobs usually run."""
USUAL_RUNS = 1.5
"""A run of a job that takes longer than so many times the usual one is not what its schedule was made for."""


def judge(facts: ClusterFacts) -> Rounds:
    yield
    blocked: Callable[[], list[BlockedTrigger]] = list
    if facts.tallies.triggers.get(TriggerState.BLOCKED, 0):
        before = facts.now - OVERDUE
        blocked = facts.reading.defer(lambda store: admin(store).blocked_triggers(before, MAX_DUE))
    yield
    health: Callable[[], Mapping[JobKey, Health]] = dict
    if jobs := {record.job_key for record in blocked()}:
        health = facts.reading.defer(lambda store: admin(store).job_health(jobs, among=AMONG))
    yield
    return blocked_jobs(blocked(), facts.running, health(), facts.now)


def blocked_jobs(
    blocked: Sequence[BlockedTrigger], running: Sequence[RunningView], health: Mapping[JobKey, Health], now: datetime
) -> list[Incident]:
    """Return the jobs whose triggers are due, and that may not run because they are at their limit for unusually long.

    A trigger that waits for a run of the usual length waits as its schedule was meant, and so do several that wait for
    each other.
    """
    by_job: defaultdict[JobKey, list[BlockedTrigger]] = defaultdict(list)
    for record in blocked:
        by_job[record.job_key].append(record)
    incidents = []
    for job, records in by_job.items():
        rows = longest(row for row in running if row.job == job)[:MAX_NAMED]
        since, number = min(record.due_at for record in records), len(records)
        usual = _usual(health.get(job))
        if usual is not None and not (
            any((row.elapsed or timedelta()) > usual for row in rows) or now - since > number * usual
        ):
            continue
        is_cut = len(blocked) >= MAX_DUE
        wait = f"{number} or more triggers wait" if is_cut else numbered(number, "trigger waits", "triggers wait")
        incidents.append(
            Incident(
                Severity.WARNING,
                "blocked-job",
                str(job),
                f"Job {job} is at its concurrency limit, and {wait} for it.",
                (*map(runs, rows), waiting([record.trigger_key for record in records])),
                since,
                cancels(rows),
                records[0].trigger_key,
                job,
            )
        )
    return incidents


def _usual(health: Health | None) -> timedelta | None:
    """Return how long a run of a job may usually take; None if that is not known."""
    return None if health is None or health.typical is None else max(GRACE, USUAL_RUNS * health.typical)


KIND = IncidentKind(("blocked-job",), About.LATE, __doc__, judge)
