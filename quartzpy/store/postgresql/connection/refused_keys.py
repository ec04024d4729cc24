"""The dispatch keys that a node has refused to run, as its steps are told of them; see `steps.node_keys`."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from typing import Any

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
            refused = dict(self._refused) if self._epoch == node.epoch else {}
            for key, is_run in runs.items():
                if is_run:
                    refused.pop(_named(key), None)
                else:
                    refused[_named(key)] = None
            self._epoch, self._refused = node.epoch, refused

    def values(self, node: Node) -> dict[str, Any]:
        """Return the values with which a step of this node passes over their triggers."""
        with self._lock:
            refused = self._refused if self._epoch == node.epoch else {}
        is_many = len(refused) > MOST_NAMED
        return {"refused": [] if is_many else list(refused), "refuses_many": is_many}


def _named(key: DispatchKey) -> str:
    # A placement is JSON, which contains no line break.
    return f"{key.job_type}\n{key.placement}"
