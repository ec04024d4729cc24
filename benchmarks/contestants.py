"""The contestants beside quartzpy: the ceiling and the peers, each in an empty database of its own."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.bench import Bench
from benchmarks.peers import Peer
from benchmarks.peers.ceiling_peer import ceiling_rate

CEILING = "ceiling (bare SQL)"
CEILING_SETTINGS = "one thread, batches of 200, one transaction a batch; no jobs, no history"


def ceiling(bench: Bench, delayed: Callable[[str], str] | None = None) -> float:
    """Return the fires per second of the ceiling. `delayed` is as for `drain`."""
    return _in_a_database(bench, delayed, lambda url: ceiling_rate(url, bench.scale.drained))


def peer_drain(bench: Bench, peer: Peer, delayed: Callable[[str], str] | None = None) -> float:
    """Return the jobs per second of a peer. Errors as for `Peer.drain`."""
    count = max(int(peer.drained * bench.scale.peer_share), 10)
    return _in_a_database(bench, delayed, lambda url: peer.drain(bench.server, url, count))


def _in_a_database(bench: Bench, delayed: Callable[[str], str] | None, measure: Callable[[str], float]) -> float:
    url = bench.server.new_database(with_tables=False)
    try:
        return measure(url if delayed is None else delayed(url))
    finally:
        bench.server.drop(url)
