"""An old snapshot keeps dead rows in the tables: they grow, and what reads many rows becomes slower.

End the holder, which the incident names: `pg_terminate_backend(pid)` for a session, `ROLLBACK PREPARED` for a prepared
transaction, `pg_drop_replication_slot` for a slot, or `hot_standby_feedback` of the standby. Until then, VACUUM removes
nothing.
"""

from __future__ import annotations

from quartzpy.operations.incidents.cluster_facts import ClusterFacts
from quartzpy.operations.incidents.incident import About, Incident, IncidentKind, Rounds
from quartzpy.operations.incidents.words import MAX_NAMED
from quartzpy.store.health_findings import Severity
from quartzpy.store.postgresql.admin import admin


def judge(facts: ClusterFacts) -> Rounds:
    holders = facts.reading.defer(lambda store: admin(store).old_snapshots())
    yield
    if not holders():
        return []
    return [
        Incident(
            Severity.WARNING,
            "old-snapshot",
            "database",
            "An old snapshot keeps dead rows in the tables, which grow, and what reads many rows becomes slower.",
            (
                *(f"It is held by {holder}." for holder in holders()[:MAX_NAMED]),
                "End what holds it (pg_terminate_backend(pid), ROLLBACK PREPARED, pg_drop_replication_slot, or"
                " hot_standby_feedback of the standby); VACUUM removes nothing before.",
            ),
        )
    ]


KIND = IncidentKind(("old-snapshot",), About.REST, __doc__, judge)
