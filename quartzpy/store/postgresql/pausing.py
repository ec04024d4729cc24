"""Pauses and resumes triggers.

Row states change by guarded updates, first without the lock and again under it: the second pass catches rows that were
stored in between, and no locked row is waited for under the lock.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from functools import cache
from typing import Any, TypeAlias

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.states import JobMode, Missed, TriggerState
from quartzpy.store import refusals
from quartzpy.store.postgresql.columns import key_columns
from quartzpy.store.postgresql.db.flight import Send
from quartzpy.store.postgresql.db.listen import announcement, news
from quartzpy.store.postgresql.db.locks import LockName
from quartzpy.store.postgresql.db.session import SqlSession, Transaction
from quartzpy.store.postgresql.db.sql_files import SqlFile
from quartzpy.store.postgresql.lookups import JOB_GROUPS, TRIGGER_GROUPS, match_values, matched_groups, paused
from quartzpy.store.protocol import NO_NOTE, Notification, PauseNote
from quartzpy.store.records import JobHeader

_SQL = SqlFile("pausing.sql")
REMEMBER = _SQL("remember")
FORGET = _SQL("forget")
FORGET_ALL = _SQL("forget_all")
FORGET_MANUAL = _SQL("forget_manual")
RESET_FROM_ERROR = _SQL("reset_from_error")
STATE = _SQL("state")
SET_MODE = _SQL("set_mode")
JOB_HEADER = _SQL("job_header")

Switches: TypeAlias = tuple[str, ...]
"""The switches of the statements that say which triggers a request concerns."""
ALL: Switches = ()
BY_TRIGGER: Switches = ("by_trigger",)
BY_JOB: Switches = ("by_job",)
BY_JOB_SCHEDULED: Switches = ("by_job", "scheduled")
BY_TRIGGER_GROUP: Switches = ("by_trigger_group",)
BY_JOB_GROUP: Switches = ("by_job_group",)
SCHEDULED: Switches = ("scheduled",)
HELD_BY_JOBS_MODE: Switches = ("by_job", "held_by_mode")
HELD_BY_MANUAL_MODE: Switches = ("scheduled", "held_by_mode")

ALL_SCOPE, TRIGGER_SCOPE, JOB_SCOPE, MANUAL_SCOPE = "ALL", "TRIGGER", "JOB", "MANUAL"


@cache
def passes(name: str, which: Switches) -> tuple[str, str]:
    """Return the texts of a statement for the pass without the lock, and for the one under it, which skips rows."""
    on = dict.fromkeys(which, True)
    return _SQL(name, **on), _SQL(name, under_lock=True, **on)


def _pause(
    session: SqlSession,
    which: Switches,
    values: dict[str, Any],
    *remember: Send,
    note: PauseNote = NO_NOTE,
    by_mode: bool = False,
) -> None:
    waiting, skipping = passes("pause", which)
    values = {**values, "by_mode": by_mode, "reason": note.reason, "by": note.by}

    def work(transaction: Transaction) -> None:
        transaction.send(*remember, session.send(waiting, **values))
        transaction.commit(session.lock(LockName.TRIGGER_ACCESS), session.send(skipping, **values))

    session.transaction(work)


def _resume(
    session: SqlSession, which: Switches, values: dict[str, Any], *forget: Send, missed: Missed = Missed.MISFIRE
) -> datetime | None:
    waiting, skipping = passes("resume", which)
    values = {**values, "missed": missed}

    def work(transaction: Transaction) -> datetime | None:
        first = transaction.send(*forget, session.send(waiting, **values))[-1]
        # These are announced whatever the second pass finds, because its result is known only with the commit.
        due = [(JobKey(name, group), at) for group, name, at, is_forbidden in first.rows if not is_forbidden]
        transaction.commit(
            session.lock(LockName.TRIGGER_ACCESS),
            session.send(skipping, **values),
            *announcement(session, due, Notification.RESUMED),
        )
        return min((at for _, at in due), default=None)

    return session.transaction(work)


def pause_triggers(session: SqlSession, keys: Collection[TriggerKey], note: PauseNote = NO_NOTE) -> None:
    _pause(session, BY_TRIGGER, key_columns(keys), note=note)


def resume_triggers(
    session: SqlSession, keys: Collection[TriggerKey], missed: Missed = Missed.MISFIRE
) -> datetime | None:
    return _resume(session, BY_TRIGGER, key_columns(keys), missed=missed)


def pause_jobs(session: SqlSession, keys: Collection[JobKey], note: PauseNote = NO_NOTE) -> None:
    _pause(session, BY_JOB, key_columns(keys), note=note)


def resume_jobs(session: SqlSession, keys: Collection[JobKey], missed: Missed = Missed.MISFIRE) -> datetime | None:
    return _resume(session, BY_JOB, key_columns(keys), missed=missed)


def _pause_groups(session: SqlSession, scope: str, matcher: GroupMatcher, note: PauseNote = NO_NOTE) -> set[str]:
    """Pause the triggers of groups (`scope` TRIGGER) or of the jobs of groups (JOB), and remember the groups."""
    of_jobs = scope == JOB_SCOPE
    existing = [row[0] for row in session.read_one(JOB_GROUPS if of_jobs else TRIGGER_GROUPS)]
    groups = matched_groups(matcher, existing)
    remember = session.send(REMEMBER, scope=scope, names=sorted(groups))
    _pause(session, BY_JOB_GROUP if of_jobs else BY_TRIGGER_GROUP, match_values(matcher), remember, note=note)
    return groups


def _resume_groups(
    session: SqlSession, scope: str, matcher: GroupMatcher, missed: Missed = Missed.MISFIRE
) -> datetime | None:
    values = match_values(matcher)
    which = BY_JOB_GROUP if scope == JOB_SCOPE else BY_TRIGGER_GROUP
    return _resume(session, which, values, session.send(FORGET, scope=scope, **values), missed=missed)


def pause_all(session: SqlSession, note: PauseNote = NO_NOTE) -> None:
    groups = [row[0] for row in session.read_one(TRIGGER_GROUPS)]
    _pause(
        session,
        ALL,
        {},
        session.send(REMEMBER, scope=ALL_SCOPE, names=["*"]),
        session.send(REMEMBER, scope=TRIGGER_SCOPE, names=groups),
        note=note,
    )


def resume_all(session: SqlSession, missed: Missed = Missed.MISFIRE) -> datetime | None:
    return _resume(session, ALL, {}, session.send(FORGET_ALL), missed=missed)


def set_job_mode(session: SqlSession, key: JobKey, mode: JobMode, missed: Missed = Missed.MISFIRE) -> datetime | None:
    """See `JobStore.set_job_mode`."""
    change = session.send(SET_MODE, group=key.group, name=key.name, mode=mode)
    if mode is JobMode.ENABLED:
        return _resume(session, HELD_BY_JOBS_MODE, key_columns([key]), change, missed=missed)
    which = BY_JOB if mode is JobMode.DISABLED else BY_JOB_SCHEDULED
    _pause(session, which, key_columns([key]), change, by_mode=True)
    # If the job was disabled before, its manual fires resume.
    return None if mode is JobMode.DISABLED else _resume(session, HELD_BY_JOBS_MODE, key_columns([key]), missed=missed)


def job_header(session: SqlSession, key: JobKey) -> JobHeader | None:
    """See `JobStore.job_header`."""
    for mode, job_type in session.read_one(JOB_HEADER, group=key.group, name=key.name):
        return JobHeader(key, job_type, JobMode(mode))
    return None


def set_manual(session: SqlSession, on: bool, missed: Missed = Missed.MISFIRE) -> datetime | None:
    """See `JobStore.set_manual`."""
    if on:
        _pause(session, SCHEDULED, {}, session.send(REMEMBER, scope=MANUAL_SCOPE, names=["*"]), by_mode=True)
        return None
    return _resume(session, HELD_BY_MANUAL_MODE, {}, session.send(FORGET_MANUAL), missed=missed)


def reset_from_error(session: SqlSession, key: TriggerKey) -> datetime | None:
    """Give a trigger in ERROR the state of a newly stored one; see `JobStore.reset_from_error`.

    Raises:
        TriggerNotFoundError: the trigger is not stored.
        IllegalStateChangeError: it is not in ERROR.
    """
    reset, state, _ = session.unlocked(
        session.send(RESET_FROM_ERROR, **key_columns([key])),
        session.send(STATE, group=key.group, name=key.name),
        news(session, Notification.RESUMED),
    )
    if reset.rows:
        at: datetime | None = reset.rows[0][2]
        return at
    raise refusals.not_in_error(key, TriggerState(state.rows[0][0]) if state.rows else None)


def reset_all_from_error(session: SqlSession, keys: Collection[TriggerKey]) -> dict[TriggerKey, datetime | None]:
    """Do this for all that are in ERROR; see `JobStore.reset_all_from_error`."""
    reset, _ = session.unlocked(
        session.send(RESET_FROM_ERROR, **key_columns(keys)), news(session, Notification.RESUMED)
    )
    return {TriggerKey(name, group): at for group, name, at in reset.rows}


def job_mode(session: SqlSession, key: JobKey) -> JobMode | None:
    """See `QueryStore.job_mode`."""
    header = job_header(session, key)
    return None if header is None else header.mode


def is_manual(session: SqlSession) -> bool:
    """See `QueryStore.is_manual`."""
    return bool(paused(session, MANUAL_SCOPE))


def all_paused(session: SqlSession) -> bool:
    """See `QueryStore.all_paused`."""
    return bool(paused(session, ALL_SCOPE))


def paused_trigger_groups(session: SqlSession) -> set[str]:
    """See `QueryStore.paused_trigger_groups`."""
    return paused(session, TRIGGER_SCOPE)


def paused_job_groups(session: SqlSession) -> set[str]:
    """See `QueryStore.paused_job_groups`."""
    return paused(session, JOB_SCOPE)


def pause_trigger_groups(session: SqlSession, matcher: GroupMatcher, note: PauseNote = NO_NOTE) -> set[str]:
    """Pause groups of triggers; see `SchedulingStore.pause_trigger_groups`."""
    return _pause_groups(session, TRIGGER_SCOPE, matcher, note)


def resume_trigger_groups(
    session: SqlSession, matcher: GroupMatcher, missed: Missed = Missed.MISFIRE
) -> datetime | None:
    """Resume groups of triggers; see `SchedulingStore.resume_trigger_groups`."""
    return _resume_groups(session, TRIGGER_SCOPE, matcher, missed)


def pause_job_groups(session: SqlSession, matcher: GroupMatcher, note: PauseNote = NO_NOTE) -> set[str]:
    """Pause the triggers of groups of jobs; see `SchedulingStore.pause_job_groups`."""
    return _pause_groups(session, JOB_SCOPE, matcher, note)


def resume_job_groups(session: SqlSession, matcher: GroupMatcher, missed: Missed = Missed.MISFIRE) -> datetime | None:
    """Resume the triggers of groups of jobs; see `SchedulingStore.resume_job_groups`."""
    return _resume_groups(session, JOB_SCOPE, matcher, missed)
