"""The results of the steps of a node: what a step changed, and when there is something to do again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from quartzpy.errors import InvalidValueError
from quartzpy.jobs.fired_trigger import FiredTrigger, Gate
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.states import CompletionInstruction, Outcome
from quartzpy.store.protocol.fires import DispatchKey, SkippedTrigger, UnfilledTrigger
from quartzpy.store.protocol.scheduling import PauseSubjects
from quartzpy.triggers.upcoming import UpcomingFireTimes


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a node expects an acquire step to meet: what its last one has read (`Front`), and what it was told since.

    It decides only which statements are sent and where they begin. Each of them is right whatever it meets, so a wrong
    expectation costs a round trip or some time of the store, and never a fire. By default anything is expected.
    """

    reads_first: bool = False
    """True if nothing is expected to be due, or other nodes are expected to take it: a store whose steps cost more than
    a read reads first, and fires only if something is left."""
    has_limited: bool = True
    """True if triggers of jobs with a limit are expected to be due."""
    has_shared: bool = True
    """True if there are jobs with rates or shared limits, as far as is known."""
    has_new: bool = False
    """True if triggers of users' transactions are expected to wait that no step has reconciled yet."""
    fronts: Mapping[str, datetime] = field(default_factory=dict)
    """For each slot pool an instant before which nothing waited that the node can take, when it was read last."""
    begins: Collection[str] = ()
    """The slot pools in which that is expected still, so that reads and steps begin there."""
    met_pools: Collection[str] = ("",)
    """The slot pools that the node knows of, whether or not it has slots for them."""


ANYTHING = Expectation()


@dataclass(frozen=True, slots=True)
class Front:
    """What an acquire step has read of what waits after it, for the `Expectation` of the next one."""

    pools: Mapping[str, datetime] = field(default_factory=dict)
    """For each slot pool of the step an instant before which nothing waits that the node can take."""
    limited: datetime | None = None
    """The soonest instant at which a job with a limit has something to do: it is due, or a rate opens."""
    has_shared: bool = True
    has_new: bool = False
    seconds: float = 0.0
    """The time that the first read of the step took."""
    waits_from: datetime | None = None
    """The soonest fire time of what the step itself has let wait, of any slot pool."""


@dataclass(frozen=True, slots=True)
class Acquisition:
    """The result of `acquire`.

    `next_due` is the soonest fire time among the triggers that this node could take and did not, or the soonest instant
    at which a rate admits a fire of a parked trigger, whichever node runs it. `undecided` are some of the dispatch keys
    of waiting triggers about which the node has yet to say whether it runs them (`decide`). `slot_pools` are those with
    an executor or a group for which triggers wait, whether or not it has slots for them; those that the node knows may
    be missing. `unfilled` are due triggers that it could not fire, because their stored fire times are used up: the
    node computes more, stores them by `refill`, and the next step fires them.
    """

    now: datetime
    fired: Sequence[FiredTrigger] = ()
    next_due: datetime | None = None
    skipped: Sequence[SkippedTrigger] = ()
    undecided: Collection[DispatchKey] = ()
    slot_pools: Collection[str] = ()
    unfilled: Sequence[UnfilledTrigger] = ()
    front: Front = Front()

    @property
    def taken(self) -> int:
        """The number of triggers that the step has found and could take."""
        return len(self.fired) + len(self.skipped) + len(self.unfilled)


@dataclass(frozen=True, slots=True)
class Holdings:
    """The fire_ids of the executions that the store keeps for an epoch."""

    now: datetime
    executions: frozenset[int]


@dataclass(frozen=True, slots=True)
class Submitted:
    """What the row of an execution says about its latest submission."""

    fire_id: int
    submission: int
    worker: str | None
    """The worker that took a ticket. It stays after `settle`, so that nothing is submitted again in its place."""
    silent_for: float | None
    """The seconds since the worker was last heard of, by the store's clock; None if no ticket was taken."""
    ending: str | None
    """How the execution has ended on the worker, as JSON; None if it has not."""


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The result of `reconcile`: the fires that the node does not know, and what the epoch holds now.

    `holdings` includes the executions of `fired`.
    """

    fired: Sequence[FiredTrigger]
    holdings: Holdings
    submitted: Mapping[int, Submitted] = field(default_factory=dict)
    """Those of `fired` that were submitted to an engine, by this node or by one from which it has adopted them."""


NOT_FAILED = "a trigger asked for ERROR at the end of an execution that did not fail"
"""The stored reason of a trigger that goes into ERROR after an execution without an error."""


@dataclass(slots=True)
class Completion:
    """An execution that has ended.

    `job_data` is the JSON text to store for the job, or None if the data did not change. `result` is the JSON text
    of the job's return value, and `log` are the captured log lines, both for the history. `refill` holds fire times to
    append to the trigger's upcoming ones. With `retry_after` the job runs again after that delay, by a one-shot trigger
    in the group RETRYING_JOBS whose fire is the next attempt; but not if somebody has asked the execution to stop.
    """

    fired: FiredTrigger
    started_at: datetime
    ended_at: datetime
    outcome: Outcome
    error: str | None = None
    result: str | None = None
    log: str | None = None
    instruction: CompletionInstruction = CompletionInstruction.NOOP
    job_data: str | None = None
    refill: UpcomingFireTimes | None = None
    retry_after: timedelta | None = None
    is_handed_back: bool = False
    """True if the job did not begin."""
    is_recorded: bool = False
    """True if the job's own transaction has recorded the execution already."""

    @property
    def size(self) -> int:
        """The number of characters of its texts."""
        return len(self.error or "") + len(self.result or "") + len(self.log or "") + len(self.job_data or "")

    @property
    def ends_its_trigger(self) -> bool:
        """True where this was the trigger's last fire and the job gave no other instruction; the trigger is removed."""
        return self.fired.next_fire_time is None and self.instruction is CompletionInstruction.NOOP

    @property
    def counts_for_pause(self) -> bool:
        """True if the end counts for `pause_after_failures` of its job: one that is retried does not yet."""
        return (
            self.fired.pause_after_failures is not None
            and self.outcome in (Outcome.SUCCEEDED, Outcome.FAILED)
            and self.retry_after is None
        )

    def moves_its_trigger(self) -> bool:
        """Return whether the trigger's next fire time follows from the end of this execution."""
        fired = self.fired
        # Such a trigger has a next fire time, and nothing is known beyond it. Most triggers are never read here.
        upcoming = fired.upcoming
        if upcoming is None or upcoming.instants or upcoming.is_complete or fired.next_fire_time is None:
            return False
        try:
            return fired.trigger.follows_end
        except InvalidValueError:
            return False

    def next_by_end(self) -> datetime | None:
        """Return the next fire time of a trigger that this execution moves; None where its schedule has ended."""
        return self.fired.trigger.next_by_end(self.ended_at, self.fired.calendar)


@dataclass(frozen=True, slots=True)
class CompletionOutcome:
    """The result of `complete`, by fire_id.

    `fenced`: the execution was no longer the node's, and nothing of that completion was stored. `deferred`: another
    transaction has locked the job's row; the node tries again later. `earliest_unblocked` is the soonest fire time of
    the triggers that were stored. `paused` are the jobs that were paused because `pause_after_failures` executions in a
    row have failed. `stopped` are the executions that do not run again, although their completions have `retry_after`,
    because somebody has asked them to stop: those that were SNOOZED are recorded as CANCELLED. `halting` are those that
    have not ended, because their ends change very many triggers: `complete` has to be called again for them,
    `at_length`.
    """

    now: datetime
    fenced: Collection[int] = ()
    deferred: Collection[int] = ()
    earliest_unblocked: datetime | None = None
    paused: Collection[JobKey] = ()
    stopped: Collection[int] = ()
    halting: Collection[int] = ()


@dataclass(frozen=True, slots=True)
class MisfireOutcome:
    """The result of one call of `recover_misfires`.

    `misfired` maps each trigger to the fire times it missed, as `MisfireRecord.missed` has them. `finalized` are those
    of the triggers that have no fire time left. `earliest` is the soonest new fire time. `more` is true where other
    misfires are left to handle.
    """

    now: datetime
    misfired: Mapping[TriggerKey, Sequence[datetime]] = field(default_factory=dict)
    finalized: Sequence[TriggerKey] = ()
    earliest: datetime | None = None
    more: bool = False


@dataclass(frozen=True, slots=True)
class Repairs:
    """The number of repairs that `repair` made.

    They are: missing rows of locks; triggers whose copies of their job's columns were stale; executions of nodes that
    are not in the cluster; and triggers in a held state that nothing held.
    """

    lock_rows: int = 0
    copies: int = 0
    executions: int = 0
    stuck: int = 0

    @property
    def total(self) -> int:
        return self.lock_rows + self.copies + self.executions + self.stuck


@dataclass(frozen=True, slots=True)
class TimeOff:
    """The result of `apply_time_off`: the windows that began, what was resumed, and when it has something to do next.

    `next_change` is as `RecoveryOutcome.next_time_off`; it is not in the future where the call has left something.
    """

    begun: Sequence[str] = ()
    ended: Sequence[PauseSubjects] = ()
    next_change: timedelta | None = None


@dataclass(frozen=True, slots=True)
class MovedFire:
    """A trigger whose next fire has another instant by other rules of its time zone."""

    key: TriggerKey
    before: datetime | None
    after: datetime | None
    """None: it does not fire again."""
    zone: str
    former_version: str
    version: str
    """The versions of the time zone data, for people."""

    def __str__(self) -> str:
        before, after = (
            "no instant" if at is None else at.strftime("%Y-%m-%d %H:%M:%S UTC") for at in (self.before, self.after)
        )
        return f"trigger {self.key}: {before} becomes {after} ({self.zone}, {self.former_version} -> {self.version})"


@dataclass(frozen=True, slots=True)
class ZoneRenewal:
    """The result of `renew_zones`: the triggers whose fire times have changed, and whether all were looked at.

    `waits` is true if something was computed by other rules, and not all nodes have said that they have these.
    """

    moved: Sequence[MovedFire] = ()
    is_whole: bool = True
    waits: bool = False


@dataclass(frozen=True, slots=True)
class RecoveryOutcome:
    """The result of `recover`.

    `recovered` counts the executions that will run again, `lost` those that will not, and `adopted` those that go on as
    this node's, which `reconcile` returns. `repaired` counts rows that contradicted each other; it is 0 unless the
    tables were edited manually. `quarantined` are the jobs whose triggers were put into ERROR because too many nodes
    died while executing them.
    """

    nodes: Sequence[str] = ()
    recovered: int = 0
    lost: int = 0
    repaired: int = 0
    quarantined: Sequence[JobKey] = ()
    next_time_off: timedelta | None = None
    """How long it is until `apply_time_off` has something to do, negative where it should have been done; None:
    nothing is paused until an instant, and there is no maintenance window."""
    opened: Collection[Gate] = ()
    """Gates with a free place at which triggers are parked: no node has looked there after the end that has left it.

    A job's own limit and a set of shared limits are gates of their own here."""
    adopted: int = 0

    @property
    def changed_anything(self) -> bool:
        return bool(self.nodes or self.recovered or self.lost or self.repaired or self.adopted)
