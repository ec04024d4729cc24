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
from quartzpy.store.protocol import (
    NO_NOTE,
    Everything,
    JobGroups,
    NamedTriggers,
    PauseNote,
    PauseSubjects,
    TriggerGroups,
    TriggersOfJobs,
)

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


def _matched(matcher: GroupMatcher, keys: Iterable[TriggerKey] | Iterable[JobKey]) -> set[str]:
    """Return the groups that match; a group that is named by EQUALS need not exist yet."""
    named = {matcher.value} if matcher.operator is MatchOperator.EQUALS else set()
    return named | {key.group for key in keys if matcher.matches(key.group)}


def _selected(tables: Tables, subjects: PauseSubjects) -> Iterable[TriggerRow]:
    match subjects:
        case NamedTriggers(keys):
            return _of_keys(tables, keys)
        case TriggersOfJobs(keys):
            return _of_jobs(tables, keys)
        case TriggerGroups(matcher):
            return [row for row in tables.triggers.values() if matcher.matches(row.key.group)]
        case JobGroups(matcher):
            return [row for row in tables.triggers.values() if matcher.matches(row.job.key.group)]
        case Everything():
            return tables.triggers.values()


def pause(tables: Tables, subjects: PauseSubjects, note: PauseNote = NO_NOTE) -> set[str]:
    """Pause triggers; see `SchedulingStore.pause`."""
    groups: set[str] = set()
    match subjects:
        case TriggerGroups(matcher):
            groups = _matched(matcher, tables.triggers)
            tables.pauses.trigger_groups |= groups
        case JobGroups(matcher):
            groups = _matched(matcher, tables.jobs)
            tables.pauses.job_groups |= groups
        case Everything():
            groups = {key.group for key in tables.triggers}
            tables.pauses.everything = True
            tables.pauses.trigger_groups |= groups
    _pause(tables, _selected(tables, subjects), note)
    return groups


def resume(tables: Tables, subjects: PauseSubjects, missed: Missed = Missed.MISFIRE) -> datetime | None:
    """Resume triggers; see `SchedulingStore.resume`."""
    pauses = tables.pauses
    match subjects:
        case TriggerGroups(matcher):
            pauses.trigger_groups = {group for group in pauses.trigger_groups if not matcher.matches(group)}
        case JobGroups(matcher):
            pauses.job_groups = {group for group in pauses.job_groups if not matcher.matches(group)}
        case Everything():
            tables.pauses = Pauses(manual=pauses.manual)
    return _resume(tables, _selected(tables, subjects), missed)


def pause_schedule(tables: Tables, job: JobRow, note: PauseNote) -> bool:
    """Pause the triggers of a job that a schedule made; return whether any was not paused before."""
    rows = [row for row in job.triggers.values() if row.key.group not in UNSCHEDULED_GROUPS and row.state in _PAUSING]
    _pause(tables, rows, note)
    return bool(rows)


def set_mode(tables: Tables, job: JobKey | None, mode: JobMode, missed: Missed = Missed.MISFIRE) -> datetime | None:
    """Set the mode of a job, or of the scheduler; see `SchedulingStore.set_mode`."""
    return _set_manual(tables, mode, missed) if job is None else _set_mode_of_job(tables, job, mode, missed)


def _set_mode_of_job(tables: Tables, key: JobKey, mode: JobMode, missed: Missed) -> datetime | None:
    job = tables.jobs.get(key)
    if job is None:
        return None
    job.mode = mode
    _pause(tables, [row for row in job.triggers.values() if tables.pauses.forbid(row.key, job)], by_mode=True)
    return None if mode is JobMode.DISABLED else _resume(tables, _held_by_mode(job.triggers.values()), missed)


def _held_by_mode(rows: Iterable[TriggerRow]) -> list[TriggerRow]:
    return [row for row in rows if row.held_by_mode]


def _set_manual(tables: Tables, mode: JobMode, missed: Missed) -> datetime | None:
    tables.pauses.manual = refusals.is_manual_mode(mode)
    scheduled = [row for row in tables.triggers.values() if row.key.group not in UNSCHEDULED_GROUPS]
    if tables.pauses.manual:
        _pause(tables, scheduled, by_mode=True)
        return None
    return _resume(tables, _held_by_mode(scheduled), missed)


def reset_from_error(tables: Tables, keys: Collection[TriggerKey]) -> dict[TriggerKey, datetime | None]:
    """Give triggers in ERROR the states of newly stored ones; see `SchedulingStore.reset_from_error`."""
    reset = {}
    for key in keys:
        row = tables.triggers.get(key)
        if row is not None and row.state is TriggerState.ERROR:
            row.error = None
            tables.move(row, tables.state_of_new(row) if row.progress.next_fire_time else TriggerState.COMPLETE)
            reset[key] = row.progress.next_fire_time
    return reset
