"""Very many fires that are skipped do not hold up those behind them, and none of them is left behind."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from quartzpy.states import Outcome
from quartzpy.store.protocol import Acquisition, AvailableSlots, DispatchKey, Node
from quartzpy.store.skip_backlog import MOST_AT_THE_FRONT, STEPS_FOR_OTHERS
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
        if not took.is_partial and len(took.fired) + len(took.acquired) + len(took.skipped) < limit:
            break
    return steps


def test_others_fire_while_most_of_a_backlog_waits_to_be_skipped(store: Harness) -> None:
    others = 4 * LIMIT
    steps = drained(store, backlog(store, others))
    assert sum(len(took.fired) for took in steps[:7]) == others
    assert sum(len(took.skipped) for took in steps[:6]) <= LIMIT + 2 * MOST_AT_THE_FRONT


def test_others_fire_first_where_they_are_due_between_fires_to_skip(store: Harness) -> None:
    """Two of them for each: they, too, would wait a third longer."""
    node = backlog(store)
    between = [
        every(3_600, f"between{n:03}", start=at(1) + n // 2 * MILLISECOND, priority=n % 2 * 9) for n in range(2 * MANY)
    ]
    store.schedule(job("between"), *between)
    steps = drained(store, node)
    full = 2 * MANY // LIMIT - 1
    assert full <= STEPS_FOR_OTHERS
    assert [len(took.fired) for took in steps[1 : full + 1]] == [LIMIT] * full
    assert sum(len(took.fired) for took in steps) == 2 * MANY
    assert len(recorded(store)) == MANY


def test_a_job_that_fires_more_often_than_it_skips_takes_its_turn(store: Harness) -> None:
    """Each third trigger has the key of the execution that is under way, and the others have keys of their own."""
    node = store.node()
    store.schedule(job("keyed", concurrency_key=TENANT, **SKIP), once("running", data={TENANT: "busy"}))
    store.fire_due(node)
    keys = [f"tenant-{n}" if n % 3 else "busy" for n in range(MANY)]
    triggers = [once(f"t{n:03}", at(1 + n / 1_000), data={TENANT: tenant}) for n, tenant in enumerate(keys)]
    store.add_triggers(job_key("keyed"), *triggers)
    store.schedule(job("others"), *[once(f"other{n:03}", at(2 + n / 1_000)) for n in range(MANY)])
    store.clock.set(at(5))
    first, second = (store.acquire(node, limit=LIMIT) for _ in range(2))
    assert (len(first.fired), len(first.skipped)) == (33, 17)
    assert not first.is_partial
    assert {fired.job_name for fired in second.fired} == {"keyed"}


def test_each_fire_is_skipped_once_and_in_order(store: Harness) -> None:
    node = backlog(store, 10 * LIMIT)
    steps = drained(store, node)
    expected = [f"skip{n:03}" for n in range(MANY)]
    assert [name for took in steps for name in skipped(took)] == expected
    assert sorted(recorded(store)) == expected
    assert sorted(name for took in steps for name in names(took.fired)) == [f"other{n:03}" for n in range(10 * LIMIT)]
    assert store.progress("skip000").next_fire_time == at(1) + HOUR
    assert not steps[-1].is_partial
    assert not store.acquire(node, limit=LIMIT).skipped


def test_a_backlog_of_others_does_not_keep_fires_from_being_skipped(store: Harness) -> None:
    """Every thirtieth step returns to the front, however many others are due."""
    steps = drained(store, backlog(store, 2 * (STEPS_FOR_OTHERS + 1) * LIMIT))
    with_skips = [number for number, took in enumerate(steps) if took.skipped]
    gaps = {after - before for before, after in pairwise(with_skips)}
    assert max(gaps) <= STEPS_FOR_OTHERS + 1
    assert [len(steps[number].skipped) for number in with_skips[1:3]] == [min(LIMIT, MOST_AT_THE_FRONT)] * 2


def test_alone_a_backlog_is_decided_in_full_steps(store: Harness) -> None:
    steps = drained(store, backlog(store))
    assert [len(took.skipped) for took in steps if took.skipped] == [LIMIT] * (MANY // LIMIT)
    assert len(steps) <= MANY // LIMIT + 1


def test_a_trigger_that_gets_due_meanwhile_fires_at_once(store: Harness) -> None:
    node = backlog(store)
    assert len(store.acquire(node, limit=LIMIT).skipped) == LIMIT
    for second in range(6, 10):
        store.schedule(job(f"new{second}"), once(f"new{second}", at(second)))
        store.clock.set(at(second))
        assert names(store.acquire(node, limit=LIMIT).fired) == [f"new{second}"]
        assert len(store.acquire(node, limit=LIMIT).skipped) == LIMIT


def test_a_trigger_of_the_job_fires_once_there_is_a_slot(store: Harness) -> None:
    node = store.node()
    store.schedule(job("slow", **SKIP), *[once(f"t{n:03}", at(n / 1000), priority=5) for n in range(MANY)])
    store.clock.set(at(1))
    first = store.acquire(node, limit=LIMIT)
    assert names(first.fired) == ["t000"]
    assert first.is_partial
    store.complete(node, *first.fired)
    took = store.acquire(node, limit=LIMIT)
    assert names(took.fired) == [f"t{LIMIT:03}"], "the soonest that is left"


def test_what_a_job_skips_waits_no_longer_once_its_policy_is_to_wait(store: Harness) -> None:
    node = backlog(store, 4 * LIMIT)
    store.acquire(node, limit=LIMIT)
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
    assert sum(len(took.fired) for took in steps[:3]) == LIMIT
    states = store.states(*(f"skip{n:03}" for n in range(MANY)))
    assert len(recorded(store)) + states.count("BLOCKED") == MANY


def test_the_next_node_begins_at_the_front(store: Harness) -> None:
    a = backlog(store, 4 * LIMIT)
    assert store.acquire(a, limit=LIMIT).is_partial
    b = store.node("b")
    assert skipped(store.acquire(b, limit=LIMIT))[0] == f"skip{LIMIT:03}"


def test_keys_are_told_that_a_node_has_yet_to_decide_about_behind_a_backlog(store: Harness) -> None:
    node = backlog(store)
    store.acquire(node, limit=LIMIT)
    store.schedule(job("unknown", job_type="unknown"), once("unknown", at(4)))
    took = store.store.acquire(
        node, [AvailableSlots()], limit=LIMIT, look_ahead=timedelta(), misfire_threshold=THRESHOLD
    )
    assert list(took.undecided) == [DispatchKey("unknown")]
