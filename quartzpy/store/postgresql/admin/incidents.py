"""The incidents that are recorded: what nodes judge to be wrong, with its times, and who has taken note of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from quartzpy.store.postgresql.admin.records import JudgementTurn
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.incident_pages import record_of
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.records import IncidentRecord, JudgedIncident

_SQL = SqlFile("admin/incidents.sql")
TAKE_TURN = _SQL("take_turn")
OPEN_INCIDENTS = _SQL("open_incidents")
INCIDENT = _SQL("incident")
OPEN = _SQL("open")
CONFIRM = _SQL("confirm")
CLOSE = _SQL("close")
RECORD_GAP = _SQL("record_gap")
ACKNOWLEDGE = _SQL("acknowledge")
UNACKNOWLEDGE = _SQL("unacknowledge")


def take_turn(session: SqlSession, every: timedelta) -> JudgementTurn:
    """Take the turn to judge what is wrong, unless another node has; see `JudgementTurn`."""
    [result] = session.unlocked(session.bind(TAKE_TURN, every=every))
    [(turn, due_at, now)] = result.rows
    if turn is not None:
        return JudgementTurn(turn, every, max(timedelta(), now - due_at))
    return JudgementTurn(None, every if due_at is None else due_at - now, timedelta())


def open_incidents(session: SqlSession, limit: int) -> list[IncidentRecord]:
    """Return the incidents that last."""
    return [record_of(row) for row in session.read_one(OPEN_INCIDENTS, limit=limit)]


def incident(session: SqlSession, incident_id: int) -> IncidentRecord | None:
    """Return one incident, whether it lasts or is over; None if it is not recorded."""
    return next((record_of(row) for row in session.read_one(INCIDENT, incident_id=incident_id)), None)


def record_incidents(
    session: SqlSession,
    turn: datetime,
    *,
    opened: Sequence[JudgedIncident] = (),
    confirmed: Mapping[int, JudgedIncident] | None = None,
    closed: Collection[int] = (),
    gap: tuple[JudgedIncident, datetime, datetime] | None = None,
) -> None:
    """Record a judgement in one transaction and one round trip, unless the turn is another one's by now.

    Args:
        session: the session.
        turn: the turn that the caller has taken.
        opened: those that began.
        confirmed: those that last, by their ids.
        closed: the ids of those that are over.
        gap: an incident that is over already, with its beginning and its end.
    """
    statements = []
    if gap is not None:
        over, since, until = gap
        values = {"incident_kind": over.kind, "subject": over.subject, "identity": over.identity, "what": over.what}
        values |= {"severity": over.severity, "why_json": json.dumps(over.why)}
        statements.append(session.bind(RECORD_GAP, turn=turn, since=since, until=until, **values))
    if closed:
        statements.append(session.bind(CLOSE, turn=turn, incident_ids=sorted(closed)))
    if confirmed:
        ids = sorted(confirmed)
        columns = _columns([confirmed[number] for number in ids])
        del columns["kinds"], columns["identities"]
        statements.append(session.bind(CONFIRM, turn=turn, incident_ids=ids, **columns))
    if opened:
        statements.append(session.bind(OPEN, turn=turn, **_columns(opened)))
    if statements:
        session.unlocked(*statements)


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
    [result] = session.unlocked(session.bind(ACKNOWLEDGE, **values))
    return result.touched > 0


def unacknowledge(session: SqlSession, incident_id: int) -> bool:
    """Withdraw that. Return False if the incident is over, or nobody has taken note of it."""
    [result] = session.unlocked(session.bind(UNACKNOWLEDGE, incident_id=incident_id))
    return result.touched > 0
