"""The cluster manager: it detects dead nodes, recovers their work, and does the housekeeping after check-ins.

Two conditions must hold before a peer is declared dead. Its last check-in is older than its failure window by the
store's clock; and this node, in an unbroken series of its own check-ins that spans the window, has seen that the peer's
check-in counter did not change. An outage of the database or a pause of this process breaks the series. Every peer then
gets a full window to check in again, so a starved observer decides late rather than wrongly.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from quartzpy.clock import Clock
from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import InstanceIdInUseError
from quartzpy.node.outage import StoreWatch
from quartzpy.node.peer_watch import PeerWatch
from quartzpy.node.schema_watch import SchemaWatch
from quartzpy.node.service import NO_REST, EpochService, rest_after
from quartzpy.node.signals import Wakeup
from quartzpy.node.workers.epoch import Epoch
from quartzpy.store.protocol import CheckIn, JobStore, RecoveryOutcome
from quartzpy.store.records import NodeRecord

PURGE_EVERY = 60.0
PURGE_ROWS = 10_000
CUTOFF_EVERY = 300.0
"""The interval, in seconds, at which the history is measured against `history_max_rows`: this reads an index entry for
each row that is kept."""
PURGE_SHARE = 1 / 4
"""The share of the time that deleting takes while there is more history to delete. A node then deletes more rows than
it can write, and each statement stays short."""
PURGE_REST = 0.05, 1.0
"""The shortest and the longest rest, in seconds, between two batches."""
ENDED_TRIGGERS_KEPT = timedelta(days=7)
"""The time for which ended triggers are kept if the history is kept for ever."""
REPAIR_EVERY = 3_600.0
"""The interval, in seconds, of repairs. They read all triggers, to fix what only manual edits or bugs can cause."""


class ClusterManager(EpochService):
    """The thread that observes the other nodes. Each check-in of this node wakes it."""

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
        performs_maintenance: Callable[[], bool],
        wakeup: Wakeup | None = None,
    ) -> None:
        super().__init__(name, epoch=epoch, lease_lost=lease_lost, watch=watch, wakeup=wakeup)
        self.period = max(self.period, config.checkin_interval.total_seconds())
        self.refusal: str | None = None
        """The reason why this node could not rejoin after it lost its epoch."""
        self._store = store
        self._clock = clock
        self._config = config
        self._checked_in = checked_in
        self._recovered = recovered
        self._rejoin = rejoin
        self._performs_maintenance = performs_maintenance
        self.schema = SchemaWatch(store, clock)
        self._peers = PeerWatch(config.checkin_interval, config.failure_window)
        self._turn = threading.Lock()
        self._dead: list[NodeRecord] = []
        self._has_answer = False
        self._purged_at = self._repaired_at = clock.monotonic()
        self._cutoff_found_at = float("-inf")
        self._history_cutoff: datetime | None = None
        self._has_more_to_purge = False

    # --- called by the check-in thread

    def check_in_answered(self, answer: CheckIn, epoch: Epoch, asked_at: float) -> None:
        """Evaluate the answer to a check-in sent at `asked_at`, and wake this thread for the consequences."""
        with self._turn:
            self._dead = self._peers.observe(answer, epoch.node.epoch, asked_at)
            self._has_answer = True
        self.wakeup.set()

    def wake(self) -> None:
        """Do the work that follows a check-in now, because this process has registered another job type."""
        with self._turn:
            self._has_answer = True
        self.wakeup.set()

    def check_in_failed(self, error: BaseException) -> None:
        self.schema.failed(error)
        self._interrupt()

    # --- the loop

    def run_as(self, epoch: Epoch) -> float:
        """Recover the work of nodes that the last check-in showed to be dead, and do the housekeeping.

        Return the seconds until the next pass, unless a check-in wakes this thread before.
        """
        if epoch.lost:
            return self._try_rejoin()
        with self._turn:
            dead, has_answer = self._dead, self._has_answer
            self._dead, self._has_answer = [], False
        if has_answer:
            self._recover(epoch, dead)
            self._checked_in()
            self.schema.check()
        elif not self._has_more_to_purge:
            return self.period
        if not self._performs_maintenance():
            return self.period
        self._repair(self._clock.monotonic())
        return self._purge(self._clock.monotonic())

    def _recover(self, epoch: Epoch, dead: Sequence[NodeRecord]) -> None:
        for peer in dead:
            self._logger.warning(
                "node %s (epoch %d, host %s, pid %d) is dead: its last check-in was at %s; recovering its work",
                peer.instance_id,
                peer.epoch,
                peer.host,
                peer.pid,
                peer.last_checkin.isoformat(),
            )
        outcome = self._store.recover(epoch.node, dead, max_node_deaths=self._config.max_node_deaths)
        if outcome.changed_anything:
            self._recovered(outcome)

    def _try_rejoin(self) -> float:
        try:
            self._rejoin()
        except InstanceIdInUseError as error:
            if self.refusal is None:
                self._logger.error("this node lost its epoch and cannot rejoin the cluster: %s", error)
            self.refusal = str(error)
            return self._config.checkin_interval.total_seconds()
        self.refusal = None
        self._interrupt()
        return NO_REST

    def _interrupt(self) -> None:
        with self._turn:
            self._peers.interrupt()

    def _repair(self, at: float) -> None:
        """Regularly repair inconsistent rows."""
        if at - self._repaired_at < REPAIR_EVERY:
            return
        self._repaired_at = at
        repairs = self._store.repair()
        if repairs.total:
            self._logger.warning("inconsistent rows were repaired: %s", repairs)

    def _purge(self, at: float) -> float:
        """Regularly delete a batch of old history. Return the seconds until the next pass."""
        if not self._has_more_to_purge and at - self._purged_at < PURGE_EVERY:
            return self.period
        self._purged_at, self._has_more_to_purge = at, False
        keep = self._config.history_retention
        most = self._config.history_max_rows
        if at - self._cutoff_found_at < CUTOFF_EVERY:
            most = None
        if most is not None:
            self._cutoff_found_at = at
        purged = self._store.purge_history(
            keep,
            limit=PURGE_ROWS,
            ended_triggers=keep or ENDED_TRIGGERS_KEPT,
            actions=self._config.audit_retention,
            before=self._history_cutoff,
            most=most,
        )
        if most is not None:
            self._history_cutoff = purged.before
        self._has_more_to_purge = purged.rows >= PURGE_ROWS
        if not self._has_more_to_purge:
            return self.period
        return rest_after(self._clock.monotonic() - at, 1 / PURGE_SHARE - 1, PURGE_REST)
