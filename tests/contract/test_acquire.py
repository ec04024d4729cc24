"""Tests of the acquire step: which triggers are eligible, in which order, and which state each is put into."""

from __future__ import annotations

from datetime import timedelta

import pytest

from quartzpy.errors import LeaseLostError
from quartzpy.store.protocol import NamedTriggers
from quartzpy.triggers.cron import CronTrigger
from tests.contract.harness import (
    HOUR,
    SECOND,
    START,
    THRESHOLD,
    Harness,
    at,
    data_of,
    every,
    job,
    job_key,
    key,
    names,
    once,
)


def test_what_is_due_fires_in_the_same_transaction(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(10))
    took = store.acquire(node)
    assert names(took.fired) == ["every"]
    assert took.now == START
    assert store.state("every") == "WAITING"
    assert [row.fire_id for row in store.running()] == [took.fired[0].fire_id]


def test_a_fire_has_everything_that_is_needed_to_run_the_job(store: Harness) -> None:
    node = store.node()
    detail = job(data={"region": "eu"}, persist_data=True, description="nightly", requests_recovery=True)
    trigger = every(10, data={"day": "monday"}, priority=7, description="often")
    store.schedule(detail, trigger)
    store.clock.advance(3 * SECOND)
    fired = store.fire_one(node)
    assert (fired.trigger_key, fired.job_key, fired.job_type) == (key("every"), job_key(), "report")
    assert fired.generation == store.generation("every")
    assert (fired.scheduled_fire_time, fired.fire_time) == (START, at(3))
    assert (fired.previous_fire_time, fired.next_fire_time, fired.times_triggered) == (None, at(10), 1)
    assert fired.upcoming is None, "enough are left"
    assert (fired.attempt, fired.persists_data) == (1, True)
    assert data_of(fired) == ({"region": "eu"}, {"day": "monday"})
    assert fired.trigger == store.prepare(trigger, job_key()).trigger
    assert fired.job_detail == detail


def test_a_second_fire_knows_the_first(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(10))
    first = store.fire_one(node)
    store.clock.advance(10 * SECOND)
    second = store.fire_one(node)
    assert (second.previous_fire_time, second.scheduled_fire_time) == (START, at(10))
    assert (second.next_fire_time, second.times_triggered) == (at(20), 2)
    assert second.fire_id > first.fire_id


def test_what_is_due_later_is_not_taken(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once(when=at(10)))
    took = store.acquire(node)
    assert took.fired == ()
    assert took.next_due == at(10)


def test_what_is_due_within_the_look_ahead_fires_ahead_and_its_fire_time_is_its_instant(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once("soon", at(0.2)), once("later", at(0.3)))
    took = store.acquire(node, look_ahead=timedelta(milliseconds=250))
    assert took.now == START
    assert store.states("soon", "later") == ["COMPLETE", "WAITING"]
    assert took.next_due == at(0.3)
    [fired] = took.fired
    assert (fired.trigger_name, fired.scheduled_fire_time, fired.fire_time) == ("soon", at(0.2), at(0.2))
    assert [row.fire_id for row in store.claims()] == [fired.fire_id], "it is seen as waiting for its instant"
    store.clock.advance(SECOND)
    assert [row.fire_id for row in store.running()] == [fired.fire_id]


def test_one_pass_fires_what_is_due_and_what_follows(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once("now"), once("soon", at(0.1)))
    took = store.acquire(node, look_ahead=SECOND)
    assert [(one.trigger_name, one.fire_time) for one in took.fired] == [("now", START), ("soon", at(0.1))]


def test_triggers_come_by_fire_time_and_then_by_priority(store: Harness) -> None:
    node = store.node()
    store.schedule(
        job(),
        once("late", at(3), priority=9),
        once("low", at(2), priority=-1),
        once("high", at(2), priority=6),
        once("usual", at(2)),
        once("early", at(1), priority=1),
    )
    store.clock.advance(5 * SECOND)
    assert names(store.acquire(node).fired) == ["early", "high", "usual", "low", "late"]


def test_what_fires_ahead_comes_in_the_same_order(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once("b", at(2)), once("c", at(2), priority=9), once("a", at(1)))
    assert names(store.acquire(node, look_ahead=HOUR).fired) == ["a", "c", "b"]


def test_no_more_are_taken_than_the_limit(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), *[once(f"t{n}", at(n)) for n in range(5)])
    store.clock.advance(10 * SECOND)
    took = store.acquire(node, limit=2)
    assert names(took.fired) == ["t0", "t1"]
    assert took.next_due == at(2)
    assert names(store.acquire(node, limit=2).fired) == ["t2", "t3"]
    assert names(store.acquire(node, limit=2).fired) == ["t4"]
    assert store.acquire(node).next_due is None


def test_the_limit_counts_what_fires_ahead(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once("now"), once("soon", at(1)), once("next", at(2)))
    took = store.acquire(node, limit=2, look_ahead=HOUR)
    assert names(took.fired) == ["now", "soon"]


def test_two_nodes_never_take_one_trigger(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(), *[once(f"t{n}", at(n % 3)) for n in range(6)])
    store.clock.advance(SECOND)
    ones = store.acquire(a, limit=3, look_ahead=HOUR)
    others = store.acquire(b, look_ahead=HOUR)
    taken = [*names(ones.fired), *names(others.fired)]
    assert sorted(taken) == [f"t{n}" for n in range(6)]
    assert not store.acquire(a, look_ahead=HOUR).fired


def test_every_claim_has_a_fence_above_all_before(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(), *[every(1, f"t{n}") for n in range(3)])
    given: list[int] = []
    for node in (a, b, a):
        batch = [one.fire_id for one in store.acquire(node).fired]
        assert not given or min(batch) > max(given)
        given += batch
        store.clock.advance(SECOND)
    assert len(set(given)) == 9


def test_job_types_that_a_node_does_not_know_are_not_taken(store: Harness) -> None:
    node = store.node()
    store.schedule(job("mine"), once("mine", at(5)))
    store.schedule(job("other", job_type="invoice"), once("other"))
    store.clock.advance(5 * SECOND)
    took = store.acquire(node)
    assert names(took.fired) == ["mine"]
    assert took.next_due is None
    assert store.state("other") == "WAITING"
    assert names(store.acquire(node, types=["invoice"]).fired) == ["other"]


def test_a_node_that_knows_no_job_type_takes_nothing(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once())
    took = store.acquire(node, types=[])
    assert (took.fired, took.next_due) == ((), None)


def test_a_thousand_earlier_triggers_of_unknown_types_do_not_block_others(store: Harness) -> None:
    node = store.node()
    store.schedule(job("other", job_type="invoice"), *[once(f"other{n}") for n in range(1000)])
    store.schedule(job("mine"), once("mine", at(1)))
    store.clock.advance(2 * SECOND)
    assert names(store.acquire(node, limit=1).fired) == ["mine"]


def test_several_job_types_are_taken_in_one_order(store: Harness) -> None:
    node = store.node()
    store.schedule(job("r"), once("r1", at(1)), once("r3", at(3)))
    store.schedule(job("i", job_type="invoice"), once("i2", at(2)), once("i4", at(4)))
    store.clock.advance(5 * SECOND)
    took = store.acquire(node, limit=3, types=["report", "invoice"])
    assert names(took.fired) == ["r1", "i2", "r3"]


def test_what_has_misfired_is_left_to_the_misfire_step(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once("late"), once("just", at(1)))
    store.clock.advance(THRESHOLD + SECOND)
    took = store.acquire(node)
    assert names(took.fired) == ["just"]
    assert took.next_due is None
    assert store.state("late") == "WAITING"


def test_what_ignores_misfires_is_taken_however_late(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once("late", misfire="ignore"))
    store.clock.advance(100 * HOUR)
    assert names(store.acquire(node).fired) == ["late"]


def test_a_triggers_own_threshold_decides_when_it_is_too_late(store: Harness) -> None:
    node = store.node()
    store.schedule(
        job(),
        once("strict", misfire_threshold=SECOND),
        once("patient", misfire_threshold=HOUR, priority=9),
        once("usual"),
    )
    store.clock.advance(2 * SECOND)
    assert names(store.acquire(node, limit=1).fired) == ["patient"]
    store.clock.advance(THRESHOLD)
    store.schedule(job("more"), once("patient2", misfire_threshold=HOUR))
    assert names(store.acquire(node).fired) == ["patient2"]
    assert store.states("strict", "usual") == ["WAITING", "WAITING"]


def test_earlier_misfired_triggers_do_not_block_others(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), *[once(f"late{n}", misfire_threshold=SECOND) for n in range(50)])
    store.schedule(job("other"), *[once(f"old{n}") for n in range(50)], once("good", at(100)))
    store.clock.advance(101 * SECOND)
    assert names(store.acquire(node, limit=1).fired) == ["good"]


def test_a_trigger_moves_on_by_its_stored_instants(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(10))
    for n in range(8):
        fired = store.fire_one(node)
        assert fired.scheduled_fire_time == at(10 * n)
        assert store.upcoming("every") == [at(10 * later) for later in range(n + 2, 9)]
        store.clock.advance(10 * SECOND)
    assert store.progress("every").next_fire_time == at(80)
    assert store.progress("every").times_triggered == 8


def test_late_fires_keep_their_scheduled_times(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(10))
    store.clock.advance(25 * SECOND)
    scheduled = [store.fire_one(node).scheduled_fire_time for _ in range(3)]
    assert scheduled == [START, at(10), at(20)]
    assert not store.fire_due(node)


def test_a_trigger_whose_stored_instants_are_used_up_is_refilled_first(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(1))
    for _ in range(8):
        assert store.acquire(node).fired
        store.clock.advance(SECOND)
    took = store.acquire(node)
    assert not took.fired
    [unfilled] = took.unfilled
    assert store.state("every") == "WAITING"
    assert (unfilled.key, unfilled.generation) == (key("every"), store.generation("every"))
    assert unfilled.progress.times_triggered == 8
    assert unfilled.progress.previous_fire_time == at(7)
    store.refill(node, took.unfilled)
    assert store.upcoming("every") == [at(n) for n in range(9, 18)]
    [fired] = store.acquire(node).fired
    assert (fired.scheduled_fire_time, fired.next_fire_time, fired.times_triggered) == (at(8), at(9), 9)


def test_a_last_fire_leaves_the_trigger_complete(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(10, times=2))
    assert store.fire_one(node).next_fire_time == at(10)
    store.clock.advance(10 * SECOND)
    fired = store.fire_one(node)
    assert fired.next_fire_time is None
    assert store.state("every") == "COMPLETE"
    assert store.progress("every").next_fire_time is None
    store.clock.advance(HOUR)
    assert not store.fire_due(node)


def test_cron_triggers_move_on_by_themselves_too(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), CronTrigger("0 0/5 * ? * *", "cron", start_time=START, time_zone="Europe/Berlin"))
    fired = store.fire_one(node)
    assert (fired.scheduled_fire_time, fired.next_fire_time) == (START, at(300))
    assert fired.trigger.next_after(START) == at(300)


def test_a_concurrent_job_executes_as_often_as_it_fires(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(), every(1), once("other"))
    assert len(store.acquire(a).fired) == 2
    store.clock.advance(SECOND)
    assert len(store.acquire(b).fired) == 1
    assert len(store.running()) == 3


@pytest.mark.parametrize("state", ["paused", "complete"])
def test_only_waiting_triggers_are_taken(store: Harness, state: str) -> None:
    node = store.node()
    store.schedule(job(), once())
    if state == "paused":
        store.store.pause(NamedTriggers([key("once")]))
    else:
        store.fire_one(node)
    took = store.acquire(node, look_ahead=HOUR)
    assert (took.fired, took.next_due) == ((), None)


def test_a_dead_epoch_takes_nothing(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(), once())
    store.recover(b, a)
    with pytest.raises(LeaseLostError):
        store.acquire(a)
    assert store.state("once") == "WAITING"
    assert not store.running()


def test_a_node_that_never_registered_takes_nothing(store: Harness) -> None:
    from quartzpy.store.protocol import Node

    store.schedule(job(), once())
    with pytest.raises(LeaseLostError):
        store.acquire(Node("a", 999))
    assert store.state("once") == "WAITING"
