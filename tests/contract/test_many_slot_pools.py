"""Steps of a node with many execution groups take the soonest triggers of all groups, however many wait in each."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest

from quartzpy.store.protocol import MANY, Acquisition, AvailableSlots, DispatchKey, Expectation, Node
from tests.contract.harness import START, Harness, at, job, names, once
from tests.contract.harness import THRESHOLD as LONG

GROUPS, EACH, LIMIT = 12, 40, 30


def acquire(store: Harness, node: Node, *, slots: int = MANY, workers: int = 1_000) -> Acquisition:
    pools = [AvailableSlots(f'"group":"g{n}"', "default", workers, f"g{n}", slots) for n in range(GROUPS)]
    # A step that knows what waits in each group reads a part of most of them.
    first = Expectation(reads_first=True)
    return store.store.acquire(node, pools, limit=LIMIT, look_ahead=0 * LONG, misfire_threshold=LONG, expected=first)


def waiting(store: Harness, when: Callable[[int, int], datetime], priority: Callable[[int, int], int]) -> Node:
    """GROUPS execution groups with EACH due triggers."""
    node = store.node()
    for group in range(GROUPS):
        store.schedule(
            job(f"job{group}", execution_group=f"g{group}"),
            *[
                once(f"t{group:02}-{n:02}", when(group, n), group=f"g{group}", priority=priority(group, n))
                for n in range(EACH)
            ],
        )
    store.store.decide(node, {DispatchKey("report", f'{{"group":"g{n}"}}'): True for n in range(GROUPS)})
    store.clock.set(at(30))
    return node


ORDERS: dict[str, tuple[Callable[[int, int], datetime], Callable[[int, int], int]]] = {
    "in turn": (lambda group, n: at((n * GROUPS + group) / 100), lambda group, n: 5),
    "one group after the other": (lambda group, n: at((group * EACH + n) / 100), lambda group, n: 5),
    "at once, by priority": (lambda group, n: START, lambda group, n: 500 - (n * GROUPS + group)),
    "in bursts": (lambda group, n: at((n // 9) * 2 + (group * 9 + n % 9) / 100), lambda group, n: 5),
}


@pytest.mark.parametrize("order", ORDERS)
def test_the_soonest_of_all_groups_come_first(store: Harness, order: str) -> None:
    when, priority = ORDERS[order]
    node = waiting(store, when, priority)
    expected = sorted(
        (when(group, n), -priority(group, n), f"t{group:02}-{n:02}") for group in range(GROUPS) for n in range(EACH)
    )
    taken: list[str] = []
    for _ in range(GROUPS * EACH // LIMIT):
        fired = names(acquire(store, node).fired)
        assert sorted(fired) == sorted(name for *_, name in expected[len(taken) : len(taken) + LIMIT])
        taken += fired
    took = acquire(store, node)
    assert (list(took.fired), took.next_due) == ([], None)


@pytest.mark.parametrize("order", ORDERS)
def test_groups_with_few_slots_get_as_many_as_they_have(store: Harness, order: str) -> None:
    node = waiting(store, *ORDERS[order])
    fired = [*acquire(store, node, slots=2).fired, *acquire(store, node, slots=2).fired]
    assert len(fired) >= GROUPS * 2
    for group in range(GROUPS):
        of_group = [one.trigger_name for one in fired if one.trigger_group == f"g{group}"]
        assert of_group == [f"t{group:02}-{n:02}" for n in range(len(of_group))]
        assert len(of_group) >= 2


def test_the_workers_of_the_executor_are_shared(store: Harness) -> None:
    node = waiting(store, *ORDERS["in turn"])
    assert names(acquire(store, node, workers=5).fired) == [f"t{group:02}-00" for group in range(5)]


MANY_GROUPS, DEEP, FULL = 50, 12, 60


def test_no_group_starves_behind_the_backlogs_of_others_and_each_step_is_full(store: Harness) -> None:
    """The groups have waited for different times, and five of them get as much as a step takes all the time."""
    node = store.node()
    pools = [AvailableSlots(f'"group":"g{n}"', "default", 1_000, f"g{n}", MANY) for n in range(MANY_GROUPS)]
    for group in range(MANY_GROUPS):
        store.schedule(
            job(f"job{group}", execution_group=f"g{group}"),
            *[once(f"t{group}-{n}", at((group + n * 7) / 100), group=f"g{group}") for n in range(DEEP)],
        )
    store.store.decide(node, {DispatchKey("report", f'{{"group":"g{n}"}}'): True for n in range(MANY_GROUPS)})
    store.clock.set(at(30))
    fired: dict[str, list[str]] = {}
    for step in range(MANY_GROUPS * DEEP // FULL):
        for group in range(5):
            new = [once(f"n{step}-{n}", at(2 + step), group=f"g{group}") for n in range(FULL)]
            store.schedule(job(f"more{step}-{group}", execution_group=f"g{group}"), *new)
        took = store.store.acquire(node, pools, limit=FULL, look_ahead=0 * LONG, misfire_threshold=LONG)
        assert took.taken == FULL
        for one in took.fired:
            fired.setdefault(one.trigger_group, []).append(one.trigger_name)
    for group in range(MANY_GROUPS):
        assert fired[f"g{group}"] == [f"t{group}-{n}" for n in range(DEEP)]
