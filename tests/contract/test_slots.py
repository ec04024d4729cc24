"""Tests of placement and slots: a node claims only what it can run, and no more than it has free slots for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from quartzpy.jobs.job import JobDetail
from quartzpy.placement import Capabilities, Placement, slot_pool_of
from quartzpy.store.protocol import DispatchKey
from tests.contract.harness import (
    MINUTE,
    REPORT,
    SECOND,
    Harness,
    at,
    every,
    job,
    job_key,
    key,
    names,
    once,
    stored_job,
)
from tests.run_by import Slots

CPU = Placement(executor="cpu").text
REPORTS = Placement(group="reports").text
BOTH = Placement(executor="cpu", group="reports").text


def placed(name: str, **values: Any) -> JobDetail:
    return job(name, executor="cpu", **values)


def test_a_job_that_needs_an_executor_is_left_to_nodes_that_have_it(store: Harness) -> None:
    node = store.node()
    store.schedule(placed("heavy"), once("heavy"))
    store.schedule(job("light"), once("light", at(0)))
    took = store.acquire(node)
    assert names(took.fired) == ["light"]
    assert took.next_due is None
    assert slot_pool_of(CPU) in took.slot_pools
    took = store.acquire(node, types=[Slots(REPORT, CPU, "cpu", 1)])
    assert names(took.fired) == ["heavy"]
    assert took.fired[0].placement == CPU
    assert took.fired[0].job_detail.executor == "cpu"


def test_no_more_of_an_executor_are_taken_than_are_free(store: Harness) -> None:
    node = store.node()
    store.schedule(placed("heavy"), *[once(f"h{n}", at(n)) for n in range(4)])
    store.schedule(placed("grouped", execution_group="reports"), *[once(f"g{n}", at(n + 0.5)) for n in range(4)])
    store.schedule(job("light"), *[once(f"l{n}", at(n)) for n in range(3)])
    store.clock.set(at(10))
    available_slots = [
        Slots(REPORT, "", "default", 2),
        Slots(REPORT, CPU, "cpu", 3),
        Slots(REPORT, BOTH, "cpu", 3, "reports", 5),
    ]
    took = store.acquire(node, types=available_slots)
    assert sorted(names(took.fired)) == ["g0", "h0", "h1", "l0", "l1"]
    assert took.next_due == at(1.5)


def test_no_more_of_a_group_are_taken_than_it_has_room_for(store: Harness) -> None:
    node = store.node()
    store.schedule(job("a", execution_group="reports"), *[once(f"a{n}", at(n)) for n in range(3)])
    store.schedule(placed("b", execution_group="reports"), *[once(f"b{n}", at(n + 0.5)) for n in range(3)])
    store.clock.set(at(10))
    available_slots = [
        Slots(REPORT, REPORTS, "default", 10, "reports", 3),
        Slots(REPORT, BOTH, "cpu", 10, "reports", 3),
    ]
    assert names(store.acquire(node, types=available_slots).fired) == ["a0", "b0", "a1"]


def test_the_limit_of_a_pass_holds_over_all_executors(store: Harness) -> None:
    node = store.node()
    store.schedule(placed("heavy"), *[once(f"h{n}", at(n)) for n in range(4)])
    store.schedule(job("light"), *[once(f"l{n}", at(n + 0.5)) for n in range(4)])
    store.clock.set(at(10))
    available_slots = [Slots(REPORT, "", "default", 4), Slots(REPORT, CPU, "cpu", 4)]
    assert names(store.acquire(node, types=available_slots, limit=3).fired) == ["h0", "l0", "h1"]


def test_a_fire_carries_its_placement(store: Harness) -> None:
    node = store.node()
    store.schedule(placed("heavy"), once("soon", at(5)))
    [fired] = store.acquire(node, types=[Slots(REPORT, CPU)], look_ahead=10 * SECOND).fired
    assert fired.placement == CPU


def test_a_job_that_moves_takes_its_triggers_along(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(10, "every"))
    store.schedule(placed("job"), replace=True)
    assert store.store.waiting_dispatch_keys() == {DispatchKey(REPORT, CPU)}
    assert not store.acquire(node).fired
    assert names(store.acquire(node, types=[Slots(REPORT, CPU)]).fired) == ["every"]


def test_all_values_of_a_placement_are_stored(store: Harness) -> None:
    store.schedule(job(executor="cpu", execution_group="reports", requires=["gpu", "eu"]), once())
    stored = stored_job(store.store, job_key())
    assert stored is not None
    assert (stored.executor, stored.execution_group, stored.requires) == ("cpu", "reports", ("eu", "gpu"))
    assert store.store.waiting_dispatch_keys() == {DispatchKey(REPORT, stored.placement.text)}


@pytest.mark.parametrize("again", ["retry", "recovery"])
def test_what_runs_again_runs_where_its_job_may(store: Harness, again: str) -> None:
    node = store.node("a")
    other = store.node("b")
    store.schedule(placed("heavy", durable=True, requests_recovery=True), once("heavy"))
    [fired] = store.acquire(node, types=[Slots(REPORT, CPU)]).fired
    if again == "retry":
        store.complete(node, fired, retry_after=SECOND)
    else:
        store.clock.advance(timedelta(seconds=60))
        store.store.check_in(other)
        dead = [one for one in store.store.list_nodes().nodes if one.instance_id == "a"]
        store.store.recover(other, dead)
    store.clock.advance(10 * SECOND)
    assert not store.acquire(other).fired
    [fired] = store.acquire(other, types=[Slots(REPORT, CPU)], threshold=10 * MINUTE).fired
    assert fired.job_key == job_key("heavy")


def test_misfires_are_handled_by_nodes_that_run_the_trigger(store: Harness) -> None:
    node = store.node()
    store.schedule(placed("heavy"), every(3600, "every"))
    store.clock.set(at(600))
    assert not store.misfire(node).misfired
    outcome = store.misfire(node, types=[Slots(REPORT, CPU)], threshold=MINUTE, limit=10)
    assert list(outcome.misfired) == [key("every")]


def test_a_node_tells_what_it_can_run(store: Harness) -> None:
    node = store.node("a")
    can = Capabilities(frozenset({REPORT}), frozenset({"default", "cpu"}), frozenset({"gpu"}), {"reports": 2, "*": 0})
    store.store.publish(node, can)
    [record] = store.store.list_nodes().nodes
    assert record.capabilities == can
    assert record.capabilities.groups == {"reports": 2, "*": 0}
    assert record.capabilities.allows(Placement("cpu", "reports", ("gpu",)))
    assert not record.capabilities.allows(Placement("io", "reports"))
    assert not record.capabilities.allows(Placement("cpu", "other"))
    assert not record.capabilities.allows(Placement("cpu", "reports", ("gpu", "eu")))
