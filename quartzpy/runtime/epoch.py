"""This node's present life: its epoch, its lease, and the executions that it has in hand."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable

from quartzpy.clock import Clock
from quartzpy.store.protocol import Node

_of_this_process: weakref.WeakSet[Epoch] = weakref.WeakSet()
_of_this_process_lock = threading.Lock()


def is_held_here(epoch: int) -> bool:
    """Return whether a scheduler of this process lives in the epoch of this number."""
    with _of_this_process_lock:
        return any(one.node.epoch == epoch and not one.lost for one in _of_this_process)


class Epoch:
    """One life of a node. Once lost it stays lost; the node goes on as another.

    The lease is judged by this machine's own steady clock: after it ran out others may have declared us dead, so
    nothing is started until a check-in says otherwise.
    """

    def __init__(self, node: Node, clock: Clock, lease_seconds: float, renewed_at: float) -> None:
        self.node = node
        self._clock = clock
        self._seconds = lease_seconds
        self._condition = threading.Condition()
        self._trusted_until = renewed_at + lease_seconds
        self._lost = False
        self._in_hand: set[int] = set()
        with _of_this_process_lock:
            _of_this_process.add(self)

    def renew(self, asked_at: float) -> None:
        """A check-in that left at `asked_at` was answered."""
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
        """True if this node may act."""
        return not self._lost and self._clock.monotonic() < self._trusted_until

    @property
    def seconds_left(self) -> float:
        """How long the lease still runs; 0 where it lapsed or the epoch is lost."""
        return 0.0 if self._lost else max(0.0, self._trusted_until - self._clock.monotonic())

    def wait_until_trusted(self) -> bool:
        """Wait out a lease that lapsed; False where the epoch was lost instead."""
        if self.trusted:
            return True
        with self._condition:
            while not self._lost and self._clock.monotonic() >= self._trusted_until:
                self._condition.wait(0.5)
            return not self._lost

    # --- the executions of this epoch that were handed to workers, and are not recorded yet

    def take_in_hand(self, fire_ids: Iterable[int]) -> None:
        with self._condition:
            self._in_hand.update(fire_ids)

    def put_down(self, fire_ids: Iterable[int]) -> None:
        with self._condition:
            self._in_hand.difference_update(fire_ids)

    def in_hand(self) -> frozenset[int]:
        with self._condition:
            return frozenset(self._in_hand)
