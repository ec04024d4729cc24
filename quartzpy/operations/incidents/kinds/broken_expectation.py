"""A fire did not do [what is expected](../how-to/expectations.md) of it, and no later fire has.

Or a job has waited for [others](../how-to/after-several-jobs.md) for longer than `within` of its `Join`, and no later
occasion has started it (`joins-late`). The incident says what was expected, what happened instead, and if known, why.
`quartzpy why GROUP.NAME` says the same of one trigger.
"""

from __future__ import annotations

from quartzpy.expect import Breach, BreachRecord
from quartzpy.operations.incidents.cluster_facts import ClusterFacts
from quartzpy.operations.incidents.incident import About, Incident, IncidentKind, Rounds
from quartzpy.store.health_findings import Severity
from quartzpy.store.postgresql.admin import admin

MAX_BREACHES = 200
"""The number of broken expectations that are incidents of their own."""


def judge(facts: ClusterFacts) -> Rounds:
    breaches = facts.reading.defer(lambda store: admin(store).lasting_breaches(MAX_BREACHES))
    yield
    return [_of_breach(breach) for breach in breaches()]


def _of_breach(breach: BreachRecord) -> Incident:
    is_join = breach.kind is Breach.JOINS_LATE
    return Incident(
        Severity.WARNING if breach.kind is Breach.RUNS_LONG else Severity.ERROR,
        str(breach.kind),
        str(breach.job_key if is_join else breach.trigger_key),
        breach.what,
        breach.reasons,
        breach.since,
        trigger=None if is_join else breach.trigger_key,
        job=breach.job_key,
        cause=breach.scheduled_fire_time.isoformat(),
    )


KIND = IncidentKind(tuple(map(str, Breach)), About.JOBS, __doc__, judge)
