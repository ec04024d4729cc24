"""No node judged what was wrong for a while: none was running, or none could reach the database.

It is recorded afterwards, with its duration. Incidents that began and ended meanwhile are not recorded.
"""

from __future__ import annotations

from datetime import datetime

from quartzpy.operations.incidents.incident import About, Incident, IncidentKind
from quartzpy.store.health_findings import Severity
from quartzpy.texts import instant_text

KIND = IncidentKind(("not-judged",), About.REST, __doc__)


def not_judged(since: datetime, until: datetime) -> Incident:
    what = (
        f"No node judged what was wrong from {instant_text(since)} until {instant_text(until)}: none was running, or"
        " none could reach the database."
    )
    return Incident(Severity.ERROR, "not-judged", "cluster", what)
