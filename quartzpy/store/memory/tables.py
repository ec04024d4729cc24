"""The tables of the in-memory store, and the changes of their rows' states.

Every change of a trigger's state or fire time goes through `Tables.move`, which also updates the index of due triggers,
and the sets by state. A trigger has a fire_id while its last fire runs.
"""

from __future__ import annotations

import json
import threading
from collections import Counter, deque
from collections.abc import Collection, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from quartzpy.clock import Clock
from quartzpy.job_data import BATCH
from quartzpy.jobs.internal_entries import BatchKey, batch_of
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.shared_limit import Limit, names_from_text
from quartzpy.keys import UNSCHEDULED_GROUPS, JobKey, TriggerKey
from quartzpy.states import (
    STORED_STATES,
    JobMode,
    JoinState,
    Missed,
    OverlapPolicy,
    TriggerState,
)
from quartzpy.store import refusals
from quartzpy.store.memory.index import DueIndex, SortedEntries
from quartzpy.store.memory.rows import (
    FiredRow,
    JobRow,
    JoinRow,
    PauseMark,
    TriggerRow,
    WindowRow,
    concurrency_key,
    shared_gate,
)
from quartzpy.store.protocol import DispatchKey, Gate, Node, Notification, StoredCalendar
from quartzpy.store.records import ExecutionRecord, MisfireRecord, NodeRecord
from quartzpy.triggers.trigger import Trigger, TriggerProgress
from quartzpy.triggers.upcoming import UpcomingFireTimes

HISTORY = 10_000
"""The maximum number of ended executions in the history, and of recorded misfires."""

EVERYTHING_MARK = ("ALL", "*")
"""The place of the pause of everything."""


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


@dataclass
class PauseTable:
    """The pauses that also apply to triggers that are stored later."""

    manual: bool = False
    marks: dict[tuple[str, str], PauseMark] = field(default_factory=dict)
    """By the scope and the name: TRIGGER and JOB for groups of these, ("ALL", "*") for everything."""

    @property
    def everything(self) -> bool:
        return EVERYTHING_MARK in self.marks

    def groups(self, scope: str) -> set[str]:
        """Return the names of the paused groups of a scope."""
        return {name for of, name in self.marks if of == scope}

    def cover(self, trigger_key: TriggerKey, job: JobRow) -> bool:
        """Return True if a trigger of this job that is stored now starts paused."""
        return self.cover_groups(trigger_key, job) or self.forbid(trigger_key, job)

    def hold_by_mode(self, trigger_key: TriggerKey, job: JobRow) -> bool:
        """Return True if only a mode pauses a trigger of this job that is stored now."""
        return self.forbid(trigger_key, job) and not self.cover_groups(trigger_key, job)

    def cover_groups(self, trigger_key: TriggerKey, job: JobRow) -> bool:
        """Return True if everything, or a group of the trigger, is paused."""
        return bool(self.marks) and self.longest_cover(trigger_key, job) is not None

    def longest_cover(self, trigger_key: TriggerKey, job: JobRow) -> PauseMark | None:
        """Return the pause of everything, or of a group of the trigger, that lasts longest."""
        places = EVERYTHING_MARK, ("TRIGGER", trigger_key.group), ("JOB", job.key.group)
        covers = [self.marks[place] for place in places if place in self.marks]
        endless = [mark for mark in covers if mark.note.until is None]
        if endless:
            return min(endless, key=lambda mark: mark.at)
        return max(covers, key=lambda mark: mark.note.until or mark.at, default=None)

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
        self.runs: dict[int, dict[DispatchKey, bool]] = {}
        """What each epoch has said about dispatch keys: whether it runs them."""
        self.calendars: dict[str, StoredCalendar] = {}
        self.calendar_owners: dict[str, str] = {}
        self.pauses = PauseTable()
        self.windows: dict[str, WindowRow] = {}
        self.versions: dict[str, str] = {}
        self.history: deque[ExecutionRecord] = deque(maxlen=HISTORY)
        self.misfires: deque[MisfireRecord] = deque(maxlen=HISTORY)
        self.limits: dict[str, Limit] = {}
        """Those that jobs share, by their names."""
        self.tats: dict[Gate, datetime] = {}
        """The theoretical arrival time of the next fire of each rate; see `RateLimit`."""
        self.opens: dict[Gate, datetime] = {}
        """The instant at which each limit is to be asked again, while triggers are parked there."""
        self.joining: dict[JobKey, JobRow] = {}
        """The jobs that run after others."""
        self.joins: dict[tuple[JobKey, str], JoinRow] = {}
        """By the job that runs, and the occasion or the name of the batch."""
        self.left_batches: list[BatchKey] = []
        """The batches of triggers that have ended without a fire, and that are not counted yet."""
        self.due = DueIndex()
        self.parked: dict[Gate, SortedEntries] = {}
        """The triggers that wait at each gate: a job's own limit, or a set of those that jobs share."""
        self.by_state: dict[TriggerState, dict[TriggerKey, TriggerRow]] = {state: {} for state in STORED_STATES}
        self.notifications: set[Notification] = set()
        """The notifications that are not sent yet."""
        self._running: Counter[Gate] = Counter()
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

    def jobs_after(self, key: JobKey) -> list[JobRow]:
        """Return the jobs that run after this one and others."""
        rows = [row for row in self.joining.values() if row.after is not None and key in row.after.keys]
        return sorted(rows, key=lambda row: row.key)

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
            raise refusals.declared_dead(node)
        return self.now()

    # --- triggers

    def add_trigger(self, row: TriggerRow, state: TriggerState) -> None:
        assert row.key not in self.triggers, f"a second trigger {row.key}, in place of a fire that is recorded"
        self.triggers[row.key] = row
        row.job.triggers[row.key] = row
        row.state = state
        row.held_by_mode = self.pauses.hold_by_mode(row.key, row.job)
        self._enter(row)

    def redefine_trigger(self, row: TriggerRow, definition: Trigger) -> None:
        """Replace all values of a trigger except its schedule: its progress and pause do not change."""
        self._exit(row)
        if (row.bare.misfire, row.bare.misfire_threshold) != (definition.misfire, definition.misfire_threshold):
            row.catch_up_until = None
        key, batch = row.concurrency_key, self._awaited_by(row)
        row.become(row.bare.with_values_of(definition))
        if batch is not None and batch != self._awaited_by(row):
            self.left_batches.append(batch)
        if row.concurrency_key != key and row.state is TriggerState.BLOCKED:
            row.state = TriggerState.WAITING
        self._enter(row)

    def remove_trigger(self, row: TriggerRow) -> None:
        """Remove a trigger; a running execution continues."""
        batch = self._awaited_by(row)
        if batch is not None:
            self.left_batches.append(batch)
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
        parked_at: str | None = None,
    ) -> None:
        """Set `state`. A trigger that caught up may misfire again."""
        batch = self._awaited_by(row) if state is TriggerState.COMPLETE else None
        self._exit(row)
        if missed_policy is not None:
            row.missed_policy = missed_policy
            row.catch_up_until = row.catch_up_until if missed_policy is Missed.MISFIRE else None
        row.state = state
        row.parked_at = parked_at
        row.fire_id = fire_id
        if progress is not None:
            row.progress = progress
            until, following = catch_up_until or row.catch_up_until, progress.next_fire_time
            row.catch_up_until = until if until and following and following <= until else None
        if upcoming is not None:
            row.upcoming = upcoming
        if batch is not None and row.progress.previous_fire_time is None:
            self.left_batches.append(batch)
        self._enter(row)

    def redefine(self, job: JobRow, detail: JobDetail) -> None:
        """Replace a job's definition; and re-index its triggers."""
        gate_before = job.limit, job.rate_limit, job.limits, job.overlap_policy, job.concurrency_key
        waiting = [row for row in job.triggers.values() if row.state is TriggerState.WAITING]
        for row in waiting:
            self.due.remove(job.dispatch_key, row.part, row.entry)
        parked = [row for row in job.triggers.values() if row.state is TriggerState.BLOCKED]
        for row in parked:
            self._exit(row)
        job.become(detail)
        for row in waiting:
            self.due.add(job.dispatch_key, row.part, row.entry)
        gate = job.limit, job.rate_limit, job.limits, job.overlap_policy, job.concurrency_key
        for row in job.triggers.values():
            key_before, row.concurrency_key = (
                row.concurrency_key,
                concurrency_key(job.concurrency_key, job.data, row.data),
            )
            if row.state is TriggerState.BLOCKED:
                # What is parked asks its gate again if that is another one, or has other places.
                if not (gate == gate_before and key_before == row.concurrency_key):
                    row.state = TriggerState.WAITING
                self._enter(row)

    def _awaited_by(self, row: TriggerRow) -> BatchKey | None:
        """Return the batch that waits for the first fire of a trigger; None if there is none, or it has fired."""
        if row.state is TriggerState.COMPLETE or row.progress.previous_fire_time is not None:
            return None
        if row.data is None or BATCH not in row.data:
            return None
        return batch_of(json.loads(row.data))

    def _enter(self, row: TriggerRow) -> None:
        self.by_state[row.state][row.key] = row
        if row.state is TriggerState.WAITING:
            self.due.add(row.job.dispatch_key, row.part, row.entry)
        elif row.state is TriggerState.BLOCKED:
            self.parked.setdefault(row.place, SortedEntries()).add(row.entry)

    def _exit(self, row: TriggerRow) -> None:
        del self.by_state[row.state][row.key]
        if row.state is TriggerState.WAITING:
            self.due.remove(row.job.dispatch_key, row.part, row.entry)
        elif row.state is TriggerState.BLOCKED:
            at_gate = self.parked[row.place]
            at_gate.remove(row.entry)
            if not at_gate:
                del self.parked[row.place]

    def parked_at(self, gate: Gate) -> Iterator[TriggerRow]:
        """Yield the triggers that are parked at a gate, in order."""
        entries = self.parked.get(gate)
        return iter(()) if entries is None else (self.triggers[entry.key] for entry in entries)

    def first_parked(self, gate: Gate) -> TriggerRow | None:
        return next(self.parked_at(gate), None)

    def state_of_new(self, row: TriggerRow) -> TriggerState:
        """The state of a trigger that is stored now."""
        return TriggerState.PAUSED if self.pauses.cover(row.key, row.job) else TriggerState.WAITING

    def seen_state(self, row: TriggerRow) -> TriggerState:
        """The state that others see: all triggers of a job that is at its limit are BLOCKED."""
        state = row.state
        if row.job.overlap_policy is not OverlapPolicy.BLOCK or state in (TriggerState.COMPLETE, TriggerState.ERROR):
            return state
        if self.free_slots(row) == 0:
            return TriggerState.PAUSED_BLOCKED if state is TriggerState.PAUSED else TriggerState.BLOCKED
        if row.job.rate_limit is not None or row.job.limits:
            return state
        return TriggerState.WAITING if state is TriggerState.BLOCKED else state

    def is_to_come(self, row: TriggerRow) -> bool:
        """Whether nothing but its instant, a rate, shared limits, or a worker keeps a trigger from its fire."""
        if row.state not in (TriggerState.WAITING, TriggerState.BLOCKED):
            return False
        if row.job.overlap_policy is not OverlapPolicy.BLOCK and row.state is TriggerState.WAITING:
            return True
        waits_for_its_turn = row.job.rate_limit is not None or row.job.limits
        if row.job.overlap_policy is not OverlapPolicy.BLOCK and not waits_for_its_turn:
            return False
        return self.free_slots(row) != 0

    def drop_orphans(self, keys: Collection[JobKey]) -> None:
        """Remove the given jobs that are not durable and have no trigger left."""
        for key in keys:
            job = self.jobs.get(key)
            if job is not None and not job.detail.durable and not job.triggers and not self._is_awaited(key):
                del self.jobs[key]

    def _is_awaited(self, key: JobKey) -> bool:
        return any(of == key and row.state is JoinState.WAITING for (of, _), row in self.joins.items())

    # --- executions

    def free_slots(self, row: TriggerRow) -> int | None:
        """The number of executions that the job of a trigger may start now for its concurrency key; None: any."""
        limit = row.job.limit
        return None if limit is None else max(0, limit - self._running[row.gate])

    def running_at(self, gate: Gate) -> int:
        """The number of executions that count for a job's own limit, or for one that jobs share."""
        return self._running[gate]

    def is_blocked(self, row: TriggerRow) -> bool:
        """Return True if the trigger has to wait because its job is at its limit for the trigger's concurrency key."""
        return row.job.overlap_policy is OverlapPolicy.BLOCK and self.free_slots(row) == 0

    def start(self, row: FiredRow) -> None:
        self.fired[row.fire_id] = row
        self._running.update(self._counting(row))

    def drop(self, row: FiredRow) -> None:
        del self.fired[row.fire_id]
        for limit in self._counting(row):
            self._running[limit] -= 1
            if not self._running[limit]:
                del self._running[limit]

    @staticmethod
    def _counting(row: FiredRow) -> list[Gate]:
        """Return the limits for which an execution counts."""
        return [*map(shared_gate, names_from_text(row.limits)), *([row.gate] if row.counts else ())]
