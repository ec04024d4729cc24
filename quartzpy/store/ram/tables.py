"""The rows of the in-memory store, which resemble those of the SQL store's tables, and the changes of their states.

Every change of a trigger's state or fire time goes through `Tables.move`, which also updates the index of due triggers,
the sets by state and the claim. A trigger has a fire_id while it is ACQUIRED, and while its last fire runs.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Collection, Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any

from quartzpy.clock import Clock
from quartzpy.continuation import as_continuations
from quartzpy.errors import LeaseLostError
from quartzpy.job import JobDetail
from quartzpy.job_data import decode, encode
from quartzpy.keys import UNSCHEDULED_GROUPS, JobKey, TriggerKey
from quartzpy.progress import Progress
from quartzpy.rate_limit import RateLimit
from quartzpy.states import (
    PAUSED_STATES,
    ExecutionState,
    FiredState,
    JobMode,
    Missed,
    Outcome,
    OverlapPolicy,
    TriggerState,
)
from quartzpy.store.protocol import DispatchKey, FiredTrigger, Node, Notification, PauseNote, StoredCalendar
from quartzpy.store.ram.concurrency import concurrency_key
from quartzpy.store.ram.index import RATE_LIMITED, DueIndex, Entry, MisfireRule
from quartzpy.store.records import ExecutionRecord, MisfireRecord, NodeRecord
from quartzpy.triggers.trigger import Trigger, TriggerProgress
from quartzpy.triggers.upcoming import UpcomingFireTimes

HISTORY = 10_000
"""The maximum number of ended executions in the history, and of recorded misfires."""

BLOCKED_STATES = (TriggerState.BLOCKED, TriggerState.PAUSED_BLOCKED)
_NEVER_LATE = MisfireRule(True, None)
_LATE_AT_ONCE = MisfireRule(False, timedelta())
AFTER_UNBLOCKING = {
    TriggerState.BLOCKED: TriggerState.WAITING,
    TriggerState.PAUSED_BLOCKED: TriggerState.PAUSED,
}


class _Epochs:
    """The epochs of all stores of this process; a process recognises its own epochs by their numbers."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def next(self, above: int) -> int:
        """Return an epoch above `above` and above all that were returned before."""
        with self._lock:
            self._last = max(self._last, above) + 1
            return self._last


_EPOCHS = _Epochs()


class Admission(Enum):
    """The part of a job's rate limit in the next fire of a trigger."""

    ASKED = auto()
    """The limit is asked before the trigger fires."""
    ADMITTED = auto()
    """The limit allows the trigger to fire in the present step."""
    LATE = auto()
    """The trigger is late, and not because of the limit: the misfire step decides."""


_RULES = {
    Admission.ASKED: RATE_LIMITED,
    Admission.ADMITTED: _NEVER_LATE,
    Admission.LATE: _LATE_AT_ONCE,
}


@dataclass(slots=True)
class RateRow:
    """The state of the rate limit of a job for one value of its concurrency key; see `RateLimit`."""

    tat: datetime | None = None
    queued_until: datetime | None = None
    """The last turn that was given to a trigger."""
    queued_interval: timedelta | None = None
    """The interval between turns at that time."""


class JobRow:
    """A job. Its data is stored as text, so that a job that mutates its data does not change the stored value."""

    __slots__ = (
        "_detail",
        "concurrency_key",
        "consecutive_failures",
        "continuations",
        "data",
        "dispatch_key",
        "job_type",
        "key",
        "limit",
        "mode",
        "node_deaths",
        "overlap_policy",
        "owner",
        "rate_limit",
        "retry",
        "triggers",
    )

    def __init__(self, detail: JobDetail) -> None:
        self.key = detail.key
        self.triggers: dict[TriggerKey, TriggerRow] = {}
        self.mode = JobMode.ENABLED
        self.node_deaths = 0
        self.consecutive_failures = 0
        self.become(detail)

    def become(self, detail: JobDetail) -> None:
        self.job_type = detail.job_type
        self.limit = detail.max_concurrent
        self.concurrency_key = detail.concurrency_key
        self.overlap_policy = OverlapPolicy(detail.overlap_policy)
        self.dispatch_key = DispatchKey(self.job_type, detail.placement.as_text())
        self.owner: str | None = None
        self.retry = detail.retry.as_text() if detail.retry else None
        self.rate_limit: RateLimit | None = detail.rate_limit
        self.data = encode(detail.data)
        self.continuations = as_continuations(detail.continuations)
        self._detail = replace(detail, job=self.job_type, data=None)

    @property
    def is_durable(self) -> bool:
        return self._detail.durable

    @property
    def persists_data(self) -> bool:
        return bool(self._detail.persist_data)

    @property
    def requests_recovery(self) -> bool:
        return self._detail.requests_recovery

    @property
    def timeout(self) -> timedelta | None:
        return self._detail.timeout

    @property
    def pause_after_failures(self) -> int | None:
        return self._detail.pause_after_failures

    def load(self) -> JobDetail:
        return load_job(self._detail, self.data)

    def loader(self) -> tuple[JobDetail, str | None]:
        """Return the arguments with which `load_job` builds the job as it is now."""
        return self._detail, self.data


def load_job(detail: JobDetail, data: str | None) -> JobDetail:
    return detail if data is None else replace(detail, data=decode(data) or None)


def load_trigger(trigger: Trigger, data: str | None) -> Trigger:
    return trigger if data is None else replace(trigger, data=decode(data) or None)


class TriggerRow:
    """A trigger and its mutable state. Only `Tables` assigns `state`, `progress`, `upcoming`, `fire_id` and
    `catch_up_until`."""

    __slots__ = (
        "_usual_rule",
        "admission",
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
        "owner",
        "pause",
        "progress",
        "rate_limited_until",
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
        """When and why a verb paused it last; it means something only while it is paused."""
        self.become(trigger)
        self.catch_up_until: datetime | None = None
        self.missed_policy = Missed.MISFIRE
        self.admission = Admission.ASKED
        self.rate_limited_until: datetime | None = None
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
        own = None if trigger.ignores_misfires else trigger.misfire_threshold
        self._usual_rule = MisfireRule(trigger.ignores_misfires, own)

    def load(self) -> Trigger:
        return load_trigger(self.bare, self.data)

    @property
    def rule(self) -> MisfireRule:
        """The rule by which the trigger misfires. A trigger that is catching up never misfires, because its missed
        fires were handled already. One that was resumed with a `missed` policy of its own misfires at once, so that
        only the misfire step takes it."""
        if self.missed_policy is not Missed.MISFIRE:
            return _LATE_AT_ONCE
        if self.job.rate_limit is not None:
            return _RULES[self.admission]
        return self._usual_rule if self.catch_up_until is None else _NEVER_LATE

    @property
    def bucket(self) -> tuple[JobKey, str]:
        """The job and the concurrency key, for which a rate limit holds."""
        return self.job.key, self.concurrency_key

    @property
    def entry(self) -> Entry:
        at = self.progress.next_fire_time
        assert at is not None
        if self.rate_limited_until is not None and self.rule is RATE_LIMITED:
            at = max(at, self.rate_limited_until)
        return Entry(at, -self.bare.priority, self.key.group, self.key.name)


@dataclass(slots=True)
class FiredRow:
    """A claim or a running execution."""

    fire_id: int
    trigger_key: TriggerKey
    generation: int
    job_key: JobKey
    job_type: str
    instance_id: str
    epoch: int
    state: FiredState
    fire_time: datetime
    scheduled_time: datetime
    priority: int
    limited: bool
    concurrency_key: str
    requests_recovery: bool
    attempt: int
    trigger_data: str | None
    cancel_requested: bool = False
    progress: Progress | None = None
    fired: FiredTrigger | None = None

    def ended(self, outcome: Outcome, at: datetime, **rest: Any) -> ExecutionRecord:
        """Return the record of the ended execution for the history."""
        return replace(self.record(), state=ExecutionState(outcome), ended_at=at, **rest)

    def record(self) -> ExecutionRecord:
        """Return the record of an execution that has not ended."""
        is_claim = self.state is FiredState.ACQUIRED
        return ExecutionRecord(
            state=ExecutionState.ENQUEUED if is_claim else ExecutionState.PROCESSING,
            fire_id=self.fire_id,
            trigger_key=self.trigger_key,
            job_key=self.job_key,
            job_type=self.job_type,
            instance_id=self.instance_id,
            scheduled_fire_time=self.scheduled_time,
            fire_time=None if is_claim else self.fire_time,
            started_at=None,
            ended_at=None,
            attempt=self.attempt,
            error=None,
            trigger_data_text=self.trigger_data,
        )

    @property
    def counts(self) -> bool:
        """True if the execution counts against its job's limit."""
        return self.limited and self.state is FiredState.EXECUTING


@dataclass
class Pauses:
    """The pauses that also apply to triggers that are stored later."""

    everything: bool = False
    manual: bool = False
    trigger_groups: set[str] = field(default_factory=set)
    job_groups: set[str] = field(default_factory=set)

    def cover(self, trigger_key: TriggerKey, job: JobRow) -> bool:
        """Return True if a trigger of this job that is stored now starts paused."""
        return self._cover_groups(trigger_key, job) or self.forbid(trigger_key, job)

    def hold_by_mode(self, trigger_key: TriggerKey, job: JobRow) -> bool:
        """Return True if only a mode pauses a trigger of this job that is stored now."""
        return self.forbid(trigger_key, job) and not self._cover_groups(trigger_key, job)

    def _cover_groups(self, trigger_key: TriggerKey, job: JobRow) -> bool:
        return self.everything or trigger_key.group in self.trigger_groups or job.key.group in self.job_groups

    def forbid(self, trigger_key: TriggerKey, job: JobRow) -> bool:
        """Return True if manual mode, or the mode of its job, prevents a trigger from firing."""
        if self.manual or job.mode is JobMode.MANUAL:
            return trigger_key.group not in UNSCHEDULED_GROUPS or job.mode is JobMode.DISABLED
        return job.mode is JobMode.DISABLED


class Tables:
    """All rows, and the changes that several steps share. The caller holds the store's lock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.jobs: dict[JobKey, JobRow] = {}
        self.triggers: dict[TriggerKey, TriggerRow] = {}
        self.fired: dict[int, FiredRow] = {}
        self.nodes: dict[str, NodeRecord] = {}
        self.calendars: dict[str, StoredCalendar] = {}
        self.pauses = Pauses()
        self.versions: dict[str, str] = {}
        self.history: deque[ExecutionRecord] = deque(maxlen=HISTORY)
        self.misfires: deque[MisfireRecord] = deque(maxlen=HISTORY)
        self.rate_limits: dict[tuple[JobKey, str], RateRow] = {}
        self.due = DueIndex()
        self.by_state: dict[TriggerState, dict[TriggerKey, TriggerRow]] = {state: {} for state in TriggerState}
        self.notifications: set[Notification] = set()
        """The notifications that are not sent yet."""
        self._running: Counter[tuple[JobKey, str]] = Counter()
        self._last_number = 0
        self._last_epoch = 0

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_clock"}

    def take_time_from(self, clock: Clock) -> None:
        self._clock = clock

    def copied(self) -> Tables:
        """Return a copy of all rows, which shares the clock."""
        copy = deepcopy(self)
        copy.take_time_from(self._clock)
        return copy

    def continue_numbers_of(self, other: Tables) -> None:
        """Continue the numbering of `other`, so that no number is assigned twice."""
        self._last_number = max(self._last_number, other._last_number)
        self._last_epoch = max(self._last_epoch, other._last_epoch)

    def now(self) -> datetime:
        return self._clock.now()

    def calendar_of(self, row: TriggerRow) -> StoredCalendar | None:
        """Return the calendar that a trigger uses."""
        return None if row.bare.calendar is None else self.calendars[row.bare.calendar]

    def next_number(self) -> int:
        """Return a new fire_id or generation, higher than all before."""
        self._last_number += 1
        return self._last_number

    def next_epoch(self) -> int:
        self._last_epoch = _EPOCHS.next(self._last_epoch)
        return self._last_epoch

    def require(self, node: Node) -> datetime:
        """Return the current time for a step of a registered node.

        Raises:
            LeaseLostError: the node's epoch is no longer registered.
        """
        record = self.nodes.get(node.instance_id)
        if record is None or record.epoch != node.epoch:
            raise LeaseLostError(f"node {node.instance_id} (epoch {node.epoch}) was declared dead by the cluster")
        return self.now()

    # --- triggers

    def add_trigger(self, row: TriggerRow, state: TriggerState) -> None:
        self.triggers[row.key] = row
        row.job.triggers[row.key] = row
        row.state = state
        row.held_by_mode = self.pauses.hold_by_mode(row.key, row.job)
        self._enter(row)

    def redefine_trigger(self, row: TriggerRow, given: Trigger) -> None:
        """Replace all values of a trigger except its schedule: its progress, pause and claim do not change."""
        waits = row.state is TriggerState.WAITING
        if waits:
            self.due.remove(row.job.dispatch_key, row.rule, row.entry)
        if (row.bare.misfire, row.bare.misfire_threshold) != (given.misfire, given.misfire_threshold):
            row.catch_up_until = None
        key = row.concurrency_key
        row.become(row.bare.with_values_of(given))
        if waits:
            self.due.add(row.job.dispatch_key, row.rule, row.entry)
        if row.concurrency_key != key:
            self._wait_for_key(row)

    def _wait_for_key(self, row: TriggerRow) -> None:
        """Put a trigger that has another concurrency key now into the state that this gives it."""
        blocked = self.is_blocked(row)
        if row.state in PAUSED_STATES:
            self.move(row, TriggerState.PAUSED_BLOCKED if blocked else TriggerState.PAUSED)
        elif row.state in (TriggerState.WAITING, TriggerState.ACQUIRED, TriggerState.BLOCKED):
            self.move(row, TriggerState.BLOCKED if blocked else TriggerState.WAITING)

    def remove_trigger(self, row: TriggerRow) -> None:
        """Remove a trigger and the claim on it; a running execution continues."""
        self._exit(row)
        del self.triggers[row.key], row.job.triggers[row.key]

    def move(
        self,
        row: TriggerRow,
        state: TriggerState,
        *,
        progress: TriggerProgress | None = None,
        upcoming: UpcomingFireTimes | None = None,
        fire_id: int | None = None,
        catch_up_until: datetime | None = None,
        missed_policy: Missed | None = None,
    ) -> None:
        """Set `state` and drop its claim if it leaves ACQUIRED. A trigger that caught up may misfire again."""
        self._exit(row)
        if missed_policy is not None:
            row.missed_policy = missed_policy
            row.catch_up_until = row.catch_up_until if missed_policy is Missed.MISFIRE else None
        row.admission = Admission.ASKED
        row.state = state
        row.fire_id = fire_id
        if progress is not None:
            row.progress = progress
            until, following = catch_up_until or row.catch_up_until, progress.next_fire_time
            row.catch_up_until = until if until and following and following <= until else None
        if upcoming is not None:
            row.upcoming = upcoming
        self._enter(row)

    def set_admission(self, row: TriggerRow, admission: Admission) -> None:
        """Change the part of the rate limit in the next fire of a waiting trigger."""
        self._exit(row)
        row.admission = admission
        self._enter(row)

    def hold_back(self, row: TriggerRow, until: datetime) -> None:
        """Let a waiting trigger wait for its rate limit until this instant."""
        self._exit(row)
        row.rate_limited_until = until
        self._enter(row)

    def redefine(self, job: JobRow, detail: JobDetail) -> None:
        """Replace a job's definition; re-index its triggers, and void the claims that the old definition allowed."""
        was = (job.dispatch_key, job.limit, job.overlap_policy, job.rate_limit)
        had_key = job.concurrency_key
        waiting = [row for row in job.triggers.values() if row.state is TriggerState.WAITING]
        for row in waiting:
            self.due.remove(job.dispatch_key, row.rule, row.entry)
        job.become(detail)
        if job.rate_limit != was[-1]:
            for row in job.triggers.values():
                row.rate_limited_until = None
        for row in waiting:
            self.due.add(job.dispatch_key, row.rule, row.entry)
        is_other = was != (job.dispatch_key, job.limit, job.overlap_policy, job.rate_limit)
        if had_key is not None or job.concurrency_key is not None:
            for row in job.triggers.values():
                key = concurrency_key(job.concurrency_key, job.data, row.data)
                if key != row.concurrency_key:
                    row.concurrency_key = key
                    self._wait_for_key(row)
        if is_other:
            for row in job.triggers.values():
                if row.state is TriggerState.ACQUIRED:
                    self.move(row, TriggerState.WAITING)

    def _enter(self, row: TriggerRow) -> None:
        self.by_state[row.state][row.key] = row
        if row.state is TriggerState.WAITING:
            self.due.add(row.job.dispatch_key, row.rule, row.entry)

    def _exit(self, row: TriggerRow) -> None:
        del self.by_state[row.state][row.key]
        if row.state is TriggerState.WAITING:
            self.due.remove(row.job.dispatch_key, row.rule, row.entry)
        if row.fire_id is not None:
            claim = self.fired.get(row.fire_id)
            if claim is not None and claim.state is FiredState.ACQUIRED:
                self.drop(claim)

    def state_of_new(self, row: TriggerRow) -> TriggerState:
        """The state of a trigger that is stored now."""
        blocked = self.is_blocked(row)
        if self.pauses.cover(row.key, row.job):
            return TriggerState.PAUSED_BLOCKED if blocked else TriggerState.PAUSED
        return TriggerState.BLOCKED if blocked else TriggerState.WAITING

    def drop_orphans(self, keys: Collection[JobKey]) -> None:
        """Remove the given jobs that are not durable and have no trigger left."""
        for key in keys:
            job = self.jobs.get(key)
            if job is not None and not job.is_durable and not job.triggers:
                del self.jobs[key]

    # --- claims and fires

    def free_slots(self, row: TriggerRow) -> int | None:
        """The number of executions that the job of a trigger may start now for its concurrency key; None: any."""
        limit = row.job.limit
        return None if limit is None else max(0, limit - self._running[row.job.key, row.concurrency_key])

    def is_blocked(self, row: TriggerRow) -> bool:
        """Tell whether a trigger waits because as many executions run as its job allows for its concurrency key."""
        return row.job.overlap_policy is OverlapPolicy.BLOCK and self.free_slots(row) == 0

    def claim(self, row: FiredRow) -> None:
        self.fired[row.fire_id] = row
        if row.counts:
            self._running[row.job_key, row.concurrency_key] += 1

    def drop(self, row: FiredRow) -> None:
        del self.fired[row.fire_id]
        if row.counts:
            counted = row.job_key, row.concurrency_key
            self._running[counted] -= 1
            if not self._running[counted]:
                del self._running[counted]

    def unblock(self, ended: Iterable[tuple[JobKey, str]]) -> list[TriggerRow]:
        """Release the blocked triggers of jobs that may run again for these concurrency keys.

        Returns those that wait for their next fire time again.
        """
        waiting = []
        for job_key, key in ended:
            job = self.jobs.get(job_key)
            for row in () if job is None else job.triggers.values():
                if row.state in BLOCKED_STATES and row.concurrency_key == key and not self.is_blocked(row):
                    self.move(row, AFTER_UNBLOCKING[row.state])
                    if row.state is TriggerState.WAITING:
                        waiting.append(row)
        return waiting
