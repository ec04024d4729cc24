"""Pauses and resumes triggers. A paused group is remembered for triggers that are stored later."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from quartzpy.instants import earliest
from quartzpy.keys import UNSCHEDULED_GROUPS, JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher, MatchOperator
from quartzpy.states import JobMode, Missed, TriggerState
from quartzpy.store import refusals
from quartzpy.store.memory.rows import JobRow, PauseMark, TriggerRow
from quartzpy.store.memory.tables import PauseTable, Tables
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

_PAUSING = (TriggerState.WAITING, TriggerState.BLOCKED)


def hold(
    tables: Tables, rows: Iterable[TriggerRow], note: PauseNote = NO_NOTE, *, by_mode: bool = False, alone: bool = False
) -> None:
    """Pause triggers.

    `alone` is a pause of the triggers themselves or of their jobs, which holds beside those of their groups and keeps
    its name beside them. A pause of a group that has an end, such as a maintenance window, takes nobody's name off.
    """
    now = tables.now()
    for row in list(rows):
        if row.state in _PAUSING:
            tables.move(row, TriggerState.PAUSED)
            row.held_by_mode = by_mode
            row.pause = None if by_mode else (now, note)
            row.own_pause = note if alone else None
        elif row.state is TriggerState.PAUSED and not by_mode:
            own = row.own_pause
            is_other = alone and (own is None or (own.until, own.missed) != (note.until, note.missed))
            may_rename = alone or (own is None and note.until is None)
            if row.held_by_mode or is_other or (note.reason is not None and may_rename):
                row.pause = (row.pause[0] if row.pause else now, note)
            if alone:
                row.own_pause = note
            row.held_by_mode = False


def _resume(tables: Tables, rows: Iterable[TriggerRow], missed: Missed = Missed.MISFIRE) -> datetime | None:
    """Set triggers to WAITING. The misfire step handles late ones."""
    times = [release(tables, row, missed) for row in list(rows)]
    return earliest(*times)


def release(tables: Tables, row: TriggerRow, missed: Missed) -> datetime | None:
    """Resume a trigger; return its next fire time, or None if it is not resumed."""
    now = tables.now()
    row.pause = row.own_pause = None
    if tables.pauses.forbid(row.key, row.job):
        # The pause ends, and only the job's mode keeps the trigger paused.
        row.held_by_mode = row.state is TriggerState.PAUSED
        return None
    at = row.progress.next_fire_time
    if row.state is not TriggerState.PAUSED or at is None:
        return None
    # What no schedule made is not skipped.
    treated = missed if at < now and row.key.group not in UNSCHEDULED_GROUPS else Missed.MISFIRE
    tables.move(row, TriggerState.WAITING, missed_policy=treated)
    row.held_by_mode = False
    row.resumed_at = now
    return at


def _of_keys(tables: Tables, keys: Collection[TriggerKey]) -> list[TriggerRow]:
    return [tables.triggers[key] for key in set(keys) if key in tables.triggers]


def _of_jobs(tables: Tables, keys: Collection[JobKey]) -> list[TriggerRow]:
    return [row for key in set(keys) if key in tables.jobs for row in tables.jobs[key].triggers.values()]


def _matched(matcher: GroupMatcher, keys: Iterable[TriggerKey] | Iterable[JobKey]) -> set[str]:
    """Return the groups that match; a group that is named by EQUALS need not exist yet."""
    named = {matcher.value} if matcher.operator is MatchOperator.EQUALS else set()
    return named | {key.group for key in keys if matcher.matches(key.group)}


def selected(tables: Tables, subjects: PauseSubjects) -> Iterable[TriggerRow]:
    """Return the triggers that there are now of these."""
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
            _remember(tables, "TRIGGER", groups, note)
        case JobGroups(matcher):
            groups = _matched(matcher, tables.jobs)
            _remember(tables, "JOB", groups, note)
        case Everything():
            groups = {key.group for key in tables.triggers}
            _remember(tables, "ALL", ["*"], note)
            if note.until is None:
                _remember(tables, "TRIGGER", groups, note, with_all=True)
            elif note.window is None:
                # What pauses each group beside all else has no end, so that it would outlast a pause with one.
                marks = tables.pauses.marks
                tables.pauses.marks = {place: mark for place, mark in marks.items() if not mark.with_all}
    alone = isinstance(subjects, NamedTriggers | TriggersOfJobs)
    hold(tables, selected(tables, subjects), note, alone=alone)
    return groups


def _remember(tables: Tables, scope: str, groups: Iterable[str], note: PauseNote, *, with_all: bool = False) -> None:
    """Remember the pauses of groups. A maintenance window makes one longer only."""
    marks, now = tables.pauses.marks, tables.now()
    for group in groups:
        mark = marks.get((scope, group))
        if mark is None:
            marks[scope, group] = PauseMark(now, note, with_all)
        elif note.window is None:
            if not with_all:
                mark.note, mark.with_all = note, False
        elif mark.note.until is not None and note.until is not None and mark.note.until < note.until:
            mark.note = note


def resume(tables: Tables, subjects: PauseSubjects, missed: Missed = Missed.MISFIRE) -> datetime | None:
    """Resume triggers; see `SchedulingStore.resume`."""
    pauses = tables.pauses
    match subjects:
        case TriggerGroups(matcher) | JobGroups(matcher):
            of = "JOB" if isinstance(subjects, JobGroups) else "TRIGGER"
            pauses.marks = {
                (scope, name): mark
                for (scope, name), mark in pauses.marks.items()
                if scope != of or not matcher.matches(name)
            }
        case Everything():
            tables.pauses = PauseTable(manual=pauses.manual)
    return _resume(tables, selected(tables, subjects), missed)


def pause_schedule(tables: Tables, job: JobRow, note: PauseNote) -> bool:
    """Pause the triggers of a job that a schedule made; return whether any was not paused before."""
    rows = [row for row in job.triggers.values() if row.key.group not in UNSCHEDULED_GROUPS and row.state in _PAUSING]
    hold(tables, rows, note, alone=True)
    return bool(rows)


def set_mode(tables: Tables, job: JobKey | None, mode: JobMode, missed: Missed = Missed.MISFIRE) -> datetime | None:
    """Set the mode of a job, or of the scheduler; see `SchedulingStore.set_mode`."""
    return _set_manual(tables, mode, missed) if job is None else _set_mode_of_job(tables, job, mode, missed)


def _set_mode_of_job(tables: Tables, key: JobKey, mode: JobMode, missed: Missed) -> datetime | None:
    job = tables.jobs.get(key)
    if job is None:
        return None
    job.mode = mode
    hold(tables, [row for row in job.triggers.values() if tables.pauses.forbid(row.key, job)], by_mode=True)
    return None if mode is JobMode.DISABLED else _resume(tables, _held_by_mode(job.triggers.values()), missed)


def _held_by_mode(rows: Iterable[TriggerRow]) -> list[TriggerRow]:
    return [row for row in rows if row.held_by_mode]


def _set_manual(tables: Tables, mode: JobMode, missed: Missed) -> datetime | None:
    tables.pauses.manual = refusals.is_manual_mode(mode)
    scheduled = [row for row in tables.triggers.values() if row.key.group not in UNSCHEDULED_GROUPS]
    if tables.pauses.manual:
        hold(tables, scheduled, by_mode=True)
        return None
    return _resume(tables, _held_by_mode(scheduled), missed)


def reset_from_error(tables: Tables, keys: Collection[TriggerKey]) -> dict[TriggerKey, datetime | None]:
    """Give triggers in ERROR the states of newly stored ones; see `SchedulingStore.reset_from_error`."""
    reset = {}
    for key in keys:
        row = tables.triggers.get(key)
        if row is not None and row.state is TriggerState.ERROR:
            row.error = row.own_pause = None
            tables.move(row, tables.state_of_new(row) if row.progress.next_fire_time else TriggerState.COMPLETE)
            reset[key] = row.progress.next_fire_time
    return reset
