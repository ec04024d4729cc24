"""Begins maintenance windows, and ends the pauses whose time has come.

A window is a pause of its group with an end, which a node makes when it begins. So nothing on the way of a fire knows
of windows or of ends. All that changes very many triggers proceeds in slices without the lock, as in `slices`. What
says that there is something to do stays until the last slice is committed: another node goes on after a death.
"""

from __future__ import annotations

import json
import logging
import time
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from quartzpy.calendars.maintenance_window import WINDOW_LEAD, MaintenanceWindow, window_due_at
from quartzpy.errors import QuartzpyError
from quartzpy.keys import TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.store.pause_scopes import ALL_SCOPE, JOB_SCOPE, TRIGGER_SCOPE, place_of, subjects_of
from quartzpy.store.postgresql import pausing, slices, zone_marks
from quartzpy.store.postgresql.connection.listen import news
from quartzpy.store.postgresql.connection.session import SqlSession, Transaction
from quartzpy.store.postgresql.lookups import match_values
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.slices import Switches
from quartzpy.store.protocol import (
    NamedTriggers,
    Notification,
    PauseSubjects,
    TimeOff,
)
from quartzpy.store.records import WindowRecord
from quartzpy.store.window_turns import Turn, note_of, span_to_store, turn_of

logger = logging.getLogger(__name__)

_SQL = SqlFile("time_off.sql")
NEXT_CHANGE = _SQL("next_change")
END_OWN_PAUSES = _SQL("end_own_pauses")
FORGET_ENDED = {
    TRIGGER_SCOPE: _SQL("forget_ended", by_trigger_group=True),
    JOB_SCOPE: _SQL("forget_ended", by_job_group=True),
    ALL_SCOPE: _SQL("forget_ended"),
}
WINDOW = _SQL("windows", of_name=True)

TURN = timedelta(seconds=30)
"""The time after which another node takes care of a window if the one that began to do so has died."""
BUSY = 2.0
"""The seconds after which a call ends although there is more to do: its thread has other tasks as well."""
_GROUPS = {TRIGGER_SCOPE: pausing.BY_TRIGGER_GROUP, JOB_SCOPE: pausing.BY_JOB_GROUP}
_ENDED: Switches = ("resumes", "ended")


class _EndedGroup(NamedTuple):
    """A row of `ended_groups`."""

    scope: str
    group: str
    until: datetime
    missed: str


class _WindowColumns(NamedTuple):
    """A row of `windows`."""

    name: str
    scope: str
    group: str
    definition: str
    changed_at: datetime
    changed_by: str | None
    starts_at: datetime
    ends_at: datetime
    is_open: bool

    def record(self) -> WindowRecord:
        window = MaintenanceWindow.from_json(
            self.name,
            json.loads(self.definition),
            trigger_group=self.group if self.scope == TRIGGER_SCOPE else None,
            job_group=self.group if self.scope == JOB_SCOPE else None,
        )
        return WindowRecord(
            window, self.starts_at, self.ends_at, self.is_open, changed_at=self.changed_at, changed_by=self.changed_by
        )


def windows(session: SqlSession) -> list[WindowRecord]:
    """See `QueryStore.windows`."""
    rows = [_WindowColumns._make(row) for row in session.read_one(_SQL.windows)]
    return [record for row in rows if (record := _readable(row)) is not None]


def _readable(stored: _WindowColumns) -> WindowRecord | None:
    """Return the record of a row; None for one that somebody has written by hand, or whose time zone is not here."""
    try:
        return stored.record()
    except (QuartzpyError, ValueError, KeyError, TypeError) as error:
        logger.error("the maintenance window %s cannot be read: %s", stored.name, error)
        return None


def set_window(
    session: SqlSession, name: str, window: MaintenanceWindow | None, *, replace: bool = True, by: str | None = None
) -> bool:
    """Store, replace or remove a maintenance window; see `SchedulingStore.set_window`."""
    if window is not None:
        zone_marks.note(session, [window.time_zone])
    now = session.now()

    def work(transaction: Transaction) -> bool:
        stored, close, remove = (
            session.bind(WINDOW, window_name=name),
            session.bind(_SQL.close_window, window_name=name, lead=WINDOW_LEAD),
            session.bind(_SQL.delete_window, window_name=name),
        )
        rows = transaction.execute(stored)[0].rows
        if window is None:
            transaction.commit(close, remove)
            return bool(rows)
        present = _readable(_WindowColumns._make(rows[0])) if rows else None
        span = span_to_store(window, present, now, is_taken=bool(rows), replace=replace)
        if span is None:
            transaction.commit()
            return False
        scope, group = place_of(window)
        put = session.bind(
            _SQL.put_window,
            window_name=name,
            scope=scope,
            group=group,
            definition=json.dumps(window.as_json()),
            by=by,
            starts_at=span[0],
            ends_at=span[1],
            due_at=window_due_at(span[0], now),
        )
        transaction.commit(close, remove, put)
        return True

    return session.transaction(work)


def apply_time_off(session: SqlSession, by: str) -> TimeOff:
    """Begin windows and end pauses; see `ClusterStore.apply_time_off`."""
    deadline = time.monotonic() + BUSY
    begun = _begin_windows(session, by, deadline)
    ended: list[PauseSubjects] = []
    is_whole = _end_own_pauses(session, by, deadline, ended)
    if is_whole:
        for group in session.read_one(_SQL.ended_groups):
            is_whole = _end_group(session, by, _EndedGroup._make(group), deadline, ended) and is_whole
            if time.monotonic() >= deadline:
                break
    next_change = session.read_one(NEXT_CHANGE)[0][0]
    return TimeOff(begun, ended, next_change)


def _end_own_pauses(session: SqlSession, by: str, deadline: float, ended: list[PauseSubjects]) -> bool:
    size = slices.first_size()
    with slices.SliceProgress(session.scheduler, "resumed, because their pauses have ended") as progress:
        while True:
            began = time.monotonic()
            most = size.number

            def work(transaction: Transaction, most: int = most) -> list[tuple[str, str, bool]]:
                rows = transaction.execute(session.bind(END_OWN_PAUSES, limit=most, actor=by))[0].rows
                transaction.commit(*([news(session, Notification.RESUMED)] if any(row[2] for row in rows) else []))
                return rows

            rows = session.transaction(work)
            if any(row[2] for row in rows):
                ended.append(NamedTriggers([TriggerKey(name, group) for group, name, goes in rows if goes]))
            progress.add(len(rows))
            if len(rows) < most:
                return True
            size.adapt(time.monotonic() - began)
            if time.monotonic() >= deadline:
                return False


def _end_group(session: SqlSession, by: str, mark: _EndedGroup, deadline: float, ended: list[PauseSubjects]) -> bool:
    """Resume what only this pause holds, and forget it. Return False if there is more to do."""
    place = {"scope": mark.scope, "group": mark.group, "until": mark.until}
    which = _GROUPS.get(mark.scope, pausing.ALL)
    matched = match_values(GroupMatcher.equals(mark.group)) if which else {}
    rows = slices.page_of(session, slices.Affected((*which, *_ENDED), matched), slices.BEGINNING, slices.PAGE)
    is_page_whole = len(rows) < slices.PAGE
    size = slices.first_size()
    with slices.SliceProgress(session.scheduler, "resumed, because the pause of their group has ended") as progress:
        while rows:
            began = time.monotonic()
            part, rows = rows[: size.number], rows[size.number :]
            columns = slices.columns_of(sorted(part, key=lambda row: row[2:4]))

            def work(transaction: Transaction, columns: dict[str, list[Any]] = columns) -> int:
                resume = session.bind(pausing.RESUME_ENDED, **columns, **place, missed=mark.missed)
                resumed = transaction.execute(resume)[0].rows
                going = [row for row in resumed if not row[4]]
                transaction.commit(
                    *([session.bind(_SQL.note_resumed, **place, number=len(going))] if going else ()),
                    *([news(session, Notification.RESUMED)] if going else ()),
                )
                return len(going)

            progress.add(session.transaction(work))
            size.adapt(time.monotonic() - began)
            if rows and time.monotonic() >= deadline:
                return False
    if not is_page_whole:
        return False
    subjects = subjects_of(mark.scope, mark.group)
    forget = session.bind(FORGET_ENDED[mark.scope], **place, actor=by, subject=_subject(mark.scope, mark.group))
    is_over = bool(session.locked(forget)[0].rows)
    if is_over:
        ended.append(subjects)
    return is_over


def _subject(scope: str, group: str) -> str:
    return "everything" if scope == ALL_SCOPE else f"{scope.lower()} group {group}"


def _begin_windows(session: SqlSession, by: str, deadline: float) -> list[str]:
    begun = []
    for *columns, was_due_at, now in session.unlocked(session.bind(_SQL.due_windows, wait=TURN))[0].rows:
        stored = _WindowColumns._make(columns)
        record = _readable(stored)
        if record is not None and _turn(session, by, stored, record, turn_of(record, was_due_at, now), now, deadline):
            begun.append(stored.name)
    return begun


def _turn(
    session: SqlSession,
    by: str,
    stored: _WindowColumns,
    record: WindowRecord,
    turn: Turn,
    now: datetime,
    deadline: float,
) -> bool:
    """Do what a window needs now. Return True if it has begun.

    Of very many triggers it pauses some, and is due again at once, so that the thread can do its other work between.
    """
    window, name, note = record.window, record.window.name, note_of(record)
    if turn is Turn.WAIT:
        subjects = subjects_of(stored.scope, stored.group)
        is_whole = pausing.pause_ahead(session, subjects, note, record.starts_at, deadline)
        due_at = window_due_at(record.starts_at, now) if is_whole else now
        session.unlocked(
            session.bind(_SQL.wait_for_window, window_name=name, starts_at=record.starts_at, due_at=due_at)
        )
        return False
    if turn is Turn.BEGIN:
        if not pausing.pause_for_window(session, stored.scope, stored.group, note, deadline):
            session.unlocked(
                session.bind(_SQL.wait_for_window, window_name=name, starts_at=record.starts_at, due_at=now)
            )
            return False
        values = {"window_name": name, "starts_at": record.starts_at, "subject": window.subject, "actor": by}
        return bool(session.unlocked(session.bind(_SQL.open_window, **values))[0].rows)
    span = window.next_span(record.ends_at)
    if span is None:
        session.unlocked(session.bind(_SQL.last_window, window_name=name, ended_at=record.ends_at))
    else:
        session.unlocked(
            session.bind(
                _SQL.next_window,
                window_name=name,
                starts_at=span[0],
                ends_at=span[1],
                ended_at=record.ends_at,
                due_at=window_due_at(span[0], now),
            )
        )
    return False
