"""The current epoch of a node, with its lease and its unrecorded executions."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable

from quartzpy.clock import Clock
from quartzpy.store.protocol import Node

_of_this_process: weakref.WeakSet[Epoch] = weakref.WeakSet()
_of_this_process_lock = threading.Lock()


def is_held_here(instance_id: str, epoch: int) -> bool:
    """Return whether this is the current epoch of a scheduler in this process.

    The number alone does not identify an epoch, because each database counts its own.
    """
    with _of_this_process_lock:
        held = [one.node for one in _of_this_process if not one.lost]
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
