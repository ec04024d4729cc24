"""Tests of the limit of concurrent executions of a job, in the whole cluster."""

from __future__ import annotations

from typing import Any

import pytest

from quartzpy.jobs.job import JobDetail
from quartzpy.states import Outcome
from quartzpy.store.protocol import NamedTriggers
from tests.contract.harness import HOUR, SECOND, Harness, at, every, job, job_key, key, names, once, stored_job


def test_no_more_than_the_limit_fire_and_the_last_one_blocks_the_others(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(max_concurrent=3), *[once(f"t{n}", priority=9 - n) for n in range(5)], once("later", at(100)))
    first = store.fire_due(a, limit=2)
    assert names(first) == ["t0", "t1"]
    assert store.states("t2", "later") == ["WAITING", "WAITING"]
    second = store.fire_due(b)
    assert names(second) == ["t2"]
    assert store.states("t3", "t4", "later") == ["BLOCKED", "BLOCKED", "BLOCKED"]
    assert not store.fire_due(a)


def test_each_end_lets_as_many_follow(store: Harness) -> None:
    node = store.node()
    store.schedule(job(max_concurrent=2), *[once(f"t{n}", priority=9 - n) for n in range(6)])
    running = store.fire_due(node)
    seen = names(running)
    while running:
        store.complete(node, running.pop(0))
        running += (fired := store.fire_due(node))
        assert len(running) <= 2
        seen += names(fired)
    assert seen == [f"t{n}" for n in range(6)]


def test_a_recurring_trigger_of_a_full_job_is_blocked_itself(store: Harness) -> None:
    node = store.node()
    store.schedule(job(max_concurrent=2), every(10, "a", priority=6), every(10, "b"))
    [one, _] = store.fire_due(node)
    assert store.states("a", "b") == ["BLOCKED", "BLOCKED"]
    store.complete(node, one)
    assert store.states("a", "b") == ["WAITING", "WAITING"]


def test_the_limit_holds_for_what_is_refilled(store: Harness) -> None:
    node = store.node()
    store.schedule_exhausted(job(max_concurrent=2), *[every(60, f"t{n}", priority=9 - n) for n in range(4)])
    fired = [*store.fire_due(node), *store.fire_due(node)]
    assert len(fired) == 2
    assert len(store.running()) == 2
    assert sorted(store.states("t0", "t1", "t2", "t3")) == ["BLOCKED"] * 4


@pytest.mark.parametrize("limit", [1, 3])
def test_new_triggers_of_a_full_job_are_blocked(store: Harness, limit: int) -> None:
    node = store.node()
    store.schedule(job(max_concurrent=limit), *[once(f"t{n}", priority=9 - n) for n in range(limit)])
    store.fire_due(node)
    store.add_triggers(job().key, once("new", at(5)))
    assert store.state("new") == "BLOCKED"


def test_a_new_trigger_of_a_job_with_room_waits(store: Harness) -> None:
    node = store.node()
    store.schedule(job(max_concurrent=3), once("t0"))
    store.fire_due(node)
    store.add_triggers(job().key, once("new"))
    assert names(store.fire_due(node)) == ["new"]


def test_a_dead_nodes_executions_no_longer_count(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(max_concurrent=2), *[once(f"t{n}", priority=9 - n) for n in range(4)])
    assert len(store.fire_due(a)) == 2
    store.recover(b, a)
    assert names(store.fire_due(b)) == ["t2", "t3"]


def test_a_lower_limit_holds_from_the_next_fire_on(store: Harness) -> None:
    node = store.node()
    store.schedule(job(max_concurrent=3), *[once(f"t{n}", priority=9 - n) for n in range(3)])
    running = store.fire_due(node)
    store.schedule(job(max_concurrent=1), every(10, "t9"), replace=True)
    assert store.state("t9") == "BLOCKED"
    store.complete(node, running[0])
    assert not store.fire_due(node)
    store.complete(node, *running[1:])
    assert names(store.fire_due(node)) == ["t9"]


def test_a_job_at_its_limit_blocks_no_other_job(store: Harness) -> None:
    node = store.node()
    store.schedule(job("full", max_concurrent=1), *[once(f"full{n}") for n in range(50)])
    store.schedule(job("free"), once("free", at(1)))
    store.clock.advance(2 * SECOND)
    taken = [*store.fire_due(node, limit=5), *store.fire_due(node, limit=5)]
    assert sorted(one.job_key.name for one in taken) == ["free", "full"]
    store.clock.advance(HOUR)
    assert not store.misfire(node).misfired, "blocked, not late"


# --- skipping


def skipping(limit: int = 1, **values: Any) -> JobDetail:
    return job(max_concurrent=limit, overlap_policy="skip", **values)


def test_what_a_full_job_does_not_want_is_skipped_and_moves_on(store: Harness) -> None:
    node = store.node()
    store.schedule(skipping(), every(10, "a", priority=6), every(10, "b"))
    took = store.acquire(node)
    assert names(took.fired) == ["a"]
    [skipped] = took.skipped
    assert (skipped.trigger_key, skipped.scheduled_fire_time) == (key("b"), at(0))
    assert store.states("a", "b") == ["WAITING", "WAITING"]
    progress = store.progress("b")
    assert (progress.next_fire_time, progress.previous_fire_time, progress.times_triggered) == (at(10), None, 1)
    [record] = store.history()
    assert (record.outcome, record.trigger_key, record.started_at) == (Outcome.SKIPPED, key("b"), None)
    store.clock.set(at(10))
    assert len(store.acquire(node).skipped) == 2, "the first still runs"
    store.complete(node, *took.fired)
    store.clock.set(at(20))
    assert names(store.fire_due(node)) == ["a"]


def test_a_skipped_trigger_that_has_no_more_fire_time_goes(store: Harness) -> None:
    node = store.node()
    store.schedule(skipping(), once("a", priority=6), once("b"))
    took = store.acquire(node)
    assert len(took.skipped) == 1
    store.store.recover(node, [])
    assert store.states("a", "b") == ["COMPLETE", "gone"]
    store.complete(node, *took.fired)
    assert stored_job(store.store, job_key()) is None


def test_what_was_refilled_is_skipped(store: Harness) -> None:
    node = store.node()
    store.schedule_exhausted(skipping(2), *[every(60, f"t{n}", priority=9 - n) for n in range(4)])
    store.refill(node, store.acquire(node).unfilled)
    firing = store.acquire(node)
    assert (names(firing.fired), [one.trigger_key.name for one in firing.skipped]) == (["t0", "t1"], ["t2", "t3"])
    assert store.states("t0", "t1", "t2", "t3") == ["WAITING"] * 4
    assert store.upcoming("t3"), "computed before the fire"


def test_new_and_resumed_triggers_of_a_skipping_job_wait(store: Harness) -> None:
    node = store.node()
    store.schedule(skipping(), every(10, "a"), every(10, "paused"))
    store.store.pause(NamedTriggers([key("paused")]))
    store.fire_one(node)
    store.add_triggers(job_key(), every(10, "new", start=at(5)))
    store.store.resume(NamedTriggers([key("paused")]))
    assert store.states("new", "paused") == ["WAITING", "WAITING"]


def test_a_job_that_becomes_skipping_frees_what_was_blocked(store: Harness) -> None:
    node = store.node()
    store.schedule(job(max_concurrent=1, durable=True), every(10, "a", priority=6), every(10, "b"))
    fired = store.fire_one(node)
    store.schedule(skipping(durable=True), replace=True)
    store.complete(node, fired)
    assert store.states("a", "b") == ["WAITING", "WAITING"]
