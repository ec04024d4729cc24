"""A node fires only triggers of which it has said that it runs them, and none of these waits behind the others."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

import pytest

from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.placement import Placement
from quartzpy.store.protocol import Acquisition, AvailableSlots, DispatchKey, Expectation, Node
from tests.contract.harness import MINUTE, REPORT, THRESHOLD, Harness, at, every, job, key, names, once
from tests.run_by import Slots

OTHER = DispatchKey("other")
LABELLED = DispatchKey(REPORT, Placement(requires=("gpu",)).text)
GROUPED = Placement(group="few").text


def acquire(
    store: Harness, node: Node, *slots: AvailableSlots, limit: int = 100, met_pools: Collection[str] = ("",)
) -> Acquisition:
    """Acquire without a word about what the node runs."""
    return store.store.acquire(
        node,
        slots or [AvailableSlots()],
        limit=limit,
        look_ahead=timedelta(),
        misfire_threshold=THRESHOLD,
        expected=Expectation(met_pools=met_pools),
    )


def test_a_trigger_about_which_the_node_has_said_nothing_stays_and_is_named(store: Harness) -> None:
    node = store.node()
    store.store.decide(node, {DispatchKey(REPORT): True})
    store.schedule(job(), once("mine", at(2)))
    store.schedule(job("b", job_type="other"), once("unknown", at(1)))
    store.schedule(job("c", requires=["gpu"]), once("labelled", at(3)))
    store.clock.set(at(5))
    took = acquire(store, node)
    assert names(took.fired) == ["mine"]
    assert OTHER in took.undecided
    assert store.states("unknown", "labelled") == ["WAITING", "WAITING"]
    store.store.decide(node, {OTHER: True})
    took = acquire(store, node)
    assert names(took.fired) == ["unknown"]
    assert set(took.undecided) == {LABELLED}
    store.store.decide(node, {LABELLED: False})
    took = acquire(store, node)
    assert not took.undecided
    assert took.next_due is None
    assert store.state("labelled") == "WAITING"


def test_what_a_node_says_anew_holds_from_the_next_step_on(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(60, "t"))
    store.store.decide(node, {DispatchKey(REPORT): False})
    assert not acquire(store, node).fired
    store.store.decide(node, {DispatchKey(REPORT): True})
    assert names(acquire(store, node).fired) == ["t"]
    store.clock.advance(MINUTE)
    store.store.decide(node, {DispatchKey(REPORT): False})
    took = acquire(store, node)
    assert (list(took.fired), list(took.undecided)) == ([], [])


def test_what_an_epoch_has_said_ends_with_it_and_is_its_own(store: Harness) -> None:
    node, other = store.node("a"), store.node("b")
    store.schedule(job(), once("t"))
    store.store.decide(node, {DispatchKey(REPORT): True})
    assert list(acquire(store, other).undecided) == [DispatchKey(REPORT)]
    store.store.leave(node)
    again = store.node("a")
    took = acquire(store, again)
    assert (list(took.fired), list(took.undecided)) == ([], [DispatchKey(REPORT)])


def test_an_epoch_that_is_gone_says_nothing(store: Harness) -> None:
    node, other = store.node("a"), store.node("b")
    store.clock.advance(timedelta(seconds=60))
    store.store.check_in(other)
    store.recover(other, node)
    with pytest.raises(Exception, match="declared dead"):
        store.store.decide(node, {DispatchKey(REPORT): True})


@pytest.mark.parametrize("refused", [1, 60])
def test_refused_triggers_hide_nothing_behind_them(store: Harness, refused: int) -> None:
    node = store.node()
    for number in range(refused):
        store.schedule(job(f"j{number}", job_type=f"type-{number}"), once(f"t{number}", at(number / 100)))
    store.schedule(job(), once("mine", at(2)))
    store.store.decide(node, {DispatchKey(f"type-{number}"): False for number in range(refused)})
    store.store.decide(node, {DispatchKey(REPORT): True})
    store.clock.set(at(5))
    took = acquire(store, node, limit=1)
    assert names(took.fired) == ["mine"]
    assert (took.next_due, list(took.undecided)) == (None, [])


def test_triggers_of_all_job_types_and_labels_fire_in_one_order(store: Harness) -> None:
    node = store.node()
    store.schedule(job("a"), once("a1", at(1)), once("a4", at(4)))
    store.schedule(job("b", job_type="other"), once("b2", at(2)), once("b3 first", at(3), priority=9))
    store.schedule(job("c", requires=["gpu"]), once("c3", at(3)), once("c5", at(5)))
    store.store.decide(node, {DispatchKey(REPORT): True, OTHER: True, LABELLED: True})
    store.clock.set(at(10))
    assert names(acquire(store, node, limit=3).fired) == ["a1", "b2", "b3 first"]
    assert names(acquire(store, node, limit=3).fired) == ["c3", "a4", "c5"]


def test_a_deep_backlog_of_a_full_group_or_executor_holds_up_no_other(store: Harness) -> None:
    node = store.node()
    store.schedule(job("grouped", execution_group="few"), *[once(f"g{n:02}", at(n / 100)) for n in range(50)])
    store.schedule(job("plain"), *[once(f"p{n}", at(2 + n)) for n in range(3)])
    store.store.decide(node, {DispatchKey(REPORT): True, DispatchKey(REPORT, GROUPED): True})
    store.clock.set(at(10))
    pool = DispatchKey(REPORT, GROUPED).slot_pool
    took = acquire(store, node, AvailableSlots(), AvailableSlots(pool, group="few", group_slots=1), limit=10)
    assert names(took.fired) == ["g00", "p0", "p1", "p2"]
    store.schedule(job("plain"), once("p3", at(9)), replace=True)
    assert names(acquire(store, node, limit=10).fired) == ["p3"], "the group is full"
    took = acquire(store, node, AvailableSlots(pool, group="few", group_slots=2), limit=10)
    assert names(took.fired) == ["g01", "g02"]


def test_misfires_are_handled_by_a_node_that_runs_the_trigger(store: Harness) -> None:
    node = store.node()
    store.schedule(job("a"), every(3600, "mine"))
    store.schedule(job("b", job_type="other"), every(3600, "refused"))
    store.schedule(job("c", requires=["gpu"]), every(3600, "not decided"))
    store.store.decide(node, {DispatchKey(REPORT): True, OTHER: False})
    store.clock.set(at(600))
    assert list(store.store.recover_misfires(node, threshold=MINUTE, limit=10).misfired) == [key("mine")]


def test_batches_of_misfires_go_on_behind_what_the_node_does_not_run(store: Harness) -> None:
    node = store.node()
    store.schedule(job("b", job_type="other"), *[every(3600, f"refused{n}") for n in range(5)])
    store.schedule(job("a"), *[every(3600, f"t{n}", start=at(n % 4)) for n in range(9)])
    store.store.decide(node, {DispatchKey(REPORT): True, OTHER: False})
    store.clock.set(at(600))
    batches = [store.store.recover_misfires(node, threshold=MINUTE, limit=4) for _ in range(3)]
    assert [(len(batch.misfired), batch.more) for batch in batches] == [(4, True), (4, True), (1, False)]
    store.schedule(job("late"), every(3600, "earlier", start=at(-60)))
    assert list(store.store.recover_misfires(node, threshold=MINUTE, limit=4).misfired) == [key("earlier")]


def test_a_trigger_that_waits_for_its_turn_is_named_as_well(store: Harness) -> None:
    node = store.node()
    store.schedule(job(rate_limit=RateLimit(1, per="1m")), once("t"))
    # Whether a rate limit exists is known after the first step.
    undecided = [acquire(store, node).undecided for _ in range(2)]
    assert DispatchKey(REPORT) in undecided[-1]
    store.store.decide(node, {DispatchKey(REPORT): True})
    assert names(acquire(store, node).fired) == ["t"]


def test_a_slot_pool_that_the_node_did_not_know_is_named(store: Harness) -> None:
    node = store.node()
    store.schedule(job("a", executor="big", execution_group="many", requires=["gpu"]), once("a"))
    store.schedule(job("b", execution_group="zoo"), once("b"))
    store.schedule(job("c", execution_group="ape"), once("c"))
    pools = {""}
    for _ in range(3):
        pools.update(acquire(store, node, *map(AvailableSlots, pools), met_pools=pools).slot_pools)
    wanted = [Placement("big", "many"), Placement(group="zoo"), Placement(group="ape")]
    assert pools >= {DispatchKey(REPORT, placement.text).slot_pool for placement in wanted}
    assert names(store.acquire(node, types=[Slots(REPORT, Placement(group="zoo").text, group="zoo")]).fired) == ["b"]


def test_what_an_epoch_has_refused_is_undecided_for_the_next_one(store: Harness) -> None:
    node = store.node("a")
    store.store.decide(node, {OTHER: False})
    store.schedule(job(job_type="other"), once("t"))
    assert not acquire(store, node).undecided
    assert list(acquire(store, store.node("b")).undecided) == [OTHER]
