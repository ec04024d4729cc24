"""The misfire handler: it applies the misfire instructions of late triggers.

A trigger has misfired when it is still waiting later than the misfire threshold after its fire time, because no worker
was free or no node was running. Each pass lets the store update one batch of such triggers to the fire times that their
misfire instructions give, and wakes the scheduler thread for the earliest of them.

Every node runs a handler, and there is no leader. A batch is read without the lock and written under it, and a row that
has changed in between is not written, so that no misfire is handled twice.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from quartzpy.clock import Clock
from quartzpy.config.config import SchedulerConfig
from quartzpy.events.events import TriggerFinalized, TriggerMisfired
from quartzpy.events.listeners import Listeners
from quartzpy.node.registration import Epoch
from quartzpy.node.service import EpochService, StoreWatch, rest_after
from quartzpy.node.signals import Wakeup
from quartzpy.store.protocol import JobStore
from quartzpy.store.store_time import StoreTime
from quartzpy.texts import numbered

BACKLOG_REST = 0.003, 0.05
"""The shortest and the longest rest, in seconds, between two batches of a backlog: who waits for the lock gets it."""
REST_SHARE = 1 / 6
"""The rest between two batches of a backlog, as a share of the time of a batch: on a busy machine a batch takes longer,
and what is due meanwhile needs more of the time."""
IN_VAIN_REST = 0.05
"""The shortest rest, in seconds, after a pass that found no misfire: each end of an execution that makes something due
wakes the handler, as what waited for it may be late."""
MAX_REST = 15.0
"""The longest rest, in seconds, between two passes, even if the misfire threshold is longer."""


def rest_in_backlog(spent: float) -> float:
    """Return the seconds to rest after a batch of a backlog that took `spent` seconds."""
    return rest_after(spent, REST_SHARE, BACKLOG_REST)


class MisfireHandler(EpochService):
    """The thread that handles misfires, one batch per pass."""

    def __init__(
        self,
        name: str,
        *,
        store: JobStore,
        clock: Clock,
        store_time: StoreTime,
        config: SchedulerConfig,
        epoch: Callable[[], Epoch],
        performs_maintenance: Callable[[], bool],
        scheduling_changed: Callable[[datetime | None], None],
        listeners: Listeners,
        lease_lost: Callable[[Epoch], None],
        watch: StoreWatch | None = None,
        wakeup: Wakeup | None = None,
    ) -> None:
        super().__init__(name, epoch=epoch, lease_lost=lease_lost, watch=watch, wakeup=wakeup)
        self._store = store
        self._not_before = float("-inf")
        """The monotonic time of the next pass, however often the handler is woken."""
        self._clock = clock
        self._store_time = store_time
        self._config = config
        self._performs_maintenance = performs_maintenance
        self._scheduling_changed = scheduling_changed
        self._listeners = listeners

    def run_as(self, epoch: Epoch) -> float:
        """Handle one batch of misfires. Return the seconds to rest before the next one."""
        rest = min(self._config.misfire_threshold.total_seconds(), MAX_REST)
        if not epoch.trusted:
            return min(rest, 1.0)
        if not self._performs_maintenance():
            return rest
        began = self._clock.monotonic()
        if began < self._not_before:
            return self._not_before - began
        outcome = self._store.recover_misfires(
            epoch.node, threshold=self._config.misfire_threshold, limit=self._config.misfire_batch_size
        )
        self._store_time.learn(outcome.now, began)
        if outcome.misfired:
            self._logger.info(
                "%s misfired, the first of them %s",
                numbered(len(outcome.misfired), "trigger", "triggers"),
                next(iter(outcome.misfired)),
            )
            self._scheduling_changed(outcome.earliest)
        for key, missed in outcome.misfired.items() if self._listeners.registered else ():
            self._listeners.post(TriggerMisfired(key, tuple(missed)))
        for key in outcome.finalized if self._listeners.registered else ():
            self._listeners.post(TriggerFinalized(key))
        spent = self._clock.monotonic() - began
        if not (outcome.misfired or outcome.more):
            self._not_before = began + IN_VAIN_REST
        if outcome.more:
            return rest_in_backlog(spent)
        # Passes start at a fixed rate, so that a slow pass does not delay the detection of the next misfires.
        return max(rest - spent, BACKLOG_REST[1])
