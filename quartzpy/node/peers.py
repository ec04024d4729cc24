"""Which peers are dead, by the answers to the check-ins of this node.

Two conditions must hold before a peer is declared dead. Its last check-in is older than its failure window by the
store's clock; and this node, in an unbroken series of its own check-ins that spans the window, has seen that the peer's
check-in counter did not change. An outage of the database or a pause of this process breaks the series. Every peer then
gets a full window to check in again, so a starved observer decides late rather than wrongly.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from quartzpy.store.protocol import CheckIn
from quartzpy.store.records import NodeRecord

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Sighting:
    """The check-in counter of a peer, and the time at which this node first observed that value."""

    checkin_count: int
    since: float


class PeerWatch:
    """Finds dead peers in the answers to check-ins. It reads no clock: the caller passes the times.

    The failure window of a peer is the one that the peer itself stored, so nodes may have different settings.
    """

    def __init__(self, interval: timedelta, window: timedelta) -> None:
        self._interval = interval
        self._window = window
        self._longest_gap = 1.5 * interval.total_seconds()
        self._last: float | None = None
        self._sightings: dict[tuple[str, int], _Sighting] = {}
        self._reported: set[tuple[str, timedelta, timedelta]] = set()

    def interrupt(self) -> None:
        """Restart the series of check-ins after a failed one."""
        self._last = None

    def observe(self, answer: CheckIn, own_epoch: int, at: float) -> list[NodeRecord]:
        """Return the peers that this answer shows to be dead. The check-in was sent at `at` of the monotonic clock."""
        if self._last is None or at - self._last > self._longest_gap:
            self._sightings.clear()
        self._last = at
        peers = {(peer.instance_id, peer.epoch): peer for peer in answer.nodes if peer.epoch != own_epoch}
        for key, peer in peers.items():
            sighting = self._sightings.get(key)
            if sighting is None or sighting.checkin_count != peer.checkin_count:
                self._sightings[key] = _Sighting(peer.checkin_count, at)
        for key in self._sightings.keys() - peers.keys():
            del self._sightings[key]
        self._report_differences(peers.values())
        return [
            peer
            for key, peer in peers.items()
            if at - self._sightings[key].since >= peer.failure_window.total_seconds()
            and answer.now - peer.last_checkin > peer.failure_window
        ]

    def _report_differences(self, peers: Iterable[NodeRecord]) -> None:
        for peer in peers:
            settings = (peer.checkin_interval, peer.failure_window)
            if settings != (self._interval, self._window) and (peer.instance_id, *settings) not in self._reported:
                self._reported.add((peer.instance_id, *settings))
                logger.warning(
                    "node %s has checkin_interval %s and failure_window %s, but this node has %s and %s;"
                    " the failure window of each node is its own",
                    peer.instance_id,
                    *settings,
                    self._interval,
                    self._window,
                )
