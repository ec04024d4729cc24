"""Stores, replaces and removes calendars, and moves the triggers that use one.

Replacing a calendar voids all values that were computed from it. A transaction that stores triggers holds a shared lock
on its calendars' rows from the read until the commit, so no calendar changes between the computation and its storage.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

import psycopg

from quartzpy.calendars.calendar import Calendar
from quartzpy.calendars.kinds import calendar_from_json, storable_json
from quartzpy.keys import TriggerKey
from quartzpy.store import refusals
from quartzpy.store.protocol import StoredCalendar, TriggerMove
from quartzpy.store.sql.db.listen import news
from quartzpy.store.sql.db.session import SqlSession, Transaction
from quartzpy.store.sql.steps.misfire_rule import USUAL_RULE, caught_up

# Returns no row if the calendar exists and may not be replaced.
PUT = """
INSERT INTO $calendars AS c (sched_name, calendar_name, calendar, revision)
VALUES (%(sched)s, %(name)s, %(calendar)s::jsonb, nextval('$fire_ids'))
    ON CONFLICT (sched_name, calendar_name) DO UPDATE
   SET calendar = excluded.calendar, revision = excluded.revision, owner = NULL
 WHERE %(replace)s::bool
RETURNING revision
"""

CLEAR_UPCOMING = """
UPDATE $triggers t
   SET upcoming = '{}', upcoming_is_complete = false, fire_id = NULL,
       trigger_state = CASE t.trigger_state WHEN 'ACQUIRED' THEN 'WAITING' ELSE t.trigger_state END
 WHERE t.sched_name = %(sched)s AND t.calendar_name = %(name)s AND t.trigger_state <> 'COMPLETE'
"""
VOID_CLAIMS = """
DELETE FROM $fired_triggers f
 USING $triggers t
 WHERE t.sched_name = %(sched)s AND t.calendar_name = %(name)s
   AND f.sched_name = t.sched_name AND f.trigger_group = t.trigger_group AND f.trigger_name = t.trigger_name
   AND f.state = 'ACQUIRED' AND f.fire_id IS DISTINCT FROM t.fire_id
"""

DELETE = "DELETE FROM $calendars WHERE sched_name = %(sched)s AND calendar_name = %(name)s RETURNING calendar_name"

CALENDARS = """
SELECT calendar_name, calendar::text, revision FROM $calendars
 WHERE sched_name = %(sched)s AND calendar_name = ANY(%(names)s::text[])
"""
NAMES = "SELECT calendar_name FROM $calendars WHERE sched_name = %(sched)s ORDER BY 1"

# Transactions that store triggers share this lock; one that replaces or removes a calendar waits for them.
HOLD = """
SELECT calendar_name, revision FROM $calendars
 WHERE sched_name = %(sched)s AND calendar_name = ANY(%(names)s::text[])
   FOR SHARE
"""

_RULE = f"CASE WHEN t.misfire_rule IN ('NEW', 'HELD') THEN t.misfire_rule ELSE {USUAL_RULE} END"
MOVE = f"""
WITH affected AS MATERIALIZED (
    SELECT w.*, t.fire_id AS claim
      FROM unnest(%(groups)s::text[], %(names)s::text[], %(generations)s::bigint[], %(seen)s::timestamptz[],
                  %(next)s::timestamptz[], %(previous)s::timestamptz[], %(upcoming)s::text[], %(complete)s::bool[],
                  %(times)s::bigint[], %(releases)s::bool[])
           AS w(trigger_group, trigger_name, generation, seen, next_fire_time, prev_fire_time, upcoming, is_complete,
                times, releases)
      JOIN $triggers t
        ON t.sched_name = %(sched)s AND t.trigger_group = w.trigger_group AND t.trigger_name = w.trigger_name
       AND t.generation = w.generation AND t.next_fire_time = w.seen
       AND t.trigger_state <> 'COMPLETE' AND (w.releases OR t.trigger_state <> 'ACQUIRED')
       FOR UPDATE OF t
),
moved AS (
    UPDATE $triggers t
       SET next_fire_time = h.next_fire_time, prev_fire_time = h.prev_fire_time, upcoming = h.upcoming::timestamptz[],
           upcoming_is_complete = h.is_complete, times_triggered = h.times, fire_id = NULL,
           trigger_state = CASE t.trigger_state WHEN 'ACQUIRED' THEN 'WAITING' ELSE t.trigger_state END,
{caught_up("h.next_fire_time", otherwise=_RULE)}
      FROM affected h
     WHERE t.sched_name = %(sched)s AND t.trigger_group = h.trigger_group AND t.trigger_name = h.trigger_name
       AND h.next_fire_time IS NOT NULL
    RETURNING t.trigger_group, t.trigger_name
),
over AS (
    UPDATE $triggers t
       SET trigger_state = 'COMPLETE', next_fire_time = NULL, prev_fire_time = h.prev_fire_time, upcoming = '{{}}',
           upcoming_is_complete = true, times_triggered = h.times, fire_id = NULL
      FROM affected h
     WHERE t.sched_name = %(sched)s AND t.trigger_group = h.trigger_group AND t.trigger_name = h.trigger_name
       AND h.next_fire_time IS NULL
    RETURNING t.trigger_group, t.trigger_name
),
released AS (
    DELETE FROM $fired_triggers f USING affected h WHERE f.fire_id = h.claim AND f.state = 'ACQUIRED'
)
SELECT * FROM moved UNION ALL SELECT * FROM over
"""


def put(session: SqlSession, name: str, calendar: Calendar, *, replace: bool) -> None:
    """Store a calendar; see `JobStore.put_calendar`."""
    text = json.dumps(storable_json(calendar))

    def work(transaction: Transaction) -> None:
        if not transaction.send(session.send(PUT, name=name, calendar=text, replace=replace))[0].rows:
            raise refusals.calendar_exists(name)
        transaction.commit(session.send(CLEAR_UPCOMING, name=name), session.send(VOID_CLAIMS, name=name), news(session))

    session.transaction(work)


def delete(session: SqlSession, name: str) -> bool:
    """Remove a calendar; see `JobStore.delete_calendar`."""

    def work(transaction: Transaction) -> bool:
        try:
            return bool(transaction.commit(session.send(DELETE, name=name))[0].rows)
        except psycopg.errors.ForeignKeyViolation as error:
            raise refusals.calendar_in_use(name) from error

    return session.transaction(work)


def calendars(session: SqlSession, names: Collection[str]) -> dict[str, StoredCalendar]:
    """Return the stored ones of these calendars; see `JobStore.calendars`."""
    if not names:
        return {}
    found = session.read_one(CALENDARS, names=list(names))
    return {name: StoredCalendar(calendar_from_json(json.loads(text)), revision) for name, text, revision in found}


def held_revisions(session: SqlSession, transaction: Transaction, names: Collection[str]) -> dict[str, int]:
    """Return the current revisions of calendars, and lock them against changes until the transaction ends.

    Raises:
        CalendarNotFoundError: a calendar is not stored.
    """
    if not names:
        return {}
    revisions: dict[str, int] = dict(transaction.send(session.send(HOLD, names=sorted(names)))[0].rows)
    for name in sorted(names):
        if name not in revisions:
            raise refusals.calendar_not_stored(name)
    return revisions


def move(session: SqlSession, moves: Sequence[TriggerMove]) -> set[TriggerKey]:
    """Change the fire times of triggers; see `JobStore.move_triggers`."""
    if not moves:
        return set()
    targets = [one.to for one in moves]

    def work(transaction: Transaction) -> set[TriggerKey]:
        moved = transaction.send(
            session.send(
                MOVE,
                groups=[to.trigger.group for to in targets],
                names=[to.trigger.name for to in targets],
                generations=[one.seen.generation for one in moves],
                seen=[one.seen.progress.next_fire_time for one in moves],
                next=[to.progress.next_fire_time for to in targets],
                previous=[to.progress.previous_fire_time for to in targets],
                upcoming=[to.upcoming.instants for to in targets],
                complete=[to.upcoming.is_complete for to in targets],
                times=[to.progress.times_triggered for to in targets],
                releases=[one.releases_claim for one in moves],
            )
        )[0].rows
        transaction.commit(news(session))
        return {TriggerKey(name, group) for group, name in moved}

    return session.transaction(work)
