"""The misfire handler: gives late triggers a new fire time.

A trigger has misfired when it still waits although its fire time passed more than the misfire threshold ago: no
worker was free, or no node was up. Each pass lets the store move one bounded slice of such triggers to the fire
time their misfire instruction asks for, and tells the scheduler thread the earliest of the new times.

Every node runs a handler and none is the leader: a slice is read without the lock and written under it, each row
only where it is as it was read, so no trigger is moved twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from quartzpy.clock import Clock
from quartzpy.config import SchedulerConfig
from quartzpy.events import TriggerFinalized, TriggerMisfired
from quartzpy.listeners import Listeners
from quartzpy.runtime.epoch import Epoch
from quartzpy.runtime.outage import StoreWatch
from quartzpy.runtime.service import EpochService
from quartzpy.runtime.store_time import StoreTime
from quartzpy.store.protocol import DispatchKey, JobStore

BACKLOG_REST = 0.05
"""Between two slices of one backlog. Without it the node that holds the lock tends to win it again."""
LONGEST_REST = 15.0
"""However long the threshold, a late trigger is looked for this often."""


class MisfireHandler(EpochService):
    """Runs misfire passes, one slice at a time, until stopped."""

    def __init__(
        self,
        name: str,
        *,
        store: JobStore,
        clock: Clock,
        store_time: StoreTime,
        config: SchedulerConfig,
        epoch: Callable[[], Epoch],
        dispatch_keys: Callable[[], Sequence[DispatchKey]],
        scheduling_changed: Callable[[datetime | None], None],
        listeners: Listeners,
        lease_lost: Callable[[Epoch], None],
        watch: StoreWatch | None = None,
    ) -> None:
        super().__init__(name, epoch=epoch, lease_lost=lease_lost, watch=watch)
        self._store = store
        self._clock = clock
        self._store_time = store_time
        self._config = config
        self._dispatch_keys = dispatch_keys
        self._scheduling_changed = scheduling_changed
        self._listeners = listeners

    def run_as(self, epoch: Epoch) -> float:
        """Move one slice and return how long to rest before the next."""
        rest = min(self._config.misfire_threshold.total_seconds(), LONGEST_REST)
        if not epoch.trusted:
            return min(rest, 1.0)
        dispatch_keys = self._dispatch_keys()
        if not dispatch_keys:
            return rest
        began = self._clock.monotonic()
        outcome = self._store.recover_misfires(
            epoch.node,
            dispatch_keys,
            threshold=self._config.misfire_threshold,
            limit=self._config.misfire_batch_size,
        )
        self._store_time.learn(outcome.now, began)
        if outcome.misfired:
            self._logger.info(
                "%d triggers had misfired, the first of them %s", len(outcome.misfired), next(iter(outcome.misfired))
            )
            self._scheduling_changed(outcome.earliest)
        for key, missed in outcome.misfired.items() if self._listeners else ():
            self._listeners.post(TriggerMisfired(key, tuple(missed)))
        for key in outcome.finalized if self._listeners else ():
            self._listeners.post(TriggerFinalized(key))
        if outcome.more:
            return BACKLOG_REST
        # A fixed rhythm, not a fixed rest: a trigger is noticed in time, however long this pass took.
        return max(rest - (self._clock.monotonic() - began), BACKLOG_REST)
