"""The dispatch keys that a node has refused to run, as its steps are told of them; see `steps.node_keys`."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping

from quartzpy.store.protocol import DispatchKey, Node

MOST_NAMED = 50
"""The number of refused dispatch keys up to which it costs less to name them than to look each trigger's up."""


class RefusedKeys:
    """The dispatch keys that the node of this process has refused. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._epoch = 0
        self._refused: dict[str, None] = {}
        self.slot_pools: frozenset[str] = frozenset({""})
        """The slot pools for which triggers have waited."""

    def meet(self, slot_pools: Collection[str]) -> None:
        """Note slot pools for which triggers wait."""
        with self._lock:
            self.slot_pools = self.slot_pools.union(slot_pools)

    def note(self, node: Node, runs: Mapping[DispatchKey, bool]) -> None:
        """Note what the node has said, after it was stored."""
        with self._lock:
            refused = dict(self._of(node))
            for key, is_run in runs.items():
                if is_run:
                    refused.pop(_named(key), None)
                else:
                    refused[_named(key)] = None
            self._epoch, self._refused = node.epoch, refused

    def include_any_of(self, node: Node, keys: Iterable[DispatchKey]) -> bool:
        """Return True if the node has refused any of these."""
        with self._lock:
            return not self._of(node).keys().isdisjoint(map(_named, keys))

    def named(self, node: Node) -> list[str]:
        """Return how a step of this node names them; none if they are too many to be named."""
        with self._lock:
            return [] if self._are_many(node) else list(self._of(node))

    def are_many(self, node: Node) -> bool:
        """Return True if they are too many to be named: a step of this node has to look them up."""
        with self._lock:
            return self._are_many(node)

    def _are_many(self, node: Node) -> bool:
        return len(self._of(node)) > MOST_NAMED

    def _of(self, node: Node) -> dict[str, None]:
        return self._refused if self._epoch == node.epoch else {}


def _named(key: DispatchKey) -> str:
    # A placement is JSON, which contains no line break.
    return f"{key.job_type}\n{key.placement}"
