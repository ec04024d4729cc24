"""The scheduler thread: it fires triggers just before their fire times.

A fire is committed up to a lead, a measured round trip, before its instant, and a worker starts the job at the instant.
The executions belong to the workers until they are recorded. They are compared with the rows of this epoch in the
store, after each step whose answer was lost and after each check-in. Every difference is then resolved, whatever caused
it: a lost answer, a statement that was committed after its connection was given up, rows that were edited by hand, a
bug.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta

from quartzpy.budget import Budget
from quartzpy.clock import Clock, uniform
from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import UnknownTimeZoneError, UnsupportedKindError
from quartzpy.events.events import JobSkipped, SchedulerError
from quartzpy.events.listeners import Listeners
from quartzpy.node.own_ends import OwnEnds
from quartzpy.node.registration import Epoch
from quartzpy.node.service import NO_REST, EpochService, StoreWatch
from quartzpy.node.signals import SchedulerSignals
from quartzpy.node.turns import Turns
from quartzpy.node.workers.capacity import Capacity, workers_of
from quartzpy.node.workers.execution import LONGEST_LEAD
from quartzpy.node.workers.executors import Executors
from quartzpy.states import OverlapPolicy
from quartzpy.store.protocol import (
    Acquisition,
    AvailableSlots,
    DispatchKey,
    FiredTrigger,
    Holdings,
    JobStore,
    Node,
    Refill,
    SkippedTrigger,
    UnfilledTrigger,
)
from quartzpy.store.store_time import StoreTime
from quartzpy.triggers.misfire import MOST_MISSED
from quartzpy.triggers.upcoming import UpcomingFireTimes, look_ahead

SHORTEST_REST = 0.02
"""The first delay, in seconds, before a due trigger is tried again whose row another transaction has locked."""
LONGEST_LOCKED_REST = 0.25
"""The longest such delay. The delay doubles with each attempt."""
GATHERING = 0.002
"""The time, in seconds, for which the thread waits for further free workers, so that a batch is worth a round trip."""
PATIENCE = 1.0
"""The time, in seconds, for which a fire waits behind jobs that turned out to be long, before it is left to any node.

It is much longer than `pace.HORIZON`, so that a machine that stalls for a moment hands nothing back."""
FULL_REST = 0.5
"""The longest wait, in seconds, for a free worker. Normally the end of an execution wakes the thread earlier."""
FULL_BEFORE_NOTIFYING = 0.1
"""The time, in seconds, for which a node is full before it tells the others that a trigger is due."""
BETWEEN_NOTIFICATIONS = 1.0
"""The shortest time, in seconds, between two such notifications: a busy cluster must not wake itself all the time."""
STANDBY_REST = 3_600.0
BACKLOG_LIMIT = 2_000
"""The number of unrecorded completions above which the node fires no more triggers."""
FIRST_RETRY = 0.001
"""The delay, in seconds, before another look for a trigger that was not yet within reach by the store's clock."""
UNSUPPORTED_SECONDS = 60.0
"""The time, in seconds, for which a trigger that this node cannot compute is left to other nodes."""


class SchedulerThread(EpochService):
    """Fires due triggers for the free workers of a node."""

    def __init__(
        self,
        name: str,
        *,
        signals: SchedulerSignals,
        store: JobStore,
        clock: Clock,
        store_time: StoreTime,
        capacity: Capacity,
        decide: Callable[[Node, Collection[DispatchKey]], None],
        executors: Executors,
        config: SchedulerConfig,
        epoch: Callable[[], Epoch],
        submit: Callable[[Sequence[FiredTrigger], Epoch], None],
        hand_back: Callable[[float], None],
        running: Callable[[Epoch], Collection[int]],
        abandon: Callable[[Collection[int]], None],
        backlog: Callable[[], int],
        lease_lost: Callable[[Epoch], None],
        listeners: Listeners,
        turns: Turns | None = None,
        watch: StoreWatch | None = None,
    ) -> None:
        self._listeners = listeners
        super().__init__(name, epoch=epoch, lease_lost=lease_lost, watch=watch, wakeup=signals.wakeup)
        self.signals = signals
        self._store = store
        self._clock = clock
        self._store_time = store_time
        self._capacity = capacity
        self._decide = decide
        self._executors = executors
        self._config = config
        self._submit = submit
        self._hand_back = hand_back
        self._running_fire_ids = running
        self._abandon = abandon
        self._backlog = backlog
        self._turns = turns or Turns()
        self._last_epoch: Epoch | None = None
        self._answer_lost = False
        self._own_ends = OwnEnds(clock.monotonic)
        self._front: datetime | None = None
        """The soonest trigger that was still due after the last step."""
        self._unsupported = UnsupportedTriggers(clock)
        self._fruitless = 0
        self._more_is_due = False
        self._look_at = 0.0
        """The monotonic time at which the next trigger comes within reach, as far as this node knows."""
        self._next_due: datetime | None = None
        """The soonest fire time that the last look has read."""
        self._has_its_turn = False
        """True if the next look is for a near fire time that is this node's to be on time for."""
        self._is_answering = False
        """True if the next look is for what notifications announced."""
        self._answers_at: float | None = None
        """The monotonic time at which to look for what notifications announced that have not been looked for."""
        self._lead = 0.0
        """The time, in seconds, before the instant of a fire at which the step is sent that commits it."""
        self._has_gathered = False
        self._full_since: float | None = None
        self._notified_at: float | None = None
        """The monotonic time of the last notification of the other nodes that this one is full."""
        self.differences = 0
        """The number of differences between this node and its rows in the store that were found and resolved."""

    # --- the loop

    def after_failure(self, error: BaseException) -> None:
        # The step may have been committed although its answer was lost.
        self._answer_lost = True

    def run_as(self, epoch: Epoch) -> float:
        """Fire what is due. Return the seconds until the next pass."""
        self._answer_notification()
        # Those that are added during the pass wait for the next one, which begins at once.
        count = len(self.signals.afterwards)
        try:
            rest = self._pass_as(epoch)
        finally:
            for _ in range(count):
                self.signals.afterwards.popleft()()
        if not self._executors.have_waiting:
            return rest
        self._hand_back(PATIENCE)
        return min(rest, PATIENCE)

    def _pass_as(self, epoch: Epoch) -> float:
        self._last_epoch = epoch
        if self._answer_lost and epoch.trusted:
            self._reconcile(epoch)
        elif self.signals.compare_due and epoch.trusted:
            self._compare(epoch)
        if self.signals.claims_nothing or not epoch.trusted:
            if not self.signals.claims_nothing:
                return SHORTEST_REST
            self._hand_back(0.0)
            if not self.signals.resting.is_set():
                self._store.wake_others(epoch.node)
                self.signals.resting.set()
            return STANDBY_REST
        if self._answers_at is not None and not (self.signals.looks_again or self._more_is_due):
            seconds = self._look_at - self._clock.monotonic()
            if seconds > 0:
                return seconds
        if self._gathers():
            return GATHERING
        if seconds := self._until_ends(epoch):
            return seconds
        available_slots = self._capacity.available_slots()
        if not available_slots or self._backlog() > BACKLOG_LIMIT:
            return self._rest_while_full(epoch)
        self._full_since = None
        return self._acquire(epoch, available_slots)

    def _answer_notification(self) -> None:
        """Look for what notifications have announced if it is time for that, and otherwise plan when."""
        if not self.signals.is_notified:
            return
        now = self._clock.monotonic()
        if self._answers_at is None:
            self._answers_at = now + self._turns.delay(self._store_time.now())
        looks_anyway = self.signals.looks_again or self._more_is_due or self._look_at <= now
        if self._answers_at <= now or looks_anyway or self.signals.claims_nothing:
            self._answers_at = None
            self._is_answering = True
            self.signals.answer_notification()
        else:
            self._look_at = min(self._look_at, self._answers_at)

    def _gathers(self) -> bool:
        """Return whether to wait a moment for further free workers: more triggers are due than there are workers.

        The thread waits once before each batch, and a worker that makes the batch large enough ends the wait.
        """
        # Asked in each pass, before the free slots are counted: from now on, the end of an execution wakes this thread.
        is_worth_it = self._executors.is_worth_filling(self._config.batch_size)
        self._has_gathered = not (self._has_gathered or is_worth_it) and self._more_is_due
        return self._has_gathered

    def _until_ends(self, epoch: Epoch) -> float:
        """Return the seconds for which to wait for the ends of own executions: what is due now waits for them."""
        # Set before the executions are counted, so that none is recorded unnoticed.
        self.signals.awaits_ends = True
        batch = min(sum(self._executors.workers().values()), self._config.batch_size)
        seconds = self._own_ends.wait(batch, epoch.unrecorded)
        self.signals.awaits_ends = seconds > 0
        return seconds

    def _acquire(self, epoch: Epoch, available_slots: Sequence[AvailableSlots]) -> float:
        limit = min(workers_of(available_slots), self._config.batch_size)
        self.signals.looks_again = False
        is_answer, self._is_answering = self._is_answering, False
        look_ahead = self._look_ahead()
        asked_at = self._clock.monotonic()
        acquired = self._store.acquire(
            epoch.node,
            available_slots,
            limit=limit,
            look_ahead=look_ahead,
            misfire_threshold=self._config.misfire_threshold,
            passed_over=self._unsupported.generations(),
            reads_first=self._turns.is_behind,
        )
        self._store_time.learn(acquired.now, asked_at)
        if acquired.fired:
            self._learn_lead(self._clock.monotonic() - asked_at)
        self._start(acquired.fired, epoch)
        self._skipped(acquired.skipped)
        self._turns.note_moved([*acquired.fired, *acquired.skipped])
        opened = self._capacity.meet(acquired.slot_pools)
        if acquired.undecided:
            self._decide(epoch.node, acquired.undecided)
            opened = True
        if acquired.unfilled:
            self._refill(epoch, acquired.unfilled, acquired.now)
            opened = True
        self._more_is_due = acquired.taken >= limit
        is_due = acquired.next_due is not None and acquired.next_due <= acquired.now
        front = acquired.next_due if is_due else None
        if 2 * acquired.taken < limit and is_due:
            self._own_ends.note_little()
        self._note_turn(acquired, look_ahead, is_answer=is_answer)
        if self._has_cleared(front) or opened or self._more_is_due:
            return NO_REST
        # One that is not due may have come within reach between the two statements of the step.
        return self._rest(acquired.next_due, fruitless=is_due and acquired.taken == 0)

    def _learn_lead(self, seconds: float) -> None:
        """Set the lead from the duration of a round trip: a fire is committed just before its instant."""
        self._lead += (min(1.5 * seconds, LONGEST_LEAD / 2) - self._lead) / 4

    def _has_cleared(self, front: datetime | None) -> bool:
        """Return whether the front of what is due has moved since the last step.

        Then this one has let triggers of full jobs wait, and others may be due behind them.
        """
        before, self._front = self._front, front
        return before is not None and front is not None and front > before

    def _note_turn(self, acquired: Acquisition, look_ahead: timedelta, *, is_answer: bool) -> None:
        """Learn from a look if others are faster than this node."""
        reach = acquired.now + look_ahead
        planned = self._next_due
        self._next_due = acquired.next_due if acquired.next_due is None or acquired.next_due > reach else None
        was_planned = self._turns.drop_own(reach) or (planned is not None and planned <= reach)
        if acquired.taken:
            self._turns.look_on_time()
        elif acquired.next_due is not None and acquired.next_due <= reach:
            # It is locked by another transaction, or waits for something else than its fire time.
            return
        elif was_planned or (is_answer and acquired.next_due == planned):
            self._turns.note_loss()

    def _until_look_for(self, next_due: datetime) -> float:
        """Return the seconds until the look for the next trigger: just before its fire time, or after it if another
        node is on time for it."""
        until = self._store_time.seconds_until(next_due)
        self._has_its_turn = self._turns.belongs_here(next_due)
        if (grace := self._turns.grace(next_due)) is None:
            return until - self._lead
        own = self._turns.soonest_own
        if own is None:
            return until + grace
        return min(until + grace, self._store_time.seconds_until(own) - self._lead)

    def _rest(self, next_due: datetime | None, *, fruitless: bool) -> float:
        # With jitter, so that the nodes do not poll at the same moment.
        rest = self._config.idle_wait.total_seconds() * uniform(0.8, 1.0)
        # A due trigger that is not taken is locked by another transaction, for an unknown time.
        self._fruitless = self._fruitless + 1 if fruitless else 0
        if next_due is not None:
            shortest = FIRST_RETRY
            if fruitless:
                shortest = min(SHORTEST_REST * 2.0 ** (self._fruitless - 1), LONGEST_LOCKED_REST)
            rest = min(rest, max(shortest, self._until_look_for(next_due)))
        now = self._clock.monotonic()
        # If this look took long, it came before the one that answers a notification.
        self._look_at = now + rest if self._answers_at is None else min(now + rest, self._answers_at)
        return self._look_at - now

    def _look_ahead(self) -> timedelta:
        """Return how far ahead of its fire time a trigger is fired.

        It is twice the lead, so that a round trip fires all that becomes due until the next one is worth it. A node
        that others are faster than takes what they have left, and not what they take next.
        """
        leaves_time = self._turns.is_behind and not self._has_its_turn
        return timedelta(seconds=0.0 if leaves_time else 2 * self._lead)

    def _rest_while_full(self, epoch: Epoch) -> float:
        """Wait for a free worker."""
        if self._backlog() > BACKLOG_LIMIT:
            return SHORTEST_REST
        return min(FULL_REST, self._until_others_are_notified(epoch))

    def _until_others_are_notified(self, epoch: Epoch) -> float:
        """Tell the other nodes, when it is time for that, that a trigger is due which this node cannot take.

        Nobody else knows when a trigger fires next that this node has fired: the others may rest beyond that time.
        Return the seconds until it is time.
        """
        now = self._clock.monotonic()
        if self._full_since is None:
            self._full_since = now
        notify_at = max(self._full_since + FULL_BEFORE_NOTIFYING, self._look_at)
        if self._notified_at is not None:
            notify_at = max(notify_at, self._notified_at + BETWEEN_NOTIFICATIONS)
        if now < notify_at:
            return notify_at - now
        self._notified_at = now
        self._store.wake_others(epoch.node)
        return BETWEEN_NOTIFICATIONS

    def _refill(self, epoch: Epoch, triggers: Sequence[UnfilledTrigger], now: datetime) -> None:
        """Store the fire times that follow the next ones of these triggers, so that the next step fires them.

        A trigger that only this node cannot compute is left to other nodes; an invalid one goes to ERROR.
        """
        refills, invalid = [], []
        for unfilled in triggers:
            try:
                refills.append(refill_of(unfilled, now))
            except (UnsupportedKindError, UnknownTimeZoneError) as error:
                self._logger.warning("trigger %s is left to other nodes: %s", unfilled.key, error)
                self._unsupported.add(unfilled.generation)
            except Exception as error:
                what = f"trigger {unfilled.key}: its next fire time cannot be computed"
                self._logger.exception("trigger %s goes to ERROR: its next fire time cannot be computed", unfilled.key)
                self._listeners.post(SchedulerError(what, error))
                reason = f"the next fire time cannot be computed: {type(error).__name__}: {error}"
                invalid.append((unfilled, reason))
        if refills:
            self._store.refill(epoch.node, refills)
        if invalid:
            self._store.reject(epoch.node, invalid)
        if len(refills) + len(invalid) < len(triggers):
            # The other nodes may all be waiting for a time after the fire time of what is left to them.
            self._store.wake_others(epoch.node)

    def _start(self, fired: Sequence[FiredTrigger], epoch: Epoch) -> None:
        if fired:
            epoch.add_unrecorded([execution.fire_id for execution in fired])
            self._own_ends.note_fired(fired, epoch.unrecorded)
            self._submit(fired, epoch)

    def _running(self, epoch: Epoch) -> set[int]:
        return set(self._running_fire_ids(epoch))

    def _skipped(self, skipped: Sequence[SkippedTrigger]) -> None:
        for trigger in skipped:
            self._logger.info("job %s is at its limit: the fire of %s is skipped", trigger.job_key, trigger.trigger_key)
            self._listeners.post(JobSkipped(trigger.trigger_key, trigger.job_key, trigger.scheduled_fire_time))

    def _compare(self, epoch: Epoch) -> None:
        """Compare the executions of this node with the rows of its epoch, and resolve differences."""
        self.signals.compare_due = False
        running = self._running(epoch)
        unrecorded = epoch.unrecorded()
        asked_at = self._clock.monotonic()
        holdings = self._store.holdings(epoch.node)
        self._store_time.learn(holdings.now, asked_at)
        if not holdings.executions <= unrecorded:
            self._reconcile(epoch)
        self._abandon_missing(epoch, running, holdings)

    def _reconcile(self, epoch: Epoch) -> None:
        """Resolve the differences between the executions of this node and the rows of its epoch."""
        running = self._running(epoch)
        reconciliation = self._store.reconcile(epoch.node, executions=epoch.unrecorded())
        self._answer_lost = False
        if reconciliation.fired:
            # Their triggers have moved on, and no look has seen them since.
            self.signals.looks_again = True
            self.differences += len(reconciliation.fired)
            self._logger.warning(
                "%s: the store had %d executions of this node that it did not know, because the answer to a step was"
                " lost; it started them",
                self.name,
                len(reconciliation.fired),
            )
        self._start(reconciliation.fired, epoch)
        self._abandon_missing(epoch, running, reconciliation.holdings)

    def _abandon_missing(self, epoch: Epoch, running: Collection[int], holdings: Holdings) -> None:
        """Abandon the executions whose rows are missing.

        Only those count that ran before the query and still run after it: the rest may have been recorded meanwhile.
        """
        missing = self._running(epoch).intersection(running).difference(holdings.executions)
        if missing:
            self.differences += len(missing)
            self._logger.warning(
                "node %s: executions %s no longer belong to this node", epoch.node.instance_id, sorted(missing)
            )
            self._abandon(missing)

    def wake_others(self) -> None:
        """Wake the other nodes, which may all be waiting for a time after the next due trigger.

        It is called after the thread has ended.
        """
        if self._last_epoch is not None and not self._last_epoch.lost:
            self._store.wake_others(self._last_epoch.node)


class UnsupportedTriggers:
    """The generations of triggers that this node cannot compute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[int, float] = {}

    def add(self, generation: int) -> None:
        self._until[generation] = self._clock.monotonic() + UNSUPPORTED_SECONDS

    def generations(self) -> Collection[int]:
        if self._until:
            now = self._clock.monotonic()
            self._until = {generation: until for generation, until in self._until.items() if until > now}
        return self._until.keys()


def refill_of(unfilled: UnfilledTrigger, now: datetime) -> Refill:
    """Return the upcoming fire times of an unfilled trigger that fires at `now`.

    If the overlap policy coalesces due fires, they begin with those that this fire covers.

    Raises:
        UnsupportedKindError, UnknownTimeZoneError: only this release or this node cannot compute the trigger.
        Exception: the row or the schedule is invalid, so that no next fire time can be computed.
    """
    with Budget():
        return Refill(unfilled, _upcoming_of(unfilled, now))


def _upcoming_of(unfilled: UnfilledTrigger, now: datetime) -> UpcomingFireTimes:
    trigger, calendar = unfilled.trigger, unfilled.calendar
    progress = trigger.triggered(unfilled.progress, calendar)
    coalesced: list[datetime] = []
    if OverlapPolicy(unfilled.overlap_policy).coalesces:
        while progress.next_fire_time is not None and progress.next_fire_time <= now and len(coalesced) < MOST_MISSED:
            coalesced.append(progress.next_fire_time)
            progress = trigger.triggered(progress, calendar)
    if progress.next_fire_time is None:
        return UpcomingFireTimes(tuple(coalesced), is_complete=True)
    beyond = look_ahead(trigger, progress, calendar)
    return UpcomingFireTimes((*coalesced, progress.next_fire_time, *beyond.instants), beyond.is_complete)
