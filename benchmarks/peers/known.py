"""The list of all peers."""

from __future__ import annotations

from benchmarks.peers.peer import Peer
from benchmarks.peers.python_peers import PYTHON_PEERS
from benchmarks.peers.quartz_peer import Quartz

PEERS: tuple[Peer, ...] = (Quartz(), *PYTHON_PEERS)
