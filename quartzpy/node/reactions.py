"""The reactions of a node: what the news of one thread means for the others."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection

from quartzpy.keys import JobKey
from quartzpy.node.announcer import Announcer
from quartzpy.node.dispatcher import Dispatcher
from quartzpy.node.known_types import KnownTypes
from quartzpy.node.modes import NodeModes
from quartzpy.node.node_events import NodeEvents
from quartzpy.node.registration import Registration
from quartzpy.node.signals import Signals
from quartzpy.node.workers.capacity import Capacity
from quartzpy.node.workers.epoch import Epoch
from quartzpy.store.protocol import CheckIn, JobStore, Notification, RecoveryOutcome
from quartzpy.store.store_time import StoreTime

logger = logging.getLogger(__name__)


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
        known: KnownTypes,
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
        self._known = known
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
        self._store.forgive(suspected)

    # --- news

    def notified(self, received: Collection[Notification]) -> None:
        """Other processes have sent notifications."""
        if Notification.SCHEDULED in received or Notification.RESUMED in received:
            self._signals.look_for_due()
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
        self._capacity.note_peers(peer.capabilities for peer in answer.nodes if peer.epoch != epoch.node.epoch)
        is_current = epoch is self._registration.epoch
        for record in answer.nodes:
            if record.epoch == epoch.node.epoch and is_current and (mode := self._modes.observe(record)):
                self._events.mode_changed(mode)

    def checked_in(self) -> None:
        """The cluster manager has looked at the answer to a check-in."""
        self._modes.publish(self._registration.instance_id)
        self._store_time.report_skew(self._registration.instance_id)
        self._known.learn()
        # A fallback for notifications that were lost.
        self.apply_cancel_requests()

    def recovered(self, outcome: RecoveryOutcome) -> None:
        """This node has recovered the work of dead nodes."""
        self._signals.look_for_due()
        self._events.recovered(outcome)

    def apply_cancel_requests(self) -> None:
        self._dispatcher.cancel_as_asked(self._registration.present_epoch().node)
