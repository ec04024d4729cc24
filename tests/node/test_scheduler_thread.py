"""What waits for the end of a look is called after it, however it ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from quartzpy.clock import SystemClock
from quartzpy.config.config import SchedulerConfig
from quartzpy.node.registration import Epoch
from quartzpy.node.scheduler_thread import SchedulerThread
from quartzpy.node.signals import SchedulerSignals
from quartzpy.store.protocol import Acquisition, AvailableSlots, Node
from quartzpy.store.store_time import StoreTime
from tests.node.test_turns import node, turns_of


class Nothing:
    """Stands for the parts of a node that a look in standby does not use."""

    have_waiting = False


def _thread(passes: list[str], error: Exception | None = None) -> SchedulerThread:
    epoch = Epoch(Node("node", 1), SystemClock(), 1e6, 0.0)
    unused: Any = Nothing()
    thread = SchedulerThread(
        "scheduler",
        signals=SchedulerSignals(),
        store=unused,
        clock=SystemClock(),
        store_time=unused,
        capacity=unused,
        decide=unused,
        executors=unused,
        config=unused,
        epoch=lambda: epoch,
        submit=unused,
        hand_back=unused,
        running=unused,
        abandon=unused,
        backlog=unused,
        lease_lost=unused,
        listeners=unused,
    )

    def one_pass(epoch: Epoch) -> float:
        passes.append("looked")
        if len(passes) == 1:
            # It arrives while the thread looks, so it may be for a trigger that this look did not see.
            thread.signals.look_again(then=lambda: passes.append("called later"))
        if error is not None:
            raise error
        return 0.0

    cast("Any", thread)._pass_as = one_pass
    return thread


@pytest.mark.parametrize("error", [None, ValueError("the store refuses")])
def test_it_is_called_after_the_look_that_follows(error: Exception | None) -> None:
    passes: list[str] = []
    thread = _thread(passes, error)
    thread.signals.look_again(then=lambda: passes.append("called"))
    thread.signals.look_again()
    for _ in range(3):
        if error is None:
            thread.run_once()
        else:
            with pytest.raises(ValueError, match="the store refuses"):
                thread.run_once()
    assert passes == ["looked", "called", "looked", "called later", "looked"]


class Behind:
    """A store of which other nodes have claimed everything up to `next_due`, and the free slots for it."""

    def __init__(self) -> None:
        self.next_due = datetime.now(UTC)
        self.look_aheads: list[timedelta] = []

    def acquire(self, *node_and_slots: object, look_ahead: timedelta, **how: object) -> Acquisition:
        self.look_aheads.append(look_ahead)
        return Acquisition(datetime.now(UTC), next_due=self.next_due)

    def meet(self, slot_pools: object) -> bool:
        return False


@pytest.mark.parametrize("is_its_turn", [True, False])
def test_a_node_that_is_behind_leaves_time_to_the_others_but_for_a_fire_time_of_its_own(is_its_turn: bool) -> None:
    """Where something is due all the time, it would otherwise take nothing until the others have no free worker."""
    store, clock = Behind(), SystemClock()
    thread = cast("Any", _thread([]))
    thread._store = thread._capacity = store
    thread._store_time = StoreTime(clock)
    thread._config = SchedulerConfig.of({"name": "behind"})
    thread._lead = 0.01
    thread._turns = turns_of(1, node(1), node(2))
    epoch = Epoch(Node("node", 1), clock, 1e6, 0.0)
    first = datetime.now(UTC) + timedelta(seconds=7)
    store.next_due = next(
        at
        for number in range(99)
        if thread._turns.belongs_here(at := first + number * timedelta(microseconds=1)) == is_its_turn
    )
    for _ in range(2):
        thread._acquire(epoch, [AvailableSlots(workers=5)])
    assert store.look_aheads == [timedelta(), timedelta(seconds=0.02 if is_its_turn else 0)]
