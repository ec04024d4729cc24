"""What the node of a test runs, and the slots that it has for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from quartzpy.placement import slot_pool_of
from quartzpy.store.protocol import MANY, AvailableSlots, DispatchKey, JobStore, Node


class Slots(NamedTuple):
    """The slots that a node has for the triggers of one job type and placement."""

    job_type: str
    placement: str = ""
    executor: str = ""
    workers: int = MANY
    group: str = ""
    group_slots: int = MANY

    @property
    def dispatch_key(self) -> DispatchKey:
        return DispatchKey(self.job_type, self.placement)

    @property
    def of_pool(self) -> AvailableSlots:
        pool = slot_pool_of(self.placement)
        return AvailableSlots(pool, self.executor, self.workers, self.group, self.group_slots)


def slots_of(types: Sequence[str | Slots]) -> list[AvailableSlots]:
    """Return the slots for these job types; those that share a pool have the same."""
    each = [one if isinstance(one, Slots) else Slots(one) for one in types]
    return list({slots.of_pool.slot_pool: slots.of_pool for slots in each}.values())


class NodesOfTest:
    """What the nodes of a test have said, so that they say only what is new."""

    def __init__(self) -> None:
        self._said: dict[int, dict[DispatchKey, bool]] = {}

    def run(self, store: JobStore, node: Node, types: Sequence[str | Slots]) -> list[AvailableSlots]:
        """Let a node run the triggers of these job types, and no others. Return its slots."""
        keys = {one.dispatch_key if isinstance(one, Slots) else DispatchKey(one) for one in types}
        said = self._said.setdefault(node.epoch, {})
        runs = {key: key in keys for key in {*store.waiting_dispatch_keys(), *keys, *said}}
        new = {key: is_run for key, is_run in runs.items() if said.get(key) is not is_run}
        if new:
            store.decide(node, new)
            said.update(new)
        return slots_of(types)


def run_all(store: JobStore, node: Node, *types: str | Slots) -> list[AvailableSlots]:
    """Let a node run the triggers of these job types, which it has said nothing of yet. Return its slots."""
    return NodesOfTest().run(store, node, types)
