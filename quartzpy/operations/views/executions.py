"""Executions: what ran, what runs now, and why it took as long as it did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from quartzpy.errors import ExecutionNotFoundError
from quartzpy.job_data import decode, decode_value
from quartzpy.jobs.internal_entries import nominal_fire
from quartzpy.keys import RETRYING_JOBS, JobKey, TriggerKey
from quartzpy.operations.read_context import EXAMINED as EXAMINED_ROWS
from quartzpy.operations.read_context import (
    ReadContext,
    attempt,
    examined_page,
    page_of,
    view_of,
)
from quartzpy.operations.views import allowed_actions
from quartzpy.operations.views.internal_triggers import retries_of, without_internals
from quartzpy.scheduler.batched_reads import BatchedReads
from quartzpy.scheduler.explain import span_in_words
from quartzpy.scheduler.querying import Page, decoded_cursor, encoded_cursor
from quartzpy.scheduler.singles import mode_of_job
from quartzpy.states import ExecutionState
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.queries import ExecutionQuery, MisfireQuery, Rank
from quartzpy.store.records import ExecutionRecord, MisfireRecord, RunningRecord
from quartzpy.texts import error_summary

EXAMINED = 20_000
"""The number of executions that a page examines."""
MAX_ATTEMPTS = 50
"""The largest number of attempts that are shown of one execution."""
GRACE = timedelta(seconds=10)
"""The time after its timeout in which an execution may still stop: it also waits for a worker, and then cleans up."""


@dataclass(frozen=True, slots=True)
class ExecutionSummary:
    """An execution at any stage, as a row of a list. A value that is not known yet is None."""

    fire_id: int | None
    state: ExecutionState
    trigger: TriggerKey
    job: JobKey
    job_type: str
    node: str | None
    attempt: int
    scheduled_fire_time: datetime
    fire_time: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    retry_at: datetime | None
    """The instant of the next attempt, if the execution failed and is retried."""
    waited: timedelta | None
    """The time from the scheduled instant to the fire, in which no node had fired the trigger."""
    queued: timedelta | None
    """The time from the fire to the start of the job, in which the node's workers were busy."""
    ran: timedelta | None
    """The time from the start of the job to its end."""
    error: str | None
    """The last line of the traceback."""
    recovering: bool = False
    """True if the execution repeats one whose node died."""
    triggered_by: str | None = None
    """Who asked for it, if it is a run by hand that names somebody, or repeats one."""


def summary(record: ExecutionRecord) -> ExecutionSummary:
    return view_of(
        ExecutionSummary,
        record,
        trigger=record.trigger_key,
        job=record.job_key,
        node=record.instance_id,
        waited=_span(record.scheduled_fire_time, record.fire_time),
        queued=_span(record.fire_time, record.started_at),
        ran=_span(record.started_at, record.ended_at),
        error=error_summary(record.error),
    )


def _span(since: datetime | None, until: datetime | None) -> timedelta | None:
    # The clocks of the database and of the node may differ a little, and a trigger may fire a moment early.
    return None if since is None or until is None else max(timedelta(), until - since)


def page(reading: BatchedReads, query: ExecutionQuery, limit: int, after: str | None) -> Page[ExecutionSummary]:
    """Return a page of executions; see `Operations.executions`."""
    if ExecutionState.SCHEDULED not in query.states and not query.exhausted and query.trigger_key is None:
        # Those that are to come would be on the first page, before older ones that are not examined yet.
        query = replace(query, among=EXAMINED)
    return page_of(examined_page(reading, query, limit, after), summary)


@dataclass(frozen=True, slots=True)
class RankedExecutions:
    """The executions that ran or waited longest, among the latest ones."""

    executions: tuple[ExecutionSummary, ...]
    """The longest first."""
    since: datetime | None
    """The end of the earliest execution that was looked at; None if all that the filters bound were."""
    next_cursor: str | None
    """Continues with the executions before those that were looked at; None if there are no others."""


def ranked(
    reading: BatchedReads, query: ExecutionQuery, by: Rank, limit: int, after: str | None = None
) -> RankedExecutions:
    """See `Operations.ranked_executions`."""
    query = replace(query, among=EXAMINED)
    position = None if after is None else decoded_cursor(query.name, query.shape, after)
    records = reading.defer(lambda store: admin(store).ranked_executions(query, by, limit, position, among=EXAMINED))
    # The latest executions of a trigger are nearly always all of them.
    end = None if query.trigger_key else reading.defer(lambda store: admin(store).last_examined(query, position))()
    rows = tuple(map(summary, records()))
    if end is None:
        return RankedExecutions(rows, None, None)
    return RankedExecutions(rows, end[1], encoded_cursor(query.name, end))


def has_run(reading: BatchedReads, job: JobKey) -> bool:
    query = ExecutionQuery(job_key=job, among=EXAMINED)
    return bool(reading.defer(lambda store: store.find(query, 1))())


@dataclass(frozen=True, slots=True)
class RunningView:
    """An execution that has not ended."""

    fire_id: int
    state: ExecutionState
    """ENQUEUED until the instant of its fire, then PROCESSING."""
    trigger: TriggerKey
    job: JobKey
    node: str
    attempt: int
    scheduled_fire_time: datetime
    fire_time: datetime | None
    """None before its instant."""
    elapsed: timedelta | None
    """The time since the fire; None before its instant."""
    cancel_requested: bool
    progress: float | None
    progress_message: str | None
    recovering: bool
    triggered_by: str | None = None
    """Who asked for it, if it is a run by hand that names somebody, or repeats one."""
    is_unrecorded: bool = False
    """True if it has ended, and its node reports that it cannot record that: it does not run any more."""
    submission: int | None = None
    """The number of its submission to an engine whose calls take tickets; None for all others."""
    worker: str | None = None
    """The worker of the engine that has taken the ticket; None if none has."""
    worker_since: datetime | None = None
    actions: tuple[str, ...] = ()
    """The names of the actions that are possible now, whatever the role of the actor."""


def running_view(record: RunningRecord, now: datetime) -> RunningView:
    fired = record.state == "EXECUTING"
    state = ExecutionState.PROCESSING if fired else ExecutionState.ENQUEUED
    return view_of(
        RunningView,
        record,
        state=state,
        trigger=record.trigger_key,
        job=record.job_key,
        node=record.instance_id,
        fire_time=record.fire_time if fired else None,
        elapsed=max(timedelta(), now - record.fire_time) if fired else None,
        actions=allowed_actions.on_execution(
            state, None, has_ended=record.is_unrecorded, cancel_requested=record.cancel_requested
        ),
    )


@dataclass(frozen=True, slots=True)
class ExecutionView:
    """One execution with all that is known about it."""

    execution: ExecutionSummary
    traceback: str | None
    log: str | None
    """The captured log lines; the last of them, which may be two seconds old, while the execution is running."""
    data: Mapping[str, Any]
    """The trigger's data at the fire, with secrets hidden."""
    of_trigger: TriggerKey
    """The trigger of the first attempt, which that of a retry repeats."""
    retries: int | None
    """The number of retries that its job allows, if this is one."""
    result: Any
    """The return value of the job, with secrets hidden."""
    elapsed: timedelta | None
    """The time since the fire of an execution that is still running."""
    cancel_requested: bool
    progress: float | None
    progress_message: str | None
    attempts: tuple[ExecutionSummary, ...]
    """All attempts that are known of the same fire, retries and recoveries included, in order."""
    why: tuple[str, ...]
    """Sentences that explain the state of the execution and where its time went."""
    unreadable: str | None = None
    actions: tuple[str, ...] = ()
    """The names of the actions that are possible now, whatever the role of the actor."""


def view(context: ReadContext, fire_id: int) -> ExecutionView:
    reading = context.reading()
    answer = reading.defer(lambda store: store.execution(fire_id))
    attempts = reading.defer(lambda store: admin(store).attempts([fire_id], MAX_ATTEMPTS))
    claims = reading.defer(lambda store: store.list_running())
    record = answer()
    if record is None:
        raise ExecutionNotFoundError(f"execution {fire_id} is not known, or no longer in the history")
    now = reading.now()
    has_ended = record.outcome is not None
    elapsed = None
    if record.state is ExecutionState.PROCESSING and record.fire_time is not None:
        elapsed = max(timedelta(), now - record.fire_time)
    mode = reading.defer(lambda store: mode_of_job(store, record.job_key)) if has_ended else None
    is_retry = record.trigger_key.group == RETRYING_JOBS
    jobs = reading.defer(lambda store: store.jobs([record.job_key])) if is_retry else None
    past_timeout = _past_timeout(reading, record, elapsed)
    running = next((row for row in claims() if row.fire_id == fire_id), None)
    data, bad_data = attempt(lambda: decode(record.trigger_data_text))
    result, bad_result = attempt(lambda: None if record.result_text is None else decode_value(record.result_text))
    cancel_requested = running is not None and running.cancel_requested
    return ExecutionView(
        execution=summary(record),
        traceback=record.error,
        log=record.log_text,
        data=context.shown(without_internals(data or {})),
        of_trigger=nominal_fire(record.trigger_key, record.scheduled_fire_time, data or {})[0],
        retries=None if jobs is None else retries_of(attempt(lambda: jobs().get(record.job_key))[0]),
        result=context.redaction.of(result),
        elapsed=elapsed,
        cancel_requested=cancel_requested,
        progress=None if running is None else running.progress,
        progress_message=None if running is None else running.progress_message,
        # It may have moved to the history meanwhile.
        attempts=tuple(map(summary, attempts().get(fire_id, [record]))),
        why=(*_why(record, elapsed, now), *_on_engine(running, now), *past_timeout(running)),
        unreadable=bad_data or bad_result,
        actions=allowed_actions.on_execution(
            record.state,
            None if mode is None else mode(),
            has_ended=has_ended,
            cancel_requested=cancel_requested,
        ),
    )


def _why(record: ExecutionRecord, elapsed: timedelta | None, now: datetime) -> list[str]:
    said = []
    waited = _span(record.scheduled_fire_time, record.fire_time)
    queued = _span(record.fire_time, record.started_at)
    ran = _span(record.started_at, record.ended_at)
    node = record.instance_id
    match record.state:
        case ExecutionState.SCHEDULED:
            said.append("It has not been fired yet.")
        case ExecutionState.ENQUEUED:
            said.append(f"Node {node} has fired it, and starts it at its scheduled instant.")
        case ExecutionState.PROCESSING:
            said.append(f"Node {node} fired it {_seconds(elapsed)} ago, and it has not ended.")
        case ExecutionState.FAILED:
            said.append(f"It failed: {error_summary(record.error) or 'no error was recorded'}.")
            if record.retry_at is None:
                said.append(f"It was attempt {record.attempt}, and no other follows.")
            else:
                verb = "is" if record.retry_at > now else "was"
                said.append(f"The next attempt {verb} scheduled for {record.retry_at.isoformat()}.")
        case ExecutionState.TERMINATED:
            said.append(f"Node {node} was shut down or died before it ended.")
        case ExecutionState.SKIPPED:
            said.append("It did not run: its job was at its limit, or a listener vetoed it.")
        case ExecutionState.CANCELLED:
            said.append("It was asked to stop, and stopped.")
        case ExecutionState.SNOOZED:
            at = "" if record.retry_at is None else f" It continues at {record.retry_at.isoformat()}."
            said.append(f"The job asked to run again later.{at}")
        case ExecutionState.SUCCEEDED:
            said.append("It succeeded.")
    if waited is not None and waited >= timedelta(seconds=1):
        said.append(f"It was fired {_seconds(waited)} after its scheduled instant.")
    if queued is not None and queued >= timedelta(seconds=1):
        said.append(f"It then waited {_seconds(queued)} for a worker of node {node}.")
    if ran is not None:
        said.append(f"It ran for {_seconds(ran)}.")
    return said


def _on_engine(running: RunningRecord | None, now: datetime) -> list[str]:
    """Return the sentence about the call of an execution that is on an engine."""
    if running is None or running.submission is None:
        return []
    call = f"its call there is {running.fire_id}.{running.attempt}.{running.submission}"
    if running.worker is None or running.worker_since is None:
        return [f"No worker of the engine of node {running.instance_id} has begun it; {call}."]
    return [f"Worker {running.worker} began it {_seconds(max(timedelta(), now - running.worker_since))} ago; {call}."]


def _past_timeout(
    reading: BatchedReads, record: ExecutionRecord, elapsed: timedelta | None
) -> Callable[[RunningRecord | None], list[str]]:
    """Ask for the timeout of a running execution, and return what returns the sentence about it."""
    if elapsed is None or elapsed <= GRACE:
        return lambda _: []
    answer = reading.defer(lambda store: store.jobs([record.job_key]).get(record.job_key))

    def sentences(running: RunningRecord | None) -> list[str]:
        job, _ = attempt(answer)
        if job is None or job.timeout is None or elapsed <= job.timeout + GRACE:
            return []
        way = "A thread cannot be stopped from outside: restart the node to free the worker."
        if running is not None and running.submission is not None:
            way = "Its engine has not ended it, and it can no longer write: restart the worker of the engine."
        return [f"It ignores its timeout of {_seconds(job.timeout)}, and occupies a worker. {way}"]

    return sentences


def _seconds(span: timedelta | None) -> str:
    return "an unknown time" if span is None else span_in_words(span)


@dataclass(frozen=True, slots=True)
class MisfireView:
    """A misfire that was handled: a fire that no node made in time."""

    misfire_id: int
    trigger: TriggerKey
    job: JobKey
    node: str
    handled_at: datetime
    scheduled_fire_time: datetime
    late: timedelta
    """The time from the scheduled instant to its handling."""
    instruction: str
    """The misfire instruction of the trigger."""
    action: str
    """The result of the instruction; see `MisfireAction`."""
    missed: tuple[datetime, ...] = field(default=())
    """The fire times without a run of their own."""
    has_more: bool = False
    """True if more fire times were missed than `missed` holds."""
    caught_up: int = 0
    next_fire_time: datetime | None = None


def misfire_page(reading: BatchedReads, query: MisfireQuery, limit: int, after: str | None) -> Page[MisfireView]:
    """Return a page of misfires; see `Operations.misfires`."""
    query = replace(query, among=EXAMINED_ROWS)
    return page_of(examined_page(reading, query, limit, after), misfire_view)


def misfire_view(record: MisfireRecord) -> MisfireView:
    return view_of(
        MisfireView,
        record,
        trigger=record.trigger_key,
        job=record.job_key,
        node=record.instance_id,
        late=record.handled_at - record.scheduled_fire_time,
        instruction=record.misfire,
    )
