"""What a store promises: the obligations that the engine rests on, and the records that pass between them.

A store decides with one clock of its own (the database's) and by one lock; a caller never holds either. Every
method is one transaction: it happens whole or not at all. Steps of a node are guarded by its epoch: once the
epoch's row is gone they change nothing and raise `LeaseLostError`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from quartzpy.calendars.calendar import Calendar
from quartzpy.events import Event
from quartzpy.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.placement import Capabilities
from quartzpy.states import CompletionInstruction, JobMode, Missed, Outcome, PublicState, WhenFull
from quartzpy.store.findings import Finding
from quartzpy.store.records import (
    HISTORY,
    ExecutionQuery,
    ExecutionRecord,
    JobRecord,
    MisfireRecord,
    NodeRecord,
    Owned,
    Pauses,
    RunningRecord,
    TriggerRecord,
)
from quartzpy.triggers.trigger import Trigger, TriggerProgress
from quartzpy.triggers.upcoming import PreparedTrigger, UpcomingFireTimes

_T = TypeVar("_T")

if TYPE_CHECKING:
    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class Node:
    """One life of a node: an epoch is never given twice."""

    instance_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class CheckIn:
    """The answer to a check-in: the store's time, and all nodes of the cluster, this one among them."""

    now: datetime
    nodes: tuple[NodeRecord, ...]


MAX_NODE_DEATHS = 3
"""With so many nodes dead that executed it, a job is taken for the cause."""


class DispatchKey(NamedTuple):
    """The triggers of jobs of one type that ask for one placement (as text: empty where they run anywhere)."""

    job_type: str
    placement: str = ""


MANY = 1_000_000


class AvailableSlots(NamedTuple):
    """A dispatch_key that a node has room for.

    Of all available_slots with the same `executor` at most `workers` fires are taken, of all with the same `group` at
    most
    `room`.
    """

    job_type: str
    placement: str = ""
    executor: str = ""
    workers: int = MANY
    group: str = ""
    room: int = MANY

    @property
    def dispatch_key(self) -> DispatchKey:
        return DispatchKey(self.job_type, self.placement)


class FiredTrigger:
    """A fire that was committed: everything needed to run the job and to complete it.

    `trigger` and `job_detail` are built when first asked for: most executions never look at them.
    """

    def __init__(
        self,
        *,
        fire_id: int,
        trigger_group: str,
        trigger_name: str,
        job_group: str,
        job_name: str,
        job_type: str,
        generation: int,
        fire_time: datetime,
        scheduled_fire_time: datetime,
        previous_fire_time: datetime | None,
        next_fire_time: datetime | None,
        upcoming: UpcomingFireTimes,
        times_triggered: int,
        attempt: int,
        placement: str,
        coalesced_fire_times: tuple[datetime, ...],
        retry: str | None,
        timeout: timedelta | None,
        persists_data: bool,
        job_data: str | None,
        trigger_data: str | None,
        calendar_revision: int | None,
        load_trigger: Callable[[], Trigger],
        load_job: Callable[[], JobDetail],
        load_calendar: Callable[[], Calendar | None],
        node_deaths: int = 0,
    ) -> None:
        self.fire_id = fire_id
        self.trigger_group = trigger_group
        self.trigger_name = trigger_name
        self.job_group = job_group
        self.job_name = job_name
        self.job_type = job_type
        self.generation = generation
        self.fire_time = fire_time
        self.scheduled_fire_time = scheduled_fire_time
        self.previous_fire_time = previous_fire_time
        self.next_fire_time = next_fire_time
        self.upcoming = upcoming
        self.times_triggered = times_triggered
        self.attempt = attempt
        self.placement = placement
        self.coalesced_fire_times = coalesced_fire_times
        self.retry = retry
        self.timeout = timeout
        self.persists_data = persists_data
        self.job_data = job_data
        self.trigger_data = trigger_data
        self.calendar_revision = calendar_revision
        self.node_deaths = node_deaths
        self._load_trigger = load_trigger
        self._load_job = load_job
        self._load_calendar = load_calendar

    @cached_property
    def trigger_key(self) -> TriggerKey:
        return TriggerKey(self.trigger_name, self.trigger_group)

    @cached_property
    def job_key(self) -> JobKey:
        return JobKey(self.job_name, self.job_group)

    @cached_property
    def trigger(self) -> Trigger:
        return self._load_trigger()

    @cached_property
    def job_detail(self) -> JobDetail:
        return self._load_job()

    @cached_property
    def calendar(self) -> Calendar | None:
        """The trigger's calendar as it was at the fire."""
        return self._load_calendar()


def no_calendar() -> None:
    return None


@dataclass(frozen=True)
class AcquiredTrigger:
    """A claim: only this node may fire this trigger, at `progress.next_fire_time`.

    It is void once its calendar is replaced. `trigger` and `calendar` are built when they are first asked for: a row
    that holds what cannot be read costs this claim, and no other. The trigger comes without its data.
    """

    fire_id: int
    trigger_group: str
    trigger_name: str
    progress: TriggerProgress
    generation: int
    load_trigger: Callable[[], Trigger]
    load_calendar: Callable[[], Calendar | None] = no_calendar
    placement: str = ""
    overlap_policy: str = WhenFull.BLOCK

    @cached_property
    def key(self) -> TriggerKey:
        return TriggerKey(self.trigger_name, self.trigger_group)

    @cached_property
    def trigger(self) -> Trigger:
        return self.load_trigger()

    @cached_property
    def calendar(self) -> Calendar | None:
        return self.load_calendar()


@dataclass(frozen=True, slots=True)
class SkippedTrigger:
    """A fire that its job, at its limit, does not want: it is in the history, and the trigger has moved on."""

    trigger_key: TriggerKey
    job_key: JobKey
    scheduled_fire_time: datetime


@dataclass(frozen=True, slots=True)
class Acquisition:
    """What `acquire` did.

    `next_due`: when the soonest trigger that this node could take, but did not, is due. `placed`: the dispatch_keys
    with a
    placement that triggers wait in, whoever can take them. `cancelled`: executions that were asked to stop, where no
    news tells of it.
    """

    now: datetime
    fired: Sequence[FiredTrigger] = ()
    acquired: Sequence[AcquiredTrigger] = ()
    next_due: datetime | None = None
    skipped: Sequence[SkippedTrigger] = ()
    placed: Collection[DispatchKey] = ()
    cancelled: Collection[int] = ()


@dataclass(frozen=True, slots=True)
class FireRequest:
    """An acquired trigger that is to be fired, with the fire times that follow; computed outside the lock.

    How many of those the fire stands for, where its job lets one fire stand for several, is the store's to decide:
    by its own clock, at the fire.
    """

    acquired: AcquiredTrigger
    following: UpcomingFireTimes


@dataclass(frozen=True, slots=True)
class Firing:
    """What `fire` did. `not_due` are still claimed: the store's clock had not reached them."""

    now: datetime
    fired: Sequence[FiredTrigger] = ()
    not_due: Collection[int] = ()
    skipped: Sequence[SkippedTrigger] = ()
    cancelled: Collection[int] = ()


@dataclass(frozen=True, slots=True)
class Holdings:
    """The fire_ids of the fired rows that the store keeps for an epoch: its claims, and its executions."""

    now: datetime
    claims: frozenset[int]
    executions: frozenset[int]


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What `reconcile` did: fires to be run, claims that it released, and what the epoch holds now (these fires among
    it)."""

    fired: Sequence[FiredTrigger]
    released: Collection[int]
    holdings: Holdings


@dataclass(slots=True)
class Completion:
    """An execution that ended.

    `job_data` is the JSON to store for the job, None where it did not change. `result` is what the history keeps of
    what the job returned, as JSON. `refill` are instants to append
    to the trigger's upcoming ones. With `retry_after` the job runs again so much later, by a one-shot trigger in
    group RETRYING_JOBS whose fire is the next attempt.
    """

    fired: FiredTrigger
    started_at: datetime
    ended_at: datetime
    outcome: Outcome
    error: str | None = None
    result: str | None = None
    instruction: CompletionInstruction = CompletionInstruction.NOOP
    job_data: str | None = None
    refill: UpcomingFireTimes | None = None
    retry_after: timedelta | None = None
    is_recorded: bool = False
    """Whether the job's own transaction recorded it already."""

    @property
    def ends_its_trigger(self) -> bool:
        """Whether the trigger goes: this was its last fire, and the job asks for nothing else."""
        return self.fired.next_fire_time is None and self.instruction is CompletionInstruction.NOOP


@dataclass(frozen=True, slots=True)
class CompletionOutcome:
    """What `complete` did, by fire_id.

    `fenced`: the claim was no longer this node's, nothing of that completion was kept. `deferred`: somebody's
    open transaction holds the job's row; to be tried again. `earliest_unblocked`: the soonest fire time of the
    triggers that were released.
    """

    now: datetime
    fenced: Collection[int] = ()
    deferred: Collection[int] = ()
    earliest_unblocked: datetime | None = None


@dataclass(frozen=True, slots=True)
class MisfireOutcome:
    """What one slice did. `earliest`: the soonest new fire time. `more`: there are others to handle.

    `misfired`: the triggers, each with what `MisfireRecord.missed` says of it. `finalized`: those of them that have no
    fire time left.
    """

    now: datetime
    misfired: Mapping[TriggerKey, Sequence[datetime]] = field(default_factory=dict)
    finalized: Sequence[TriggerKey] = ()
    earliest: datetime | None = None
    more: bool = False


@dataclass(frozen=True, slots=True)
class Repairs:
    """What `repair` mended: rows of locks, triggers whose copies of their job were stale, executions and claims of
    nodes that are not in the cluster, and triggers that nothing held."""

    lock_rows: int = 0
    copies: int = 0
    executions: int = 0
    claims: int = 0
    stuck: int = 0

    @property
    def total(self) -> int:
        return self.lock_rows + self.copies + self.executions + self.claims + self.stuck


@dataclass(frozen=True, slots=True)
class RecoveryOutcome:
    """What `recover` did.

    `recovered` counts executions that will run again, `lost` those that will not, `released` claims given
    back, `repaired` rows that contradicted each other (0 unless somebody edited tables by hand or a claim was
    skipped because its row was held). `quarantined` are jobs whose triggers are ERROR now: nodes died of them.
    """

    nodes: Sequence[str] = ()
    recovered: int = 0
    lost: int = 0
    released: int = 0
    repaired: int = 0
    quarantined: Sequence[JobKey] = ()

    @property
    def changed_anything(self) -> bool:
        return bool(self.nodes or self.recovered or self.lost or self.released or self.repaired)


class ConnectionUsage(NamedTuple):
    """Connections for steps and calls."""

    in_use: int
    most: int


@dataclass(frozen=True, slots=True)
class JobEntry:
    """A job to store (None: it is stored already) with triggers for it.

    `keeps_data`: where it is stored already, its data stays as it is.
    """

    job: JobDetail | None
    triggers: Sequence[PreparedTrigger] = ()
    keeps_data: bool = False


@dataclass(frozen=True, slots=True)
class StoredCalendar:
    """A calendar as it is stored. `revision` rises with each change of it."""

    calendar: Calendar
    revision: int


@dataclass(frozen=True, slots=True)
class TriggerMove:
    """Where a trigger that was read goes, if it is still as it was read."""

    seen: TriggerRecord
    to: PreparedTrigger


class Notification(StrEnum):
    """What other nodes and clients tell."""

    SCHEDULED = "scheduled"
    """Something is due sooner than the cluster waits for."""
    CANCELLED = "cancelled"
    """An execution was asked to stop."""


class Subscription(Protocol):
    """Notification from other nodes and clients."""

    def wait(self, timeout: float) -> Collection[Notification]:
        """Wait up to `timeout` seconds; what was heard.

        Raises:
            StoreUnavailableError: the connection is lost; subscribe again.
        """
        ...

    def close(self) -> None: ...


class Work(Protocol):
    """A transaction of a job's own."""

    @property
    def connection(self) -> Connection: ...

    def complete(self, node: Node, completion: Completion) -> CompletionOutcome:
        """Record the execution and commit, together with what was done on the connection.

        Raises:
            LeaseLostError: the execution is no longer this node's; all is rolled back.
        """
        ...

    def commit(self, node: Node, fire_id: int) -> None:
        """Commit what was done on the connection, while this execution goes on.

        A recovery of it comes wholly before or wholly after, and never waits for the work that came first.

        Raises:
            LeaseLostError: the execution is no longer this node's; all is rolled back.
        """
        ...

    def close(self) -> None:
        """Give the connection back; what was not committed is rolled back."""
        ...


class JobStore(Protocol):
    """Keeps jobs, triggers and claims. All methods may be called from any thread."""

    def within(self, connection: Any) -> JobStore:
        """This store inside a transaction of the caller's; only for scheduling, pausing and looking.

        Raises:
            InvalidValueError: not a connection that has a transaction, or the store is not on a database.
        """
        ...

    def exclusively(self, work: Callable[[JobStore], _T]) -> _T:
        """Do `work` as one transaction, one after the other with others who do so; it is given the store within it.

        No step of a node waits for it. Not reentrant.
        """
        ...

    def owned(self, owner: str) -> Owned:
        """Return what an owner declared, and the version that it gave last."""
        ...

    def own(
        self,
        owner: str,
        jobs: Collection[JobKey],
        triggers: Collection[TriggerKey],
        *,
        version: str | None = None,
    ) -> None:
        """Note that an owner declared these jobs and triggers; where `version` is given, keep it."""
        ...

    def begin_job_transaction(self) -> Work:
        """A transaction for a job's own work. Raises InvalidValueError: the store is not on a database."""
        ...

    # --- a node's life

    def open(self) -> None:
        """Make ready for use. Raises SchemaError where tables are absent or of another release."""
        ...

    def close(self) -> None:
        """Give back all connections; waiting calls fail."""
        ...

    def on_event(self, emit: Callable[[Event], None]) -> None:
        """Tell `emit` of what the store notices by itself, as that its database failed over."""
        ...

    def now(self) -> datetime:
        """The store's own time."""
        ...

    def register(
        self,
        instance_id: str,
        *,
        host: str,
        pid: int,
        checkin_interval: timedelta,
        window: timedelta,
        process: str = "",
        gone: int | None = None,
        max_node_deaths: int = MAX_NODE_DEATHS,
    ) -> Node:
        """Begin a new epoch of the node, which may be declared dead after a silence of `window`.

        An older epoch of the same id that was silent for its own window, or that the caller knows to be `gone` (its
        process ended), is recovered first, in the same transaction, as in `recover`.

        Raises:
            InstanceIdInUseError: that node checked in within its window.
        """
        ...

    def check_in(self, node: Node, *, within: float | None = None) -> CheckIn:
        """Renew the lease. Takes no shared lock, and waits for no other call of this process.

        Takes at most `within` seconds where that is given, connecting included.

        Raises:
            LeaseLostError: the epoch is gone.
            StoreUnavailableError, OutcomeUnknownError: no answer came in time; the next call uses a new connection.
        """
        ...

    def publish(self, node: Node, capabilities: Capabilities) -> None:
        """Tell the others what this node can run, in its row of `scheduler_state`."""
        ...

    def recover(
        self, node: Node, dead: Collection[NodeRecord], *, max_node_deaths: int = MAX_NODE_DEATHS
    ) -> RecoveryOutcome:
        """Remove the nodes of `dead` that did not check in since those records were read, and free what they held.

        Their database sessions are ended first, so that no transaction of theirs is still open.

        ACQUIRED becomes WAITING; an execution of a job that requests recovery becomes a one-shot trigger in
        group RECOVERING_JOBS with the original's data, keys and times; others are recorded as TERMINATED; blocked
        triggers are released. Claims of epochs that are not registered, and ACQUIRED or BLOCKED triggers that
        nothing holds, are treated likewise. Two nodes never both recover one.

        The death of a node counts once for each job that it executed. Where `max_node_deaths` have counted and no
        execution of the job succeeded meanwhile, all triggers of the job, its recovery among them, become ERROR with
        the reason, and the count begins anew.
        """
        ...

    def forgive(self, jobs: Collection[JobKey]) -> None:
        """Take back one node death of each job: the node that executed it was silent, and lives."""
        ...

    def connections(self) -> ConnectionUsage | None:
        """How many connections for steps and calls are in use; None for a store that has none."""
        ...

    def leave(self, node: Node) -> None:
        """Release all claims that are not executing and remove the node's row."""
        ...

    def holdings(self, node: Node) -> Holdings:
        """What this epoch holds. Takes no shared lock. Raises LeaseLostError: the epoch is gone."""
        ...

    def reconcile(self, node: Node, *, claims: Collection[int], executions: Collection[int]) -> Reconciliation:
        """End the differences between what this epoch holds and what its node has in hand.

        Fires whose fire_id is not in `executions` are returned to be run, also those that the node takes for claims:
        the answer of their fire was lost. Claims that are not in `claims` are released; those whose trigger went
        another way are dropped.

        Raises:
            LeaseLostError: the epoch is gone.
        """
        ...

    def audit(self) -> list[Finding]:
        """What is wrong with the store, as far as it can tell by looking."""
        ...

    def repair(self) -> Repairs:
        """Mend what can be mended safely, also while nodes work. Cheap where there is nothing to mend."""
        ...

    # --- the five steps

    def acquire(
        self,
        node: Node,
        available_slots: Sequence[AvailableSlots],
        *,
        limit: int,
        look_ahead: timedelta,
        misfire_threshold: timedelta,
        passed_over: Collection[int] = (),
    ) -> Acquisition:
        """Claim at most `limit` WAITING triggers of these dispatch_keys, soonest first, then by priority.

        Eligible: due before now + `look_ahead` and not later than its misfire threshold (unless it ignores
        misfires); not more of an executor, or a group, than its available_slots say; of a job that is full none, but
        for what
        `WhenFull` says: SKIP records it as SKIPPED and moves its trigger on; BUFFER_ONE makes it BLOCKED, or skips it
        where another trigger of the job is; CANCEL_OTHER makes it BLOCKED and asks the oldest execution to stop, of
        several that are due the newest only. What is due already and has its following instants stored is fired in the
        same transaction: it goes to WAITING, BLOCKED (with all other triggers of its job, where that is full by now
        and blocks) or COMPLETE; the last two rules let a fire stand for all instants of its trigger that have passed.
        The others become ACQUIRED. Rows held by somebody's open transaction are skipped, and so are the generations in
        `passed_over`: triggers that this node cannot move on.
        """
        ...

    def fire(self, node: Node, moves: Sequence[FireRequest]) -> Firing:
        """Fire acquired triggers that are due: as in `acquire`. Claims lost meanwhile (paused, deleted, replaced,
        blocked by another trigger of the job) are dropped."""
        ...

    def release(self, node: Node, fire_ids: Collection[int]) -> Collection[int]:
        """Give claims back: ACQUIRED becomes WAITING, and nothing else does. The fire_ids of those that this epoch
        still
        holds, as somebody's open transaction has their row: they are to be released later. Other nodes are woken, also
        where there are no claims to be given back: this node may have been the only one awake for what is due next.

        Raises:
            LeaseLostError: the epoch is gone.
        """
        ...

    def reject(self, node: Node, reasons: Mapping[int, str]) -> None:
        """Set acquired triggers to ERROR, each with the reason given for its fire_id; the claims go."""
        ...

    def complete(
        self, node: Node, completions: Sequence[Completion], *, wakes_others: bool = False
    ) -> CompletionOutcome:
        """End executions: the claims go, history is written, changed job data is stored, blocked triggers of the
        jobs are released, COMPLETE triggers go and with them non-durable jobs that have none left.

        Acts only where the claim is still this epoch's, and on a trigger only where its generation is still the
        one that fired. What somebody's open transaction holds is not waited for: an execution that has to write there
        is deferred whole. With `wakes_others`, for a node that takes no more, other nodes are told of what waits now.
        """
        ...

    def request_cancel(self, fire_id: int) -> bool:
        """Ask the execution of this fire_id to stop, on whichever node it runs; whether it runs."""
        ...

    def cancel_requests(self, node: Node) -> set[int]:
        """The fire_ids of this epoch's executions that somebody asked to stop."""
        ...

    def recover_misfires(
        self, node: Node, dispatch_keys: Sequence[DispatchKey], *, threshold: timedelta, limit: int
    ) -> MisfireOutcome:
        """Apply the misfire instruction to at most `limit` triggers of these dispatch_keys that nobody fired in time.

        The oldest come first. Each that is moved leaves a `MisfireRecord`. One that catches up is not judged again
        before its next fire time is past the present instant; the fire that brings it there ends that.
        """
        ...

    def purge_history(self, older_than: timedelta, *, limit: int) -> int:
        """Delete at most `limit` executions that ended longer ago, and as many misfires; how many of both went.

        So do triggers that a job, or a misfire, ended: once the last fire time that they show is so long ago.
        """
        ...

    # --- scheduling

    def store_jobs(self, entries: Sequence[JobEntry], *, replace: bool) -> datetime | None:
        """Store jobs and triggers, all or none; the soonest fire time of the stored triggers.

        Storing exactly what is stored already changes nothing. With `replace`, a trigger that belongs to the same job
        and whose schedule did not change (see `PreparedTrigger.schedule_hash`) keeps its progress, state, pause,
        misfires, claim and generation; its other values are replaced. The data of a job that persists it, and did so
        before, stays as the job left it.

        A new trigger is PAUSED where its group, its job's group or all are paused, and BLOCKED while its job
        executes and disallows concurrent execution. Replacing gives a new generation and keeps a job's other
        triggers. Claims on triggers whose job now says something else of what its triggers are claimed by (type, limit,
        place) are void.

        Raises:
            ObjectAlreadyExistsError: something else is stored under a key and `replace` is false; the message names
                the differences.
            JobNotFoundError, CalendarNotFoundError: what a trigger refers to is not stored.
        """
        ...

    def modify_job(
        self, key: JobKey, change: Callable[[JobDetail], JobDetail], *, keeps_data: bool
    ) -> JobDetail | None:
        """Store what `change` makes of a stored job, and nobody else changes it meanwhile; the job as it is then.

        With `keeps_data` the stored data stays, whatever `change` says of it. None: it is not stored. `change` may be
        asked several times.
        """
        ...

    def replace_trigger(self, old: TriggerKey, new: PreparedTrigger) -> datetime | None:
        """Put `new` (of the same job) in the place of `old`; None, and nothing changed, where `old` is not stored."""
        ...

    def delete_triggers(self, keys: Collection[TriggerKey]) -> set[TriggerKey]:
        """Remove triggers, and non-durable jobs that have none left; those that were there."""
        ...

    def delete_jobs(self, keys: Collection[JobKey]) -> dict[JobKey, set[TriggerKey]]:
        """Remove jobs with all their triggers; return those that were there. Running executions go on."""
        ...

    def clear(self) -> None:
        """Remove all jobs, triggers, calendars and pauses. Running executions go on."""
        ...

    # --- calendars

    def put_calendar(self, name: str, calendar: Calendar, *, replace: bool) -> None:
        """Store a calendar.

        Replacing one voids what was computed from the old: the following instants of the triggers that name it,
        and claims on them. Their next fire times stay.

        Raises:
            ObjectAlreadyExistsError: it is stored and `replace` is false.
            InvalidCalendarError: it is of no kind that can be stored.
        """
        ...

    def delete_calendar(self, name: str) -> bool:
        """Remove a calendar; whether it was there. Raises CalendarInUseError: triggers name it."""
        ...

    def calendars(self, names: Collection[str]) -> dict[str, StoredCalendar]:
        """Those of these calendars that are stored."""
        ...

    def calendar_names(self) -> list[str]: ...

    def triggers_of_calendar(self, name: str) -> list[TriggerRecord]: ...

    def move_triggers(self, moves: Sequence[TriggerMove]) -> set[TriggerKey]:
        """Give triggers other fire times, and leave their states as they are; those that were moved.

        One that changed since it was read, or is claimed, is left alone. One that has no fire time any more goes,
        and with it its non-durable job where it was the last.
        """
        ...

    # --- pausing

    def pause_triggers(self, keys: Collection[TriggerKey]) -> None: ...

    def resume_triggers(self, keys: Collection[TriggerKey], missed: Missed = Missed.MISFIRE) -> datetime | None:
        """PAUSED becomes WAITING, or BLOCKED while the job executes; the soonest fire time.

        `missed` says what the misfire step does with one that is late by then, however little: it is fired by no other
        step. What no schedule made (retries, recoveries, triggers by hand) is not treated otherwise.
        """
        ...

    def pause_jobs(self, keys: Collection[JobKey]) -> None: ...

    def resume_jobs(self, keys: Collection[JobKey], missed: Missed = Missed.MISFIRE) -> datetime | None: ...

    def pause_trigger_groups(self, matcher: GroupMatcher) -> set[str]:
        """Pause groups, and remember them for triggers that come later; EQUALS also a group that does not exist
        yet."""
        ...

    def resume_trigger_groups(self, matcher: GroupMatcher, missed: Missed = Missed.MISFIRE) -> datetime | None: ...

    def pause_job_groups(self, matcher: GroupMatcher) -> set[str]:
        """As `pause_trigger_groups`, for all triggers of the jobs of these groups."""
        ...

    def resume_job_groups(self, matcher: GroupMatcher, missed: Missed = Missed.MISFIRE) -> datetime | None: ...

    def pause_all(self) -> None:
        """Pause all triggers, also those that come later, until `resume_all`."""
        ...

    def resume_all(self, missed: Missed = Missed.MISFIRE) -> datetime | None: ...

    def set_job_mode(self, key: JobKey, mode: JobMode, missed: Missed = Missed.MISFIRE) -> datetime | None:
        """Say which triggers of a job fire, present ones and later ones; the soonest fire time of what may fire.

        A job that is not stored is passed over. The triggers that the former mode alone paused are resumed, with
        `missed` deciding about the fires that they missed. Those that were paused by name, by group or by `pause_all`
        stay paused.
        """
        ...

    def job_mode(self, key: JobKey) -> JobMode | None:
        """None where the job is not stored."""
        ...

    def mode_and_type(self, key: JobKey) -> tuple[JobMode, str] | None:
        """A job's mode and its registered type, in one round trip; None where it is not stored."""
        ...

    def set_manual(self, on: bool, missed: Missed = Missed.MISFIRE) -> datetime | None:
        """Let only triggers fire that no schedule made, or all again; the soonest fire time of what may fire.

        The end of manual mode resumes the triggers that it alone paused, as `set_job_mode` does.
        """
        ...

    def is_manual(self) -> bool: ...

    def reset_from_error(self, key: TriggerKey) -> datetime | None:
        """ERROR becomes what a newly stored trigger would be."""
        ...

    # --- looking

    def job(self, key: JobKey) -> JobDetail | None: ...

    def jobs(self, keys: Collection[JobKey]) -> dict[JobKey, JobDetail]:
        """Those of these jobs that are stored; however many, one round trip."""
        ...

    def trigger(self, key: TriggerKey) -> TriggerRecord | None: ...

    def triggers(self, keys: Collection[TriggerKey]) -> dict[TriggerKey, TriggerRecord]:
        """Those of these triggers that are stored; however many, one round trip."""
        ...

    def triggers_of_job(self, key: JobKey) -> list[TriggerRecord]: ...

    def trigger_states(self, keys: Collection[TriggerKey]) -> Mapping[TriggerKey, PublicState]: ...

    def job_keys(self, matcher: GroupMatcher) -> set[JobKey]: ...

    def trigger_keys(self, matcher: GroupMatcher) -> set[TriggerKey]: ...

    def job_group_names(self) -> list[str]: ...

    def trigger_group_names(self) -> list[str]: ...

    def pauses(self) -> Pauses:
        """Return what is paused for triggers that come later, in one read."""
        ...

    def paused_trigger_groups(self) -> set[str]: ...

    def paused_job_groups(self) -> set[str]: ...

    def all_paused(self) -> bool: ...

    def waiting_lanes(self) -> set[DispatchKey]:
        """The dispatch_keys that WAITING triggers are in."""
        ...

    def list_jobs(self, limit: int) -> list[JobRecord]: ...

    def list_triggers(self, limit: int) -> list[TriggerRecord]:
        """By next fire time, those without one last."""
        ...

    def list_nodes(self) -> CheckIn: ...

    def list_running(self) -> list[RunningRecord]: ...

    def list_executions(self, limit: int, wanted: ExecutionQuery = HISTORY) -> list[ExecutionRecord]:
        """At most `limit` of those that are wanted, the latest first.

        That is by their end, else by their fire, else by their scheduled instant. What is SCHEDULED comes after all
        others, the soonest first.
        """
        ...

    def execution(self, fire_id: int) -> ExecutionRecord | None:
        """The fire of this number: claimed, executing or in the history."""
        ...

    def list_misfires(self, limit: int, trigger_key: TriggerKey | None = None) -> list[MisfireRecord]:
        """Those of one trigger, of whatever generation, or all; the latest first."""
        ...

    def counts(self) -> dict[str, Any]:
        """How many jobs, triggers by state, running executions."""
        ...

    # --- waking up

    def subscribe(self) -> Subscription | None:
        """Notification from other processes; None for a store that has no others."""
        ...
