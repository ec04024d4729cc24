"""The check-ins of a node: a thread that does nothing else, with a connection of its own, renews the lease.

Slow work happens on other threads: recovery, publishing, importing job modules, listeners. A check-in that takes longer
than an interval is abandoned and retried at once on a new connection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quartzpy.clock import Clock
from quartzpy.config.config import SchedulerConfig
from quartzpy.node.registration import Epoch
from quartzpy.node.service import EpochService, StoreWatch
from quartzpy.node.signals import Wakeup
from quartzpy.store.node_problems import NodeProblem
from quartzpy.store.protocol import CheckIn, JobStore
from quartzpy.store.store_time import StoreTime


class CheckInThread(EpochService):
    """The thread that checks in at a fixed rate, and passes on the answers of the store."""

    def __init__(
        self,
        name: str,
        *,
        store: JobStore,
        clock: Clock,
        store_time: StoreTime,
        config: SchedulerConfig,
        epoch: Callable[[], Epoch],
        watch: StoreWatch,
        answered: Callable[[CheckIn, Epoch, float], None],
        failed: Callable[[BaseException], None],
        lease_lost: Callable[[Epoch], None],
        problems: Callable[[], Sequence[NodeProblem]] = tuple,
        wakeup: Wakeup | None = None,
    ) -> None:
        # Its own success must not wake it.
        super().__init__(name, epoch=epoch, lease_lost=lease_lost, wakeup=wakeup)
        self.period = config.checkin_interval.total_seconds()
        self.answered_at: float | None = None
        """The time at which the last successful check-in was sent, by the monotonic clock."""
        self._store = store
        self._clock = clock
        self._store_time = store_time
        self._config = config
        self._store_watch = watch
        self._answered = answered
        self._failed = failed
        self._problems = problems
        self._failures = 0

    def after_failure(self, error: BaseException) -> None:
        self._failures += 1
        self._failed(error)

    def retry_in(self, error: BaseException) -> float:
        wait = self._store_watch.check_in_failed(error, self._config.failure_window.total_seconds())
        epoch = self._epoch()
        # While the lease is valid, retry before half of its remaining time has passed.
        return min(wait, self.period, epoch.seconds_left / 2) if epoch.trusted else wait

    def run_as(self, epoch: Epoch) -> float:
        """Check in once. Return the seconds until the next check-in."""
        if epoch.lost:
            # The cluster manager rejoins, and then wakes this thread.
            return self.period
        asked_at = self._clock.monotonic()
        within = self._config.checkin_deadline(self._failures).total_seconds()
        answer = self._store.check_in(epoch.node, within=within, problems=self._problems_to_report())
        epoch.renew(asked_at)
        self._failures = 0
        self.answered_at = asked_at
        self._store_time.learn(answer.now, asked_at)
        self._answered(answer, epoch, asked_at)
        self._store_watch.checked_in()
        return max(0.0, self.period - (self._clock.monotonic() - asked_at))

    def _problems_to_report(self) -> Sequence[NodeProblem]:
        # The lease must not depend on what the node can say about itself.
        try:
            return self._problems()
        except Exception:
            self._logger.exception("%s: the health of this node could not be determined", self.name)
            return ()
