"""The complete step: ends executions by fire_id, if they still belong to the calling epoch."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from quartzpy.jobs.context import Progress
from quartzpy.keys import JobKey
from quartzpy.states import JoinState, Outcome, TriggerState
from quartzpy.store.memory.joins import Arrivals
from quartzpy.store.memory.limits import forget_past
from quartzpy.store.memory.pausing import pause_schedule
from quartzpy.store.memory.rerun import follow, repeat
from quartzpy.store.memory.rows import FiredRow, TriggerRow
from quartzpy.store.memory.tables import HISTORY, Tables
from quartzpy.store.protocol import (
    Completion,
    CompletionOutcome,
    FiredTrigger,
    Node,
    Notification,
    PauseNote,
    Purged,
)
from quartzpy.store.protocol.outcomes import NOT_FAILED
from quartzpy.store.records import ExecutionRecord
from quartzpy.triggers.upcoming import UpcomingFireTimes


def complete(
    tables: Tables,
    node: Node,
    completions: Sequence[Completion],
    *,
    wakes_others: bool = False,
    at_length: bool = False,
) -> CompletionOutcome:
    """End executions; see `JobStore.complete`."""
    now = tables.now()
    ended: list[Completion] = []
    fenced: set[int] = set()
    ends: list[ExecutionEnd] = []
    stopped: set[int] = set()
    for completion in completions:
        row = tables.fired.get(completion.fired.fire_id)
        if row is None or row.epoch != node.epoch:
            if not _was_recorded(tables, node, completion.fired.fire_id):
                fenced.add(completion.fired.fire_id)
            continue
        tables.drop(row)
        job = tables.jobs.get(row.job_key)
        if row.cancel_requested and completion.retry_after is not None:
            stopped.add(row.fire_id)
            completion = _not_again(completion)
        if job is None:
            completion = replace(completion, retry_after=None)
        tables.history.append(
            row.ended(
                completion.outcome,
                _between(row, completion.ended_at, now),
                started_at=_between(row, completion.started_at, now),
                error=completion.error,
                result_text=completion.result,
                log_text=completion.log,
                retry_at=None if completion.retry_after is None else now + completion.retry_after,
            )
        )
        _store_data(tables, row, completion)
        if job is not None and completion.outcome is Outcome.SUCCEEDED:
            job.node_deaths = 0
        ends.append(
            ExecutionEnd(
                row,
                completion.outcome,
                completion.result,
                repeats_after=completion.retry_after,
                continues=completion.fired.continues,
                joins=completion.fired.joins,
            )
        )
        ended.append(completion)
    waiting = change_others(tables, ends)
    paused = _count_failures(tables, ended)
    for completion in ended:
        _end_trigger(tables, completion)
    earliest = min((row.progress.next_fire_time for row in waiting if row.progress.next_fire_time), default=None)
    return CompletionOutcome(
        now, fenced=frozenset(fenced), earliest_unblocked=earliest, paused=paused, stopped=frozenset(stopped)
    )


class ExecutionEnd(NamedTuple):
    """The end of an execution, and what it may do to other triggers."""

    row: FiredRow
    outcome: Outcome
    result: str | None = None
    repeats_after: timedelta | None = None
    """How long it is until it runs again; None: it has ended for good."""
    continues: bool = True
    joins: bool = True


def change_others(tables: Tables, ends: Sequence[ExecutionEnd]) -> list[TriggerRow]:
    """Store the triggers of the jobs that run next; return those that wait for their fire times now.

    It is the same, whether an execution ends by itself or by the death of its node.
    """
    stored: list[TriggerRow] = []
    arrivals = Arrivals(tables)
    for end in ends:
        row, job = end.row, tables.jobs.get(end.row.job_key)
        if end.repeats_after is not None and job is not None:
            stored.append(repeat(tables, row, job, end.repeats_after, end.outcome))
            continue
        if end.continues and job is not None:
            stored += follow(tables, row, job, end.outcome, end.result)
        if end.joins:
            arrivals.add(row, end.outcome, end.result)
    stored += arrivals.settle()
    return [row for row in stored if row.state is TriggerState.WAITING]


def _not_again(completion: Completion) -> Completion:
    """Return the end of an execution that was to run again, and that somebody has asked to stop."""
    if completion.outcome is not Outcome.SNOOZED:
        return replace(completion, retry_after=None)
    error = None if completion.is_handed_back else completion.error
    return replace(completion, retry_after=None, outcome=Outcome.CANCELLED, error=error)


def _between(row: FiredRow, instant: datetime, now: datetime) -> datetime:
    """Return a node's estimate of an instant, limited to the time between the fire and now by the store's clock."""
    return min(max(instant, row.fire_time), now)


def _count_failures(tables: Tables, ended: Sequence[Completion]) -> set[JobKey]:
    """Count failures in a row of jobs that ask for it; pause those that have reached their limit, and return them."""
    grown: dict[JobKey, bool] = {}
    for completion in ended:
        job = tables.jobs.get(completion.fired.job_key)
        if job is None or not completion.counts_for_pause:
            continue
        has_failed = completion.outcome is Outcome.FAILED
        job.consecutive_failures = job.consecutive_failures + 1 if has_failed else 0
        grown[job.key] = has_failed
    paused = set()
    for key in (key for key, has_failed_last in grown.items() if has_failed_last):
        job = tables.jobs[key]
        most = job.detail.pause_after_failures
        if most is not None and job.consecutive_failures >= most:
            note = PauseNote(f"{job.consecutive_failures} executions in a row failed", "pause_after_failures")
            if pause_schedule(tables, job, note):
                paused.add(key)
    return paused


def _was_recorded(tables: Tables, node: Node, fire_id: int) -> bool:
    """Return True if this node ended the execution before and repeats the call because the answer was lost."""
    return any(
        record.fire_id == fire_id
        and record.instance_id == node.instance_id
        and record.outcome is not Outcome.TERMINATED
        for record in tables.history
    )


def _store_data(tables: Tables, row: FiredRow, completion: Completion) -> None:
    job = tables.jobs.get(row.job_key)
    if job is not None and completion.job_data is not None:
        job.data = None if completion.job_data == "{}" else completion.job_data


def _end_trigger(tables: Tables, completion: Completion) -> None:
    """Apply the completion's instruction to the trigger that fired, unless it was replaced in the meantime."""
    fired = completion.fired
    row = _same_generation(tables, fired)
    state = completion.instruction.state
    if state is not None:
        job = tables.jobs.get(fired.job_key)
        about_all = completion.instruction.is_about_all_triggers and job is not None
        for affected in list(job.triggers.values()) if job is not None and about_all else [row]:
            if affected is not None:
                tables.move(affected, state)
                affected.error = (completion.error or NOT_FAILED) if state is TriggerState.ERROR else None
    elif completion.instruction.deletes:
        if row is not None:
            tables.remove_trigger(row)
        tables.drop_orphans([fired.job_key])
    elif completion.ends_its_trigger:
        # A declared trigger is kept when it has ended; otherwise the next sync would store it again.
        if row is not None and row.state is TriggerState.COMPLETE and row.owner is None:
            tables.remove_trigger(row)
        tables.drop_orphans([fired.job_key])
    elif row is not None and completion.moves_its_trigger():
        _move_by_end(tables, row, completion)
    elif row is not None and completion.refill is not None:
        calendar = tables.calendar_of(row)
        if (None if calendar is None else calendar.revision) == fired.calendar_revision:
            _append(tables, row, fired, completion.refill)


def _same_generation(tables: Tables, fired: FiredTrigger) -> TriggerRow | None:
    row = tables.triggers.get(fired.trigger_key)
    return row if row is not None and row.generation == fired.generation else None


def _move_by_end(tables: Tables, row: TriggerRow, completion: Completion) -> None:
    """Set the fire time that follows from the end of the execution, unless the trigger was moved in the meantime."""
    if row.progress.next_fire_time != completion.fired.next_fire_time or row.state is TriggerState.COMPLETE:
        return
    following = completion.next_by_end()
    # What is parked asks its gate again at the other instant.
    is_parked = row.state is TriggerState.BLOCKED
    state = TriggerState.COMPLETE if following is None else TriggerState.WAITING if is_parked else row.state
    tables.move(row, state, progress=replace(row.progress, next_fire_time=following))


def _append(tables: Tables, row: TriggerRow, fired: FiredTrigger, more: UpcomingFireTimes) -> None:
    """Append fire times if nothing else has; they continue the last stored instant, from which they were computed."""
    computed_from = fired.last_known_fire_time
    last = (row.progress.next_fire_time, *row.upcoming.instants)[-1]
    if last is not None and last == computed_from and not row.upcoming.is_complete:
        row.upcoming = UpcomingFireTimes(row.upcoming.instants + more.instants, more.is_complete)


def request_cancel(tables: Tables, executions: int | JobKey) -> set[int]:
    """Ask executions to stop; see `FiringStore.request_cancel`."""
    if isinstance(executions, JobKey):
        rows = [row for row in tables.fired.values() if row.job_key == executions]
    else:
        rows = [tables.fired[executions]] if executions in tables.fired else []
    for row in rows:
        row.cancel_requested = True
        tables.notifications.add(Notification.CANCELLED)
    return {row.fire_id for row in rows}


def cancel_requests(tables: Tables, node: Node) -> set[int]:
    """Return this epoch's executions that were asked to stop; see `JobStore.cancel_requests`."""
    return {row.fire_id for row in tables.fired.values() if row.epoch == node.epoch and row.cancel_requested}


def report_progress(
    tables: Tables, node: Node, reports: Mapping[int, Progress], logs: Mapping[int, str] | None = None
) -> set[int]:
    """Store the progress and the log lines of executions; see `JobStore.report_progress`."""
    stored, logs = set(), logs or {}
    for fire_id in reports.keys() | logs.keys():
        row = tables.fired.get(fire_id)
        if row is not None and row.epoch == node.epoch:
            row.progress = reports.get(fire_id, row.progress)
            row.recent_log = logs.get(fire_id, row.recent_log)
            stored.add(fire_id)
    return stored


def purge_history(
    tables: Tables,
    older_than: timedelta | None,
    *,
    limit: int,
    ended_triggers: timedelta | None = None,
    actions: timedelta | None = None,
    before: datetime | None = None,
    most: int | None = None,
) -> Purged:
    """Delete old history and ended triggers; see `ClusterStore.purge_history`. There is no audit log."""
    forget_past(tables, limit)
    ended_triggers = ended_triggers or older_than
    if ended_triggers is not None:
        _purge_ended(tables, tables.now() - ended_triggers)
    if most is not None:
        before = _history_cutoff(tables, most)
    oldest = None if older_than is None else tables.now() - older_than
    ends = [end for end in (oldest, before) if end is not None]
    purged = _purge_executions(tables, max(ends), limit) if ends else 0
    if oldest is not None:
        purged += _purge_misfires(tables, oldest, limit) + _purge_joins(tables, oldest, limit)
    return Purged(purged, before)


def _history_cutoff(tables: Tables, keep: int) -> datetime | None:
    """Return the instant that parts the latest `keep` executions from the others; None if there are no others."""
    ends = sorted(record.ended_at for record in tables.history if record.ended_at is not None)
    return ends[-keep - 1] + timedelta(microseconds=1) if len(ends) > keep else None


def _purge_executions(tables: Tables, before: datetime, limit: int) -> int:
    executions: deque[ExecutionRecord] = deque(maxlen=HISTORY)
    purged = 0
    for record in tables.history:
        if record.ended_at is not None and record.ended_at < before and purged < limit:
            purged += 1
        else:
            executions.append(record)
    tables.history = executions
    return purged


def _purge_misfires(tables: Tables, before: datetime, limit: int) -> int:
    misfires = tables.misfires
    deleted = 0
    while deleted < limit and misfires and misfires[0].handled_at < before:
        misfires.popleft()
        deleted += 1
    return deleted


def _purge_joins(tables: Tables, before: datetime, limit: int) -> int:
    """Remove joins and batches of which nothing has ended for long. A batch that waits is kept."""
    old = [
        key
        for key, row in tables.joins.items()
        if (row.last_end_at or row.opened_at) < before
        and not (row.total is not None and row.state is JoinState.WAITING)
    ]
    for key in old[:limit]:
        del tables.joins[key]
    return len(old[:limit])


def _purge_ended(tables: Tables, before: datetime) -> None:
    """Remove triggers that a job or a misfire ended. Declared ones are kept: their owner would store them again."""
    for row in list(tables.by_state[TriggerState.COMPLETE].values()):
        progress = row.progress
        last = progress.next_fire_time or progress.previous_fire_time or row.bare.anchor
        if row.fire_id is None and row.owner is None and last < before:
            tables.remove_trigger(row)
            tables.drop_orphans([row.job.key])
