"""What waits for the end of a look is called after it, however it ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from quartzpy import SimpleTrigger
from quartzpy.clock import SystemClock
from quartzpy.config.config import SchedulerConfig
from quartzpy.node.next_look import AT_ONCE, Knowledge
from quartzpy.node.outlook import Outlook
from quartzpy.node.registration import Epoch
from quartzpy.node.scheduler_thread import SchedulerThread
from quartzpy.node.signals import SchedulerSignals
from quartzpy.store.protocol import Acquisition, AvailableSlots, DispatchKey, Front, Node, Refill, UnfilledTrigger
from quartzpy.store.store_time import StoreTime
from quartzpy.triggers.trigger import TriggerProgress


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
        adopt=lambda fired, epoch, rows: None,
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


def thread_on(store: Any) -> tuple[Any, Epoch]:
    """Return a thread whose store and free slots are these, and the epoch of its node."""
    thread, clock = cast("Any", _thread([])), SystemClock()
    thread._store = thread._capacity = store
    thread._store_time = StoreTime(clock)
    thread._config = SchedulerConfig.of({"name": "looks"})
    return thread, Epoch(Node("node", 1), clock, 1e6, 0.0)


class Unfilled:
    """A store whose look finds a trigger that is to be refilled, and the free slots for it."""

    def __init__(self) -> None:
        self.refills: list[Refill] = []

    def acquire(self, *node_and_slots: object, **how: object) -> Acquisition:
        now = datetime.now(UTC)
        trigger = SimpleTrigger("t", start_time=now, interval=timedelta(hours=1), repeat_count=None)
        unfilled = UnfilledTrigger("DEFAULT", "t", TriggerProgress(now), 1, lambda: trigger)
        return Acquisition(now, next_due=now, unfilled=[unfilled])

    def refill(self, node: Node, refills: list[Refill]) -> None:
        self.refills += refills

    met_pools = frozenset({""})

    def meet(self, slot_pools: object) -> bool:
        return False


def test_what_was_refilled_fires_at_once() -> None:
    store = Unfilled()
    thread, epoch = thread_on(store)
    thread._acquire(epoch, [AvailableSlots(workers=5)], AT_ONCE)
    assert thread._next_look() == AT_ONCE
    [refill] = store.refills
    assert len(refill.upcoming.instants) > 1


class Undecided(Unfilled):
    """A store whose step names a dispatch key about which the node has said nothing."""

    def acquire(self, *node_and_slots: object, **how: object) -> Acquisition:
        now = datetime.now(UTC)
        return Acquisition(now, next_due=now, undecided=[DispatchKey("new")], front=Front({"": now}, seconds=1.0))


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_thread_that_has_said_what_it_runs_reads_everything_first(is_stored: bool) -> None:
    """It may run what waits below its floor, or leave much to others that a step would walk over under the lock."""
    thread, epoch = thread_on(Undecided())
    thread._decide = lambda node, dispatch_keys: is_stored
    thread._acquire(epoch, [AvailableSlots(workers=5)], AT_ONCE)
    assert (thread._knowledge.outlook == Outlook()) is is_stored


def test_a_thread_forgets_what_another_epoch_has_read() -> None:
    thread, epoch = thread_on(Unfilled())
    thread._knowledge = Knowledge(outlook=Outlook(has_new=True))
    thread._last_epoch = epoch
    lost = Epoch(Node("node", 2), SystemClock(), 1e6, 0.0)
    lost.lose()
    thread.signals.set_standby(False)
    assert SchedulerThread._pass_as(thread, lost) > 0
    assert thread._knowledge == Knowledge()


def test_a_thread_looks_after_a_suspension_of_the_machine() -> None:
    """Its estimate of the store's time is behind then."""
    thread = _thread([])
    thread.signals.looks_again = False
    thread.wake_after_suspension()
    assert thread.signals.looks_again
