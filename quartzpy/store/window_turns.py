"""What a maintenance window needs, which both stores decide alike. Pure functions."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from quartzpy.calendars.maintenance_window import WINDOW_LEAD, MaintenanceWindow
from quartzpy.states import missed_of
from quartzpy.store import refusals
from quartzpy.store.protocol import PauseNote
from quartzpy.store.records import WindowRecord


class Turn(StrEnum):
    """What a window whose instant has come needs."""

    WAIT = "wait"
    """It begins soon: what is not due before it is paused ahead."""
    BEGIN = "begin"
    MOVE_ON = "move on"
    """It is over, so its next time comes."""


def turn_of(record: WindowRecord, due_at: datetime, now: datetime) -> Turn:
    """Return what a window needs that was due at an instant."""
    if record.is_open:
        return Turn.MOVE_ON
    if now < record.starts_at:
        return Turn.WAIT
    # Nobody has done anything for it, and now it is over: no node was there. What was paused ahead of one that nobody
    # has begun in time is resumed at once.
    is_missed = now >= record.ends_at and due_at <= record.starts_at - WINDOW_LEAD
    return Turn.MOVE_ON if is_missed else Turn.BEGIN


def note_of(record: WindowRecord) -> PauseNote:
    """Return the note of the pause that a window makes."""
    window = record.window
    return PauseNote(window.note, record.changed_by, record.ends_at, missed_of(window.missed), window.name)


def span_to_store(
    window: MaintenanceWindow, present: WindowRecord | None, now: datetime, *, is_taken: bool, replace: bool
) -> tuple[datetime, datetime] | None:
    """Return the first time of a window that is stored; None if exactly this one is present.

    `is_taken` says whether one of its name is stored, which may be unreadable.

    Raises:
        ObjectAlreadyExistsError: another one has its name, and `replace` is false.
        InvalidValueError: it has no time left.
    """
    if present is not None and present.window == window:
        return None
    if is_taken and not replace:
        raise refusals.window_exists(window.name)
    span = window.next_span(now)
    if span is None:
        raise refusals.window_is_over(window)
    return span
