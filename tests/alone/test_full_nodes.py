"""A node whose workers are busy tells the others what only it knows: when the trigger is due that it has fired."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from quartzpy.node.next_look import Peers
from quartzpy.node.scheduler_thread import BETWEEN_NOTIFICATIONS, FULL_BEFORE_NOTIFYING
from quartzpy.placement import Placement, slot_pool_of
from quartzpy.store.protocol import AvailableSlots
from tests.alone.simulation import SLACK, How, Simulation
from tests.contract.harness import at, every, job

Make = Callable[..., Simulation]


def test_an_idle_node_takes_the_fire_of_a_full_one(simulate: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Peers, "place", lambda peers, instant: 1)
    simulation = simulate(2, workers=1)
    simulation.harness.schedule(job("long"), every(5, start=at(1)))
    simulation.hows["long"] = How(takes=timedelta(seconds=7))
    simulation.notify()
    simulation.run(44)
    late = simulation.lateness()
    assert len(late) == 9, "each after it was claimed by a node that was full at the next instant"
    assert max(late) < FULL_BEFORE_NOTIFYING + SLACK


def test_full_nodes_tell_each_other_rarely(simulate: Make) -> None:
    simulation = simulate(2, workers=1)
    for number in range(4):
        simulation.harness.schedule(job(f"job-{number}"), every(1, f"t{number}"))
        simulation.hows[f"job-{number}"] = How(takes=timedelta(seconds=0.5))
    simulation.notify()
    simulation.run(20)
    assert 0 < simulation.announcements <= 2 * 20 / BETWEEN_NOTIFICATIONS + 2


def test_a_full_node_that_knows_of_nothing_that_is_due_tells_nobody(simulate: Make) -> None:
    simulation = simulate(2, workers=1)
    simulation.harness.schedule(job("long"), every(60, start=at(1)))
    simulation.hows["long"] = How(takes=timedelta(seconds=50))
    simulation.notify()
    simulation.run(50)
    assert simulation.announcements == 0


def test_a_node_that_is_full_of_short_jobs_tells_nobody(simulate: Make) -> None:
    simulation = simulate(1, workers=1)
    simulation.harness.schedule(job("short"), every(0.05))
    simulation.hows["short"] = How(takes=timedelta(seconds=0.04))
    simulation.notify()
    simulation.run(5)
    assert simulation.announcements == 0


def test_what_waits_for_a_full_executor_fires_when_it_has_a_free_worker(simulate: Make) -> None:
    """The looks before have passed over it."""
    simulation = simulate(1)
    [node] = simulation.nodes
    node.thread._capacity.available_slots = lambda: [AvailableSlots(workers=5)]  # type: ignore[method-assign]
    node.thread.signals.look_again()
    simulation.harness.schedule(job(executor="others"), every(0.5, start=at(1)))
    simulation.run_until(at(1.7))
    assert not simulation.fires
    slot_pool = slot_pool_of(Placement("others").text)
    others = AvailableSlots(slot_pool, "others", workers=5)
    node.thread._capacity.available_slots = lambda: [AvailableSlots(workers=5), others]  # type: ignore[method-assign]
    node.thread.wakeup.set()
    simulation.run_until(at(1.8))
    assert max(simulation.lateness()) < 0.7 + SLACK
    assert len(simulation.fires) == 2
