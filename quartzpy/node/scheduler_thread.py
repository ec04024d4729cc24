"""The scheduler thread: it fires triggers just before their fire times.

A fire is committed up to a lead, a measured round trip, before its instant, and a worker starts the job at the instant.
The executions belong to the workers until they are recorded. They are compared with the rows of this epoch in the
store, after each step whose answer was lost and after each check-in. Every difference is then resolved, whatever caused
it: a lost answer, a statement that was committed after its connection was given up, rows that were edited by hand, a
bug.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from quartzpy.budget import Budget
from quartzpy.clock import Clock, uniform
from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import UnknownTimeZoneError, UnsupportedKindError
from quartzpy.events.events import JobSkipped, SchedulerError
from quartzpy.events.listeners import Listeners
from quartzpy.node.lead import Lead
from quartzpy.node.next_look import Knowledge, NextLook, after_look, next_look
from quartzpy.node.outlook import Outlook
from quartzpy.node.registration import Epoch
from quartzpy.node.service import EpochService, StoreWatch
from quartzpy.node.signals import SchedulerSignals
from quartzpy.node.workers.capacity import Capacity, workers_of
from quartzpy.node.workers.executors import Executors
from quartzpy.states import OverlapPolicy
from quartzpy.store.protocol import (
    AvailableSlots,
    DispatchKey,
    FiredTrigger,
    Holdings,
    JobStore,
    Node,
    Refill,
    SkippedTrigger,
    Submitted,
    UnfilledTrigger,
)
from quartzpy.store.store_time import StoreTime
from quartzpy.triggers.misfire import MAX_MISSED
from quartzpy.triggers.upcoming import UpcomingFireTimes, look_ahead

UNTRUSTED_REST = 0.02
"""The rest, in seconds, while the lease of the epoch is uncertain, or too many completions are not recorded."""
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
        decide: Callable[[Node, Collection[DispatchKey]], bool],
        executors: Executors,
        config: SchedulerConfig,
        epoch: Callable[[], Epoch],
        submit: Callable[[Sequence[FiredTrigger], Epoch], None],
        adopt: Callable[[Sequence[FiredTrigger], Epoch, Mapping[int, Submitted]], None],
        hand_back: Callable[[float], None],
        running: Callable[[Epoch], Collection[int]],
        abandon: Callable[[Collection[int]], None],
        backlog: Callable[[], int],
        lease_lost: Callable[[Epoch], None],
        listeners: Listeners,
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
        self._adopt = adopt
        self._hand_back = hand_back
        self._running_fire_ids = running
        self._abandon = abandon
        self._backlog = backlog
        self._last_epoch: Epoch | None = None
        self._answer_lost = False
        self._unsupported = UnsupportedTriggers(clock)
        self._knowledge = Knowledge()
        self._lead = Lead()
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
        self._knowledge = Knowledge()

    def wake_after_suspension(self) -> None:
        # The estimate of the store's time has stood still meanwhile.
        self.signals.look_again()

    def run_as(self, epoch: Epoch) -> float:
        """Fire what is due. Return the seconds until the next pass."""
        if self.signals.is_notified and (self.signals.fires_nothing or self._is_time_to_look()):
            self.signals.answer_notification()
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
        if epoch is not self._last_epoch:
            # What the node runs has yet to be said by this one.
            self._knowledge = Knowledge()
        self._last_epoch = epoch
        if self._answer_lost and epoch.trusted:
            self._reconcile(epoch)
        elif self.signals.compare_due and epoch.trusted:
            self._compare(epoch)
        if self.signals.fires_nothing or not epoch.trusted:
            if not self.signals.fires_nothing:
                return UNTRUSTED_REST
            if epoch.trusted and not self.signals.is_halted:
                self.pass_on_gates(epoch)
            self._hand_back(0.0)
            self._knowledge = Knowledge()
            if not self.signals.resting.is_set():
                self._store.wake_others(epoch.node)
                self.signals.resting.set()
            return STANDBY_REST
        # Asked in each pass, before the free slots are counted: from now on, the end of an execution wakes this thread.
        is_worth_it = self._executors.is_worth_filling(self._config.batch_size)
        available_slots = self._capacity.available_slots()
        if available_slots:
            self._full_since = None
        elif self._full_since is None:
            self._full_since = self._clock.monotonic()
        look = self._next_look()
        if look.seconds > 0 and self._knowledge.slot_pools.issuperset(slots.slot_pool for slots in available_slots):
            return look.seconds
        if self._gathers(is_worth_it=is_worth_it):
            return GATHERING
        if self._backlog() > BACKLOG_LIMIT:
            return UNTRUSTED_REST
        if not available_slots:
            return self._rest_while_full(epoch)
        self._acquire(epoch, available_slots, look)
        return max(0.0, self._next_look().seconds)

    def _next_look(self) -> NextLook:
        if self.signals.looks_again or self.signals.opened:
            return NextLook(0.0, is_on_time=True)
        if self.signals.is_notified and self._knowledge.told_at is None:
            self._knowledge = replace(self._knowledge, told_at=self._store_time.now())
        now = self._store_time.now()
        return next_look(self._knowledge, self.signals.peers, self._lead.seconds, now, self._clock.monotonic())

    def _is_time_to_look(self) -> bool:
        return self._next_look().seconds <= 0

    def _gathers(self, *, is_worth_it: bool) -> bool:
        """Return whether to wait a moment for further free workers: more triggers are due than there are workers.

        The thread waits once before each batch, and a worker that makes the batch large enough ends the wait.
        """
        self._has_gathered = not (self._has_gathered or is_worth_it) and self._knowledge.more_is_due
        return self._has_gathered

    def _acquire(self, epoch: Epoch, available_slots: Sequence[AvailableSlots], look: NextLook) -> None:
        limit = min(workers_of(available_slots), self._config.batch_size)
        opened = self.signals.opened.name_all()
        was_asked, self.signals.looks_again = self.signals.looks_again or bool(opened), False
        pools, passed_over = frozenset(slots.slot_pool for slots in available_slots), self._unsupported.generations()
        outlook = self._knowledge.outlook.after(self.signals.changes.take())
        # So a round trip fires all that becomes due until the next one is worth it.
        look_ahead = timedelta(seconds=2 * self._lead.seconds if look.is_on_time else 0.0)
        asked_at = self._clock.monotonic()
        expected = outlook.expectation(
            pools,
            met_pools=self._capacity.met_pools,
            passed_over=passed_over,
            is_on_time=look.is_on_time,
            asks=bool(opened) or not self._knowledge.slot_pools.issuperset(pools),
            is_backlog=self._knowledge.more_is_due,
            until=self._store_time.now() + look_ahead,
            monotonic=asked_at,
        )
        acquired = self._store.acquire(
            epoch.node,
            available_slots,
            limit=limit,
            look_ahead=look_ahead,
            misfire_threshold=self._config.misfire_threshold,
            passed_over=passed_over,
            opened=opened,
            expected=expected,
        )
        self.signals.opened.answered()
        self._store_time.learn(acquired.now, asked_at)
        if acquired.fired:
            # It has begun late if the thread was not woken in time.
            self._lead = self._lead.after(self._clock.monotonic() - asked_at - min(0.0, look.seconds))
        self._start(acquired.fired, epoch)
        self._skipped(acquired.skipped)
        may_take_more = self._capacity.meet(acquired.slot_pools)
        looked_at = self._clock.monotonic()
        outlook = outlook.after_step(acquired, expected, passed_over, looked_at)
        if acquired.undecided and self._decide(epoch.node, acquired.undecided):
            # It may run what waited below the floors, or leave much to others that the next step would walk over.
            may_take_more, outlook = True, Outlook()
        if acquired.unfilled:
            self._refill(epoch, acquired.unfilled, acquired.now)
            may_take_more = True
        self._knowledge = after_look(
            self._knowledge,
            acquired,
            limit=limit,
            look_ahead=look_ahead,
            was_asked=was_asked,
            looks_at_once=may_take_more,
            slot_pools=pools,
            looked_at=looked_at,
            # With jitter, so that the nodes do not poll at the same moment.
            rests=min(
                self._config.idle_wait.total_seconds() * uniform(0.8, 1.0),
                outlook.next_full_read(expected) - looked_at,
            ),
            outlook=outlook,
        )

    def pass_on_gates(self, epoch: Epoch) -> None:
        """Let what is parked at the gates that have opened wait for any node, which is notified."""
        if not self.signals.opened:
            return
        self._knowledge = replace(self._knowledge, outlook=Outlook())
        self._store.acquire(
            epoch.node,
            (),
            limit=0,
            look_ahead=timedelta(),
            misfire_threshold=self._config.misfire_threshold,
            opened=self.signals.opened.name_all(),
        )
        self.signals.opened.answered()

    def _rest_while_full(self, epoch: Epoch) -> float:
        """Wait for a free worker, and tell the others after a moment that something is due which this node cannot take.

        It may be that nobody else knows of it, and that they rest beyond its fire time.
        """
        now = self._clock.monotonic()
        notify_at = (now if self._full_since is None else self._full_since) + FULL_BEFORE_NOTIFYING
        if self.signals.opened:
            if now < notify_at:
                return notify_at - now
            self.pass_on_gates(epoch)
            return 0.0
        if (next_due := self._knowledge.next_due) is None:
            return FULL_REST
        notify_at = max(notify_at, now + self._store_time.seconds_until(next_due))
        if self._notified_at is not None:
            notify_at = max(notify_at, self._notified_at + BETWEEN_NOTIFICATIONS)
        if now < notify_at:
            return min(FULL_REST, notify_at - now)
        self._notified_at = now
        self._store.wake_others(epoch.node)
        return FULL_REST

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
        adopted = [fire for fire in reconciliation.fired if fire.fire_id in reconciliation.submitted]
        if adopted:
            self._logger.warning(
                "%s: it adopts executions on engines of nodes that are gone: %d", self.name, len(adopted)
            )
            epoch.add_unrecorded([fire.fire_id for fire in adopted])
            self._adopt(adopted, epoch, reconciliation.submitted)
        if unknown := [fire for fire in reconciliation.fired if fire.fire_id not in reconciliation.submitted]:
            self.differences += len(unknown)
            self._logger.warning(
                "%s: the store had %d executions of this node that it did not know, because the answer to a step was"
                " lost; it started them",
                self.name,
                len(unknown),
            )
            self._start(unknown, epoch)
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
        while progress.next_fire_time is not None and progress.next_fire_time <= now and len(coalesced) < MAX_MISSED:
            coalesced.append(progress.next_fire_time)
            progress = trigger.triggered(progress, calendar)
    if progress.next_fire_time is None:
        return UpcomingFireTimes(tuple(coalesced), is_complete=True)
    beyond = look_ahead(trigger, progress, calendar)
    return UpcomingFireTimes((*coalesced, progress.next_fire_time, *beyond.instants), beyond.is_complete)
