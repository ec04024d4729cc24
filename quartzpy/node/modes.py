"""The mode of a node: running, in standby or draining.

The program sets it (`start`, `standby`), or an operator does in the node's record, from anywhere. Both are commands,
and the later one counts. The record has the instant of the last command, which only rises: so an answer to a check-in
that was read before a command never undoes it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime

from quartzpy.states import NodeMode
from quartzpy.store.protocol import JobStore
from quartzpy.store.records import NodeRecord

logger = logging.getLogger(__name__)


class NodeModes:
    """Follows the commands for one node, and applies each by `apply`, which is called with the new mode."""

    def __init__(self, store: JobStore, apply: Callable[[NodeMode], None]) -> None:
        self._store = store
        self._apply = apply
        self._lock = threading.Lock()
        self._mode = NodeMode.RUNNING
        self._since: datetime | None = None
        self._is_published = True

    @property
    def mode(self) -> NodeMode:
        return self._mode

    def set_here(self, mode: NodeMode) -> None:
        """Apply a command of this process. `publish` makes it visible to others."""
        with self._lock:
            self._mode, self._is_published = mode, False
            self._apply(mode)

    def start_epoch(self) -> None:
        """Take note that the node has a new record, whose mode is RUNNING."""
        with self._lock:
            self._since, self._is_published = None, self._mode is NodeMode.RUNNING

    def observe(self, record: NodeRecord) -> NodeMode | None:
        """Apply the command that the node's record has, if it is new. Return the new mode, or None for no change."""
        with self._lock:
            since = record.mode_since
            if not self._is_published or since is None or (self._since is not None and since <= self._since):
                return None
            self._since = since
            if record.mode is self._mode:
                return None
            self._mode = record.mode
            self._apply(record.mode)
        logger.info("node %s is %s now, as an operator has asked", record.instance_id, record.mode)
        return record.mode

    def publish(self, instance_id: str) -> None:
        """Write a command of this process to the node's record, if that is not done yet."""
        with self._lock:
            mode, is_published = self._mode, self._is_published
        if is_published:
            return
        since = self._store.set_node_mode(instance_id, mode)
        with self._lock:
            # Another command may have come meanwhile: it is published next.
            self._is_published = mode is self._mode
            self._since = since
