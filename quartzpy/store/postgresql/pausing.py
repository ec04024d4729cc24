"""Pauses and resumes triggers.

Row states change by guarded updates. Those of triggers that are named change first without the lock and again under
it: the second pass catches rows that were stored in between, and no locked row is waited for under the lock. Those of
jobs and groups, which may be very many, change in slices without the lock (see `slices`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from quartzpy.instants import earliest
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.states import JobMode, Missed
from quartzpy.store import refusals
from quartzpy.store.pause_scopes import ALL_SCOPE, JOB_SCOPE, MANUAL_SCOPE, TRIGGER_SCOPE, subjects_of
from quartzpy.store.postgresql import slices
from quartzpy.store.postgresql.connection.listen import announcement, news
from quartzpy.store.postgresql.connection.locks import LockName
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, Result
from quartzpy.store.postgresql.connection.session import SqlSession, Transaction
from quartzpy.store.postgresql.lookups import match_values, matched_groups, names
from quartzpy.store.postgresql.schema.rows import key_columns
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.slices import Switches
from quartzpy.store.protocol import (
    NO_NOTE,
    Everything,
    JobGroups,
    NamedTriggers,
    NameKind,
    Notification,
    PauseNote,
    PauseSubjects,
    TriggerGroups,
    TriggersOfJobs,
)

_SQL = SqlFile("pausing.sql")

ALL: Switches = ()
BY_TRIGGER: Switches = ("by_trigger",)
BY_PAGE: Switches = ("by_page",)
BY_JOB: Switches = ("by_job",)
BY_JOB_SCHEDULED: Switches = ("by_job", "scheduled")
BY_TRIGGER_GROUP: Switches = ("by_trigger_group",)
BY_JOB_GROUP: Switches = ("by_job_group",)
SCHEDULED: Switches = ("scheduled",)
HELD_BY_JOBS_MODE: Switches = ("by_job", "held_by_mode")
HELD_BY_MANUAL_MODE: Switches = ("scheduled", "held_by_mode")


@cache
def passes(name: str, which: Switches) -> tuple[str, str]:
    """Return the texts of a statement for the pass without the lock, and for the one under it, which skips rows."""
    on = dict.fromkeys(which, True)
    return _SQL(name, **on), _SQL(name, under_lock=True, **on)


# These pass over what others hold; see `slices.change`.
PAUSE_SLICE, RESUME_SLICE = passes("pause", BY_PAGE)[0], passes("resume", BY_PAGE)[0]
PAUSE_SLICE_AHEAD = passes("pause", (*BY_PAGE, "from_start"))[0]
RESUME_ENDED = passes("resume", (*BY_PAGE, "ended"))[0]


def _pause(
    session: SqlSession,
    which: Switches,
    values: dict[str, Any],
    *remember: BoundStatement,
    note: PauseNote = NO_NOTE,
    by_mode: bool = False,
    starts_at: datetime | None = None,
    deadline: float = math.inf,
) -> bool:
    """Pause triggers. Return False if there are more than could be paused before the deadline."""
    how = {
        "by_mode": by_mode,
        "alone": not by_mode and which in (BY_TRIGGER, BY_JOB),
        "reason": note.reason,
        "by": note.by,
        "until": note.until,
        "missed": note.missed,
    }
    slice_text = PAUSE_SLICE
    if starts_at is not None:
        which, slice_text = (*which, "from_start"), PAUSE_SLICE_AHEAD
        how["starts_at"] = starts_at
    if not _is_sliced(session, which):
        _pause_at_once(session, which, {**values, **how}, remember)
        return True

    def pause_slice(columns: dict[str, list[Any]]) -> BoundStatement:
        return session.bind(slice_text, **columns, **how)

    return slices.change(
        session,
        slices.Affected((*which, "pauses"), {**values, **how}),
        pause_slice,
        marks=remember,
        done="paused",
        deadline=deadline,
    )


def _is_sliced(session: SqlSession, which: Switches) -> bool:
    """Return False in a user's transaction, and for triggers that are named, which the caller has counted."""
    return session.decides_at_once and which != BY_TRIGGER


def _pause_at_once(
    session: SqlSession, which: Switches, values: dict[str, Any], remember: Sequence[BoundStatement]
) -> None:
    waiting, skipping = passes("pause", which)

    def work(transaction: Transaction) -> None:
        first = transaction.execute(*remember, session.bind(waiting, **values))[-1]
        second = transaction.commit(session.lock(LockName.TRIGGER_ACCESS), session.bind(skipping, **values))[1]
        if BY_TRIGGER[0] not in which:
            session.changed_triggers += sum(result.rows[0][0] for result in (first, second))

    session.transaction(work)


def _resume(
    session: SqlSession,
    which: Switches,
    values: dict[str, Any],
    *forget: BoundStatement,
    missed: Missed = Missed.MISFIRE,
) -> datetime | None:
    if not _is_sliced(session, which):
        return _resume_at_once(session, which, {**values, "missed": missed}, forget)
    soonest: list[datetime] = []

    def resume_slice(columns: dict[str, list[Any]]) -> BoundStatement:
        return session.bind(RESUME_SLICE, **columns, missed=missed)

    def announce(result: Result, is_whole: bool) -> list[BoundStatement]:
        due = _due(result)
        if not due:
            return []
        soonest.append(min(at for _, at in due))
        # Of many triggers the nodes are notified in any case, which needs no lock.
        return (
            [session.lock(LockName.TRIGGER_ACCESS), *announcement(session, due, Notification.RESUMED)]
            if is_whole
            else [news(session, Notification.RESUMED)]
        )

    slices.change(
        session,
        slices.Affected((*which, "resumes"), values),
        resume_slice,
        announce,
        marks=forget,
        done="resumed",
    )
    return min(soonest, default=None)


def _resume_at_once(
    session: SqlSession, which: Switches, values: dict[str, Any], forget: Sequence[BoundStatement]
) -> datetime | None:
    waiting, skipping = passes("resume", which)

    def work(transaction: Transaction) -> datetime | None:
        first = transaction.execute(*forget, session.bind(waiting, **values))[-1]
        # These are announced whatever the second pass finds, because its result is known only with the commit.
        due = _due(first)
        _, second, *_ = transaction.commit(
            session.lock(LockName.TRIGGER_ACCESS),
            session.bind(skipping, **values),
            *announcement(session, due, Notification.RESUMED),
        )
        session.changed_triggers += len(first.rows) + len(second.rows)
        return min((at for _, at in due), default=None)

    return session.transaction(work)


def _due(resumed: Result) -> list[tuple[JobKey, datetime]]:
    """Return the fire times of the triggers that were resumed and may fire, each with the key of its job."""
    return [(JobKey(name, group), at) for _, group, name, at, is_forbidden in resumed.rows if not is_forbidden]


def _of_jobs_or_groups(
    subjects: TriggersOfJobs | TriggerGroups | JobGroups | Everything,
) -> tuple[Switches, dict[str, Any], str | None]:
    """Return the switches and the values that select the triggers, and the scope of a pause that is remembered."""
    match subjects:
        case TriggersOfJobs(keys):
            return BY_JOB, key_columns(keys), None
        case TriggerGroups(matcher):
            return BY_TRIGGER_GROUP, match_values(matcher), TRIGGER_SCOPE
        case JobGroups(matcher):
            return BY_JOB_GROUP, match_values(matcher), JOB_SCOPE
        case Everything():
            return ALL, {}, ALL_SCOPE


def pause(session: SqlSession, subjects: PauseSubjects, note: PauseNote = NO_NOTE) -> set[str]:
    """Pause triggers; see `SchedulingStore.pause`."""
    if isinstance(subjects, NamedTriggers):

        def pause_part(keys: Sequence[TriggerKey]) -> None:
            _pause(session, BY_TRIGGER, key_columns(keys), note=note)

        slices.in_parts(session, subjects.keys, pause_part, done="paused")
        return set()
    which, values, scope = _of_jobs_or_groups(subjects)
    groups: set[str] = set()
    remember: list[BoundStatement] = []
    match subjects:
        case TriggerGroups(matcher) | JobGroups(matcher):
            kind = NameKind.JOB_GROUPS if scope == JOB_SCOPE else NameKind.TRIGGER_GROUPS
            groups = matched_groups(matcher, names(session, kind))
            remember = [_remember(session, scope, groups, note)]
        case Everything():
            groups = set(names(session, NameKind.TRIGGER_GROUPS))
            remember = [_remember(session, ALL_SCOPE, ["*"], note)]
            # What pauses each group beside all else has no end, so that it would outlast a pause with one.
            remember.append(
                session.bind(_SQL.forget_with_all)
                if note.until is not None
                else _remember(session, TRIGGER_SCOPE, groups, note, with_all=True)
            )
    _pause(session, which, values, *remember, note=note)
    return groups


def _remember(
    session: SqlSession, scope: str | None, groups: Collection[str], note: PauseNote, *, with_all: bool = False
) -> BoundStatement:
    return session.bind(
        _SQL.remember,
        scope=scope,
        names=sorted(groups),
        by=note.by,
        reason=note.reason,
        until=note.until,
        missed=note.missed,
        with_all=with_all,
        window_name=note.window,
    )


def pause_ahead(
    session: SqlSession,
    subjects: TriggerGroups | JobGroups | Everything,
    note: PauseNote,
    starts_at: datetime,
    deadline: float,
) -> bool:
    """Pause the triggers of a group that fire at an instant or later, and remember nothing.

    Returns False if there are more than could be paused before the deadline.
    """
    which, values, _ = _of_jobs_or_groups(subjects)
    return _pause(session, which, values, note=note, starts_at=starts_at, deadline=deadline)


def pause_for_window(session: SqlSession, scope: str, group: str, note: PauseNote, deadline: float) -> bool:
    """Pause what a window pauses, and remember it. Returns False if there are more than before the deadline."""
    which, values, _ = _of_jobs_or_groups(subjects_of(scope, group))
    remember = _remember(session, scope, [group], note)
    return _pause(session, which, values, remember, note=note, deadline=deadline)


def resume(session: SqlSession, subjects: PauseSubjects, missed: Missed = Missed.MISFIRE) -> datetime | None:
    """Resume triggers; see `SchedulingStore.resume`."""
    if isinstance(subjects, NamedTriggers):

        def resume_part(keys: Sequence[TriggerKey]) -> datetime | None:
            return _resume(session, BY_TRIGGER, key_columns(keys), missed=missed)

        times = slices.in_parts(session, subjects.keys, resume_part, done="resumed")
        return earliest(*times)
    which, values, scope = _of_jobs_or_groups(subjects)
    forget: list[BoundStatement] = []
    if scope == ALL_SCOPE:
        forget = [session.bind(_SQL.forget_all)]
    elif scope is not None:
        forget = [session.bind(_SQL.forget, scope=scope, **values)]
    return _resume(session, which, values, *forget, missed=missed)


def set_mode(
    session: SqlSession, job: JobKey | None, mode: JobMode, missed: Missed = Missed.MISFIRE
) -> datetime | None:
    """Set the mode of a job, or of the scheduler; see `SchedulingStore.set_mode`."""
    return _set_manual(session, mode, missed) if job is None else _set_mode_of_job(session, job, mode, missed)


def _set_mode_of_job(session: SqlSession, key: JobKey, mode: JobMode, missed: Missed) -> datetime | None:
    change = session.bind(_SQL.set_mode, group=key.group, name=key.name, mode=mode)
    if mode is JobMode.ENABLED:
        return _resume(session, HELD_BY_JOBS_MODE, key_columns([key]), change, missed=missed)
    which = BY_JOB if mode is JobMode.DISABLED else BY_JOB_SCHEDULED
    _pause(session, which, key_columns([key]), change, by_mode=True)
    # If the job was disabled before, its manual fires resume.
    return None if mode is JobMode.DISABLED else _resume(session, HELD_BY_JOBS_MODE, key_columns([key]), missed=missed)


def _set_manual(session: SqlSession, mode: JobMode, missed: Missed) -> datetime | None:
    if refusals.is_manual_mode(mode):
        _pause(session, SCHEDULED, {}, _remember(session, MANUAL_SCOPE, ["*"], NO_NOTE), by_mode=True)
        return None
    return _resume(session, HELD_BY_MANUAL_MODE, {}, session.bind(_SQL.forget_manual), missed=missed)


def reset_from_error(session: SqlSession, keys: Collection[TriggerKey]) -> dict[TriggerKey, datetime | None]:
    """Give triggers in ERROR the states of newly stored ones; see `SchedulingStore.reset_from_error`."""
    reset, _ = session.unlocked(
        session.bind(_SQL.reset_from_error, **key_columns(keys)), news(session, Notification.RESUMED)
    )
    return {TriggerKey(name, group): at for group, name, at in reset.rows}
