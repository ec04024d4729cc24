"""Very many fires that are skipped: each is skipped once and in order, and what is due behind them has its turn."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from quartzpy.states import Outcome
from quartzpy.store.protocol import Acquisition, AvailableSlots, DispatchKey, Node
from tests.contract.harness import HOUR, THRESHOLD, Harness, at, every, job, job_key, names, once

SKIP: dict[str, Any] = {"max_concurrent": 1, "overlap_policy": "skip"}
MANY = 300
LIMIT = 50
MILLISECOND = timedelta(milliseconds=1)
TENANT = "tenant"


def backlog(store: Harness, others: int = 0, **options: Any) -> Node:
    """MANY due triggers of a job whose execution is under way, and others that are due behind them."""
    node = store.node()
    store.schedule(job("slow", **{**SKIP, **options}), once("running"))
    [running] = store.fire_due(node)
    assert running.trigger_name == "running"
    store.add_triggers(
        job_key("slow"), *[every(3_600, f"skip{n:03}", start=at(1) + n * MILLISECOND) for n in range(MANY)]
    )
    if others:
        store.schedule(
            job("others"), *[every(3_600, f"other{n:03}", start=at(2) + n * MILLISECOND) for n in range(others)]
        )
    store.clock.set(at(5))
    return node


def skipped(took: Acquisition) -> list[str]:
    return [one.trigger_key.name for one in took.skipped]


def recorded(store: Harness) -> list[str]:
    return [record.trigger_key.name for record in store.history() if record.outcome is Outcome.SKIPPED]


def drained(store: Harness, node: Node, limit: int = LIMIT, most: int = 200) -> list[Acquisition]:
    """The steps that a node takes at once, one after the other."""
    steps: list[Acquisition] = []
    while len(steps) < most:
        took = store.acquire(node, limit=limit)
        steps.append(took)
        if not took.taken:
            break
    return steps


def test_each_fire_is_skipped_once_and_in_order(store: Harness) -> None:
    node = backlog(store, 10 * LIMIT)
    steps = drained(store, node)
    expected = [f"skip{n:03}" for n in range(MANY)]
    assert [name for took in steps for name in skipped(took)] == expected
    assert sorted(recorded(store)) == expected
    assert sorted(name for took in steps for name in names(took.fired)) == [f"other{n:03}" for n in range(10 * LIMIT)]
    assert store.progress("skip000").next_fire_time == at(1) + HOUR
    assert not store.acquire(node, limit=LIMIT).skipped


def test_alone_a_backlog_is_decided_in_full_steps(store: Harness) -> None:
    steps = drained(store, backlog(store))
    assert [len(took.skipped) for took in steps if took.skipped] == [LIMIT] * (MANY // LIMIT)
    assert len(steps) <= MANY // LIMIT + 1


def test_a_trigger_of_the_job_fires_once_there_is_a_slot(store: Harness) -> None:
    node = store.node()
    store.schedule(job("slow", **SKIP), *[once(f"t{n:03}", at(n / 1000), priority=5) for n in range(MANY)])
    store.clock.set(at(1))
    first = store.acquire(node, limit=LIMIT)
    assert names(first.fired) == ["t000"]
    store.complete(node, *first.fired)
    took = store.acquire(node, limit=LIMIT)
    assert names(took.fired) == [f"t{LIMIT:03}"], "the soonest that is left"


def test_what_a_job_skips_waits_no_longer_once_its_policy_is_to_wait(store: Harness) -> None:
    node = backlog(store, 4 * LIMIT)
    store.acquire(node, limit=LIMIT)
    store.schedule(job("slow", max_concurrent=None), replace=True)
    steps = drained(store, node)
    fired = [name for took in steps for name in names(took.fired)]
    assert sum(name.startswith("skip") for name in fired) == MANY - LIMIT
    assert not [took for took in steps if took.skipped]


@pytest.mark.parametrize("policy", ["buffer_one", "cancel_other"])
def test_other_policies_that_skip_fires_hold_nothing_up_either(store: Harness, policy: str) -> None:
    node = backlog(store, LIMIT, overlap_policy=policy)
    steps = drained(store, node)
    assert sum(len(took.fired) for took in steps) == LIMIT
    states = store.states(*(f"skip{n:03}" for n in range(MANY)))
    assert len(recorded(store)) + states.count("BLOCKED") == MANY


def test_the_next_node_begins_at_the_front(store: Harness) -> None:
    a = backlog(store, 4 * LIMIT)
    assert len(store.acquire(a, limit=LIMIT).skipped) == LIMIT
    b = store.node("b")
    assert skipped(store.acquire(b, limit=LIMIT))[0] == f"skip{LIMIT:03}"


def test_keys_are_told_that_a_node_has_yet_to_decide_about_behind_a_backlog(store: Harness) -> None:
    node = backlog(store)
    store.schedule(job("unknown", job_type="unknown"), once("unknown", at(4)))
    steps = [
        store.store.acquire(node, [AvailableSlots()], limit=LIMIT, look_ahead=timedelta(), misfire_threshold=THRESHOLD)
        for _ in range(MANY // LIMIT + 1)
    ]
    assert list(steps[-1].undecided) == [DispatchKey("unknown")]
