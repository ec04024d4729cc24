"""The cluster manager: checks in, finds nodes that stopped, recovers what they held.

A peer is judged dead by two pieces of evidence. By the store's clock its last check-in is older than the failure
window; and this node itself, in an unbroken run of check-ins of its own spanning the window, saw the peer's
counter stand still. An outage of the database, or a pause of this process, breaks the run: so after it every peer
gets a full window to come back, and an observer that starved judges late rather than wrongly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from quartzpy.clock import Clock
from quartzpy.config import SchedulerConfig
from quartzpy.runtime.epoch import Epoch
from quartzpy.runtime.service import EpochService
from quartzpy.runtime.store_time import StoreTime
from quartzpy.store.protocol import CheckIn, JobStore, RecoveryOutcome
from quartzpy.store.records import NodeRecord

PURGE_EVERY = 60.0
PURGE_ROWS = 10_000


@dataclass(slots=True)
class _Sighting:
    """Since when a peer's counter stands at this number."""

    checkin_count: int
    since: float


class PeerWatch:
    """Judges peers from this node's own check-ins. Pure: the caller says when each was."""

    def __init__(self, interval: timedelta, window: timedelta) -> None:
        self._longest_gap = 1.5 * interval.total_seconds()
        self._window = window.total_seconds()
        self._last: float | None = None
        self._sightings: dict[tuple[str, int], _Sighting] = {}

    def broken(self) -> None:
        """A check-in failed: the run starts again."""
        self._last = None

    def saw(self, answer: CheckIn, own_epoch: int, at: float) -> list[NodeRecord]:
        """The peers that this check-in, at `at` seconds of the steady clock, proves dead."""
        if self._last is None or at - self._last > self._longest_gap:
            self._sightings.clear()
        self._last = at
        peers = {(peer.instance_id, peer.epoch): peer for peer in answer.nodes if peer.epoch != own_epoch}
        for key, peer in peers.items():
            seen = self._sightings.get(key)
            if seen is None or seen.checkin_count != peer.checkin_count:
                self._sightings[key] = _Sighting(peer.checkin_count, at)
        for key in self._sightings.keys() - peers.keys():
            del self._sightings[key]
        return [
            peer
            for key, peer in peers.items()
            if at - self._sightings[key].since >= self._window
            and (answer.now - peer.last_checkin).total_seconds() > self._window
        ]


class ClusterManager(EpochService):
    """The thread that keeps this node alive in the eyes of the others, and watches over them."""

    def __init__(
        self,
        name: str,
        *,
        store: JobStore,
        clock: Clock,
        store_time: StoreTime,
        config: SchedulerConfig,
        epoch: Callable[[], Epoch],
        checked_in: Callable[[], None],
        recovered: Callable[[RecoveryOutcome], None],
        lease_lost: Callable[[Epoch], None],
        rejoin: Callable[[], None],
    ) -> None:
        # A failed check-in is tried again well before the lease ends.
        super().__init__(
            name, epoch=epoch, lease_lost=lease_lost, longest_wait=config.checkin_interval.total_seconds() / 2
        )
        self._store = store
        self._clock = clock
        self._store_time = store_time
        self._config = config
        self._checked_in = checked_in
        self._recovered = recovered
        self._rejoin = rejoin
        self._watch = PeerWatch(config.checkin_interval, config.failure_window)
        self._purged_at = clock.monotonic()

    def after_failure(self, error: BaseException) -> None:
        self._watch.broken()

    def run_as(self, epoch: Epoch) -> float:
        """Check in, judge, recover; the seconds until the next check-in."""
        if epoch.lost:
            self._rejoin()
            self._watch.broken()
            return 0.0
        asked_at = self._clock.monotonic()
        answer = self._store.check_in(epoch.node)
        epoch.renew(asked_at)
        self._store_time.learn(answer.now, asked_at)
        dead = self._watch.saw(answer, epoch.node.epoch, asked_at)
        for peer in dead:
            self._logger.warning(
                "node %s (epoch %d, host %s, pid %d) has not checked in since %s: recovering its work",
                peer.instance_id,
                peer.epoch,
                peer.host,
                peer.pid,
                peer.last_checkin.isoformat(),
            )
        outcome = self._store.recover(epoch.node, dead)
        if outcome.changed_anything:
            self._recovered(outcome)
        self._checked_in()
        self._purge(asked_at)
        interval = self._config.checkin_interval.total_seconds()
        return max(0.0, interval - (self._clock.monotonic() - asked_at))

    def _purge(self, at: float) -> None:
        keep = self._config.history_retention
        if keep is None or at - self._purged_at < PURGE_EVERY:
            return
        self._purged_at = at
        if self._store.purge_history(keep, limit=PURGE_ROWS) >= PURGE_ROWS:
            self._purged_at = at - PURGE_EVERY
