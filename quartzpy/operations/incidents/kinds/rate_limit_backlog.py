"""Triggers have waited for the rate limit of their job for a minute, and for two of its periods.

A rate limit makes fires wait, as it should. If more become due than it allows, they wait ever longer: raise the limit,
or let the job fire less often.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey
from quartzpy.operations.incidents.cluster_facts import ClusterFacts
from quartzpy.operations.incidents.incident import About, Incident, IncidentKind, Remedy, Rounds
from quartzpy.operations.incidents.words import short_span
from quartzpy.operations.read_context import attempt
from quartzpy.store.health_findings import Severity
from quartzpy.texts import instant_text, numbered

BACKLOG_AGE = timedelta(minutes=1)
BACKLOG_PERIODS = 2
"""What waits for more than so many periods of its limit grows, or drains slowly."""


def judge(facts: ClusterFacts) -> Rounds:
    yield
    held = {row.job_key: row for row in facts.overdue if row.is_held}
    jobs: Callable[[], dict[JobKey, JobDetail]] = dict
    if held:
        jobs = facts.reading.defer(lambda store: store.jobs(set(held)))
    yield
    limits = {key: job.rate_limit for key, job in (attempt(jobs)[0] or {}).items()}
    incidents = []
    for key, row in held.items():
        if facts.now - row.due_at > BACKLOG_AGE:
            # One that has fired and was due again long ago waits for the same limit, once a step has met it.
            facts.explained.add(key)
        limit = limits.get(key)
        if limit is None or facts.now - row.due_at <= max(BACKLOG_AGE, BACKLOG_PERIODS * limit.per):
            continue
        drained = row.number * limit.per / limit.limit
        incidents.append(
            Incident(
                Severity.WARNING,
                "rate-limit-backlog",
                str(key),
                f"{numbered(row.number, 'trigger', 'triggers')} of job {key}"
                f" {'waits' if row.number == 1 else 'wait'} for its rate limit ({limit}),"
                f" the first since {instant_text(row.due_at)}.",
                (
                    f"By this limit they take {short_span(drained)}, and those that become due meanwhile come after"
                    " them: if more become due than it allows, they wait ever longer.",
                ),
                row.due_at,
                (Remedy("pause", {"selection": key}, f"pause job {key}"),),
                job=key,
            )
        )
    return incidents


KIND = IncidentKind(("rate-limit-backlog",), About.LATE, __doc__, judge)
