"""Acquiring triggers of jobs that run one execution at a time."""

from __future__ import annotations

from typing import Any

import pytest

from quartzpy.store.protocol import NamedTriggers
from tests.contract.harness import (
    HOUR,
    SECOND,
    Harness,
    at,
    every,
    job,
    job_key,
    key,
    names,
    once,
    serial,
)


def test_at_most_one_trigger_of_a_serial_job_is_in_a_batch(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), once("first"), once("second", at(1)), once("third", at(2)))
    store.clock.advance(3 * SECOND)
    assert names(store.acquire(node).fired) == ["first"]
    assert not store.acquire(node).fired


def test_at_most_one_trigger_of_a_serial_job_fires_ahead_in_a_batch(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), once("first", at(1)), once("second", at(2)))
    store.schedule(serial("other"), once("third", at(3)))
    assert names(store.acquire(node, look_ahead=HOUR).fired) == ["first", "third"]
    assert store.states("first", "second", "third") == ["COMPLETE", "BLOCKED", "COMPLETE"]


def test_the_trigger_of_a_serial_job_that_comes_first_is_the_one_with_the_highest_priority(
    store: Harness,
) -> None:
    node = store.node()
    store.schedule(serial(), once("low", priority=1), once("high", priority=9))
    assert names(store.acquire(node).fired) == ["high"]


def test_a_trigger_of_a_serial_job_is_refilled_first(store: Harness) -> None:
    node = store.node()
    store.schedule_exhausted(serial(), every(10))
    took = store.acquire(node)
    assert (len(took.fired), [one.key.name for one in took.unfilled]) == (0, ["every"])
    store.refill(node, took.unfilled)
    assert names(store.acquire(node).fired) == ["every"]
    assert store.progress("every").next_fire_time == at(10)


def test_a_serial_fire_blocks_all_other_triggers_of_its_job(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), once("waiting", at(100)), once("paused", at(100)), every(50))
    store.schedule(serial("other"), once("unrelated", at(100)))
    store.store.pause(NamedTriggers([key("paused")]))
    assert store.fire_one(node).trigger_name == "every"
    assert store.states("waiting", "paused", "every", "unrelated") == [
        "BLOCKED",
        "PAUSED_BLOCKED",
        "BLOCKED",
        "WAITING",
    ]


def test_no_trigger_of_a_serial_job_is_taken_while_it_executes(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(serial(), every(10))
    fired = store.fire_one(a)
    assert store.state("every") == "BLOCKED"
    store.clock.advance(10 * SECOND)
    assert not store.fire_due(b)
    store.complete(a, fired)
    assert store.fire_one(b).scheduled_fire_time == at(10)


def test_a_blocked_trigger_is_not_what_a_node_waits_for(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), every(10))
    fired = store.fire_one(node)
    store.clock.advance(10 * SECOND)
    store.acquire(node)
    assert store.acquire(node).next_due is None, "a store may wait for it once, to find it blocked"
    store.complete(node, fired)
    assert names(store.fire_due(node)) == ["every"]


def test_the_last_fire_of_a_serial_job_leaves_it_complete_and_blocks_the_others(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), once(), once("other", at(5)))
    store.fire_one(node)
    assert store.states("once", "other") == ["COMPLETE", "BLOCKED"]


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ({"disallow_concurrent": True}, {"disallow_concurrent": False}),
        ({"max_concurrent": 1}, {"max_concurrent": None}),
        ({"max_concurrent": 1}, {"max_concurrent": 2}),
        ({"max_concurrent": 1, "concurrency_key": "key"}, {"max_concurrent": None, "concurrency_key": None}),
    ],
)
@pytest.mark.parametrize("way", ["modify", "replace"])
def test_a_limit_that_is_removed_holds_nothing_any_more(
    store: Harness, was: dict[str, Any], now: dict[str, Any], way: str
) -> None:
    node = store.node()
    store.schedule(job(durable=True, **was), once("a", priority=9), once("b"))
    store.fire_one(node)
    assert store.state("b") == "BLOCKED"
    if way == "modify":
        store.store.modify_job(job_key(), lambda old: old.with_values(now), keeps_data=True)
    else:
        store.schedule(job(durable=True, **{**was, **now}), replace=True)
    store.fire_one(node)
