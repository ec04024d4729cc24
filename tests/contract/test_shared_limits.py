"""Tests of limits that jobs share, which the store decides for the whole cluster: `put_limit`."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from quartzpy.errors import LimitInUseError, LimitNotFoundError
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.shared_limit import Limit
from quartzpy.states import Outcome
from quartzpy.store.protocol import FiredTrigger, Node
from tests.contract.harness import (
    HOUR,
    MINUTE,
    REPORT,
    SECOND,
    THRESHOLD,
    WINDOW,
    Harness,
    at,
    every,
    job,
    job_key,
    key,
    names,
    once,
)
from tests.run_by import Slots


def sharing(name: str = "job", *limits: str, **values: Any) -> JobDetail:
    return job(name, limits=limits or ("erp",), durable=True, **values)


def several(count: int, prefix: str = "t", **values: Any) -> list[Any]:
    """Return triggers of the same instant, of which the first has the highest priority."""
    return [once(f"{prefix}{n}", priority=100 - n, **values) for n in range(count)]


def set_limits(store: Harness, **limits: object) -> None:
    for name, value in limits.items():
        store.store.put_limit(name, Limit.of(value))


def used(store: Harness, name: str = "erp") -> int:
    return store.store.limits()[name].used


def fire_all(store: Harness, node: Node) -> list[FiredTrigger]:
    """Fire until the store says that nothing is due."""
    fired: list[FiredTrigger] = []
    for _ in range(50):
        took = store.acquire(node)
        store.refill(node, took.unfilled)
        fired += took.fired
        if took.unfilled:
            continue
        if took.next_due is None or took.next_due > store.clock.now():
            return fired
    raise AssertionError("the store says again and again that something is due, but fires nothing")


def run_all(store: Harness, node: Node, running: Sequence[FiredTrigger] = ()) -> list[str]:
    """End what runs, and let the node fire, until nothing is left; return the triggers in their order."""
    fired, waiting = [], list(running)
    for _ in range(300):
        if waiting:
            store.complete(node, waiting.pop(0))
        more = fire_all(store, node)
        fired += names(more)
        waiting += more
        if not waiting:
            return fired
    raise AssertionError("it never ends")


def test_jobs_that_share_a_limit_run_as_often_together_as_it_says(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    set_limits(store, erp=3)
    store.schedule(sharing("x"), *several(2, "x", when=at(-1)))
    store.schedule(sharing("y"), *several(4, "y"))
    store.schedule(job("free"), *several(2, "free"))
    first = fire_all(store, a)
    assert sorted(names(first)) == ["free0", "free1", "x0", "x1", "y0"]
    sharing_now = [one for one in first if one.limits]
    assert len(sharing_now) == 3 == used(store)
    assert not store.fire_due(b)
    assert store.acquire(b).next_due is None
    # An end frees a slot, whatever its outcome is.
    store.complete(a, sharing_now[0], outcome=Outcome.FAILED, error="no")
    assert names(store.fire_due(b)) == ["y1"]
    assert used(store) == 3


def test_the_soonest_goes_first_and_then_the_one_of_higher_priority(store: Harness) -> None:
    node = store.node()
    set_limits(store, erp=1)
    store.schedule(sharing("x"), once("second", at(-1)), once("fourth", at(0), priority=1))
    store.schedule(sharing("y"), once("first", at(-2)), once("third", at(0), priority=9))
    assert run_all(store, node) == ["first", "second", "third", "fourth"]
    assert used(store) == 0


def test_a_limit_that_is_lowered_and_raised_holds_at_once_and_leaves_nothing_behind(store: Harness) -> None:
    node = store.node()
    set_limits(store, erp=5)
    store.schedule(sharing(), *several(30))
    running = store.fire_due(node)
    assert len(running) == 5
    set_limits(store, erp=2)
    assert not store.fire_due(node)
    assert store.store.limits()["erp"].free == 0
    for _ in range(3):
        store.complete(node, running.pop())
        assert not store.fire_due(node)
    store.complete(node, running.pop())
    running += store.fire_due(node)
    assert len(running) == 2
    set_limits(store, erp=20)
    running += store.fire_due(node)
    assert len(running) == 20
    assert len(run_all(store, node, running)) == 30 - 4 - 20


def test_a_limit_of_none_at_all_holds_everything_until_it_is_raised(store: Harness) -> None:
    node = store.node()
    set_limits(store, erp=0)
    store.schedule(sharing(), once())
    assert not store.fire_due(node)
    assert store.acquire(node).next_due is None
    store.clock.advance(HOUR)
    set_limits(store, erp=1)
    # It was not late: the limit has held it.
    assert names(store.fire_due(node)) == ["once"]
    assert not store.misfire(node).misfired


def test_the_slots_of_a_node_that_died_are_free_once_it_is_recovered(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    set_limits(store, erp=2)
    store.schedule(sharing(requests_recovery=True), *several(4))
    assert len(store.fire_due(a)) == 2
    store.clock.advance(WINDOW + SECOND)
    store.store.check_in(b)
    assert not store.fire_due(b)
    store.recover(b, a)
    # The executions that are repeated are triggers of the job, and ask for the limit.
    assert used(store) == 0
    assert len(run_all(store, b)) == 4


def test_a_job_with_two_limits_gets_a_slot_of_both_or_of_none(store: Harness) -> None:
    node = store.node()
    set_limits(store, erp=1, crm=2)
    store.schedule(sharing("both", "crm", "erp"), *several(2, "both"))
    store.schedule(sharing("erp"), once("erp", priority=50))
    store.schedule(sharing("crm", "crm"), once("crm", priority=1))
    running = fire_all(store, node)
    # The second of both has no slot of erp, and takes none of crm.
    assert names(running) == ["both0", "crm"]
    assert (used(store, "erp"), used(store, "crm")) == (1, 2)
    assert run_all(store, node, running) == ["both1", "erp"]


def test_what_waits_for_two_limits_is_not_overtaken_for_ever(store: Harness) -> None:
    node = store.node()
    set_limits(store, erp=1, crm=1)
    store.schedule(sharing("both", "crm", "erp"), once("both", at(1)))
    store.schedule(sharing("erp"), *[once(f"erp{n}", at(n * 10)) for n in range(40)])
    store.schedule(sharing("crm", "crm"), *[once(f"crm{n}", at(n * 10 + 5)) for n in range(40)])
    # Each execution takes ten seconds, so that one of both limits is always in use.
    fired: list[str] = []
    running: list[tuple[Any, FiredTrigger]] = []
    for second in range(0, 200, 5):
        store.clock.set(at(second))
        for ends, execution in list(running):
            if ends <= store.clock.now():
                store.complete(node, execution)
                running.remove((ends, execution))
        for execution in store.fire_due(node):
            fired.append(execution.trigger_name)
            running.append((at(second + 10), execution))
    place = fired.index("both")
    # It was overtaken for the misfire threshold, and then by nothing.
    overtaking = [int(name[3:]) * 10 for name in fired[:place]]
    assert THRESHOLD.total_seconds() - 10 <= max(overtaking) <= THRESHOLD.total_seconds()


def test_slots_are_not_kept_for_what_no_node_runs(store: Harness) -> None:
    node, gone = store.node(), store.node("gone")
    set_limits(store, erp=1, crm=1)
    store.schedule(sharing("erp"), once("erp", at(-40)))
    assert names(store.fire_due(node)) == ["erp"]
    store.schedule(sharing("both", "crm", "erp", job_type="elsewhere"), once("both", at(-30)))
    assert not store.fire_due(gone, types=["elsewhere"])
    assert store.state("both") == "BLOCKED"
    store.store.leave(gone)
    store.clock.set(at(45))
    store.schedule(sharing("crm", "crm"), once("crm", at(40)))
    assert names(store.fire_due(node)) == ["crm"]


def test_triggers_of_nodes_that_do_not_run_them_do_not_use_up_the_limit(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    set_limits(store, erp=1)
    store.schedule(sharing("x", job_type="other"), once("x", at(-1)))
    store.schedule(sharing("y"), once("y"))
    assert names(store.fire_due(a, types=[REPORT])) == ["y"]
    [running] = store.running()
    assert running.trigger_key == key("y")
    assert not store.fire_due(b, types=["other"])


def test_the_limits_of_a_job_hold_besides_its_own_and_its_overlap_policy(store: Harness) -> None:
    node = store.node()
    set_limits(store, erp=2)
    store.schedule(sharing("serial", disallow_concurrent=True), *several(3, "serial"))
    store.schedule(sharing("skips", max_concurrent=1, overlap_policy="skip"), *several(2, "skips", when=at(1)))
    assert names(store.fire_due(node)) == ["serial0"]
    assert store.state("serial1") == "BLOCKED"
    store.clock.set(at(1))
    assert names(fire_all(store, node)) == ["skips0"]
    assert used(store) == 2
    # The fire that was not made has used no slot, and one that is released by its job asks for one.
    running = {row.trigger_key.name: row for row in store.running()}
    assert set(running) == {"serial0", "skips0"}


def test_a_released_trigger_of_a_serial_job_asks_again(store: Harness) -> None:
    node = store.node()
    set_limits(store, erp=1)
    store.schedule(sharing("serial", disallow_concurrent=True), *several(2, "serial", when=at(-1)))
    store.schedule(sharing("x"), once("x", at(-0.5)))
    assert run_all(store, node) == ["serial0", "serial1", "x"]


def test_what_waits_for_a_limit_does_not_misfire_and_what_no_node_took_does(store: Harness) -> None:
    node = store.node()
    set_limits(store, erp=1)
    store.schedule(sharing(), every(600, "first"), every(600, "second", start=at(1)))
    [first] = store.fire_due(node)
    store.clock.set(at(1))
    assert not store.fire_due(node)
    store.clock.set(at(300))
    assert not store.fire_due(node)
    assert not store.misfire(node).misfired
    store.complete(node, first)
    [second] = store.fire_due(node)
    assert second.scheduled_fire_time == at(1)
    store.complete(node, second)
    # The limit was free while nobody took what was due: that is a misfire, as without a limit.
    store.clock.set(at(600 + 300))
    assert not store.fire_due(node)
    assert {missed.name for missed in store.misfire(node).misfired} == {"first", "second"}


def test_a_rate_holds_for_all_jobs_that_share_it(store: Harness) -> None:
    node = store.node()
    set_limits(store, mail="10/minute")
    store.schedule(sharing("x", "mail"), *several(2, "x", when=at(0)))
    store.schedule(sharing("y", "mail"), *several(2, "y", when=at(0.5)))
    fired: list[tuple[Any, str]] = []
    for _ in range(20):
        took = store.acquire(node)
        fired += [(store.clock.now(), one.trigger_name) for one in took.fired]
        store.complete(node, *took.fired)
        if took.next_due is None:
            break
        store.clock.set(max(took.next_due, store.clock.now()))
    assert fired == [(at(0), "x0"), (at(6), "x1"), (at(12), "y0"), (at(18), "y1")]


def test_a_limit_may_have_a_rate_and_a_number_of_executions(store: Harness) -> None:
    node = store.node()
    set_limits(store, erp="2, 10/minute")
    store.schedule(sharing(), *several(4))
    [first] = store.fire_due(node)
    assert store.acquire(node).next_due == at(6)
    store.clock.set(at(6))
    [second] = store.fire_due(node)
    store.clock.set(at(12))
    assert not store.fire_due(node)
    record = store.store.limits()["erp"]
    assert (record.used, record.free, record.waiting, record.admits_at) == (2, 0, 2, None)
    store.complete(node, first, second)
    assert len(store.fire_due(node)) == 1
    assert store.store.limits()["erp"].admits_at == at(18)


def test_a_job_that_names_a_limit_that_is_not_stored_is_refused_with_words_that_show_one(store: Harness) -> None:
    set_limits(store, erp=1)
    with pytest.raises(LimitNotFoundError, match=r"'epr'.*did you mean 'erp'\?.*scheduler.set_limit\('epr', 5\)"):
        store.schedule(sharing("x", "epr"), once())
    assert not store.store.jobs([job_key("x")])
    store.schedule(sharing("x"), once())
    with pytest.raises(LimitNotFoundError):
        store.store.modify_job(job_key("x"), lambda old: old.with_values({"limits": ["epr"]}), keeps_data=True)


def test_a_limit_that_jobs_share_cannot_be_removed(store: Harness) -> None:
    set_limits(store, erp=1, crm=1)
    store.schedule(sharing("x"), once())
    with pytest.raises(LimitInUseError, match=r"DEFAULT\.x"):
        store.store.delete_limit("erp")
    assert store.store.delete_limit("crm")
    assert not store.store.delete_limit("crm")
    assert set(store.store.limits()) == {"erp"}


def test_a_job_that_is_given_other_limits_waits_for_those(store: Harness) -> None:
    node = store.node()
    set_limits(store, erp=1, crm=1)
    store.schedule(sharing("x"), *several(3, "x"))
    [first] = store.fire_due(node)
    store.store.modify_job(job_key("x"), lambda old: old.with_values({"limits": ["crm"]}), keeps_data=True)
    [second] = store.fire_due(node)
    assert (used(store, "erp"), used(store, "crm")) == (1, 1)
    store.store.modify_job(job_key("x"), lambda old: old.with_values({"limits": []}), keeps_data=True)
    assert len(store.fire_due(node)) == 1
    store.complete(node, first, second)
    assert (used(store, "erp"), used(store, "crm")) == (0, 0)


def test_retries_share_the_limit(store: Harness) -> None:
    node = store.node()
    set_limits(store, erp=1)
    store.schedule(sharing(), *several(2))
    [first] = store.fire_due(node)
    store.complete(node, first, outcome=Outcome.FAILED, error="no", retry_after=SECOND)
    [second] = store.fire_due(node)
    assert second.trigger_name == "t1"
    store.clock.advance(MINUTE)
    assert not store.fire_due(node)
    store.complete(node, second)
    [again] = store.fire_due(node)
    assert again.attempt == 2


def test_a_node_with_few_workers_takes_no_more_than_it_can_run(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    set_limits(store, erp=5)
    store.schedule(sharing(), *several(6))
    assert len(store.fire_due(a, types=[Slots(REPORT, workers=2)])) == 2
    assert used(store) == 2
    assert len(store.fire_due(b)) == 3


def test_the_record_says_which_jobs_use_it(store: Harness) -> None:
    node = store.node()
    set_limits(store, erp=4)
    store.schedule(sharing("x"), *several(1, "x"))
    store.schedule(sharing("y"), *several(5, "y"))
    store.fire_due(node)
    record = store.store.limits()["erp"]
    assert dict(record.used_by) == {job_key("y"): 3, job_key("x"): 1}
    assert (record.used, record.free, record.waiting, record.is_full) == (4, 0, 2, True)


@pytest.mark.parametrize("seed", range(6))
def test_no_limit_is_ever_exceeded_and_nothing_is_left_behind(store: Harness, seed: int) -> None:
    chance = random.Random(seed)
    nodes = [store.node(name) for name in "ab"]
    limits = {"erp": chance.randint(1, 3), "crm": chance.randint(1, 3), "dwh": chance.randint(1, 2)}
    set_limits(store, **limits)
    wanted: dict[str, Sequence[str]] = {}
    for number in range(6):
        own = chance.sample(sorted(limits), chance.randint(1, 3))
        triggers = [once(f"t{number}_{n}", at(chance.randint(-30, 30))) for n in range(5)]
        store.schedule(sharing(f"j{number}", *own, disallow_concurrent=chance.random() < 0.3), *triggers)
        wanted |= {trigger.name or "": own for trigger in triggers}
    running: list[tuple[Node, FiredTrigger]] = []
    fired: list[str] = []
    for _ in range(400):
        match chance.randint(0, 5):
            case 0 | 1:
                node = chance.choice(nodes)
                more = store.fire_due(node, limit=chance.randint(1, 4))
                running += [(node, one) for one in more]
                fired += names(more)
            case 2 if running:
                node, one = running.pop(chance.randrange(len(running)))
                store.complete(node, one)
            case 3:
                name = chance.choice(sorted(limits))
                limits[name] = chance.randint(1, 4)
                before = Counter(name for _, one in running for name in wanted[one.trigger_name])
                set_limits(store, **{name: max(limits[name], before[name])})
                limits[name] = max(limits[name], before[name])
            case 4:
                store.clock.advance(SECOND)
                for node in nodes:
                    store.store.check_in(node)
        counts = Counter(name for _, one in running for name in wanted[one.trigger_name])
        assert all(counts[name] <= limit for name, limit in limits.items())
        assert {name: record.used for name, record in store.store.limits().items()} == {
            name: counts[name] for name in limits
        }
    for node, one in running:
        store.complete(node, one)
    store.clock.advance(MINUTE / 2)
    fired += run_all(store, nodes[0])
    assert sorted(fired) == sorted(wanted)
    assert not store.misfire(nodes[0]).misfired


def test_a_fire_that_is_handed_back_is_charged_again(store: Harness) -> None:
    node = store.node()
    set_limits(store, erp="1/minute")
    store.schedule(sharing(), once("early"))
    [early] = store.fire_due(node)
    store.complete(node, early, outcome=Outcome.SNOOZED, retry_after=timedelta(), is_handed_back=True)
    assert not store.fire_due(node)
    assert store.acquire(node).next_due == at(60)
    store.clock.set(at(60))
    assert len(store.fire_due(node)) == 1


def test_what_waits_at_a_limit_beside_others_of_a_full_job_is_not_passed_over(store: Harness) -> None:
    """A step meets as many of a set as may run; those of a job that is full by then leave the others unmet."""
    node = store.node()
    set_limits(store, erp=1)
    store.schedule(sharing("serial", disallow_concurrent=True), *several(5, "serial", when=at(-1)))
    store.schedule(sharing("x"), once("x"))
    store.schedule(sharing("y"), once("y", at(-2)))
    [y] = fire_all(store, node)
    set_limits(store, erp=3)
    assert sorted(names(fire_all(store, node))) == ["serial0", "x"]
    assert [one.job_name for one in [y]] == ["y"]


def test_a_waiting_trigger_does_not_overtake_what_is_parked_at_the_same_limit(store: Harness) -> None:
    node = store.node()
    set_limits(store, erp=1)
    store.schedule(sharing("x"), once("running", at(-2)), once("parked", at(-1)))
    [running] = fire_all(store, node)
    store.schedule(sharing("y"), once("waiting"))
    # The node that has ended the execution has not looked at the limit yet.
    store.store.complete(node, [store.ended(running)])
    assert names(store.fire_due(node)) == ["parked"]


def test_what_was_held_back_and_waits_for_another_node_is_not_late(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    set_limits(store, erp=1)
    store.schedule(sharing("x"), once("x", at(-1)))
    store.schedule(sharing("y", job_type="other"), every(10, "y"))
    [x] = store.fire_due(a)
    assert not store.fire_due(b, types=["other"])
    store.clock.set(at(300))
    store.complete(a, x)
    assert not store.misfire(b, types=["other"]).misfired
    for n in range(31):
        [y] = store.fire_due(b, types=["other"])
        assert y.scheduled_fire_time == at(10 * n)
        store.complete(b, y)
        assert not store.misfire(b, types=["other"]).misfired
