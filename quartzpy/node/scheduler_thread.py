"""The scheduler thread: it claims due triggers for free workers, and fires them just before their fire times.

The thread holds the claims; the executions that result from them belong to the workers until they are recorded. Both
are compared with the rows of this epoch in the store, after each step whose answer was lost and after each check-in.
Every difference is then resolved, whatever caused it: a lost answer, a statement that was committed after its
connection was given up, rows that were edited by hand, a bug.
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
from quartzpy.node.turns import SHARE_BEHIND, Turns
from quartzpy.node.workers.capacity import Capacity, workers_of
from quartzpy.node.workers.execution import LONGEST_LEAD
from quartzpy.node.workers.executors import Executors
from quartzpy.states import OverlapPolicy
from quartzpy.store.protocol import (
    AcquiredTrigger,
    Acquisition,
    AvailableSlots,
    DispatchKey,
    FiredTrigger,
    FireRequest,
    Holdings,
    JobStore,
    Node,
    SkippedTrigger,
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
"""The first delay, in seconds, before a claim is fired again that was not yet due by the store's clock."""
LONGEST_RETRY = 0.25
"""The longest such delay. The delay doubles with each attempt."""
UNSUPPORTED_SECONDS = 60.0
"""The time, in seconds, for which a trigger that this node cannot compute is left to other nodes."""


class SchedulerThread(EpochService):
    """Claims and fires due triggers for the free workers of a node."""

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
        self._claims: list[AcquiredTrigger] = []
        self._claims_epoch: Epoch | None = None
        self._answer_lost = False
        self._own_ends = OwnEnds(clock.monotonic)
        self._front: datetime | None = None
        """The soonest trigger that was still due after the last claim."""
        self._not_due = NotDue()
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

    def on_lease_lost(self) -> None:
        self._claims.clear()
        super().on_lease_lost()

    def run_as(self, epoch: Epoch) -> float:
        """Fire due claims and claim the next triggers. Return the seconds until the next pass."""
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
        if epoch is not self._claims_epoch:
            self._claims, self._claims_epoch = [], epoch
        if self._answer_lost and epoch.trusted:
            self._reconcile(epoch)
        elif self.signals.compare_due and epoch.trusted:
            self._compare(epoch)
        if self.signals.claims_nothing or not epoch.trusted:
            self._release(epoch, self._claims)
            if not self.signals.claims_nothing:
                return SHORTEST_REST
            self._hand_back(0.0)
            if not self.signals.resting.is_set():
                self._wake_others(epoch)
                self.signals.resting.set()
            return LONGEST_LOCKED_REST if self._claims else STANDBY_REST
        if (self._fire_due(epoch) or self._answers_at is not None) and not (
            self.signals.looks_again or self._more_is_due
        ):
            seconds = self._look_at - self._clock.monotonic()
            if seconds > 0:
                return min(seconds, self._until_due())
        if self._gathers():
            return min(GATHERING, self._until_due())
        if seconds := self._until_ends(epoch):
            return min(seconds, self._until_due())
        available_slots = self._capacity.available_slots([claim.placement for claim in self._claims])
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
        self._start(acquired.fired, epoch)
        self._skipped(acquired.skipped)
        self._claims.extend(acquired.acquired)
        self._claims.sort(key=lambda claim: claim.progress.next_fire_time or acquired.now)
        self._turns.note_moved([*acquired.fired, *acquired.skipped])
        opened = self._capacity.meet(acquired.slot_pools)
        if acquired.undecided:
            self._decide(epoch.node, acquired.undecided)
            opened = True
        claimed = len(acquired.fired) + len(acquired.acquired) + len(acquired.skipped)
        self._more_is_due = claimed >= limit
        is_due = acquired.next_due is not None and acquired.next_due <= acquired.now
        front = acquired.next_due if is_due else None
        if 2 * claimed < limit and is_due and not acquired.is_partial:
            self._own_ends.note_little()
        self._note_turn(acquired, look_ahead, is_answer=is_answer)
        if self._has_cleared(front) or opened or self._more_is_due or acquired.is_partial:
            return NO_REST
        return self._rest(acquired.next_due, fruitless=claimed == 0)

    def _has_cleared(self, front: datetime | None) -> bool:
        """Return whether the front of what is due has moved since the last claim.

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
        if acquired.fired or acquired.acquired or acquired.skipped:
            self._turns.look_on_time()
        elif acquired.next_due is not None and acquired.next_due <= reach:
            # It is locked by another transaction, or waits for something else than its fire time.
            return
        elif was_planned or (is_answer and acquired.next_due == planned):
            self._turns.note_loss()

    def _until_look_for(self, next_due: datetime) -> float:
        """Return the seconds until the look for the next trigger: before its fire time, or after it if another node is
        on time for it."""
        until = self._store_time.seconds_until(next_due)
        is_near = until <= self._config.look_ahead.total_seconds()
        self._has_its_turn = is_near and self._turns.belongs_here(next_due)
        is_in_reach = until <= self._look_ahead().total_seconds()
        if is_in_reach or (grace := self._turns.grace(next_due)) is None:
            return until - self._ahead()
        own = self._turns.soonest_own
        if own is None:
            return until + grace
        return min(until + grace, self._store_time.seconds_until(own) - self._ahead())

    def _rest(self, next_due: datetime | None, *, fruitless: bool) -> float:
        # With jitter, so that the nodes do not poll at the same moment.
        rest = self._config.idle_wait.total_seconds() * uniform(0.8, 1.0)
        shortest = SHORTEST_REST
        if next_due is not None:
            until = self._until_look_for(next_due)
            # A due trigger that cannot be claimed is locked by another transaction, for an unknown time.
            self._fruitless = self._fruitless + 1 if fruitless and until <= 0 else 0
            shortest = min(SHORTEST_REST * 2.0 ** max(0, self._fruitless - 1), LONGEST_LOCKED_REST)
            rest = min(rest, max(shortest, until))
        now = self._clock.monotonic()
        # If the fires before this look took long, it came before the one that answers a notification.
        self._look_at = now + rest if self._answers_at is None else min(now + rest, self._answers_at)
        return min(self._look_at - now, self._until_due())

    def _look_for(self, moved: Sequence[FiredTrigger | SkippedTrigger]) -> None:
        """Look for triggers in time that this node has moved on since the last look, which has not seen them wait."""
        self._turns.note_moved(moved)
        soonest = min((trigger.next_fire_time for trigger in moved if trigger.next_fire_time), default=None)
        if soonest is not None:
            until = self._store_time.seconds_until(soonest) - self._ahead()
            self._look_at = min(self._look_at, self._clock.monotonic() + until)

    def _ahead(self) -> float:
        """Return how long before a fire time to look for its trigger, with jitter."""
        return self._look_ahead().total_seconds() * uniform(0.5, 1.0)

    def _look_ahead(self) -> timedelta:
        """Return how far ahead of its fire time a trigger is claimed."""
        leaves_time = self._turns.is_behind and not self._has_its_turn
        return self._config.look_ahead * (SHARE_BEHIND if leaves_time else 1)

    def _until_due(self) -> float:
        """Return the seconds until the next claim is due."""
        now = self._clock.monotonic()
        return min(
            (
                max(self._not_due.rest(claim.fire_id, now), self._store_time.seconds_until(at) - self._lead)
                for claim in self._claims
                if (at := claim.progress.next_fire_time) is not None
            ),
            default=STANDBY_REST,
        )

    def _rest_while_full(self, epoch: Epoch) -> float:
        """Wait for a free worker, or for the fire time of a claim."""
        if self._claims:
            until_due = self._until_due()
            if self.signals.looks_again and until_due > SHORTEST_REST:
                # A trigger may have been scheduled that is due before the claims for the last free workers.
                self._release(epoch, self._claims)
                return NO_REST
            return until_due
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
        self._wake_others(epoch)
        return BETWEEN_NOTIFICATIONS

    def _fire_due(self, epoch: Epoch) -> bool:
        """Fire the claims that are due. Return whether there were any."""
        now, at = self._store_time.now(), self._clock.monotonic()
        # Twice the lead, so that a round trip fires all that becomes due until the next one is worth it.
        early = timedelta(seconds=2 * self._lead)
        until = now + early
        due = [
            claim
            for claim in self._claims
            if (claim.progress.next_fire_time or now) <= until and self._not_due.rest(claim.fire_id, at) <= 0
        ]
        if not due:
            return False
        requests = self._fire_requests(epoch, due, now)
        if not requests:
            return False
        asked_at = self._clock.monotonic()
        firing = self._store.fire(epoch.node, requests, early=early)
        self._store_time.learn(firing.now, asked_at)
        self._learn_lead(self._clock.monotonic() - asked_at)
        requested = {request.acquired.fire_id for request in requests}
        self._drop(requested.difference(firing.not_due))
        self._not_due.retry(firing.not_due, self._clock.monotonic())
        self._start(firing.fired, epoch)
        self._skipped(firing.skipped)
        self._look_for([*firing.fired, *firing.skipped])
        if len(firing.fired) + len(firing.skipped) + len(firing.not_due) < len(requests):
            # A claim was lost: its trigger was moved to another fire time, for example, and may be due soon.
            self.signals.looks_again = True
        return True

    def _learn_lead(self, seconds: float) -> None:
        """Set the lead from the duration of a round trip: a fire is committed just before its instant."""
        self._lead += (min(1.5 * seconds, LONGEST_LEAD / 2) - self._lead) / 4

    def _fire_requests(self, epoch: Epoch, due: Sequence[AcquiredTrigger], now: datetime) -> list[FireRequest]:
        """Return the fire requests for these claims.

        A trigger that only this node cannot compute is released for other nodes; an invalid one goes to ERROR.
        """
        requests, unsupported, invalid = [], [], {}
        for claim in due:
            try:
                requests.append(fire_request_of(claim, now))
            except (UnsupportedKindError, UnknownTimeZoneError) as error:
                self._logger.warning("trigger %s is left to other nodes: %s", claim.key, error)
                self._unsupported.add(claim.generation)
                unsupported.append(claim)
            except Exception as error:
                self._logger.exception("trigger %s goes to ERROR: its next fire time cannot be computed", claim.key)
                self._listeners.post(
                    SchedulerError(f"trigger {claim.key}: its next fire time cannot be computed", error)
                )
                invalid[claim.fire_id] = f"the next fire time cannot be computed: {type(error).__name__}: {error}"
        if unsupported:
            self._release(epoch, unsupported)
        if invalid:
            self._store.reject(epoch.node, invalid)
            self._drop(invalid)
        return requests

    def _drop(self, fire_ids: Collection[int]) -> None:
        """Remove claims that have ended."""
        self._claims = [claim for claim in self._claims if claim.fire_id not in fire_ids]
        self._not_due.forget(fire_ids)

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
        """Compare the claims and executions of this node with the rows of its epoch, and resolve differences."""
        self.signals.compare_due = False
        running = self._running(epoch)
        unrecorded = epoch.unrecorded()
        asked_at = self._clock.monotonic()
        holdings = self._store.holdings(epoch.node)
        self._store_time.learn(holdings.now, asked_at)
        if holdings.claims != {claim.fire_id for claim in self._claims} or not holdings.executions <= unrecorded:
            self._reconcile(epoch)
        self._abandon_missing(epoch, running, holdings)

    def _reconcile(self, epoch: Epoch) -> None:
        """Resolve the differences between the claims and executions of this node and the rows of its epoch."""
        claims = {claim.fire_id for claim in self._claims}
        running = self._running(epoch)
        reconciliation = self._store.reconcile(epoch.node, claims=claims, executions=epoch.unrecorded())
        self._answer_lost = False
        # What was released waits again, and what was fired has moved on, and no look has seen it since.
        self.signals.looks_again = True
        if reconciliation.released or reconciliation.fired:
            self.differences += len(reconciliation.released) + len(reconciliation.fired)
            self._logger.warning(
                "%s: the store had %d claims and %d executions of this node that it did not know, because the answer to"
                " a step was lost; it released the claims and started the executions",
                self.name,
                len(reconciliation.released),
                len(reconciliation.fired),
            )
        self._drop(claims.difference(reconciliation.holdings.claims))
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

    def _release(self, epoch: Epoch, claims: Sequence[AcquiredTrigger]) -> None:
        if not claims:
            return
        fire_ids = {claim.fire_id for claim in claims}
        # Claims whose rows another transaction has locked are not released; they are tried again.
        self._drop(fire_ids.difference(self._store.release(epoch.node, fire_ids)))

    def release_all(self) -> None:
        """Release all claims. It is called after the thread has ended."""
        epoch = self._claims_epoch
        if epoch is not None and not epoch.lost:
            self._release(epoch, self._claims)
            self._wake_others(epoch)

    def _wake_others(self, epoch: Epoch) -> None:
        # The other nodes may all be waiting for a time after the next due trigger.
        self._store.release(epoch.node, ())


class NotDue:
    """The claims that were not yet due by the store's clock when they were fired, with the times of their retries."""

    def __init__(self) -> None:
        self._tries: dict[int, tuple[int, float]] = {}

    def retry(self, fire_ids: Collection[int], now: float) -> None:
        for fire_id in fire_ids:
            tries, _ = self._tries.get(fire_id, (0, 0.0))
            self._tries[fire_id] = (tries + 1, now + min(FIRST_RETRY * 2.0 ** min(tries, 30), LONGEST_RETRY))

    def rest(self, fire_id: int, now: float) -> float:
        return self._tries[fire_id][1] - now if fire_id in self._tries else 0.0

    def forget(self, fire_ids: Collection[int]) -> None:
        for fire_id in fire_ids:
            self._tries.pop(fire_id, None)


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


def fire_request_of(claim: AcquiredTrigger, now: datetime) -> FireRequest:
    """Return the request to fire a claimed trigger at `now`, with its upcoming fire times.

    If the overlap policy coalesces due fires, the list begins with the fire times that this fire covers.

    Raises:
        UnsupportedKindError, UnknownTimeZoneError: only this release or this node cannot compute the trigger.
        Exception: the row or the schedule is invalid, so that no next fire time can be computed.
    """
    with Budget():
        return _fire_request_of(claim, now)


def _fire_request_of(claim: AcquiredTrigger, now: datetime) -> FireRequest:
    progress = claim.trigger.triggered(claim.progress, claim.calendar)
    coalesced: list[datetime] = []
    if OverlapPolicy(claim.overlap_policy).coalesces:
        while progress.next_fire_time is not None and progress.next_fire_time <= now and len(coalesced) < MOST_MISSED:
            coalesced.append(progress.next_fire_time)
            progress = claim.trigger.triggered(progress, claim.calendar)
    if progress.next_fire_time is None:
        return FireRequest(claim, UpcomingFireTimes(tuple(coalesced), is_complete=True))
    beyond = look_ahead(claim.trigger, progress, claim.calendar)
    return FireRequest(
        claim, UpcomingFireTimes((*coalesced, progress.next_fire_time, *beyond.instants), beyond.is_complete)
    )
