"""The incidents that are over: what was wrong, from when until when."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.source import EXAMINED, examined_page, page_of, view_of
from quartzpy.scheduler.querying import Page
from quartzpy.scheduler.reading import Reading
from quartzpy.store.health_findings import Severity
from quartzpy.store.queries import IncidentQuery
from quartzpy.store.records import IncidentRecord


@dataclass(frozen=True, slots=True)
class PastIncident:
    """An incident that is over."""

    incident_id: int
    severity: Severity
    """Its latest severity."""
    kind: str
    subject: str
    what: str
    """The latest sentence about it."""
    began_as: str
    """The first one."""
    why: tuple[str, ...]
    began_at: datetime
    """The instant since when it was so; where that is not known, that at which a node noticed it."""
    closed_at: datetime
    """The instant at which a node noticed that it was over."""
    lasted: timedelta
    trigger: TriggerKey | None
    job: JobKey | None
    acknowledged_by: str | None
    """Who had taken note of it; None if nobody had."""
    acknowledged_reason: str | None


def past_incident(record: IncidentRecord) -> PastIncident:
    assert record.closed_at is not None, "it is over"
    began_at = min(record.opened_at, record.since or record.opened_at)
    note = record.acknowledgement
    return view_of(
        PastIncident,
        record,
        began_at=began_at,
        lasted=record.closed_at - began_at,
        trigger=record.trigger_key,
        job=record.job_key,
        acknowledged_by=note and note.by,
        acknowledged_reason=note and note.reason,
    )


def page(reading: Reading, query: IncidentQuery, limit: int, after: str | None) -> Page[PastIncident]:
    """Return a page of incidents that are over; see `Operations.past_incidents`."""
    query = replace(query, among=EXAMINED)
    return page_of(examined_page(reading, "incidents", query, limit, after), past_incident)
