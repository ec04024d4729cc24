"""Pauses and resumes triggers. A paused group is remembered for triggers that are stored later."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from quartzpy.keys import UNSCHEDULED_GROUPS, JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher, MatchOperator
from quartzpy.states import PAUSED_STATES, JobMode, Missed, TriggerState
from quartzpy.store import refusals
from quartzpy.store.memory.rows import JobRow, TriggerRow
from quartzpy.store.memory.tables import Pauses, Tables
from quartzpy.store.protocol import NO_NOTE, PauseNote

_PAUSING = {
    TriggerState.WAITING: TriggerState.PAUSED,
    TriggerState.ACQUIRED: TriggerState.PAUSED,
    TriggerState.BLOCKED: TriggerState.PAUSED_BLOCKED,
}


def _pause(tables: Tables, rows: Iterable[TriggerRow], note: PauseNote = NO_NOTE, *, by_mode: bool = False) -> None:
    """Pause triggers and drop the claims on them, so that no claimed one fires any more."""
    now = tables.now()
    for row in list(rows):
        if row.state in _PAUSING:
            tables.move(row, _PAUSING[row.state])
            row.held_by_mode = by_mode
            row.pause = None if by_mode else (now, note)
        elif row.state in PAUSED_STATES and not by_mode:
            if row.held_by_mode or note.reason is not None:
                row.pause = (row.pause[0] if row.pause else now, note)
            row.held_by_mode = False


def _resume(tables: Tables, rows: Iterable[TriggerRow], missed: Missed = Missed.MISFIRE) -> datetime | None:
    """Set triggers to WAITING, or BLOCKED while their job is at its limit. The misfire step handles late ones."""
    times = []
    now = tables.now()
    for row in list(rows):
        row.pause = None
        if tables.pauses.forbid(row.key, row.job):
            # The pause ends, and only the job's mode keeps the trigger paused.
            row.held_by_mode = row.state in PAUSED_STATES
            continue
        at = row.progress.next_fire_time
        if row.state in PAUSED_STATES and at is not None:
            blocked = tables.is_blocked(row)
            # What no schedule made is not skipped.
            treated = missed if at < now and row.key.group not in UNSCHEDULED_GROUPS else Missed.MISFIRE
            tables.move(row, TriggerState.BLOCKED if blocked else TriggerState.WAITING, missed_policy=treated)
            row.held_by_mode = False
            row.resumed_at = now
            times.append(at)
    return min(times, default=None)


def _of_keys(tables: Tables, keys: Collection[TriggerKey]) -> list[TriggerRow]:
    return [tables.triggers[key] for key in set(keys) if key in tables.triggers]


def _of_jobs(tables: Tables, keys: Collection[JobKey]) -> list[TriggerRow]:
    return [row for key in set(keys) if key in tables.jobs for row in tables.jobs[key].triggers.values()]


def _of_trigger_groups(tables: Tables, matcher: GroupMatcher) -> list[TriggerRow]:
    return [row for row in tables.triggers.values() if matcher.matches(row.key.group)]


def _of_job_groups(tables: Tables, matcher: GroupMatcher) -> list[TriggerRow]:
    return [row for row in tables.triggers.values() if matcher.matches(row.job.key.group)]


def _matched(matcher: GroupMatcher, keys: Iterable[TriggerKey] | Iterable[JobKey]) -> set[str]:
    """Return the groups that match; a group that is named by EQUALS need not exist yet."""
    named = {matcher.value} if matcher.operator is MatchOperator.EQUALS else set()
    return named | {key.group for key in keys if matcher.matches(key.group)}


def pause_triggers(tables: Tables, keys: Collection[TriggerKey], note: PauseNote) -> None:
    _pause(tables, _of_keys(tables, keys), note)


def resume_triggers(tables: Tables, keys: Collection[TriggerKey], missed: Missed) -> datetime | None:
    return _resume(tables, _of_keys(tables, keys), missed)


def pause_schedule(tables: Tables, job: JobRow, note: PauseNote) -> bool:
    """Pause the triggers of a job that a schedule made; return whether any was not paused before."""
    rows = [row for row in job.triggers.values() if row.key.group not in UNSCHEDULED_GROUPS and row.state in _PAUSING]
    _pause(tables, rows, note)
    return bool(rows)


def pause_jobs(tables: Tables, keys: Collection[JobKey], note: PauseNote) -> None:
    _pause(tables, _of_jobs(tables, keys), note)


def resume_jobs(tables: Tables, keys: Collection[JobKey], missed: Missed) -> datetime | None:
    return _resume(tables, _of_jobs(tables, keys), missed)


def pause_trigger_groups(tables: Tables, matcher: GroupMatcher, note: PauseNote) -> set[str]:
    groups = _matched(matcher, tables.triggers)
    tables.pauses.trigger_groups |= groups
    _pause(tables, _of_trigger_groups(tables, matcher), note)
    return groups


def resume_trigger_groups(tables: Tables, matcher: GroupMatcher, missed: Missed) -> datetime | None:
    tables.pauses.trigger_groups = {group for group in tables.pauses.trigger_groups if not matcher.matches(group)}
    return _resume(tables, _of_trigger_groups(tables, matcher), missed)


def pause_job_groups(tables: Tables, matcher: GroupMatcher, note: PauseNote) -> set[str]:
    groups = _matched(matcher, tables.jobs)
    tables.pauses.job_groups |= groups
    _pause(tables, _of_job_groups(tables, matcher), note)
    return groups


def resume_job_groups(tables: Tables, matcher: GroupMatcher, missed: Missed) -> datetime | None:
    tables.pauses.job_groups = {group for group in tables.pauses.job_groups if not matcher.matches(group)}
    return _resume(tables, _of_job_groups(tables, matcher), missed)


def pause_all(tables: Tables, note: PauseNote) -> None:
    tables.pauses.everything = True
    tables.pauses.trigger_groups |= {key.group for key in tables.triggers}
    _pause(tables, tables.triggers.values(), note)


def resume_all(tables: Tables, missed: Missed) -> datetime | None:
    tables.pauses = Pauses(manual=tables.pauses.manual)
    return _resume(tables, tables.triggers.values(), missed)


def set_mode(tables: Tables, key: JobKey, mode: JobMode, missed: Missed) -> datetime | None:
    """See `JobStore.set_job_mode`."""
    job = tables.jobs.get(key)
    if job is None:
        return None
    job.mode = mode
    _pause(tables, [row for row in job.triggers.values() if tables.pauses.forbid(row.key, job)], by_mode=True)
    return None if mode is JobMode.DISABLED else _resume(tables, _held_by_mode(job.triggers.values()), missed)


def _held_by_mode(rows: Iterable[TriggerRow]) -> list[TriggerRow]:
    return [row for row in rows if row.held_by_mode]


def set_manual(tables: Tables, on: bool, missed: Missed) -> datetime | None:
    """See `JobStore.set_manual`."""
    tables.pauses.manual = on
    scheduled = [row for row in tables.triggers.values() if row.key.group not in UNSCHEDULED_GROUPS]
    if on:
        _pause(tables, scheduled, by_mode=True)
        return None
    return _resume(tables, _held_by_mode(scheduled), missed)


def reset_from_error(tables: Tables, key: TriggerKey) -> datetime | None:
    """Give a trigger in ERROR the state of a newly stored one; see `JobStore.reset_from_error`.

    Raises:
        TriggerNotFoundError: the trigger is not stored.
        IllegalStateChangeError: it is not in ERROR.
    """
    reset = reset_all_from_error(tables, [key])
    if key not in reset:
        row = tables.triggers.get(key)
        raise refusals.not_in_error(key, None if row is None else row.state)
    return reset[key]


def reset_all_from_error(tables: Tables, keys: Collection[TriggerKey]) -> dict[TriggerKey, datetime | None]:
    """Do this for all that are in ERROR; see `JobStore.reset_all_from_error`."""
    reset = {}
    for key in keys:
        row = tables.triggers.get(key)
        if row is not None and row.state is TriggerState.ERROR:
            row.error = None
            tables.move(row, tables.state_of_new(row) if row.progress.next_fire_time else TriggerState.COMPLETE)
            reset[key] = row.progress.next_fire_time
    return reset
