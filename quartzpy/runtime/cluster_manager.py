"""The cluster manager: finds nodes that stopped, recovers what they held, and does what follows a check-in.

A peer is judged dead by two pieces of evidence. By the store's clock its last check-in is older than its failure
window; and this node itself, in an unbroken run of check-ins of its own spanning the window, saw the peer's
counter stand still. An outage of the database, or a pause of this process, breaks the run: so after it every peer
gets a full window to come back, and an observer that starved judges late rather than wrongly.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

from quartzpy.clock import Clock
from quartzpy.config import SchedulerConfig
from quartzpy.errors import InstanceIdInUseError
from quartzpy.runtime.epoch import Epoch
from quartzpy.runtime.outage import StoreWatch
from quartzpy.runtime.peer_watch import PeerWatch
from quartzpy.runtime.service import NO_REST, EpochService
from quartzpy.store.protocol import CheckIn, JobStore, RecoveryOutcome
from quartzpy.store.records import NodeRecord

PURGE_EVERY = 60.0
PURGE_ROWS = 10_000
ENDED_TRIGGERS_KEPT = timedelta(days=7)
"""The time for which ended triggers are kept where the history is kept for ever."""
REPAIR_EVERY = 3_600.0
"""It compares all triggers with their jobs, for what only an edit by hand or a fault of ours can bring about."""


class ClusterManager(EpochService):
    """The thread that watches over the other nodes, woken by each check-in of this one."""

    def __init__(
        self,
        name: str,
        *,
        store: JobStore,
        clock: Clock,
        config: SchedulerConfig,
        epoch: Callable[[], Epoch],
        watch: StoreWatch,
        checked_in: Callable[[], None],
        recovered: Callable[[RecoveryOutcome], None],
        lease_lost: Callable[[Epoch], None],
        rejoin: Callable[[], None],
        keeps_house: Callable[[], bool],
    ) -> None:
        super().__init__(name, epoch=epoch, lease_lost=lease_lost, watch=watch)
        self.period = max(self.period, config.checkin_interval.total_seconds())
        self.refusal: str | None = None
        """The reason why this node, once it had lost its place, did not get another."""
        self._store = store
        self._clock = clock
        self._config = config
        self._checked_in = checked_in
        self._recovered = recovered
        self._rejoin = rejoin
        self._keeps_house = keeps_house
        self._peers = PeerWatch(config.checkin_interval, config.failure_window)
        self._turn = threading.Lock()
        self._dead: list[NodeRecord] = []
        self._news = False
        self._purged_at = self._repaired_at = clock.monotonic()

    # --- from the thread that checks in

    def check_in_answered(self, answer: CheckIn, epoch: Epoch, asked_at: float) -> None:
        """Judge the peers by a check-in that left at `asked_at`; what follows happens on this service's thread."""
        with self._turn:
            self._dead = self._peers.saw(answer, epoch.node.epoch, asked_at)
            self._news = True
        self.wakeup.set()

    def look_again(self) -> None:
        """Do at once what follows a check-in: this process has registered another job type."""
        with self._turn:
            self._news = True
        self.wakeup.set()

    def check_in_failed(self) -> None:
        with self._turn:
            self._peers.broken()

    # --- the loop

    def run_as(self, epoch: Epoch) -> float:
        """Recover whom the last check-in proved dead, and do what is done after each."""
        if epoch.lost:
            return self._come_back()
        with self._turn:
            dead, news = self._dead, self._news
            self._dead, self._news = [], False
        if not news:
            return self.period
        for peer in dead:
            self._logger.warning(
                "node %s (epoch %d, host %s, pid %d) has not checked in since %s: recovering its work",
                peer.instance_id,
                peer.epoch,
                peer.host,
                peer.pid,
                peer.last_checkin.isoformat(),
            )
        outcome = self._store.recover(epoch.node, dead, max_node_deaths=self._config.max_node_deaths)
        if outcome.changed_anything:
            self._recovered(outcome)
        self._checked_in()
        if self._keeps_house():
            self._purge(self._clock.monotonic())
            self._repair(self._clock.monotonic())
        return self.period

    def _come_back(self) -> float:
        try:
            self._rejoin()
        except InstanceIdInUseError as error:
            if self.refusal is None:
                self._logger.error("this node lost its place and gets no other: %s", error)
            self.refusal = str(error)
            return self._config.checkin_interval.total_seconds()
        self.refusal = None
        self.check_in_failed()
        return NO_REST

    def _repair(self, at: float) -> None:
        """Mend what contradicts itself in the tables, now and then."""
        if at - self._repaired_at < REPAIR_EVERY:
            return
        self._repaired_at = at
        repairs = self._store.repair()
        if repairs.total:
            self._logger.warning("the tables contradicted themselves, and were mended: %s", repairs)

    def _purge(self, at: float) -> None:
        if at - self._purged_at < PURGE_EVERY:
            return
        self._purged_at = at
        keep = self._config.history_retention
        purged = self._store.purge_history(keep, limit=PURGE_ROWS, ended_triggers=keep or ENDED_TRIGGERS_KEPT)
        if purged >= PURGE_ROWS:
            self._purged_at = at - PURGE_EVERY
