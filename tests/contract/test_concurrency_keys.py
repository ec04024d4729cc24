"""Tests of a limit that holds for each value of an entry of the data: `concurrency_key`."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from quartzpy.states import Outcome
from quartzpy.store.protocol import EVERYTHING, FiredTrigger
from tests.contract.harness import SECOND, Harness, at, data_of, every, job, job_key, names, once, stored_job

KEYED: Mapping[str, Any] = {"concurrency_key": "customer", "durable": True}


def customer(fired: FiredTrigger) -> Any:
    of_job, of_trigger = data_of(fired)
    return {**of_job, **of_trigger}.get("customer")


def test_executions_with_the_same_key_never_overlap_and_others_do(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(
        job(**KEYED),
        once("x1", data={"customer": "x"}, priority=9),
        once("x2", data={"customer": "x"}),
        once("y1", data={"customer": "y"}, priority=8),
        once("y2", data={"customer": "y"}),
    )
    first = store.fire_due(a)
    assert names(first) == ["x1", "y1"]
    assert store.states("x2", "y2") == ["BLOCKED", "BLOCKED"]
    assert not store.fire_due(b)
    store.complete(a, first[1])
    assert store.states("x2", "y2") == ["BLOCKED", "WAITING"]
    assert names(store.fire_due(b)) == ["y2"]
    store.complete(a, first[0])
    assert names(store.fire_due(b)) == ["x2"]


def test_the_limit_of_the_job_is_that_of_each_key(store: Harness) -> None:
    node = store.node()
    store.schedule(
        job(max_concurrent=2, **KEYED),
        *[once(f"{who}{n}", data={"customer": who}, priority=9 - n) for n in range(3) for who in "xy"],
    )
    assert sorted(names(store.fire_due(node))) == ["x0", "x1", "y0", "y1"]
    assert store.states("x2", "y2") == ["BLOCKED", "BLOCKED"]


@pytest.mark.parametrize("value", [7, True, 1.5, "ä" * 300, ["a", 1], {"id": 3}], ids=repr)
def test_any_value_is_a_key(store: Harness, value: Any) -> None:
    node = store.node()
    store.schedule(job(**KEYED), *[once(f"t{n}", data={"customer": value}, priority=9 - n) for n in range(2)])
    store.add_triggers(job_key(), once("other", data={"customer": "somebody else"}, priority=1))
    assert names(store.fire_due(node)) == ["t0", "other"]
    assert store.state("t1") == "BLOCKED"


def test_triggers_without_the_entry_share_one_limit(store: Harness) -> None:
    node = store.node()
    store.schedule(job(**KEYED), once("a", priority=9), once("b", data={"customer": None}), once("c", data={"x": 1}))
    assert names(store.fire_due(node)) == ["a"]
    assert store.states("b", "c") == ["BLOCKED", "BLOCKED"]


def test_the_data_of_the_job_serves_where_the_trigger_has_none(store: Harness) -> None:
    node = store.node()
    store.schedule(
        job(data={"customer": "x"}, **KEYED),
        once("a", priority=9),
        once("b", data={"customer": "x"}),
        once("c", data={"customer": "y"}),
    )
    assert sorted(names(store.fire_due(node))) == ["a", "c"]
    assert store.state("b") == "BLOCKED"


def test_what_is_stored_while_its_key_runs_is_blocked_at_once(store: Harness) -> None:
    node = store.node()
    store.schedule(job(**KEYED), once("x1", data={"customer": "x"}))
    store.fire_due(node)
    store.add_triggers(job_key(), once("x2", data={"customer": "x"}), once("y1", data={"customer": "y"}))
    assert store.states("x2", "y1") == ["BLOCKED", "WAITING"]


def test_a_resumed_trigger_waits_for_its_key_only(store: Harness) -> None:
    node = store.node()
    store.schedule(job(**KEYED), once("x1", data={"customer": "x"}))
    store.add_triggers(job_key(), once("x2", at(1), data={"customer": "x"}), once("y1", at(1), data={"customer": "y"}))
    store.store.pause(EVERYTHING)
    store.store.resume(EVERYTHING)
    store.fire_due(node)
    assert store.states("x2", "y1") == ["BLOCKED", "WAITING"]
    store.store.pause(EVERYTHING)
    assert store.states("x2", "y1") == ["PAUSED_BLOCKED", "PAUSED"]
    store.store.resume(EVERYTHING)
    assert store.states("x2", "y1") == ["BLOCKED", "WAITING"]


def test_the_limit_of_a_key_holds_for_what_is_refilled(store: Harness) -> None:
    node = store.node()
    store.schedule_exhausted(
        job(**KEYED),
        *[every(60, f"{who}{n}", data={"customer": who}, priority=9 - n) for n in range(2) for who in "xy"],
    )
    assert sorted(names([*store.fire_due(node), *store.fire_due(node)])) == ["x0", "y0"]
    assert sorted(store.states("x0", "x1", "y0", "y1")) == ["BLOCKED"] * 4


@pytest.mark.parametrize(
    ("policy", "state", "skipped"),
    [("skip", "WAITING", 1), ("buffer_one", "BLOCKED", 0), ("cancel_other", "BLOCKED", 0)],
)
def test_overlaps_are_those_of_a_key(store: Harness, policy: str, state: str, skipped: int) -> None:
    node = store.node()
    store.schedule(
        job(overlap_policy=policy, **KEYED),
        *[every(100, f"{who}1", data={"customer": who}) for who in "xy"],
    )
    assert sorted(names(store.fire_due(node))) == ["x1", "y1"]
    store.add_triggers(job_key(), every(100, "x2", data={"customer": "x"}), every(100, "z", data={"customer": "z"}))
    assert names(store.fire_due(node)) == ["z"]
    assert store.state("x2") == state
    assert len([one for one in store.history() if one.outcome is Outcome.SKIPPED]) == skipped


def test_only_an_execution_with_the_same_key_is_cancelled_for_another(store: Harness) -> None:
    node = store.node()
    store.schedule(job(overlap_policy="cancel_other", **KEYED), once("y1", data={"customer": "y"}))
    [other] = store.fire_due(node)
    store.clock.advance(SECOND)
    store.add_triggers(job_key(), once("x1", data={"customer": "x"}))
    [same] = store.fire_due(node)
    store.clock.advance(SECOND)
    store.add_triggers(job_key(), once("x2", data={"customer": "x"}))
    assert not store.fire_due(node)
    assert store.store.cancel_requests(node) == {same.fire_id}
    assert other.fire_id != same.fire_id


def test_a_retry_and_a_recovery_have_the_key_of_what_they_repeat(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(requests_recovery=True, **KEYED), *[once(f"{who}1", data={"customer": who}) for who in "xy"])
    by_name = {one.trigger_name: one for one in store.fire_due(a)}
    store.complete(a, by_name["x1"], outcome=Outcome.FAILED, retry_after=SECOND)
    store.recover(b, a)
    store.clock.set(at(2))
    store.add_triggers(job_key(), *[once(f"{who}2", at(2), data={"customer": who}) for who in "xyz"])
    repeated = store.fire_due(b)
    assert sorted(customer(one) for one in repeated) == ["x", "y", "z"]
    assert store.states("x2", "y2") == ["BLOCKED", "BLOCKED"]


def test_a_dead_nodes_execution_no_longer_holds_its_key(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(**KEYED), once("x1", data={"customer": "x"}, priority=9), once("x2", data={"customer": "x"}))
    store.fire_one(a)
    store.recover(b, a)
    assert names(store.fire_due(b)) == ["x2"]


def test_a_job_that_gets_another_key_holds_its_triggers_by_that(store: Harness) -> None:
    node = store.node()
    both = {"customer": "x", "region": "eu"}
    store.schedule(job(**KEYED), once("a", data=both, priority=9), once("b", data=both))
    first = store.fire_one(node)
    assert store.state("b") == "BLOCKED"
    store.schedule(job(concurrency_key="region", durable=True), replace=True)
    store.add_triggers(job_key(), once("c", data={"customer": "x", "region": "us"}))
    assert sorted(names(store.fire_due(node))) == ["b", "c"]
    store.complete(node, first)
    store.add_triggers(job_key(), once("d", data={"region": "eu"}))
    assert store.state("d") == "BLOCKED"


def test_a_key_is_read_back_with_its_job(store: Harness) -> None:
    node = store.node()
    store.schedule(job(**KEYED), once("a"))
    read = stored_job(store.store, job_key())
    assert read is not None
    assert (read.concurrency_key, read.max_concurrent) == ("customer", 1)
    assert store.fire_one(node).job_detail.concurrency_key == "customer"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("limit", [1, 2])
def test_never_more_than_the_limit_run_for_a_key_whatever_the_order(store: Harness, seed: int, limit: int) -> None:
    choose = random.Random(seed)
    nodes = [store.node(name) for name in "abc"]
    store.schedule(
        job(max_concurrent=limit, **KEYED),
        *[once(f"t{n}", at(n % 5), data={"customer": n % 3}, priority=choose.randint(1, 9)) for n in range(18)],
    )
    running: list[tuple[int, FiredTrigger]] = []
    done = 0
    for _ in range(400):
        if done == 18:
            break
        if running and choose.random() < 0.5:
            which, fired = running.pop(choose.randrange(len(running)))
            store.complete(nodes[which], fired)
            done += 1
        else:
            which = choose.randrange(3)
            running += [(which, fired) for fired in store.fire_due(nodes[which], limit=choose.randint(1, 6))]
            store.clock.advance(SECOND)
        assert max(Counter(customer(one) for _, one in running).values(), default=0) <= limit
    assert done == 18


def test_a_trigger_that_is_stored_again_with_other_data_waits_for_the_new_key(store: Harness) -> None:
    node = store.node()
    store.schedule(job(**KEYED), once("x1", data={"customer": "x"}), once("y1", data={"customer": "y"}))
    x, y = sorted(store.fire_due(node), key=lambda one: one.trigger_name)
    moved = every(100, "moved", start=at(50), data={"customer": "z"})
    store.add_triggers(job_key(), moved)
    for who, state in (("x", "BLOCKED"), ("y", "BLOCKED"), ("z", "WAITING")):
        store.add_triggers(job_key(), replace(moved, data={"customer": who}), replace=True)
        store.clock.set(at(50))
        fired = store.fire_due(node)
        assert names(fired) == (["moved"] if who == "z" else [])
        assert store.state("moved") == ("BLOCKED" if fired else state)
    store.complete(node, x, y)


@pytest.mark.parametrize("way", ["retry", "recovery"])
def test_what_runs_again_has_the_key_that_the_job_computes_now(store: Harness, way: str) -> None:
    a, b = store.node("a"), store.node("b")
    data = {"customer": "x", "region": "eu"}
    store.schedule(job(requests_recovery=True, **KEYED), once("first", data=data))
    fired = store.fire_one(a)
    store.store.modify_job(job_key(), lambda old: old.with_values({"concurrency_key": "region"}), keeps_data=True)
    store.add_triggers(job_key(), once("second", data={"region": "eu"}))
    other = store.fire_one(b)
    if way == "retry":
        store.complete(a, fired, outcome=Outcome.FAILED, error="no", retry_after=SECOND)
    else:
        store.recover(b, a)
    store.clock.advance(SECOND)
    assert not store.fire_due(b)
    store.complete(b, other)
    assert customer(store.fire_one(b)) == "x"
