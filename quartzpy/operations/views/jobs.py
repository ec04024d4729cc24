"""Jobs: their rules, their triggers, and how their last runs went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from quartzpy.definitions.plain import definition_of
from quartzpy.instants import short
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.join import as_join
from quartzpy.keys import JobKey, nearest
from quartzpy.operations.read_context import (
    EXAMINED,
    MAX_COUNTED,
    Count,
    ReadContext,
    attempt,
    examined_page,
    near_keys,
    no_job,
    page_of,
    view_of,
)
from quartzpy.operations.views import allowed_actions
from quartzpy.operations.views.agenda import FIRES, Fires, PlannedRun
from quartzpy.operations.views.executions import ExecutionSummary, RunningView, running_view
from quartzpy.operations.views.executions import summary as execution_summary
from quartzpy.operations.views.triggers import TriggerSummary
from quartzpy.operations.views.triggers import summary as trigger_summary
from quartzpy.operations.views.waiting import WaitingFacts
from quartzpy.scheduler.batched_reads import BatchedReads, Deferred
from quartzpy.scheduler.explain_joins import JOINS_SHOWN, explain_joins
from quartzpy.scheduler.querying import Page
from quartzpy.states import JobMode
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import Health
from quartzpy.store.queries import JobQuery, JoinQuery, TriggerOrder, TriggerQuery
from quartzpy.store.records import JobRecord, JoinRecord
from quartzpy.texts import headline

MAX_TRIGGERS = 100
"""The largest number of triggers that the view of a job shows."""
COUNTED_OF_EACH = 1_000
"""The number up to which the triggers of each job of a page are counted."""
LAST_RUNS = 60
LOOKED_AT = 10_000
"""The number of executions of all jobs among which those by triggers that are no longer stored are found."""
NEXT_RUNS = 10
MAX_ERRORS = 5


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job, as a row of a list."""

    key: JobKey
    display_name: str | None
    job_type: str
    mode: JobMode
    trigger_count: int
    next_fire_time: datetime | None
    previous_fire_time: datetime | None
    description: str | None = None
    durable: bool | None = None
    max_concurrent: int | None = None
    requests_recovery: bool | None = None
    timeout: timedelta | None = None
    unreadable: str | None = None
    """The reason why this process cannot decode the job; None if it can."""
    has_more_triggers: bool = False
    """True if it has more than `trigger_count` triggers, which are counted up to 1,000 for each job of a list. Then
    `next_fire_time` and `previous_fire_time` are None, because they are not known."""

    waits_for: str | None = None
    """What its next fire waits for, in a few words: "paused", "disabled", "waits for a node"; None if it waits for its
    next fire time only."""
    health: Health | None = None
    """How its last runs went: those of four of its triggers, and those among the latest 10,000 executions of all jobs.
    None if it has none there."""

    @property
    def triggers(self) -> Count:
        """The number of its triggers: `str` of it is "1,000+" if there are more."""
        return Count(self.trigger_count, self.has_more_triggers)


_SUMMARIZED = {own.name for own in fields(JobSummary)} & {own.name for own in fields(JobDetail)}
"""The values of `JobSummary` that the definition of the job has; None where it cannot be read."""


def summary(record: JobRecord) -> JobSummary:
    job, problem = attempt(lambda: record.job)
    rules = {name: getattr(job, name, None) for name in _SUMMARIZED}
    return view_of(JobSummary, record, **rules, unreadable=problem)


def page(reading: BatchedReads, query: JobQuery, limit: int, after: str | None) -> Page[JobSummary]:
    """Return a page of jobs; see `Operations.jobs`."""
    query = replace(query, among=EXAMINED, most_triggers=COUNTED_OF_EACH)
    health: list[Deferred[dict[JobKey, Health]]] = []
    surroundings = WaitingFacts(reading)

    def ask_health(records: Page[JobRecord]) -> None:
        keys = [record.key for record in records]
        health.append(reading.defer(lambda store: admin(store).job_health(keys, among=LOOKED_AT)))

    records = examined_page(reading, query, limit, after, ask_more=ask_health)
    return page_of(
        records,
        lambda record: replace(
            summary(record), health=health[0]().get(record.key), waits_for=surroundings.of_job(record)
        ),
    )


@dataclass(frozen=True, slots=True)
class JobHint:
    """A job that is not stored."""

    key: JobKey
    nearest: JobKey | None
    """The key that was probably meant."""


def hint(reading: BatchedReads, key: JobKey) -> JobHint | None:
    """See `Operations.job_hint`."""
    stored = reading.defer(lambda store: store.job_headers([key]))
    near = near_keys(reading, key)
    return None if key in stored() else JobHint(key, nearest(key, near()))


MAX_WAITING = 20


@dataclass(frozen=True, slots=True)
class UpstreamJob:
    """A job that another one waits for."""

    job: JobKey
    outcome: str | None = None
    """The outcome of its execution for the latest occasion for which one of the jobs has ended; None: not ended yet."""
    fire_id: int | None = None
    """That execution."""


@dataclass(frozen=True, slots=True)
class DownstreamJob:
    """A job that waits for this one and others."""

    job: JobKey
    outcome: str | None = None
    """The outcome with which this one has ended for the latest occasion of that job; None: not ended yet."""


_IN_KEY = ("name", "group", "type", "disallow_concurrent")
"""What the title and the type say, and the flag that the limit says, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job with all that is known about it."""

    job: JobSummary
    overlap_policy: str | None = None
    concurrency_key: str | None = None
    rate_limit: str | None = None
    limits: tuple[str, ...] = ()
    """The names of the limits that it shares with other jobs."""
    retry: str | None = None
    """The retry policy in words."""
    expect: str | None = None
    """What is expected of the fires of its triggers, in words."""
    pause_after_failures: int | None = None
    persist_data: bool | None = None
    capture_logs: str | None = None
    executor: str | None = None
    execution_group: str | None = None
    requires: tuple[str, ...] = ()
    continuations: tuple[JobKey, ...] = ()
    """The jobs that run after this one."""
    runs_after: tuple[UpstreamJob, ...] = ()
    """The jobs that this one runs after, if it waits for several ends."""
    runs_before: tuple[DownstreamJob, ...] = ()
    """The jobs that wait for this one and others, at most 20."""
    waits: tuple[str, ...] = ()
    """What it waits for, or was started by, in sentences, the latest first."""
    definition: Mapping[str, Any]
    """The job as an exported file declares it: the values that differ from the defaults, without its data and its
    continuations, whose data may hold secrets."""
    data: Mapping[str, Any]
    """The job's data, with secrets hidden."""
    triggers: tuple[TriggerSummary, ...]
    """Its triggers, at most the first 100 by key; `job.trigger_count` counts up to 10,000 of them."""
    next_runs: tuple[PlannedRun, ...]
    running: tuple[RunningView, ...]
    last_runs: tuple[ExecutionSummary, ...]
    """Its last executions, the latest first. Those by triggers that are no longer stored, such as manual runs, are
    found among the latest 10,000 executions of all jobs."""
    outcomes: Mapping[str, int]
    """The number of `last_runs` by outcome."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """The errors of `last_runs` with their numbers, the commonest first."""
    actions: tuple[str, ...] = ()
    """The names of the actions that are possible now, whatever the role of the actor."""

    @property
    def others(self) -> dict[str, Any]:
        """The values of its definition for which the view has no field of its own, by names in words."""
        named = {*_IN_KEY, *(own.name for own in (*fields(self), *fields(self.job)))}
        return {name.replace("_", " "): value for name, value in self.definition.items() if name not in named}


def view(context: ReadContext, key: JobKey) -> JobView:
    reading = context.reading()
    surroundings = WaitingFacts(reading)
    answer = reading.defer(lambda store: store.find(JobQuery(job_key=key, most_triggers=MAX_COUNTED), 1))
    stored = reading.defer(lambda store: store.find(TriggerQuery(job_key=key), MAX_TRIGGERS))
    next_to_fire = reading.defer(lambda store: store.find(_next_of(key), NEXT_RUNS))
    running = reading.defer(lambda store: store.list_running())
    joins = reading.defer(lambda store: store.find(JoinQuery(job_key=key), JOINS_SHOWN))
    waiting = reading.defer(lambda store: admin(store).waiting_jobs(key, MAX_WAITING))
    health = reading.defer(lambda store: admin(store).job_health([key], among=LOOKED_AT))
    last_runs = reading.defer(lambda store: admin(store).last_executions_of_job(key, LAST_RUNS, among=LOOKED_AT))
    record = next(iter(answer()), None)
    if record is None:
        raise no_job(reading, key)
    job, _ = attempt(lambda: record.job)
    now, triggers, last = reading.now(), stored(), last_runs()
    surroundings.ask_modes(triggers)
    next_runs = list(islice(Fires(reading, next_to_fire(), now).runs(), NEXT_RUNS))
    shown = replace(summary(record), health=health().get(key), waits_for=surroundings.of_job(record))
    if record.has_more_triggers and next_runs:
        shown = replace(shown, next_fire_time=next_runs[0].at)
    return view_of(
        JobView,
        job,
        job=shown,
        **_rules(job),
        **_joins(job, joins(), reading),
        runs_before=tuple(DownstreamJob(other, outcome and str(outcome)) for other, outcome in waiting()),
        definition=_definition(job),
        data=context.shown(_mapping(job)),
        triggers=tuple(
            replace(trigger_summary(trigger, now), waits_for=surroundings.of_trigger(trigger)) for trigger in triggers
        ),
        next_runs=tuple(next_runs),
        running=tuple(running_view(row, now) for row in running() if row.job_key == key),
        last_runs=tuple(map(execution_summary, last)),
        outcomes=dict(Counter(str(execution.state) for execution in last)),
        errors=dict(Counter(line for run in last if (line := headline(run.error))).most_common(MAX_ERRORS)),
        actions=allowed_actions.on_job(
            record.mode, {trigger.state for trigger in triggers}, has_more=record.trigger_count > len(triggers)
        ),
    )


def _definition(job: JobDetail | None) -> dict[str, Any]:
    values = {} if job is None else definition_of(job)
    return {name: value for name, value in values.items() if name != "continuations"}


def _mapping(job: JobDetail | None) -> dict[str, Any]:
    data, _ = attempt(lambda: {} if job is None else dict(job.data or {}))
    return data or {}


def _rules(job: JobDetail | None) -> dict[str, Any]:
    """Return the rules of a job that its view words in its own way."""
    if job is None:
        return {}
    retry = job.retry
    return {
        "overlap_policy": str(job.overlap_policy),
        "rate_limit": None if job.rate_limit is None else str(job.rate_limit),
        "retry": None if retry is None else f"{retry.attempts} attempts, the second after {short(retry.delay)}",
        "limits": tuple(job.limits),
        "expect": None if job.expect is None else str(job.expect),
        "requires": tuple(job.requires),
        "continuations": tuple(continuation.key for continuation in job.continuations),
    }


def _joins(job: JobDetail | None, joins: Sequence[JoinRecord], reading: BatchedReads) -> dict[str, Any]:
    if job is None or (job.after is None and not joins):
        return {}
    latest = next((join for join in joins if join.total is None), None)
    ended = {} if latest is None else {end.job_key: end for end in latest.ended}
    keys = () if job.after is None else as_join(job.after).keys
    return {
        "runs_after": tuple(
            UpstreamJob(key, str(ended[key].outcome), ended[key].fire_id) if key in ended else UpstreamJob(key)
            for key in keys
        ),
        "waits": tuple(explain_joins(job, joins, reading)),
    }


def _next_of(key: JobKey) -> TriggerQuery:
    return TriggerQuery(job_key=key, states=FIRES, order=TriggerOrder.NEXT_FIRE_TIME)
