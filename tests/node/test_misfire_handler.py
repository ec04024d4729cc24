from __future__ import annotations

import gc
import weakref
from datetime import timedelta
from typing import Any, cast

import pytest

from quartzpy.config.config import SchedulerConfig
from quartzpy.events.listeners import Listeners
from quartzpy.keys import TriggerKey
from quartzpy.node.misfire_handler import BACKLOG_REST, IN_VAIN_REST, MisfireHandler
from quartzpy.node.registration import Epoch
from quartzpy.store.protocol import JobStore, MisfireOutcome, Node
from quartzpy.store.store_time import StoreTime
from tests.node.test_small_parts import ManualClock


class Missed(list[Any]):
    """The fire times that a trigger missed; unlike a list, it can be referenced weakly."""


class Storm:
    """A store with many misfires."""

    def __init__(self, clock: ManualClock, count: int) -> None:
        self.clock = clock
        self.left = count
        self.largest = 0
        self.passes = 0
        self.given: list[weakref.ref[Missed]] = []

    def recover_misfires(self, node: Node, *, threshold: timedelta, limit: int) -> MisfireOutcome:
        self.passes += 1
        count = min(limit, self.left)
        self.left -= count
        self.largest = max(self.largest, count)
        missed = {TriggerKey(f"missed-{self.left}-{number}"): Missed([self.clock.now()]) for number in range(count)}
        self.given += map(weakref.ref, missed.values())
        return MisfireOutcome(self.clock.now(), missed, tuple(missed), self.clock.now(), more=self.left > 0)


def handler_of(store: Storm, clock: ManualClock) -> MisfireHandler:
    epoch = Epoch(Node("node", 1), clock, 1e6, 0.0)
    return MisfireHandler(
        "misfires",
        store=cast("JobStore", store),
        clock=clock,
        store_time=StoreTime(clock),
        config=SchedulerConfig(),
        epoch=lambda: epoch,
        performs_maintenance=lambda: True,
        scheduling_changed=lambda earliest: None,
        listeners=Listeners(),
        lease_lost=lambda epoch: None,
    )


def test_a_storm_of_misfires_is_handled_in_slices_and_leaves_nothing_in_memory() -> None:
    clock = ManualClock()
    store = Storm(clock, 20_000)
    handler = handler_of(store, clock)
    _, longest = BACKLOG_REST
    while handler.run_once() <= longest and store.left:
        pass
    assert store.largest == SchedulerConfig().misfire_batch_size
    assert store.passes == 20_000 / store.largest
    handler.run_once()
    gc.collect()
    assert len(store.given) == 20_000
    assert not [one for one in store.given if one() is not None]


def test_a_handler_that_found_nothing_rests_for_a_moment_however_often_it_is_woken() -> None:
    clock = ManualClock()
    store = Storm(clock, 0)
    handler = handler_of(store, clock)
    handler.run_once()
    store.left = 1
    rests = []
    for _ in range(4):
        rests.append(handler.run_once())
        clock.seconds += IN_VAIN_REST / 4
    assert store.passes == 1
    assert rests == pytest.approx([IN_VAIN_REST * share for share in (1, 3 / 4, 2 / 4, 1 / 4)])
    handler.run_once()
    assert (store.passes, store.left) == (2, 0)


def test_a_handler_that_found_a_misfire_takes_the_next_one_at_once() -> None:
    clock = ManualClock()
    store = Storm(clock, 1)
    handler = handler_of(store, clock)
    handler.run_once()
    store.left = 1
    handler.run_once()
    assert (store.passes, store.left) == (2, 0)
