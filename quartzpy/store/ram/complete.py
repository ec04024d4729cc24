"""The complete step: ends executions, by fire_id, and only while the claim is still this epoch's."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from quartzpy.keys import JobKey
from quartzpy.states import FiredState, Outcome, TriggerState
from quartzpy.store.protocol import Completion, CompletionOutcome, FiredTrigger, Node, Notification
from quartzpy.store.ram.rerun import retry
from quartzpy.store.ram.tables import HISTORY, FiredRow, Tables, TriggerRow
from quartzpy.store.records import ExecutionRecord
from quartzpy.triggers.upcoming import UpcomingFireTimes


def complete(tables: Tables, node: Node, completions: Sequence[Completion]) -> CompletionOutcome:
    """End executions; see `JobStore.complete`."""
    now = tables.now()
    ended: list[Completion] = []
    fenced: set[int] = set()
    released: set[JobKey] = set()
    retries: list[TriggerRow] = []
    for completion in completions:
        row = tables.fired.get(completion.fired.fire_id)
        if row is None or row.epoch != node.epoch or row.state is not FiredState.EXECUTING:
            if not _was_recorded(tables, node, completion.fired.fire_id):
                fenced.add(completion.fired.fire_id)
            continue
        tables.drop(row)
        job = tables.jobs.get(row.job_key)
        tables.history.append(
            row.ended(
                completion.outcome,
                completion.ended_at,
                started_at=completion.started_at,
                error=completion.error,
                result_text=completion.result,
                retry_at=now + completion.retry_after if completion.retry_after is not None and job else None,
            )
        )
        _store_data(tables, row, completion)
        if row.limited:
            released.add(row.job_key)
        if job is not None and completion.outcome is Outcome.SUCCEEDED:
            job.node_deaths = 0
        if completion.retry_after is not None and job is not None:
            retries.append(retry(tables, row, job, completion.retry_after))
        ended.append(completion)
    unblocked = [*tables.unblock(released), *(row for row in retries if row.state is TriggerState.WAITING)]
    for completion in ended:
        _end_trigger(tables, completion)
    times = [row.progress.next_fire_time for row in unblocked if row.progress.next_fire_time]
    return CompletionOutcome(now, fenced=frozenset(fenced), earliest_unblocked=min(times, default=None))


def _was_recorded(tables: Tables, node: Node, fire_id: int) -> bool:
    """Whether this node ended that execution before: its answer was lost, and it asks again."""
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
    """What the completion asks of the trigger that fired, where that was not replaced meanwhile."""
    fired = completion.fired
    row = _same_generation(tables, fired)
    state = completion.instruction.state
    if state is not None:
        job = tables.jobs.get(fired.job_key)
        about_all = completion.instruction.is_about_all_triggers and job is not None
        for asked in list(job.triggers.values()) if job is not None and about_all else [row]:
            if asked is not None:
                tables.move(asked, state)
                asked.error = completion.error if state is TriggerState.ERROR else None
    elif completion.ends_its_trigger:
        # A declared trigger stays when it has ended: else it would be stored anew by the next sync.
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
    """Give a trigger the fire time that follows from the end of its execution, unless it was moved meanwhile."""
    if row.progress.next_fire_time != completion.fired.next_fire_time or row.state is TriggerState.COMPLETE:
        return
    following = completion.next_by_end()
    state = TriggerState.COMPLETE if following is None else row.state
    tables.move(row, state, progress=replace(row.progress, next_fire_time=following))


def _append(tables: Tables, row: TriggerRow, fired: FiredTrigger, more: UpcomingFireTimes) -> None:
    """Append instants where nothing else did: the last one is that which they were computed from."""
    computed_from = (fired.next_fire_time, *fired.upcoming.instants)[-1]
    last = (row.progress.next_fire_time, *row.upcoming.instants)[-1]
    if last is not None and last == computed_from and not row.upcoming.is_complete:
        row.upcoming = UpcomingFireTimes(row.upcoming.instants + more.instants, more.is_complete)


def request_cancel(tables: Tables, fire_id: int) -> bool:
    """Ask an execution to stop; see `JobStore.request_cancel`."""
    row = tables.fired.get(fire_id)
    if row is None or row.state is not FiredState.EXECUTING:
        return False
    row.cancel_requested = True
    tables.notifications.add(Notification.CANCELLED)
    return True


def request_cancel_of_job(tables: Tables, job: JobKey) -> set[int]:
    """Ask all executions of a job to stop; see `JobStore.request_cancel_of_job`."""
    rows = [row for row in tables.fired.values() if row.job_key == job and row.state is FiredState.EXECUTING]
    for row in rows:
        row.cancel_requested = True
    return {row.fire_id for row in rows}


def cancel_requests(tables: Tables, node: Node) -> set[int]:
    """What was asked to stop; see `JobStore.cancel_requests`."""
    return {row.fire_id for row in tables.fired.values() if row.epoch == node.epoch and row.cancel_requested}


def purge(tables: Tables, older_than: timedelta | None, limit: int, ended_triggers: timedelta | None) -> int:
    """Delete old history and ended triggers; see `JobStore.purge_history`."""
    if ended_triggers is not None:
        _purge_ended(tables, tables.now() - ended_triggers)
    return 0 if older_than is None else _purge_records(tables, tables.now() - older_than, limit)


def _purge_records(tables: Tables, before: datetime, limit: int) -> int:
    executions: deque[ExecutionRecord] = deque(maxlen=HISTORY)
    purged = 0
    for record in tables.history:
        if record.ended_at is not None and record.ended_at < before and purged < limit:
            purged += 1
        else:
            executions.append(record)
    tables.history = executions
    misfires = tables.misfires
    gone = 0
    while gone < limit and misfires and misfires[0].handled_at < before:
        misfires.popleft()
        gone += 1
    return purged + gone


def _purge_ended(tables: Tables, before: datetime) -> None:
    """Remove triggers that a job or a misfire ended. Declared ones stay: their owner would store them anew."""
    for row in list(tables.by_state[TriggerState.COMPLETE].values()):
        progress = row.progress
        last = progress.next_fire_time or progress.previous_fire_time or row.bare.anchor
        if row.fire_id is None and row.owner is None and last < before:
            tables.remove_trigger(row)
            tables.drop_orphans([row.job.key])
