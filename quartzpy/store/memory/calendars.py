"""Stores, replaces and removes calendars, and moves the triggers that use one."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from quartzpy.calendars.calendar import Calendar
from quartzpy.calendars.registry import storable_json
from quartzpy.keys import TriggerKey
from quartzpy.states import Missed, TriggerState
from quartzpy.store import refusals
from quartzpy.store.memory.rows import TriggerRow
from quartzpy.store.memory.tables import Tables
from quartzpy.store.protocol import StoredCalendar, TriggerMove
from quartzpy.triggers.upcoming import UpcomingFireTimes


def put_calendar(tables: Tables, name: str, calendar: Calendar, *, replace: bool) -> None:
    """Store a calendar; see `JobStore.put_calendar`."""
    storable_json(calendar)  # raises for a calendar that no store can keep
    if name in tables.calendars and not replace:
        raise refusals.calendar_exists(name)
    tables.calendars[name] = StoredCalendar(calendar, tables.next_number())
    tables.calendar_owners.pop(name, None)
    for row in naming(tables, name):
        if row.state is TriggerState.COMPLETE:
            continue
        row.upcoming = UpcomingFireTimes()


def naming(tables: Tables, name: str) -> list[TriggerRow]:
    """Return the triggers that use a calendar."""
    return [row for row in tables.triggers.values() if row.bare.calendar == name]


def delete_calendar(tables: Tables, name: str) -> bool:
    """Remove a calendar; see `JobStore.delete_calendar`."""
    if naming(tables, name):
        raise refusals.calendar_in_use(name)
    tables.calendar_owners.pop(name, None)
    return tables.calendars.pop(name, None) is not None


def move_triggers(tables: Tables, moves: Sequence[TriggerMove]) -> set[TriggerKey]:
    """Change the fire times of triggers; see `JobStore.move_triggers`."""
    moved = set()
    for move in moves:
        row = tables.triggers.get(move.to.trigger.key)
        if row is None or row.generation != move.record.generation:
            continue
        if row.progress.next_fire_time != move.record.progress.next_fire_time:
            continue
        if row.state is TriggerState.COMPLETE:
            continue
        moved.add(row.key)
        if move.to.progress.next_fire_time is None:
            tables.move(
                row,
                TriggerState.COMPLETE,
                progress=move.to.progress,
                upcoming=UpcomingFireTimes(is_complete=True),
                missed_policy=Missed.MISFIRE,
            )
        else:
            tables.move(
                row, row.state, progress=move.to.progress, upcoming=move.to.upcoming, missed_policy=Missed.MISFIRE
            )
    return moved


def calendars(tables: Tables, names: Collection[str]) -> dict[str, StoredCalendar]:
    return {name: tables.calendars[name] for name in names if name in tables.calendars}
