"""The membership of a node in the cluster: its registration, which gives it an epoch with a lease.

A node takes over an instance id in use only if the process of its holder has certainly ended, or if the holder has not
checked in for its own failure window. A host name and a process id prove nothing: two containers may share both.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import weakref
from collections.abc import Iterable
from datetime import timedelta

from quartzpy.clock import Clock
from quartzpy.config.config import AUTO, SchedulerConfig, automatic_instance_id
from quartzpy.errors import InstanceIdInUseError
from quartzpy.node.signals import Wakeup
from quartzpy.placement import Capabilities
from quartzpy.store.process_identity import has_certainly_ended, own_process
from quartzpy.store.protocol import JobStore, Node
from quartzpy.store.records import NodeRecord
from quartzpy.texts import instant_text

logger = logging.getLogger(__name__)

_of_this_process: weakref.WeakSet[Epoch] = weakref.WeakSet()
_of_this_process_lock = threading.Lock()


def is_held_here(instance_id: str, epoch: int) -> bool:
    """Return whether this is the current epoch of a scheduler in this process.

    The number alone does not identify an epoch, because each database counts its own.
    """
    with _of_this_process_lock:
        held = [current.node for current in _of_this_process if not current.lost]
    return any((node.instance_id, node.epoch) == (instance_id, epoch) for node in held)


class Epoch:
    """One period of a node's membership in the cluster. A lost epoch stays lost; the node rejoins with a new one.

    The monotonic clock of this machine measures the lease. Once it has expired, other nodes may have declared this node
    dead, so nothing is started until a check-in renews it.
    """

    def __init__(self, node: Node, clock: Clock, lease_seconds: float, renewed_at: float) -> None:
        self.node = node
        self._clock = clock
        self._seconds = lease_seconds
        self._condition = threading.Condition()
        self._trusted_until = renewed_at + lease_seconds
        self._lost = False
        self._unrecorded: set[int] = set()
        with _of_this_process_lock:
            _of_this_process.add(self)

    def renew(self, asked_at: float) -> None:
        """Renew the lease after a successful check-in that was sent at `asked_at`."""
        with self._condition:
            self._trusted_until = max(self._trusted_until, asked_at + self._seconds)
            self._condition.notify_all()

    def lose(self) -> None:
        with self._condition:
            self._lost = True
            self._condition.notify_all()

    @property
    def lost(self) -> bool:
        return self._lost

    @property
    def trusted(self) -> bool:
        """True while the epoch is not lost and its lease has not expired."""
        return not self._lost and self._clock.monotonic() < self._trusted_until

    @property
    def seconds_left(self) -> float:
        """The remaining seconds of the lease: 0 if it has expired or the epoch is lost."""
        return 0.0 if self._lost else max(0.0, self._trusted_until - self._clock.monotonic())

    def wait_until_trusted(self) -> bool:
        """Wait until an expired lease is renewed. Return False if the epoch is lost."""
        if self.trusted:
            return True
        with self._condition:
            while not self._lost and self._clock.monotonic() >= self._trusted_until:
                self._condition.wait(0.5)
            return not self._lost

    # --- the executions of this epoch that were passed to workers and are not yet recorded

    def add_unrecorded(self, fire_ids: Iterable[int]) -> None:
        with self._condition:
            self._unrecorded.update(fire_ids)

    def discard_unrecorded(self, fire_ids: Iterable[int]) -> None:
        with self._condition:
            self._unrecorded.difference_update(fire_ids)

    def unrecorded(self) -> frozenset[int]:
        with self._condition:
            return frozenset(self._unrecorded)


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

    def join(self) -> Epoch:
        """Register the node for the first time. If the instance id is in use, find out whether its holder is alive.

        What the node runs is published by `publish`: an epoch that exists needs check-ins before anything else.

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
                return self._wait_for_silence(holder, refusal)
        return self._new_epoch(node, asked_at)

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
        self._store.publish(node, capabilities)
        return self._new_epoch(node, asked_at)

    def publish(self, capabilities: Capabilities) -> None:
        """Publish what the present epoch of this node runs."""
        self._store.publish(self.present_epoch().node, capabilities)

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

    def _new_epoch(self, node: Node, asked_at: float) -> Epoch:
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

    def _wait_for_silence(self, holder: NodeRecord, refusal: InstanceIdInUseError) -> Epoch:
        """Wait until the holder checks in, or its failure window passes, as with a container that was just replaced.

        The end of this wait is known, so that it is no attempt to reach the database, which `start_timeout` limits.
        """
        longest_wait = holder.failure_window + timedelta(seconds=2 * CHECK_EVERY)
        logger.warning(
            "instance_id %s is in use by a node on host %s, pid %d, which last checked in at %s: waiting for it to"
            " check in, or to expire at %s, in at most %.1f s",
            holder.instance_id,
            holder.host,
            holder.pid,
            instant_text(holder.last_checkin),
            instant_text(holder.last_checkin + holder.failure_window),
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
            return self._new_epoch(node, asked_at)
        raise refusal
