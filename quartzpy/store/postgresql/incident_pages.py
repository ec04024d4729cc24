"""Pages of the incidents that are over, and the records of incidents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.store.health_findings import Severity
from quartzpy.store.postgresql.page_filters import switches_of, values_of
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.queries import IncidentQuery, Position, folded
from quartzpy.store.records import Acknowledgement, IncidentRecord, Notified

_SQL = SqlFile("incident_pages.sql")


def text(query: IncidentQuery, after: Position | None, *, last: bool = False, count: bool = False) -> str:
    """Return the statement of a page, or of the last one that it examines; see `quartzpy.store.postgresql.pages`."""
    return _SQL(
        "page",
        count=count,
        last=last,
        examined=query.walk is not None,
        **switches_of(query),
        after=after is not None,
    )


def values(query: IncidentQuery, after: Position | None) -> dict[str, Any]:
    """Return the values of that statement, except the limit."""
    return {
        **values_of(query),
        "contains": None if query.contains is None else folded(query.contains),
        "after_at": after and after[0],
        "after_id": after and after[1],
    }


def record_of(row: Sequence[Any]) -> IncidentRecord:
    """Return the record of a row."""
    number, kind, subject, identity, severity, cause, began_as, what, why, *rest = row
    trigger_group, trigger_name, job_group, job_name, since, opened_at, confirmed_at, closed_at, *noted = rest
    at, by, reason, until, noted_severity, noted_cause, notified = noted
    return IncidentRecord(
        incident_id=number,
        kind=kind,
        subject=subject,
        identity=identity,
        severity=Severity(severity),
        cause=cause,
        began_as=began_as,
        what=what,
        why=tuple(json.loads(why)),
        trigger_key=None if trigger_name is None else TriggerKey(trigger_name, trigger_group),
        job_key=None if job_name is None else JobKey(job_name, job_group),
        since=since,
        opened_at=opened_at,
        confirmed_at=confirmed_at,
        closed_at=closed_at,
        acknowledgement=None
        if at is None
        else Acknowledgement(at, by, reason or "", until, Severity(noted_severity), noted_cause),
        notified={name: Notified.from_json(stored) for name, stored in json.loads(notified or "{}").items()},
    )
