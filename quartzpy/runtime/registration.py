"""How a node gets its place in the cluster, and how it comes back when it lost it.

A place that is taken is given up to nobody but the successor of a process that has certainly ended, or of one that was
silent for its own window. A host's name and a process id prove nothing: two containers may share both.
"""

from __future__ import annotations

import logging
import os
import socket
from datetime import timedelta

from quartzpy.clock import Clock
from quartzpy.config import AUTO, SchedulerConfig, automatic_instance_id
from quartzpy.errors import InstanceIdInUseError
from quartzpy.placement import Capabilities
from quartzpy.process_identity import is_known_to_be_gone, own_process
from quartzpy.runtime.epoch import Epoch, is_held_here
from quartzpy.runtime.wakeup import Wakeup
from quartzpy.store.protocol import JobStore, Node
from quartzpy.store.records import NodeRecord

logger = logging.getLogger(__name__)

LOOK_EVERY = 0.25
"""Seconds, while the holder of a place is watched."""


class Registration:
    """Begins the epochs of one node."""

    def __init__(self, store: JobStore, config: SchedulerConfig, clock: Clock, aborted: Wakeup) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._aborted = aborted
        self._is_automatic = config.instance_id == AUTO
        self.instance_id = automatic_instance_id() if self._is_automatic else config.instance_id

    def join(self, capabilities: Capabilities) -> Epoch:
        """Begin the first epoch. Where the id is taken, find out whether its holder lives.

        Raises:
            InstanceIdInUseError: it does.
        """
        asked_at = self._clock.monotonic()
        try:
            node = self._register()
        except InstanceIdInUseError as refusal:
            holder = self._holder()
            if holder is None or not self._can_be_waited_for(holder):
                raise
            if self._has_ended(holder):
                asked_at = self._clock.monotonic()
                node = self._register(gone=holder.epoch)
            else:
                return self._wait_for_silence(holder, refusal, capabilities)
        return self._begun(node, asked_at, capabilities)

    def rejoin(self, capabilities: Capabilities) -> Epoch:
        """Begin another epoch, the last one being lost. Whoever has the id by now keeps it.

        Raises:
            InstanceIdInUseError: another node has the id, which is a setting.
        """
        asked_at = self._clock.monotonic()
        try:
            node = self._register()
        except InstanceIdInUseError:
            holder = self._holder()
            if holder is not None and self._is_our_own(holder):
                # A registration whose answer was lost.
                node = self._register(gone=holder.epoch)
            elif self._is_automatic:
                self.instance_id = automatic_instance_id()
                node = self._register()
            else:
                raise
        return self._begun(node, asked_at, capabilities)

    def _register(self, gone: int | None = None) -> Node:
        return self._store.register(
            self.instance_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            checkin_interval=self._config.checkin_interval,
            window=self._config.failure_window,
            process=own_process(),
            gone=gone,
            max_node_deaths=self._config.max_node_deaths,
        )

    def _begun(self, node: Node, asked_at: float, capabilities: Capabilities) -> Epoch:
        self._store.publish(node, capabilities)
        return Epoch(node, self._clock, self._config.lease.total_seconds(), asked_at)

    def _holder(self) -> NodeRecord | None:
        nodes = self._store.list_nodes().nodes
        return next((record for record in nodes if record.instance_id == self.instance_id), None)

    @staticmethod
    def _is_our_own(holder: NodeRecord) -> bool:
        """Return whether it is of this process, and none of our schedulers has it."""
        return holder.process == own_process() and not is_held_here(holder.epoch)

    def _has_ended(self, holder: NodeRecord) -> bool:
        return self._is_our_own(holder) or is_known_to_be_gone(holder.process)

    @staticmethod
    def _can_be_waited_for(holder: NodeRecord) -> bool:
        """Return whether it may be gone: a node of this process that lives is not."""
        return not is_held_here(holder.epoch)

    def _wait_for_silence(self, holder: NodeRecord, refusal: InstanceIdInUseError, capabilities: Capabilities) -> Epoch:
        """Its process may be that of a container that was just replaced: it checks in again, or its window passes."""
        patience = min(holder.failure_window, self._config.start_timeout) + timedelta(seconds=2 * LOOK_EVERY)
        logger.warning(
            "instance_id %s is that of a node on host %s, pid %d: waiting up to %.1f s whether it still checks in",
            holder.instance_id,
            holder.host,
            holder.pid,
            patience.total_seconds(),
        )
        deadline = self._clock.monotonic() + patience.total_seconds()
        asked_at = self._clock.monotonic()
        # However slow a try was: the last one begins when patience is over.
        while asked_at < deadline and not self._aborted.wait(LOOK_EVERY):
            now = self._holder()
            if now is not None and (now.epoch, now.checkin_count) != (holder.epoch, holder.checkin_count):
                break
            asked_at = self._clock.monotonic()
            try:
                node = self._register()
            except InstanceIdInUseError:
                continue
            return self._begun(node, asked_at, capabilities)
        raise refusal
