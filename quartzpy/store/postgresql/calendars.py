"""Stores, replaces and removes calendars, and moves the triggers that use one.

Replacing a calendar voids all values that were computed from it. A transaction that stores triggers holds a shared lock
on its calendars' rows from the read until the commit, so no calendar changes between the computation and its storage.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

import psycopg

from quartzpy.calendars.calendar import Calendar
from quartzpy.calendars.registry import calendar_from_json, storable_json
from quartzpy.keys import TriggerKey
from quartzpy.store import refusals
from quartzpy.store.postgresql import slices, zone_marks
from quartzpy.store.postgresql.connection.listen import news
from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.session import SqlSession, Transaction
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.protocol import StoredCalendar, TriggerMove
from quartzpy.zone_rules import zones_in

_SQL = SqlFile("calendars.sql")
CALENDARS = _SQL("calendars")


def put_calendar(session: SqlSession, name: str, calendar: Calendar, *, replace: bool) -> None:
    """Store a calendar; see `JobStore.put_calendar`."""
    stored = storable_json(calendar)
    text = json.dumps(stored)
    zone_marks.note(session, zones_in(stored))
    if replace:
        _clear_ahead(session, name)

    def work(transaction: Transaction) -> None:
        if not transaction.execute(session.bind(_SQL.put, name=name, calendar=text, replace=replace))[0].rows:
            raise refusals.calendar_exists(name)
        transaction.commit(
            session.bind(_SQL.hold_triggers, name=name),
            session.bind(_SQL.clear_upcoming, name=name),
            news(session),
        )

    session.transaction(work)


def _clear_ahead(session: SqlSession, name: str) -> None:
    """Void what was computed from a calendar in slices, until few triggers are left for the one that replaces it.

    That changes no fire time. What is computed meanwhile, of triggers that fire, is voided by that transaction.
    """
    affected = slices.Affected(("by_calendar",), {"calendar_name": name})
    if not session.decides_at_once or slices.are_few(session, affected):
        return

    def clear_slice(columns: dict[str, list[Any]]) -> BoundStatement:
        return session.bind(_SQL.clear_slice, **columns)

    slices.change(session, affected, clear_slice, done="prepared for another calendar")


def delete_calendar(session: SqlSession, name: str) -> bool:
    """Remove a calendar; see `JobStore.delete_calendar`."""

    def work(transaction: Transaction) -> bool:
        try:
            return bool(transaction.commit(session.bind(_SQL.delete, name=name))[0].rows)
        except psycopg.errors.ForeignKeyViolation as error:
            raise refusals.calendar_in_use(name) from error

    return session.transaction(work)


def calendars(session: SqlSession, names: Collection[str]) -> dict[str, StoredCalendar]:
    """Return the stored ones of these calendars; see `JobStore.calendars`."""
    if not names:
        return {}
    rows = session.read_one(CALENDARS, names=list(names))
    return {name: StoredCalendar(calendar_from_json(json.loads(text)), revision) for name, text, revision in rows}


def held_revisions(session: SqlSession, transaction: Transaction, names: Collection[str]) -> dict[str, int]:
    """Return the current revisions of calendars, and lock them against changes until the transaction ends.

    Raises:
        CalendarNotFoundError: a calendar is not stored.
    """
    if not names:
        return {}
    revisions: dict[str, int] = dict(transaction.execute(session.bind(_SQL.hold, names=sorted(names)))[0].rows)
    for name in sorted(names):
        if name not in revisions:
            raise refusals.calendar_not_stored(name)
    return revisions


def move_triggers(session: SqlSession, moves: Sequence[TriggerMove]) -> set[TriggerKey]:
    """Change the fire times of triggers; see `JobStore.move_triggers`."""
    if not moves:
        return set()
    targets = [move.to for move in moves]

    def work(transaction: Transaction) -> set[TriggerKey]:
        moved = transaction.execute(
            session.bind(
                _SQL.move,
                groups=[to.trigger.group for to in targets],
                names=[to.trigger.name for to in targets],
                generations=[move.record.generation for move in moves],
                expected=[move.record.progress.next_fire_time for move in moves],
                next=[to.progress.next_fire_time for to in targets],
                previous=[to.progress.previous_fire_time for to in targets],
                upcoming=[to.upcoming.instants for to in targets],
                complete=[to.upcoming.is_complete for to in targets],
                times=[to.progress.times_triggered for to in targets],
            )
        )[0].rows
        transaction.commit(news(session))
        return {TriggerKey(name, group) for group, name in moved}

    return session.transaction(work)
