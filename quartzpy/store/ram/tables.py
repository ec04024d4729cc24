"""What the in-memory store keeps: rows like those of the SQL store's tables, and the moves that keep them coherent.

Every change of a trigger's state or fire time goes through `Tables.move`: the index of due triggers, the sets by
state and the claim follow. A trigger has a fire_id while it is ACQUIRED, and while its last fire runs.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Collection, Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from quartzpy.clock import Clock
from quartzpy.errors import LeaseLostError
from quartzpy.job import JobDetail
from quartzpy.job_data import decode, encode
from quartzpy.keys import UNSCHEDULED_GROUPS, JobKey, TriggerKey
from quartzpy.states import ExecutionState, FiredState, JobMode, Missed, Outcome, TriggerState, WhenFull
from quartzpy.store.protocol import DispatchKey, FiredTrigger, Node, Notification, StoredCalendar
from quartzpy.store.ram.index import DueIndex, Entry, MisfireRule
from quartzpy.store.records import ExecutionRecord, MisfireRecord, NodeRecord
from quartzpy.triggers.trigger import Trigger, TriggerProgress
from quartzpy.triggers.upcoming import UpcomingFireTimes

HISTORY = 10_000
"""So many ended executions are remembered, and so many misfires."""

BLOCKED_STATES = (TriggerState.BLOCKED, TriggerState.PAUSED_BLOCKED)
_NEVER_LATE = MisfireRule(True, None)
_LATE_AT_ONCE = MisfireRule(False, timedelta())
PAUSED_STATES = (TriggerState.PAUSED, TriggerState.PAUSED_BLOCKED)
AFTER_UNBLOCKING = {
    TriggerState.BLOCKED: TriggerState.WAITING,
    TriggerState.PAUSED_BLOCKED: TriggerState.PAUSED,
}


class _Epochs:
    """The epochs of this process, for all stores: a process asks which epochs are its own by their numbers."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def next(self, above: int) -> int:
        """Return an epoch above `above` and above all that were returned before."""
        with self._lock:
            self._last = max(self._last, above) + 1
            return self._last


_EPOCHS = _Epochs()


class JobRow:
    """A job. Its data is kept as text: a job that changes a list in its data changes nothing here."""

    __slots__ = (
        "_detail",
        "data",
        "dispatch_key",
        "job_type",
        "key",
        "limit",
        "mode",
        "node_deaths",
        "overlap_policy",
        "owner",
        "retry",
        "triggers",
    )

    def __init__(self, detail: JobDetail) -> None:
        self.key = detail.key
        self.triggers: dict[TriggerKey, TriggerRow] = {}
        self.mode = JobMode.ENABLED
        self.node_deaths = 0
        self.become(detail)

    def become(self, detail: JobDetail) -> None:
        self.job_type = detail.job_type
        self.limit = detail.max_concurrent
        self.overlap_policy = WhenFull(detail.overlap_policy)
        self.dispatch_key = DispatchKey(self.job_type, detail.placement.as_text())
        self.owner: str | None = None
        self.retry = detail.retry.as_text() if detail.retry else None
        self.data = encode(detail.data)
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

    def load(self) -> JobDetail:
        return load_job(self._detail, self.data)

    def loader(self) -> tuple[JobDetail, str | None]:
        """What `load_job` needs to give the job as it is now."""
        return self._detail, self.data


def load_job(detail: JobDetail, data: str | None) -> JobDetail:
    return detail if data is None else replace(detail, data=decode(data) or None)


def load_trigger(trigger: Trigger, data: str | None) -> Trigger:
    return trigger if data is None else replace(trigger, data=decode(data) or None)


class TriggerRow:
    """A trigger with what changes about it. Only `Tables` writes `state`, `progress`, `upcoming`, `fire_id` and
    `catch_up_until`."""

    __slots__ = (
        "_usual_rule",
        "attempt",
        "bare",
        "catch_up_until",
        "coalesced_fire_times",
        "data",
        "error",
        "fire_id",
        "generation",
        "held_by_mode",
        "job",
        "key",
        "missed_policy",
        "owner",
        "progress",
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
        self.become(trigger)
        self.catch_up_until: datetime | None = None
        self.missed_policy = Missed.MISFIRE
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
        self.bare = replace(trigger, data=None)
        own = None if trigger.ignores_misfires else trigger.misfire_threshold
        self._usual_rule = MisfireRule(trigger.ignores_misfires, own)

    def load(self) -> Trigger:
        return load_trigger(self.bare, self.data)

    @property
    def rule(self) -> MisfireRule:
        """When it is too late. While it catches up, never: what is made up for is not judged again. Where it was
        resumed otherwise than its instruction says, at once: only the misfire step takes it."""
        if self.missed_policy is not Missed.MISFIRE:
            return _LATE_AT_ONCE
        return self._usual_rule if self.catch_up_until is None else _NEVER_LATE

    @property
    def entry(self) -> Entry:
        at = self.progress.next_fire_time
        assert at is not None
        return Entry(at, -self.bare.priority, self.key.group, self.key.name)


@dataclass(slots=True)
class FiredRow:
    """A claim, or a fire that runs."""

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
    requests_recovery: bool
    attempt: int
    trigger_data: str | None
    cancel_requested: bool = False
    fired: FiredTrigger | None = None

    def ended(self, outcome: Outcome, at: datetime, **rest: Any) -> ExecutionRecord:
        """What the history says of it."""
        return replace(self.record(), state=ExecutionState(outcome), ended_at=at, **rest)

    def record(self) -> ExecutionRecord:
        """What is known of it before its end."""
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
        """Whether it counts against its job's limit."""
        return self.limited and self.state is FiredState.EXECUTING


@dataclass
class Pauses:
    """What was paused for triggers that come later too."""

    everything: bool = False
    manual: bool = False
    trigger_groups: set[str] = field(default_factory=set)
    job_groups: set[str] = field(default_factory=set)

    def cover(self, trigger_key: TriggerKey, job: JobRow) -> bool:
        """Whether a trigger of this job that is stored now is paused."""
        return self._cover_groups(trigger_key, job) or self.forbid(trigger_key, job)

    def hold_by_mode(self, trigger_key: TriggerKey, job: JobRow) -> bool:
        """Whether a mode alone pauses a trigger of this job that is stored now."""
        return self.forbid(trigger_key, job) and not self._cover_groups(trigger_key, job)

    def _cover_groups(self, trigger_key: TriggerKey, job: JobRow) -> bool:
        return self.everything or trigger_key.group in self.trigger_groups or job.key.group in self.job_groups

    def forbid(self, trigger_key: TriggerKey, job: JobRow) -> bool:
        """Whether manual mode, or the mode of its job, keeps a trigger from firing."""
        if self.manual or job.mode is JobMode.MANUAL:
            return trigger_key.group not in UNSCHEDULED_GROUPS or job.mode is JobMode.DISABLED
        return job.mode is JobMode.DISABLED


class Tables:
    """All rows, and the moves that several steps share. The caller holds the store's lock."""

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
        self.due = DueIndex()
        self.by_state: dict[TriggerState, dict[TriggerKey, TriggerRow]] = {state: {} for state in TriggerState}
        self.notifications: set[Notification] = set()
        """Those that are not sent yet."""
        self._running: Counter[JobKey] = Counter()
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
        """Give no number that `other` has given."""
        self._last_number = max(self._last_number, other._last_number)
        self._last_epoch = max(self._last_epoch, other._last_epoch)

    def now(self) -> datetime:
        return self._clock.now()

    def calendar_of(self, row: TriggerRow) -> StoredCalendar | None:
        """The calendar that a trigger names."""
        return None if row.bare.calendar is None else self.calendars[row.bare.calendar]

    def next_number(self) -> int:
        """A fire_id or a generation: above all before."""
        self._last_number += 1
        return self._last_number

    def next_epoch(self) -> int:
        self._last_epoch = _EPOCHS.next(self._last_epoch)
        return self._last_epoch

    def require(self, node: Node) -> datetime:
        """The time, for a step of a node that still stands.

        Raises:
            LeaseLostError: it does not.
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
        """Give a trigger other values, all but its schedule: its progress, its pause and a claim on it stay."""
        waits = row.state is TriggerState.WAITING
        if waits:
            self.due.remove(row.job.dispatch_key, row.rule, row.entry)
        if (row.bare.misfire, row.bare.misfire_threshold) != (given.misfire, given.misfire_threshold):
            row.catch_up_until = None
        row.become(row.bare.with_values_of(given))
        if waits:
            self.due.add(row.job.dispatch_key, row.rule, row.entry)

    def remove_trigger(self, row: TriggerRow) -> None:
        """Remove a trigger and the claim on it; a fire that runs goes on."""
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
        """Put a trigger into `state`; a claim that it leaves is dropped. One that has caught up may misfire again."""
        self._exit(row)
        if missed_policy is not None:
            row.missed_policy = missed_policy
            row.catch_up_until = row.catch_up_until if missed_policy is Missed.MISFIRE else None
        row.state = state
        row.fire_id = fire_id
        if progress is not None:
            row.progress = progress
            until, following = catch_up_until or row.catch_up_until, progress.next_fire_time
            row.catch_up_until = until if until and following and following <= until else None
        if upcoming is not None:
            row.upcoming = upcoming
        self._enter(row)

    def redefine(self, job: JobRow, detail: JobDetail) -> None:
        """Give a job another definition; its triggers wait where that says, and claims made by the old one are void."""
        was = (job.dispatch_key, job.limit, job.overlap_policy)
        waiting = [row for row in job.triggers.values() if row.state is TriggerState.WAITING]
        for row in waiting:
            self.due.remove(job.dispatch_key, row.rule, row.entry)
        job.become(detail)
        for row in waiting:
            self.due.add(job.dispatch_key, row.rule, row.entry)
        if was != (job.dispatch_key, job.limit, job.overlap_policy):
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

    def state_of_new(self, trigger_key: TriggerKey, job: JobRow) -> TriggerState:
        """The state of a trigger that is stored now."""
        blocked = self.is_blocked(job)
        if self.pauses.cover(trigger_key, job):
            return TriggerState.PAUSED_BLOCKED if blocked else TriggerState.PAUSED
        return TriggerState.BLOCKED if blocked else TriggerState.WAITING

    def drop_orphans(self, keys: Collection[JobKey]) -> None:
        """Remove those of these jobs that are not durable and have no trigger left."""
        for key in keys:
            job = self.jobs.get(key)
            if job is not None and not job.is_durable and not job.triggers:
                del self.jobs[key]

    # --- claims and fires

    def free_slots(self, job: JobRow) -> int | None:
        """How many more executions of this job may run now; None: any number."""
        return None if job.limit is None else max(0, job.limit - self._running[job.key])

    def is_blocked(self, job: JobRow) -> bool:
        """Whether as many executions run as this job allows, and all its triggers wait."""
        return job.overlap_policy is WhenFull.BLOCK and self.free_slots(job) == 0

    def claim(self, row: FiredRow) -> None:
        self.fired[row.fire_id] = row
        if row.counts:
            self._running[row.job_key] += 1

    def drop(self, row: FiredRow) -> None:
        del self.fired[row.fire_id]
        if row.counts:
            self._running[row.job_key] -= 1
            if not self._running[row.job_key]:
                del self._running[row.job_key]

    def unblock(self, keys: Iterable[JobKey]) -> list[TriggerRow]:
        """Release the blocked triggers of jobs that may run again; those that wait again."""
        waiting = []
        for key in keys:
            job = self.jobs.get(key)
            if job is None or self.is_blocked(job):
                continue
            for row in job.triggers.values():
                if row.state in BLOCKED_STATES:
                    self.move(row, AFTER_UNBLOCKING[row.state])
                    if row.state is TriggerState.WAITING:
                        waiting.append(row)
        return waiting
