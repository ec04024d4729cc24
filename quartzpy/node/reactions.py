"""The reactions of a node: what the news of one thread, of other processes and of operators means for its threads.

The notification listener receives the notifications of other processes. Polling covers those that are lost.

The mode of a node is running, in standby or draining. The program sets it (`start`, `standby`), or an operator does in
the node's record, from anywhere. Both are commands, and the later one counts. The record has the instant of the last
command, which only rises: so an answer to a check-in that was read before a command never undoes it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from datetime import datetime

from quartzpy.events.events import (
    JobPaused,
    JobsResumed,
    NodesRecovered,
    SchedulerError,
    SchedulerInStandby,
    SchedulerStarted,
    TriggerResumed,
    TriggersResumed,
)
from quartzpy.events.listeners import Listeners
from quartzpy.keys import JobKey
from quartzpy.node.completer import Announcer
from quartzpy.node.next_look import Peers
from quartzpy.node.registration import Epoch, Registration
from quartzpy.node.service import NO_REST, Service, StoreWatch
from quartzpy.node.signals import Signals
from quartzpy.node.workers.capacity import Capacity, KnownTypes
from quartzpy.node.workers.job_runner import Dispatcher
from quartzpy.states import NodeMode
from quartzpy.store.protocol import (
    CheckIn,
    JobGroups,
    JobStore,
    NamedTriggers,
    Notification,
    RecoveryOutcome,
    Subscription,
    TimeOff,
    TriggerGroups,
)
from quartzpy.store.records import NodeRecord
from quartzpy.store.store_time import StoreTime

logger = logging.getLogger(__name__)

MAX_WAIT = 2.0
"""The longest single wait, in seconds. Each wait begins with a check that the connection leads to the primary."""
WORKS_AFTER = 15.0
"""The age, in seconds, from which a subscription works: it was probed meanwhile."""


class Reactions:
    """Reacts to lost epochs, notifications, check-ins and recoveries. The threads of the node call it."""

    def __init__(
        self,
        *,
        store: JobStore,
        store_time: StoreTime,
        signals: Signals,
        registration: Registration,
        capacity: Capacity,
        dispatcher: Dispatcher,
        known_types: KnownTypes,
        modes: NodeModes,
        announcer: Announcer,
        events: NodeEvents,
    ) -> None:
        self._store = store
        self._store_time = store_time
        self._signals = signals
        self._registration = registration
        self._capacity = capacity
        self._dispatcher = dispatcher
        self._known_types = known_types
        self._modes = modes
        self._announcer = announcer
        self._events = events
        self._epoch_lock = threading.Lock()
        self._suspected_jobs: set[JobKey] = set()
        self.is_oldest = False
        """True if this node joined the cluster first among those alive, as the last check-in showed."""

    # --- the epoch

    def epoch_lost(self, epoch: Epoch) -> None:
        """Handle an epoch that the cluster declared dead: stop its executions, and rejoin with a new epoch."""
        with self._epoch_lock:
            if epoch.lost:
                return
            epoch.lose()
        job_keys = self._dispatcher.stop_executions_of(epoch)
        self._suspected_jobs.update(job_keys)
        logger.warning(
            "node %s: the cluster declared epoch %d dead; %d running executions lost their lease",
            self._registration.instance_id,
            epoch.node.epoch,
            len(job_keys),
        )
        self._signals.cluster.set()

    def rejoin(self) -> None:
        epoch = self._registration.rejoin(self._capacity.capabilities)
        logger.warning("node %s rejoined as epoch %d", self._registration.instance_id, epoch.node.epoch)
        self._modes.start_epoch()
        self._signals.check_in.set()
        self._signals.scheduler.look_again()
        # The recovering node counted these jobs as suspects for the death of this one, which is alive.
        suspected, self._suspected_jobs = self._suspected_jobs, set()
        self._store.subtract_node_deaths(suspected)

    # --- news

    def notified(self, received: Mapping[Notification, datetime | None]) -> None:
        """Other processes have sent notifications, which may say from which fire time on triggers wait."""
        if Notification.RESUMED in received:
            # Many triggers may be due, or one that no other node knows of.
            self._signals.look_for_due()
        elif Notification.SCHEDULED in received:
            self._signals.look_in_turn(received[Notification.SCHEDULED])
        if Notification.CANCELLED in received:
            self.apply_cancel_requests()
        if Notification.WATCHED in received:
            self._announcer.watched()
        if Notification.COMMANDED in received:
            # The command is in the node's record, which the answer to a check-in contains.
            self._signals.check_in.set()

    def check_in_answered(self, answer: CheckIn, epoch: Epoch) -> None:
        """The store has answered a check-in. The slow work that follows is left to the cluster manager."""
        alive = [peer.epoch for peer in answer.nodes if answer.now - peer.last_checkin <= peer.failure_window]
        self.is_oldest = min(alive, default=None) == epoch.node.epoch
        self._signals.scheduler.compare()
        self._signals.scheduler.peers = Peers.of(answer, epoch.node.epoch)
        self._capacity.note_peers(peer.capabilities for peer in answer.nodes if peer.epoch != epoch.node.epoch)
        is_current = epoch is self._registration.epoch
        for record in answer.nodes:
            if record.epoch == epoch.node.epoch and is_current and (mode := self._modes.observe(record)):
                self._events.mode_changed(mode)

    def checked_in(self) -> None:
        """The cluster manager has looked at the answer to a check-in."""
        self._modes.publish(self._registration.instance_id)
        if self._store_time.report_skew(self._registration.instance_id):
            self._registration.publish(self._capacity.capabilities)
        self._known_types.learn_in_turn()
        # A fallback for notifications that were lost.
        self.apply_cancel_requests()

    def recovered(self, outcome: RecoveryOutcome) -> None:
        """This node has recovered the work of dead nodes."""
        if outcome.adopted:
            self._signals.scheduler.compare()
        self._signals.look_for_due()
        self._events.recovered(outcome)

    def time_off(self, outcome: TimeOff) -> None:
        """This node has begun maintenance windows, or ended pauses."""
        if outcome.ended:
            self._signals.look_for_due()
        self._events.time_off(outcome)

    def apply_cancel_requests(self) -> None:
        self._dispatcher.cancel_as_asked(self._registration.present_epoch().node)


class NodeModes:
    """Follows the commands for one node, and applies each by `apply`, which is called with the new mode."""

    def __init__(self, store: JobStore, apply: Callable[[NodeMode], None]) -> None:
        self._store = store
        self._apply = apply
        self._lock = threading.Lock()
        self._mode = NodeMode.RUNNING
        self._since: datetime | None = None
        self._is_published = True

    @property
    def mode(self) -> NodeMode:
        return self._mode

    def set_here(self, mode: NodeMode) -> None:
        """Apply a command of this process. `publish` makes it visible to others."""
        with self._lock:
            self._mode, self._is_published = mode, False
            self._apply(mode)

    def start_epoch(self) -> None:
        """Take note that the node has a new record, whose mode is RUNNING."""
        with self._lock:
            self._since, self._is_published = None, self._mode is NodeMode.RUNNING

    def observe(self, record: NodeRecord) -> NodeMode | None:
        """Apply the command that the node's record has, if it is new. Return the new mode, or None for no change."""
        with self._lock:
            since = record.mode_since
            if not self._is_published or since is None or (self._since is not None and since <= self._since):
                return None
            self._since = since
            if record.mode is self._mode:
                return None
            self._mode = record.mode
            self._apply(record.mode)
        logger.info("node %s is %s now, as an operator has asked", record.instance_id, record.mode)
        return record.mode

    def publish(self, instance_id: str) -> None:
        """Write a command of this process to the node's record, if that is not done yet."""
        with self._lock:
            mode, is_published = self._mode, self._is_published
        if is_published:
            return
        since = self._store.set_node_mode(instance_id, mode)
        with self._lock:
            # Another command may have come meanwhile: it is published next.
            self._is_published = mode is self._mode
            self._since = since


class NodeEvents:
    """Posts the events of a node to the listeners, and logs those that an operator should see."""

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners

    def error(self, message: str, error: BaseException) -> None:
        """A thread of the node has met an error, which it has logged."""
        self._listeners.post(SchedulerError(message, error))

    def mode_changed(self, mode: NodeMode) -> None:
        """An operator has changed the mode of the node."""
        self._listeners.post(SchedulerStarted() if mode is NodeMode.RUNNING else SchedulerInStandby())

    def job_paused(self, key: JobKey) -> None:
        """A job was paused because of its failures."""
        logger.warning("job %s is paused: too many executions in a row have failed (pause_after_failures)", key)
        self._listeners.post(JobPaused(key))

    def recovered(self, outcome: RecoveryOutcome) -> None:
        """This node has recovered the work of dead nodes."""
        logger.warning(
            "recovered nodes %s: %d executions will run again, %d go on, %d will not, %d rows repaired",
            ", ".join(outcome.nodes) or "-",
            outcome.recovered,
            outcome.adopted,
            outcome.lost,
            outcome.repaired,
        )
        for key in outcome.quarantined:
            logger.error("job %s is set to ERROR: it was running on too many nodes that died (max_node_deaths)", key)
        self._listeners.post(NodesRecovered(tuple(outcome.nodes), outcome.recovered, outcome.lost))

    def time_off(self, outcome: TimeOff) -> None:
        """This node has begun maintenance windows, or ended pauses."""
        for name in outcome.begun:
            logger.info("the maintenance window %s has begun", name)
        for subjects in outcome.ended:
            match subjects:
                case NamedTriggers(keys):
                    logger.info("the pauses of %d triggers have ended", len(keys))
                    for key in keys:
                        self._listeners.post(TriggerResumed(key))
                case JobGroups(matcher):
                    logger.info("the pause of the group %s of jobs has ended", matcher.value)
                    self._listeners.post(JobsResumed(matcher))
                case TriggerGroups(matcher):
                    logger.info("the pause of the group %s of triggers has ended", matcher.value)
                    self._listeners.post(TriggersResumed(matcher))
                case _:
                    logger.info("the pause of everything has ended")
                    self._listeners.post(TriggersResumed(None))


class NotificationListener(Service):
    """The thread that waits for the notifications of the store."""

    def __init__(
        self,
        name: str,
        *,
        store: JobStore,
        on_notification: Callable[[Mapping[Notification, datetime | None]], None],
        watch: StoreWatch,
        failed: Callable[[BaseException], None] = lambda error: None,
        works: Callable[[], None] = lambda: None,
    ) -> None:
        """Describe the thread.

        Args:
            name: its name.
            store: the source of the notifications.
            on_notification: called with those that have arrived.
            watch: the availability of the database.
            failed: called with each error.
            works: called while a subscription lasts that is old enough to have been probed.
        """
        super().__init__(name, watch=watch)
        self._failed = failed
        self._works = works
        self._subscribed_at = 0.0
        self._store = store
        self._on_notification = on_notification
        self._subscription: Subscription | None = None

    def stop(self) -> None:
        super().stop()
        if (subscription := self._subscription) is not None:
            subscription.interrupt()

    def after_failure(self, error: BaseException) -> None:
        self.close()
        if not self.stopping:
            self._failed(error)

    def run_once(self) -> float:
        if self._subscription is None:
            self._subscribed_at = self._steady()
            self._subscription = self._store.subscribe()
            if self._subscription is None:
                self.stop()
                return NO_REST
            # Notifications may have been missed while there was no subscription.
            self._on_notification({Notification.SCHEDULED: None, Notification.CANCELLED: None})
        if self.stopping:
            # A subscription that was made after the request to stop was not interrupted.
            return NO_REST
        received = self._subscription.wait(MAX_WAIT)
        if received:
            self._on_notification(received)
        # One that is lost again and again has succeeded each time before.
        if self._steady() - self._subscribed_at >= WORKS_AFTER:
            self._works()
        return NO_REST

    def close(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            subscription.close()
