"""The registration of a node in the cluster, and its rejoining after it lost its epoch.

A node takes over an instance id in use only if the process of its holder has certainly ended, or if the holder has not
checked in for its own failure window. A host name and a process id prove nothing: two containers may share both.
"""

from __future__ import annotations

import logging
import os
import socket
from datetime import timedelta

from quartzpy.clock import Clock
from quartzpy.config.config import AUTO, SchedulerConfig, automatic_instance_id
from quartzpy.errors import InstanceIdInUseError
from quartzpy.node.signals import Wakeup
from quartzpy.node.workers.epoch import Epoch, is_held_here
from quartzpy.placement import Capabilities
from quartzpy.store.process_identity import has_certainly_ended, own_process
from quartzpy.store.protocol import JobStore, Node
from quartzpy.store.records import NodeRecord

logger = logging.getLogger(__name__)

CHECK_EVERY = 0.25
"""The interval, in seconds, at which the check-ins of the holder of an instance id are observed."""


class Registration:
    """Registers a node, which gives it an epoch."""

    def __init__(self, store: JobStore, config: SchedulerConfig, clock: Clock, aborted: Wakeup) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._aborted = aborted
        self._is_automatic = config.instance_id == AUTO
        self.instance_id = automatic_instance_id() if self._is_automatic else config.instance_id
        """A generated id may change when the node rejoins."""
        self.epoch: Epoch | None = None
        """The current epoch of the node. None before `join`."""

    def present_epoch(self) -> Epoch:
        assert self.epoch is not None
        return self.epoch

    def join(self, capabilities: Capabilities) -> Epoch:
        """Register the node for the first time. If the instance id is in use, find out whether its holder is alive.

        Raises:
            InstanceIdInUseError: the holder is alive.
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
                node = self._register(ended_epoch=holder.epoch)
            else:
                return self._wait_for_silence(holder, refusal, capabilities)
        return self._new_epoch(node, asked_at, capabilities)

    def rejoin(self, capabilities: Capabilities) -> Epoch:
        """Register the node again after its epoch was lost. Another node that has taken its id meanwhile keeps it.

        Raises:
            InstanceIdInUseError: another node has the configured id.
        """
        asked_at = self._clock.monotonic()
        try:
            node = self._register()
        except InstanceIdInUseError:
            holder = self._holder()
            if holder is not None and self._is_our_own(holder):
                # It is our own registration, whose answer was lost.
                node = self._register(ended_epoch=holder.epoch)
            elif self._is_automatic:
                self.instance_id = automatic_instance_id()
                node = self._register()
            else:
                raise
        return self._new_epoch(node, asked_at, capabilities)

    def _register(self, ended_epoch: int | None = None) -> Node:
        return self._store.register(
            self.instance_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            checkin_interval=self._config.checkin_interval,
            window=self._config.failure_window,
            process=own_process(),
            ended_epoch=ended_epoch,
            max_node_deaths=self._config.max_node_deaths,
        )

    def _new_epoch(self, node: Node, asked_at: float, capabilities: Capabilities) -> Epoch:
        self._store.publish(node, capabilities)
        self.epoch = Epoch(node, self._clock, self._config.lease.total_seconds(), asked_at)
        return self.epoch

    def _holder(self) -> NodeRecord | None:
        nodes = self._store.list_nodes().nodes
        return next((record for record in nodes if record.instance_id == self.instance_id), None)

    @staticmethod
    def _is_our_own(holder: NodeRecord) -> bool:
        """Return whether the holder belongs to this process, but to no live scheduler of it."""
        return holder.process == own_process() and not is_held_here(holder.instance_id, holder.epoch)

    def _has_ended(self, holder: NodeRecord) -> bool:
        return self._is_our_own(holder) or has_certainly_ended(holder.process)

    @staticmethod
    def _can_be_waited_for(holder: NodeRecord) -> bool:
        """Return whether the holder may have ended: False if it is a live node of this process."""
        return not is_held_here(holder.instance_id, holder.epoch)

    def _wait_for_silence(self, holder: NodeRecord, refusal: InstanceIdInUseError, capabilities: Capabilities) -> Epoch:
        """Wait until the holder checks in, or its failure window passes, as with a container that was just replaced."""
        longest_wait = min(holder.failure_window, self._config.start_timeout) + timedelta(seconds=2 * CHECK_EVERY)
        logger.warning(
            "instance_id %s is in use by a node on host %s, pid %d: waiting up to %.1f s for it to check in or expire",
            holder.instance_id,
            holder.host,
            holder.pid,
            longest_wait.total_seconds(),
        )
        deadline = self._clock.monotonic() + longest_wait.total_seconds()
        asked_at = self._clock.monotonic()
        # Even if an attempt is slow, the last one starts no earlier than the end of the wait.
        while asked_at < deadline and not self._aborted.wait(CHECK_EVERY):
            now = self._holder()
            if now is not None and (now.epoch, now.checkin_count) != (holder.epoch, holder.checkin_count):
                break
            asked_at = self._clock.monotonic()
            try:
                node = self._register()
            except InstanceIdInUseError:
                continue
            return self._new_epoch(node, asked_at, capabilities)
        raise refusal
