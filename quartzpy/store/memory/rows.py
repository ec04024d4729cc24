"""The rows of the in-memory store, which resemble those of the SQL store's tables."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from quartzpy.job_data import decode, encode
from quartzpy.jobs.context import Progress
from quartzpy.jobs.continuation import Predecessor
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.join import Join, as_join
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.jobs.stored_options import options_text
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.states import (
    ExecutionState,
    JobMode,
    JoinState,
    MisfireRule,
    Missed,
    Outcome,
    OverlapPolicy,
    TriggerState,
    misfire_rule_of,
)
from quartzpy.store.memory.index import Entry, IndexPart
from quartzpy.store.protocol import DispatchKey, FiredTrigger, Gate, PauseNote
from quartzpy.store.records import ExecutionRecord, WindowRecord
from quartzpy.triggers.trigger import Trigger, TriggerProgress
from quartzpy.triggers.upcoming import UpcomingFireTimes


@dataclass(slots=True)
class JoinRow:
    """What has ended for one occasion of a job that runs after several ends, or of one batch."""

    opened_at: datetime
    total: int | None = None
    """The number of triggers of the batch; None if it is none."""
    outcomes: tuple[Outcome, ...] = ()
    """The outcomes for which the job of a batch runs."""
    state: JoinState = JoinState.WAITING
    last_end_at: datetime | None = None
    ended: dict[JobKey, Predecessor] = field(default_factory=dict)
    succeeded: int = 0
    failed: int = 0
    removed: int = 0
    """The triggers of a batch that ended without a fire."""
    fire_id: int | None = None
    """The execution with whose end the job was started."""


@dataclass(slots=True)
class PauseMark:
    """A pause of a group or of everything. `with_all`: a pause of everything made it, beside its own."""

    at: datetime
    note: PauseNote
    with_all: bool = False


@dataclass(slots=True)
class WindowRow:
    """A maintenance window, and the next instant at which a node has to do something for it."""

    record: WindowRecord
    due_at: datetime


class JobRow:
    """A job. Its data is stored as text, so that a job that mutates its data does not change the stored value."""

    __slots__ = (
        "after",
        "concurrency_key",
        "consecutive_failures",
        "continuations",
        "data",
        "definition",
        "detail",
        "dispatch_key",
        "job_type",
        "key",
        "limit",
        "limits",
        "mode",
        "node_deaths",
        "overlap_policy",
        "owner",
        "rate_limit",
        "triggers",
    )

    def __init__(self, detail: JobDetail) -> None:
        self.key = detail.key
        self.triggers: dict[TriggerKey, TriggerRow] = {}
        self.mode = JobMode.ENABLED
        self.node_deaths = 0
        self.consecutive_failures = 0
        self.become(detail)

    @property
    def has_own_limit(self) -> bool:
        return self.limit is not None or self.rate_limit is not None

    @property
    def has_slots_alone(self) -> bool:
        """True if it has a limit of executions, and no rate and no limit that it shares."""
        return self.limit is not None and self.rate_limit is None and self.limits is None

    @property
    def has_rate(self) -> bool:
        """True if it has a rate limit of its own."""
        return self.rate_limit is not None

    def become(self, detail: JobDetail) -> None:
        self.job_type = detail.job_type
        self.limit = detail.max_concurrent
        self.concurrency_key = detail.concurrency_key
        self.overlap_policy = OverlapPolicy(detail.overlap_policy)
        self.dispatch_key = DispatchKey(self.job_type, detail.placement.text)
        self.owner: str | None = None
        self.definition = options_text(detail)
        self.data = encode(detail.data)
        self.continuations = detail.continuations
        self.after: Join | None = None if detail.after is None else as_join(detail.after)
        self.rate_limit: RateLimit | None = detail.rate_limit
        self.limits = detail.limits_text
        self.detail = replace(detail, job=self.job_type, data=None)
        """The job without its data."""

    def load(self) -> JobDetail:
        return load_job(self.detail, self.data)

    def loader(self) -> tuple[JobDetail, str | None]:
        """Return the arguments with which `load_job` builds the job as it is now."""
        return self.detail, self.data


def load_job(detail: JobDetail, data: str | None) -> JobDetail:
    return detail if data is None else replace(detail, data=decode(data) or None)


def load_trigger(trigger: Trigger, data: str | None) -> Trigger:
    return trigger if data is None else replace(trigger, data=decode(data) or None)


class TriggerRow:
    """A trigger and its mutable state. Only `Tables` assigns `state`, `progress`, `upcoming`, `fire_id` and
    `catch_up_until`."""

    __slots__ = (
        "attempt",
        "bare",
        "catch_up_until",
        "coalesced_fire_times",
        "concurrency_key",
        "data",
        "error",
        "fire_id",
        "generation",
        "held_by_mode",
        "job",
        "key",
        "missed_policy",
        "own_pause",
        "owner",
        "parked_at",
        "pause",
        "progress",
        "resumed_at",
        "schedule_hash",
        "state",
        "upcoming",
    )

    def __init__(
        self,
        trigger: Trigger,
        job: JobRow,
        generation: int,
        progress: TriggerProgress,
        upcoming: UpcomingFireTimes,
        schedule_hash: int | None = None,
    ) -> None:
        self.key = trigger.key
        self.job = job
        self.generation = generation
        self.schedule_hash = schedule_hash
        self.held_by_mode = False
        self.pause: tuple[datetime, PauseNote] | None = None
        """When and why a method paused it last; it means something only while it is paused."""
        self.own_pause: PauseNote | None = None
        """The pause of this trigger or its job, while it holds beside those of groups and modes."""
        self.become(trigger)
        self.catch_up_until: datetime | None = None
        self.missed_policy = Missed.MISFIRE
        self.resumed_at: datetime | None = None
        """The instant of the last resumption. The policy SKIP does not concern what comes due after it."""
        self.parked_at: str | None = None
        """The shared limits for which it waits, if it is BLOCKED; None: for its job's own one."""
        self.state = TriggerState.COMPLETE
        self.progress = progress
        self.upcoming = upcoming
        self.attempt = 1
        self.coalesced_fire_times: tuple[datetime, ...] = ()
        self.owner: str | None = None
        self.fire_id: int | None = None
        self.error: str | None = None

    def become(self, trigger: Trigger) -> None:
        self.data = encode(trigger.data)
        self.concurrency_key = concurrency_key(self.job.concurrency_key, self.job.data, self.data)
        self.bare = replace(trigger, data=None)

    def load(self) -> Trigger:
        return load_trigger(self.bare, self.data)

    @property
    def part(self) -> IndexPart:
        """The part of the index in which the trigger waits."""
        rule = misfire_rule_of(
            ignores_misfires=self.bare.ignores_misfires,
            has_threshold=self.bare.misfire_threshold is not None,
            catches_up=self.catch_up_until is not None,
            missed_policy=self.missed_policy,
        )
        threshold = self.bare.misfire_threshold if rule is MisfireRule.OWN else None
        return IndexPart(rule, threshold)

    @property
    def gate(self) -> Gate:
        """The job and the concurrency key, for which its own limit holds."""
        return Gate(self.job.key.group, self.job.key.name, self.concurrency_key)

    @property
    def place(self) -> Gate:
        """Where it is parked, if it is BLOCKED."""
        return self.gate if self.parked_at is None else shared_gate(self.parked_at)

    @property
    def entry(self) -> Entry:
        at = self.progress.next_fire_time
        assert at is not None
        return Entry(at, -self.bare.priority, self.key.group, self.key.name)


@dataclass(slots=True)
class FiredRow:
    """A running execution."""

    fire_id: int
    trigger_key: TriggerKey
    generation: int
    job_key: JobKey
    job_type: str
    instance_id: str
    epoch: int
    fire_time: datetime
    scheduled_time: datetime
    priority: int
    limited: bool
    limits: str | None
    """The limits that it uses beside that of its job."""
    concurrency_key: str
    requests_recovery: bool
    attempt: int
    trigger_data: str | None
    cancel_requested: bool = False
    progress: Progress | None = None
    recent_log: str | None = None
    fired: FiredTrigger | None = None

    def ended(self, outcome: Outcome, at: datetime, **rest: Any) -> ExecutionRecord:
        """Return the record of the ended execution for the history."""
        return replace(self.record(), state=ExecutionState(outcome), ended_at=at, **rest)

    def record(self, now: datetime | None = None) -> ExecutionRecord:
        """Return the record of an execution that has not ended. Before its instant, it waits for that."""
        is_early = now is not None and self.fire_time > now
        return ExecutionRecord(
            state=ExecutionState.ENQUEUED if is_early else ExecutionState.PROCESSING,
            fire_id=self.fire_id,
            trigger_key=self.trigger_key,
            job_key=self.job_key,
            job_type=self.job_type,
            instance_id=self.instance_id,
            scheduled_fire_time=self.scheduled_time,
            fire_time=None if is_early else self.fire_time,
            started_at=None,
            ended_at=None,
            attempt=self.attempt,
            error=None,
            trigger_data_text=self.trigger_data,
            log_text=self.recent_log,
        )

    @property
    def gate(self) -> Gate:
        return Gate(self.job_key.group, self.job_key.name, self.concurrency_key)

    @property
    def counts(self) -> bool:
        """True if the execution counts against its job's limit."""
        return self.limited


def shared_gate(limits: str) -> Gate:
    """Return the gate of a set of shared limits, or of one of them."""
    return Gate("", "", "", limits)


def concurrency_key(entry: str | None, job_data: str | None, trigger_data: str | None) -> str:
    """Return the value of `entry` in the data that an execution gets, as text; empty where there is none.

    Both data are JSON, and the trigger's comes first.
    """
    if entry is None:
        return ""
    value = {**json.loads(job_data or "{}"), **json.loads(trigger_data or "{}")}.get(entry)
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
