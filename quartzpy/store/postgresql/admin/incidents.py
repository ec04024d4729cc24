"""The incidents that are recorded: what nodes judge to be wrong, with its times, and who has taken note of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from quartzpy.store.health_findings import Severity
from quartzpy.store.postgresql.admin.records import HealthRun, NewNotification, NotificationMessage
from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.session import SqlSession, Transaction
from quartzpy.store.postgresql.incident_pages import record_of
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.storing import StartTime, Storing
from quartzpy.store.records import IncidentRecord, JudgedIncident, LastingIncident, NotificationRecord, Notified
from quartzpy.triggers.upcoming import prepare

_SQL = SqlFile("admin/incidents.sql")
TAKE_SLOT = _SQL("take_slot")
OPEN_INCIDENTS = _SQL("open_incidents")
INCIDENT = _SQL("incident")
CLOSE = _SQL("close")
NOTIFICATIONS = _SQL("notifications")
NOTE_ATTEMPT = _SQL("note_attempt")


MAX_LASTING = 100
"""The number of incidents that last which each node knows."""


def take_slot(session: SqlSession, every: timedelta, listed_every: timedelta) -> HealthRun:
    """Take the turn to judge what is wrong, unless another node has; see `HealthRun`.

    Args:
        session: the session.
        every: the time between two turns.
        listed_every: the time between two looks for triggers with a new expectation.
    """
    values = {"every": every, "listed_every": listed_every, "most": MAX_LASTING}
    [result] = session.unlocked(session.bind(TAKE_SLOT, **values))
    [(turn, due_at, now, expects, texts)] = result.rows
    lasting = tuple(
        LastingIncident(kind, Severity(severity), what, subject) for kind, severity, what, subject in json.loads(texts)
    )
    if turn is not None:
        return HealthRun(turn, every, max(timedelta(), now - due_at), expects, lasting)
    return HealthRun(None, every if due_at is None else due_at - now, timedelta(), lasting=lasting)


def open_incidents(session: SqlSession, limit: int) -> list[IncidentRecord]:
    """Return the incidents that last."""
    return [record_of(row) for row in session.read_one(OPEN_INCIDENTS, limit=limit)]


def incident(session: SqlSession, incident_id: int) -> IncidentRecord | None:
    """Return one incident, whether it lasts or is over; None if it is not recorded."""
    return next((record_of(row) for row in session.read_one(INCIDENT, incident_id=incident_id)), None)


Compose = Callable[[Mapping[str, int]], tuple[Sequence[NewNotification], Mapping[int, Mapping[str, Notified]]]]
"""Returns the notifications, and by the ids of incidents what channels are notified of about each. It takes the ids of
the incidents that were just recorded, by their identities."""


def record_incidents(
    session: SqlSession,
    turn: datetime,
    *,
    opened: Sequence[JudgedIncident] = (),
    confirmed: Mapping[int, JudgedIncident] | None = None,
    closed: Collection[int] = (),
    gap: tuple[JudgedIncident, datetime, datetime] | None = None,
    notify: Compose | None = None,
) -> datetime | None:
    """Record a judgement in one transaction, unless the turn is another one's by now.

    It is one round trip unless somebody is notified.

    Args:
        session: the session.
        turn: the turn that the caller has taken.
        opened: those that began.
        confirmed: those that last, by their ids.
        closed: the ids of those that are over.
        gap: an incident that is over already, with its beginning and its end.
        notify: composes the notifications that are stored with them, and the triggers that send these; None if there
            are none.

    Returns:
        The instant at which the notifications are due.
    """
    statements = []
    if closed:
        statements.append(session.bind(CLOSE, turn=turn, incident_ids=sorted(closed)))
    if confirmed:
        ids = sorted(confirmed)
        columns = _columns([confirmed[number] for number in ids])
        del columns["kinds"], columns["identities"]
        statements.append(session.bind(_SQL.confirm, turn=turn, incident_ids=ids, **columns))
    begun = []
    if gap is not None:
        over, since, until = gap
        values = {"incident_kind": over.kind, "subject": over.subject, "identity": over.identity, "what": over.what}
        values |= {"severity": over.severity, "why_json": json.dumps(over.why)}
        begun.append(session.bind(_SQL.record_gap, turn=turn, since=since, until=until, **values))
    if opened:
        begun.append(session.bind(_SQL.open, turn=turn, **_columns(opened)))
    if notify is None:
        if statements or begun:
            session.unlocked(*statements, *begun)
        return None
    return session.transaction(partial(_notify, session, turn, statements, begun, notify))


def _notify(
    session: SqlSession,
    turn: datetime,
    statements: Sequence[BoundStatement],
    begun: Sequence[BoundStatement],
    notify: Compose,
    transaction: Transaction,
) -> datetime | None:
    """Record a judgement with its notifications. The next turn waits for the commit, so that nobody is told twice."""
    is_held, *results = transaction.execute(session.bind(_SQL.hold_slot, turn=turn), *statements, *begun)
    if not is_held.rows:
        transaction.commit()
        return None
    ids = {identity: number for result in results[len(statements) :] for number, identity in result.rows}
    notifications, notified = notify(ids)
    storing = Storing(session, transaction, replace=True)
    earliest = None
    if notifications:
        transaction.execute(
            session.bind(
                _SQL.notify,
                notification_ids=[row.notification_id for row in notifications],
                channels=[row.channel for row in notifications],
                notification_events=[row.event for row in notifications],
                documents=[row.document for row in notifications],
            ),
            session.bind(
                _SQL.note_notified,
                incident_ids=sorted(notified),
                notified_list=[
                    json.dumps({name: row.as_json() for name, row in notified[number].items()})
                    for number in sorted(notified)
                ],
            ),
        )
        jobs = {row.job.key: row.job for row in notifications}
        storing.write_jobs([jobs[key] for key in sorted(jobs)], keeps_data=True)
        # They start when the incidents were judged, so that the clock need not be read.
        triggers = [prepare(row.trigger, row.trigger.start_time or turn) for row in notifications]
        triggers.sort(key=lambda prepared: prepared.trigger.key)
        earliest = storing.write_triggers(triggers, StartTime(None, is_estimate=False))
    storing.commit()
    return earliest


def notification(session: SqlSession, notification_id: str) -> NotificationMessage | None:
    """Return what a notification says; None if it is not stored any more."""
    for channel, event, document, is_delivered in session.read_one(_SQL.notification, notification_id=notification_id):
        return NotificationMessage(channel, event, json.loads(document), is_delivered)
    return None


def notifications(session: SqlSession, ids: Collection[str]) -> list[NotificationRecord]:
    """Return the notifications with these ids, as far as they are stored, in any order."""
    return [NotificationRecord(*row) for row in session.read_one(NOTIFICATIONS, notification_ids=sorted(ids))]


def note_attempt(session: SqlSession, notification_id: str, error: str | None, *, is_last: bool) -> None:
    """Note how an attempt to send a notification ended: the error, or None if it was delivered."""
    session.unlocked(session.bind(NOTE_ATTEMPT, notification_id=notification_id, error=error, is_last=is_last))


def _columns(incidents: Sequence[JudgedIncident]) -> dict[str, list[Any]]:
    return {
        "kinds": [row.kind for row in incidents],
        "subjects": [row.subject for row in incidents],
        "identities": [row.identity for row in incidents],
        "severities": [str(row.severity) for row in incidents],
        "causes": [row.cause for row in incidents],
        "whats": [row.what for row in incidents],
        "whys": [json.dumps(row.why) for row in incidents],
        "trigger_groups": [row.trigger_key and row.trigger_key.group for row in incidents],
        "trigger_names": [row.trigger_key and row.trigger_key.name for row in incidents],
        "job_groups": [row.job_key and row.job_key.group for row in incidents],
        "job_names": [row.job_key and row.job_key.name for row in incidents],
        "sinces": [row.since for row in incidents],
    }


def acknowledge(session: SqlSession, incident_id: int, by: str, reason: str, until: datetime | None) -> bool:
    """Note that somebody has taken note of an incident that lasts. Return False if it does not."""
    values = {"incident_id": incident_id, "by": by, "reason": reason, "until": until}
    [result] = session.unlocked(session.bind(_SQL.acknowledge, **values))
    return result.touched > 0


def unacknowledge(session: SqlSession, incident_id: int) -> bool:
    """Withdraw that. Return False if the incident is over, or nobody has taken note of it."""
    [result] = session.unlocked(session.bind(_SQL.unacknowledge, incident_id=incident_id))
    return result.touched > 0
