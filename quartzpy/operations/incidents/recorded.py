"""The incidents that are recorded: what is or was wrong, from when until when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from quartzpy.errors import ObjectNotFoundError
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.read_context import EXAMINED, examined_page, page_of, view_of
from quartzpy.scheduler.batched_reads import BatchedReads, Deferred
from quartzpy.scheduler.querying import Page
from quartzpy.store.health_findings import Severity
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.queries import IncidentQuery
from quartzpy.store.records import Acknowledgement, IncidentRecord, NotificationRecord

MAX_OPEN = 5_000
"""The number of incidents that last which are read."""
MAX_NOTIFICATIONS = 5_000
"""The number of notifications about the incidents of a page that are read."""


@dataclass(frozen=True, slots=True)
class RecordedIncident:
    """An incident as a node has recorded it."""

    incident_id: int
    severity: Severity
    """Its latest severity."""
    kind: str
    subject: str
    what: str
    """The latest sentence about it, at most a minute old while it lasts."""
    began_as: str
    """The first one."""
    why: tuple[str, ...]
    began_at: datetime
    """The instant since when it was so; where that is not known, that at which a node noticed it."""
    closed_at: datetime | None
    """The instant at which a node noticed that it was over; None if it lasts."""
    lasted: timedelta | None
    cause: str
    """What tells one cause of it from another, for example the error; empty if nothing does."""
    trigger: TriggerKey | None
    job: JobKey | None
    acknowledgement: Acknowledgement | None
    """Who has taken note of it; None if nobody has."""
    notifications: tuple[NotificationRecord, ...] = ()
    """The latest notifications about it, the oldest first."""

    def is_acknowledged(self, now: datetime) -> bool:
        """Return True if somebody has taken note of it as it is, and until later than `now`."""
        note = self.acknowledgement
        return note is not None and note.holds(self.severity, self.cause, now)


def recorded_incident(
    record: IncidentRecord, notifications: Mapping[str, NotificationRecord] | None = None
) -> RecordedIncident:
    began_at = min(record.opened_at, record.since or record.opened_at)
    sent = (notifications or {}).get
    return view_of(
        RecordedIncident,
        record,
        began_at=began_at,
        lasted=None if record.closed_at is None else record.closed_at - began_at,
        trigger=record.trigger_key,
        job=record.job_key,
        notifications=tuple(
            sorted(
                (row for number in _ids([record]) if (row := sent(number)) is not None),
                key=lambda row: (row.created_at, row.channel),
            )
        ),
    )


def _ids(records: Sequence[IncidentRecord]) -> set[str]:
    return {number for record in records for notified in record.notified.values() for number in notified.ids}


def notifications_about(reading: BatchedReads, records: Sequence[IncidentRecord]) -> dict[str, NotificationRecord]:
    """Return the notifications about some incidents, by their ids. It asks nothing if there are none."""
    ids = sorted(_ids(records))[:MAX_NOTIFICATIONS]
    if not ids:
        return {}
    rows = reading.defer(lambda store: admin(store).notifications(ids))()
    return {row.notification_id: row for row in rows}


def lasting(reading: BatchedReads) -> tuple[RecordedIncident, ...]:
    """Return the incidents that last, the worst and latest first."""
    records = lasting_records(reading)()
    notifications = notifications_about(reading, records)
    latest = sorted(records, key=lambda record: record.incident_id, reverse=True)
    ranked = sorted(latest, key=lambda record: record.severity.rank)
    return tuple(recorded_incident(record, notifications) for record in ranked)


def page(reading: BatchedReads, query: IncidentQuery, limit: int, after: str | None) -> Page[RecordedIncident]:
    """Return a page of incidents that are over; see `Operations.past_incidents`."""
    query = replace(query, among=EXAMINED)
    records = examined_page(reading, query, limit, after)
    notifications = notifications_about(reading, records)
    return page_of(records, lambda record: recorded_incident(record, notifications))


def lasting_records(reading: BatchedReads) -> Deferred[list[IncidentRecord]]:
    """Ask for the incidents that are recorded and not over."""
    return reading.defer(lambda store: admin(store).open_incidents(MAX_OPEN))


def incident(reading: BatchedReads, incident_id: int) -> RecordedIncident:
    """Return one incident; see `Operations.incident`."""
    record = reading.defer(lambda store: admin(store).incident(incident_id))()
    if record is None:
        raise not_recorded(incident_id)
    return recorded_incident(record, notifications_about(reading, [record]))


def not_recorded(incident_id: int) -> ObjectNotFoundError:
    return ObjectNotFoundError(f"incident {incident_id} is not recorded, or no longer")
