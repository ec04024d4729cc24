"""The schedulers and queues that quartzpy is compared with, each with its best settings."""

from benchmarks.peers.peer import Peer, PeerError

__all__ = ["Peer", "PeerError"]
