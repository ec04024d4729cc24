"""The tables belong to another release, so nothing can be read.

`quartzpy db upgrade` upgrades older tables; for newer tables, use the release that they belong to.
"""

from __future__ import annotations

from quartzpy.operations.incidents.incident import About, Incident, IncidentKind
from quartzpy.store.health_findings import Severity

KIND = IncidentKind(("schema",), About.REST, __doc__)


def schema_behind(message: str) -> Incident:
    what = "The tables do not belong to this release, so nothing can be read."
    return Incident(Severity.ERROR, "schema", "database", what, (message,))
