"""Judges the other nodes by this node's own check-ins."""

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
    """Since when a peer's counter stands at this number."""

    checkin_count: int
    since: float


class PeerWatch:
    """Judges peers from this node's own check-ins. Pure: the caller says when each was.

    A peer is judged by the window that it stored itself; nodes with different settings live together.
    """

    def __init__(self, interval: timedelta, window: timedelta) -> None:
        self._interval = interval
        self._window = window
        self._longest_gap = 1.5 * interval.total_seconds()
        self._last: float | None = None
        self._sightings: dict[tuple[str, int], _Sighting] = {}
        self._told: set[tuple[str, timedelta, timedelta]] = set()

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
        self._tell_of_differences(peers.values())
        return [
            peer
            for key, peer in peers.items()
            if at - self._sightings[key].since >= peer.failure_window.total_seconds()
            and answer.now - peer.last_checkin > peer.failure_window
        ]

    def _tell_of_differences(self, peers: Iterable[NodeRecord]) -> None:
        for peer in peers:
            settings = (peer.checkin_interval, peer.failure_window)
            if settings != (self._interval, self._window) and (peer.instance_id, *settings) not in self._told:
                self._told.add((peer.instance_id, *settings))
                logger.warning(
                    "node %s has checkin_interval %s and failure_window %s, this one %s and %s;"
                    " each is judged by its own window",
                    peer.instance_id,
                    *settings,
                    self._interval,
                    self._window,
                )
