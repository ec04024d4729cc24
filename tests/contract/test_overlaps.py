"""Tests of the overlap policies: a fire of a job at its limit waits and coalesces others, or replaces an execution."""

from __future__ import annotations

from typing import Any

import pytest

from quartzpy.node.scheduler_thread import refill_of
from quartzpy.states import Outcome
from quartzpy.store.protocol import NamedTriggers
from tests.contract.harness import SECOND, Harness, at, every, job, key, names, once

BUFFER: dict[str, Any] = {"max_concurrent": 1, "overlap_policy": "buffer_one"}
CANCEL: dict[str, Any] = {"max_concurrent": 1, "overlap_policy": "cancel_other"}


def skipped(store: Harness) -> list[str]:
    return [record.trigger_key.name for record in store.history() if record.outcome is Outcome.SKIPPED]


@pytest.mark.parametrize("exhausted", [False, True], ids=["known ahead", "refilled"])
def test_one_fire_waits_and_coalesces_all_of_its_trigger(store: Harness, exhausted: bool) -> None:
    node = store.node()
    store.schedule_exhausted(job(**BUFFER), every(10)) if exhausted else store.schedule(job(**BUFFER), every(10))
    first = store.fire_one(node)
    assert store.state("every") == "WAITING"
    store.clock.set(at(10))
    assert not store.fire_due(node)
    assert store.state("every") == "BLOCKED"
    store.clock.set(at(45))
    assert not store.fire_due(node)
    store.complete(node, first)
    second = store.fire_one(node)
    assert second.scheduled_fire_time == at(10)
    assert second.coalesced_fire_times == (at(10), at(20), at(30), at(40))
    assert second.next_fire_time == at(50)
    assert second.times_triggered == 5
    assert not skipped(store)


def test_while_one_waits_the_fires_of_other_triggers_are_skipped(store: Harness) -> None:
    node = store.node()
    store.schedule(job(**BUFFER), *[every(100, f"t{n}", start=at(n)) for n in range(4)])
    first = store.fire_one(node)
    for n in range(1, 4):
        store.clock.set(at(n))
        assert not store.fire_due(node)
    assert store.states("t1", "t2", "t3") == ["BLOCKED", "WAITING", "WAITING"]
    assert sorted(skipped(store)) == ["t2", "t3"]
    assert store.progress("t2").next_fire_time == at(102)
    store.complete(node, first)
    assert store.fire_one(node).trigger_name == "t1"


def test_of_several_that_are_due_at_once_one_fires_and_one_waits(store: Harness) -> None:
    node = store.node()
    store.schedule(job(**BUFFER), *[once(f"t{n}", priority=9 - n) for n in range(4)])
    assert names(store.fire_due(node)) == ["t0"]
    assert store.state("t1") == "BLOCKED"
    assert sorted(skipped(store)) == ["t2", "t3"]


def test_a_limit_above_one_buffers_one(store: Harness) -> None:
    node = store.node()
    store.schedule(
        job(max_concurrent=2, overlap_policy="buffer_one"), *[every(100, f"t{n}", start=at(n)) for n in range(4)]
    )
    store.clock.set(at(3))
    assert names(store.fire_due(node)) == ["t0", "t1"]
    assert store.states("t2", "t3") == ["BLOCKED", "WAITING"]
    assert skipped(store) == ["t3"]


def test_a_last_fire_that_coalesces_others_ends_its_trigger(store: Harness) -> None:
    node = store.node()
    store.schedule(job(durable=True, **BUFFER), every(10, times=4))
    first = store.fire_one(node)
    store.clock.set(at(10))
    store.fire_due(node)
    store.clock.set(at(60))
    store.complete(node, first)
    last = store.fire_one(node)
    assert last.coalesced_fire_times == (at(10), at(20), at(30))
    assert last.next_fire_time is None
    store.complete(node, last)
    assert store.state("every") == "gone"


@pytest.mark.parametrize("exhausted", [False, True], ids=["known ahead", "refilled"])
def test_a_fire_asks_what_runs_to_stop_and_takes_its_place(store: Harness, exhausted: bool) -> None:
    node = store.node()
    store.schedule_exhausted(job(**CANCEL), every(10)) if exhausted else store.schedule(job(**CANCEL), every(10))
    first = store.fire_one(node)
    assert not store.store.cancel_requests(node)
    store.clock.set(at(10))
    assert not store.fire_due(node)
    assert store.state("every") == "BLOCKED"
    assert store.store.cancel_requests(node) == {first.fire_id}
    store.clock.set(at(35))
    store.complete(node, first, outcome=Outcome.CANCELLED)
    second = store.fire_one(node)
    assert second.coalesced_fire_times == (at(10), at(20), at(30))
    assert second.next_fire_time == at(40)
    assert not store.store.cancel_requests(node)


def test_of_several_that_wait_for_the_place_the_newest_takes_it(store: Harness) -> None:
    node = store.node()
    store.schedule(job(**CANCEL), *[every(100, f"t{n}", start=at(n)) for n in range(3)])
    first = store.fire_one(node)
    for n in (1, 2):
        store.clock.set(at(n))
        assert not store.fire_due(node)
    assert store.states("t1", "t2") == ["BLOCKED", "BLOCKED"]
    store.complete(node, first, outcome=Outcome.CANCELLED)
    assert names(store.fire_due(node)) == ["t2"]
    assert skipped(store) == ["t1"]
    assert store.state("t1") == "WAITING"


def test_the_execution_that_runs_longest_is_asked_to_stop(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(
        job(max_concurrent=2, overlap_policy="cancel_other"), *[every(100, f"t{n}", start=at(n)) for n in range(4)]
    )
    first = store.fire_one(a)
    store.clock.set(at(1))
    second = store.fire_one(b)
    store.clock.set(at(2))
    assert not store.fire_due(b)
    assert store.store.cancel_requests(a) == {first.fire_id}
    assert not store.store.cancel_requests(b)
    store.clock.set(at(3))
    assert not store.fire_due(a)
    assert store.store.cancel_requests(b) == {second.fire_id}


def test_new_triggers_of_a_full_job_wait_for_their_time(store: Harness) -> None:
    node = store.node()
    store.schedule(job(**BUFFER), every(10))
    store.fire_one(node)
    store.add_triggers(job().key, once("new", at(5)))
    assert store.state("new") == "WAITING"
    store.clock.set(at(5))
    assert not store.fire_due(node)
    assert store.state("new") == "BLOCKED"


def test_one_that_waits_may_be_paused_and_resumed(store: Harness) -> None:
    node = store.node()
    store.schedule(job(**BUFFER), every(10))
    first = store.fire_one(node)
    store.clock.set(at(10))
    store.fire_due(node)
    store.store.pause(NamedTriggers([key("every")]))
    assert store.state("every") == "PAUSED"
    store.complete(node, first)
    store.store.resume(NamedTriggers([key("every")]))
    assert store.fire_one(node).scheduled_fire_time == at(10)


def test_one_that_waits_is_freed_when_the_node_dies(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(**CANCEL), every(30))
    store.fire_one(a)
    store.clock.set(at(30))
    store.fire_due(a)
    assert store.state("every") == "BLOCKED"
    store.store.check_in(b)
    assert store.recover(b, a).repaired == 0
    assert store.state("every") == "WAITING"
    store.clock.advance(SECOND)
    assert store.fire_one(b).scheduled_fire_time == at(30)


def test_the_stores_clock_decides_how_many_fires_are_coalesced(store: Harness) -> None:
    """A node whose estimate of the store's time runs ahead does not fire too early."""
    node = store.node()
    store.schedule_exhausted(job(**BUFFER), every(10))
    store.clock.set(at(5))
    [unfilled] = store.acquire(node).unfilled
    store.store.refill(node, [refill_of(unfilled, at(45))])
    [fired] = store.acquire(node).fired
    assert fired.coalesced_fire_times == ()
    assert (fired.next_fire_time, fired.times_triggered) == (at(10), 1)
    assert store.upcoming("every")[:4] == [at(20), at(30), at(40), at(50)]
