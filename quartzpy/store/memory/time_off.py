"""Begins maintenance windows, and ends the pauses whose time has come."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from quartzpy.calendars.maintenance_window import WINDOW_LEAD, MaintenanceWindow, window_due_at
from quartzpy.states import TriggerState, missed_of
from quartzpy.store.memory.pausing import hold, pause, release, selected
from quartzpy.store.memory.rows import PauseMark, TriggerRow, WindowRow
from quartzpy.store.memory.tables import Tables
from quartzpy.store.pause_scopes import place_of, subjects_of
from quartzpy.store.protocol import (
    NamedTriggers,
    Notification,
    PauseNote,
    PauseSubjects,
    TimeOff,
)
from quartzpy.store.records import WindowRecord
from quartzpy.store.window_turns import Turn, note_of, span_to_store, turn_of


def windows(tables: Tables) -> list[WindowRecord]:
    """See `QueryStore.windows`."""
    return [tables.windows[name].record for name in sorted(tables.windows)]


def set_window(
    tables: Tables, name: str, window: MaintenanceWindow | None, *, replace: bool = True, by: str | None = None
) -> bool:
    """Store, replace or remove a maintenance window; see `SchedulingStore.set_window`."""
    now, present = tables.now(), tables.windows.get(name)
    if window is None:
        if present is not None:
            _close(tables, present)
            del tables.windows[name]
        return present is not None
    held = None if present is None else present.record
    span = span_to_store(window, held, now, is_taken=present is not None, replace=replace)
    if span is None:
        return False
    if present is not None:
        _close(tables, present)
    record = WindowRecord(window, *span, is_open=False, changed_at=now, changed_by=by)
    tables.windows[name] = WindowRow(record, window_due_at(span[0], now))
    return True


def _close(tables: Tables, row: WindowRow) -> None:
    record, now = row.record, tables.now()
    place = place_of(record.window)
    mark = tables.pauses.marks.get(place)
    if mark is not None:
        if mark.note.window == record.window.name and mark.note.until is not None:
            mark.note = replace(mark.note, until=min(mark.note.until, now))
    elif record.is_open or now >= record.starts_at - WINDOW_LEAD:
        note = PauseNote(None, record.changed_by, now, missed_of(record.window.missed), record.window.name)
        tables.pauses.marks[place] = PauseMark(now, note)


def next_change(tables: Tables) -> timedelta | None:
    """Return how long it is until there is something to do; see `RecoveryOutcome.next_time_off`."""
    ends = [mark.note.until for mark in tables.pauses.marks.values()]
    ends += [row.own_pause.until for row in tables.triggers.values() if row.own_pause is not None]
    ends += [row.due_at for row in tables.windows.values()]
    soonest = min((end for end in ends if end is not None), default=None)
    return None if soonest is None else soonest - tables.now()


def apply_time_off(tables: Tables, by: str) -> TimeOff:
    """Begin windows and end pauses; see `ClusterStore.apply_time_off`."""
    now = tables.now()
    begun = [name for name, row in sorted(tables.windows.items()) if row.due_at <= now and _turn(tables, row)]
    ended: list[PauseSubjects] = []
    own = [
        row
        for row in tables.triggers.values()
        if row.own_pause is not None and row.own_pause.until is not None and row.own_pause.until <= now
    ]
    resumed = [row for row in own if _end_own(tables, row)]
    if resumed:
        ended.append(NamedTriggers([row.key for row in resumed]))
    for place, mark in sorted(tables.pauses.marks.items()):
        if mark.note.until is not None and mark.note.until <= now:
            del tables.pauses.marks[place]
            subjects = subjects_of(*place)
            for row in list(selected(tables, subjects)):
                if _is_held_by_groups(row) and not tables.pauses.cover_groups(row.key, row.job):
                    release(tables, row, mark.note.missed)
            ended.append(subjects)
    if ended:
        tables.notifications.add(Notification.RESUMED)
    return TimeOff(begun, ended, next_change(tables))


def _is_held_by_groups(row: TriggerRow) -> bool:
    return row.state is TriggerState.PAUSED and row.own_pause is None and not row.held_by_mode


def _end_own(tables: Tables, row: TriggerRow) -> bool:
    note, row.own_pause, row.pause = row.own_pause, None, None
    assert note is not None
    if row.state is not TriggerState.PAUSED:
        return False
    if cover := tables.pauses.longest_cover(row.key, row.job):
        # What holds it from now on says since when, by whom and why.
        row.pause = (cover.at, cover.note)
        return False
    return release(tables, row, note.missed) is not None


def _turn(tables: Tables, row: WindowRow) -> bool:
    """Do what a window needs now. Return True if it has begun."""
    record, now = row.record, tables.now()
    window, note = record.window, note_of(record)
    subjects = subjects_of(*place_of(window))
    turn = turn_of(record, row.due_at, now)
    if turn is Turn.WAIT:
        ahead = [trigger for trigger in selected(tables, subjects) if _is_due_from(trigger, record)]
        hold(tables, ahead, note)
        row.due_at = window_due_at(record.starts_at, now)
        return False
    if turn is Turn.BEGIN:
        pause(tables, subjects, note)
        row.record = replace(record, is_open=True)
        row.due_at = record.ends_at
        return True
    span = window.next_span(record.ends_at)
    if span is None:
        del tables.windows[window.name]
    else:
        row.record = replace(record, starts_at=span[0], ends_at=span[1], is_open=False)
        row.due_at = window_due_at(span[0], now)
    return False


def _is_due_from(row: TriggerRow, record: WindowRecord) -> bool:
    at = row.progress.next_fire_time
    return at is not None and at >= record.starts_at
