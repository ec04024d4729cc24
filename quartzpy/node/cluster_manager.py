"""The cluster manager: recovers the work of dead nodes after each check-in, rejoins, and leaves the rest to others.

`check_in` renews the lease on a thread of its own, `peers` says which nodes are dead, `schema_watch` whether the tables
can be used, and `housekeeping` does what a cluster needs beside that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext

from quartzpy.clock import Clock
from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import InstanceIdInUseError
from quartzpy.node.housekeeping import Housekeeping
from quartzpy.node.peers import PeerWatch
from quartzpy.node.registration import Epoch
from quartzpy.node.schema_watch import SchemaWatch
from quartzpy.node.service import NO_REST, EpochService, StoreWatch
from quartzpy.node.signals import Wakeup
from quartzpy.store.protocol import CheckIn, Gate, JobStore, RecoveryOutcome, TimeOff
from quartzpy.store.records import LastingIncident, NodeRecord


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
        opened: Callable[[Collection[Gate]], None] = lambda gates: None,
        lease_lost: Callable[[Epoch], None],
        rejoin: Callable[[], None],
        performs_maintenance: Callable[[], bool],
        halt: Callable[[bool], None] = lambda is_halted: None,
        judge: Callable[[], Sequence[LastingIncident]] = tuple,
        during: Callable[[str], AbstractContextManager[None]] = lambda what: nullcontext(),
        time_off: Callable[[TimeOff], None] = lambda outcome: None,
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
        self._opened = opened
        self._rejoin = rejoin
        self._performs_maintenance = performs_maintenance
        self._during = during
        self.schema = SchemaWatch(store, clock, halt)
        self._peers = PeerWatch(config.checkin_interval, config.failure_window)
        self._housekeeping = Housekeeping(
            name,
            store=store,
            clock=clock,
            config=config,
            period=self.period,
            judge=judge,
            during=during,
            time_off=time_off,
        )
        self._lock = threading.Lock()
        self._dead: list[NodeRecord] = []
        self._has_answer = False

    @property
    def incidents(self) -> Sequence[LastingIncident]:
        """What lasts of what is wrong with the cluster, by the last judgement that this node knows."""
        return self._housekeeping.incidents

    # --- called by the check-in thread

    def check_in_answered(self, answer: CheckIn, epoch: Epoch, asked_at: float) -> None:
        """Evaluate the answer to a check-in sent at `asked_at`, and wake this thread for the consequences."""
        with self._lock:
            self._dead = self._peers.observe(answer, epoch.node.epoch, asked_at)
            self._housekeeping.observe(answer)
            self._has_answer = True
        self.wakeup.set()

    def wake(self) -> None:
        """Do the work that follows a check-in now, because this process has registered another job type."""
        with self._lock:
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
        with self._lock:
            dead, has_answer = self._dead, self._has_answer
            self._dead, self._has_answer = [], False
        if has_answer:
            self._recover(epoch, dead)
            with self._during("what follows a check-in"):
                self._checked_in()
            self.schema.check()
        elif not self._housekeeping.is_due:
            return self._housekeeping.rest(self.period)
        if not self._performs_maintenance():
            return self.period
        return self._housekeeping.run(epoch, judges=has_answer and self.schema.problem is None)

    def renew_at_start(self, epoch: Epoch) -> None:
        """Renew fire times before anything fires or misfires by them."""
        self._housekeeping.renew_at_start(epoch, lambda: self._performs_maintenance() and not self.schema.is_copy)

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
        self._housekeeping.expect_time_off(outcome.next_time_off)
        self._opened(outcome.opened)
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
        with self._lock:
            self._peers.interrupt()
