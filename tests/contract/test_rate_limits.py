"""Tests of rate limits, which the store decides for the whole cluster: `rate_limit`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from quartzpy.jobs.continuation import Continuation
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.jobs.shared_limit import Limit
from quartzpy.states import HeldBy, Outcome, TriggerState
from quartzpy.store.protocol import FiredTrigger, NamedTriggers, Node
from tests.contract.harness import (
    HOUR,
    MINUTE,
    REPORT,
    SECOND,
    START,
    WINDOW,
    Harness,
    at,
    every,
    job,
    job_key,
    names,
    once,
    stored_job,
)
from tests.run_by import Slots

TEN_A_MINUTE = RateLimit(10, per="1m")
"""One fire every six seconds."""


def limited(limit: RateLimit | str = TEN_A_MINUTE, **values: Any) -> JobDetail:
    return job(rate_limit=limit, durable=True, **values)


def several(count: int, **values: Any) -> list[Any]:
    """Return triggers of the same instant, of which the first has the highest priority."""
    return [once(f"t{n}", priority=100 - n, **values) for n in range(count)]


def fire_until(store: Harness, nodes: Sequence[Node], end: datetime) -> list[tuple[datetime, str]]:
    """Let nodes fire at each instant at which the store says that something is due; return what fired when."""
    fired: list[tuple[datetime, str]] = []
    while store.clock.now() <= end:
        wakes = [fire_all_due(store, node, fired) for node in nodes]
        soonest = min((wake for wake in wakes if wake is not None), default=None)
        if soonest is None:
            break
        store.clock.set(soonest)
    return fired


def fire_all_due(store: Harness, node: Node, fired: list[tuple[datetime, str]]) -> datetime | None:
    """Let a node fire until nothing is due; return when something will be."""
    for _ in range(50):
        took = store.acquire(node)
        store.refill(node, took.unfilled)
        ran = took.fired
        fired += [(store.clock.now(), one.trigger_name) for one in ran]
        store.complete(node, *ran)
        if not ran and not took.unfilled and (took.next_due is None or took.next_due > store.clock.now()):
            return took.next_due
    raise AssertionError("the store says again and again that something is due, but fires nothing")


def test_fires_above_the_limit_wait_for_their_turn_and_none_is_lost(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(limited(), *several(5))
    assert names(store.fire_due(a)) == ["t0"]
    assert not store.fire_due(b)
    assert store.states("t1", "t4") == ["BLOCKED", "BLOCKED"]
    fired = fire_until(store, [b, a], at(60))
    assert fired == [(at(6 * n), f"t{n}") for n in range(1, 5)]
    assert all(record.outcome is Outcome.SUCCEEDED for record in store.history())


def test_a_burst_starts_at_once_after_a_quiet_time_and_no_window_has_more_than_the_limit_allows(store: Harness) -> None:
    node = store.node()
    store.schedule(limited(RateLimit(10, per="1m", burst=4)), *several(7))
    assert names(store.fire_due(node)) == ["t0", "t1", "t2", "t3"]
    assert fire_until(store, [node], at(60)) == [(at(6 * n), f"t{3 + n}") for n in range(1, 4)]
    # After a quiet time, the whole burst is available again, and no more.
    store.clock.set(at(600))
    store.add_triggers(job_key(), *[once(f"u{n}", at(600), priority=9 - n) for n in range(6)])
    assert names(store.fire_due(node)) == ["u0", "u1", "u2", "u3"]


def test_the_next_due_instant_is_that_of_the_next_turn(store: Harness) -> None:
    node = store.node()
    store.schedule(limited(), *several(3))
    assert store.acquire(node).next_due == at(6)
    assert store.acquire(node).next_due == at(6)


def test_triggers_of_other_jobs_do_not_wait(store: Harness) -> None:
    node = store.node()
    store.schedule(limited(), *several(3))
    store.schedule(job("free"), once("x"), once("y"))
    assert sorted(fire_until(store, [node], at(0))) == [(at(0), "t0"), (at(0), "x"), (at(0), "y")]


def test_the_limit_holds_for_each_value_of_the_concurrency_key_by_itself(store: Harness) -> None:
    node = store.node()
    triggers = [once(f"{who}{n}", data={"customer": who}, priority=9 - n) for n in range(2) for who in "xy"]
    store.schedule(limited(concurrency_key="customer"), *triggers)
    assert sorted(names(store.fire_due(node))) == ["x0", "y0"]
    assert len(store.running()) == 2
    assert sorted(fire_until(store, [node], at(30))) == [(at(6), "x1"), (at(6), "y1")]


def test_a_concurrency_limit_holds_besides(store: Harness) -> None:
    node = store.node()
    store.schedule(limited(RateLimit(10, per="1m", burst=3), max_concurrent=1), *several(3))
    fired = store.fire_one(node)
    assert store.states("t1", "t2") == ["BLOCKED", "BLOCKED"]
    store.complete(node, fired)
    # Those that the other limit held back have used up nothing of this one.
    assert store.fire_one(node).trigger_name == "t1"


def test_a_fire_that_is_skipped_at_the_concurrency_limit_uses_nothing_up(store: Harness) -> None:
    node = store.node()
    store.schedule(limited(RateLimit(10, per="1m", burst=3), max_concurrent=1, overlap_policy="skip"), *several(3))
    took = store.acquire(node)
    assert (names(took.fired), len(took.skipped)) == (["t0"], 2)
    store.complete(node, *took.fired)
    store.add_triggers(job_key(), once("u0", priority=9))
    again = store.fire_one(node)
    store.complete(node, again)
    store.add_triggers(job_key(), once("u1"))
    assert store.fire_one(node).trigger_name == "u1"


def test_what_a_node_has_no_slots_for_uses_nothing_up(store: Harness) -> None:
    node = store.node()
    store.schedule(limited(RateLimit(10, per="1m", burst=4)), *several(4))
    assert names(store.fire_due(node, limit=1)) == ["t0"]
    assert names(store.fire_due(node, types=[Slots(REPORT, workers=1)])) == ["t1"]
    assert names(store.fire_due(node)) == ["t2", "t3"]


def test_the_limit_holds_a_fire_back_beyond_the_misfire_threshold(store: Harness) -> None:
    node = store.node()
    store.schedule(limited("1/hour"), *several(3))
    fired: list[tuple[datetime, str]] = []
    for minute in range(0, 150, 10):
        store.clock.set(START + minute * MINUTE)
        assert not store.misfire(node).misfired
        ran = store.fire_due(node)
        fired += [(store.clock.now(), one.trigger_name) for one in ran]
        store.complete(node, *ran)
    assert fired == [(START + n * HOUR, f"t{n}") for n in range(3)]


def test_a_schedule_that_is_faster_than_its_limit_skips_nothing(store: Harness) -> None:
    node = store.node()
    store.schedule(limited("1/minute"), every(20, times=4))
    times = [instant for instant, _ in fire_until(store, [node], at(600))]
    assert times == [at(0), at(60), at(120), at(180)]
    assert sorted(record.scheduled_fire_time for record in store.history()) == [at(0), at(20), at(40), at(60)]


def test_a_fire_that_is_late_although_the_limit_would_have_admitted_it_is_a_misfire(store: Harness) -> None:
    node = store.node()
    store.schedule(
        limited(), every(3600, "hourly", misfire="reschedule_next_with_remaining_count"), once("later", at(3000))
    )
    store.clock.set(at(100))
    assert not store.fire_due(node)
    assert list(store.misfire(node).misfired) == [every(1, "hourly").key]
    assert store.progress("hourly").next_fire_time == at(3600)
    assert fire_until(store, [node], at(3700)) == [(at(3000), "later"), (at(3600), "hourly")]


def test_what_a_misfire_instruction_fires_now_obeys_the_limit(store: Harness) -> None:
    node = store.node()
    store.schedule(limited(), *several(3))
    store.clock.set(at(600))
    assert not store.fire_due(node)
    assert len(store.misfire(node).misfired) == 3
    fired = fire_until(store, [node], at(700))
    assert [instant for instant, _ in fired] == [at(600), at(606), at(612)]


def test_missed_fires_that_are_made_up_obey_the_limit(store: Harness) -> None:
    node = store.node()
    store.schedule(limited(), every(60, "often", misfire="fire_all", catch_up_max=3))
    store.clock.set(at(610))
    assert not store.fire_due(node)
    assert store.misfire(node).misfired
    fired = fire_until(store, [node], at(640))
    assert [instant for instant, _ in fired] == [at(610), at(616), at(622)]


def test_a_trigger_that_ignores_misfires_never_misfires_under_a_limit(store: Harness) -> None:
    node = store.node()
    store.schedule(limited(), *several(2, misfire="ignore"))
    store.clock.set(START + 10 * HOUR)
    assert names(store.fire_due(node)) == ["t0"]
    assert not store.misfire(node).misfired


def test_a_retry_counts_as_a_fire(store: Harness) -> None:
    node = store.node()
    store.schedule(limited(), *several(2))
    first = store.fire_one(node)
    store.complete(node, first, outcome=Outcome.FAILED, retry_after=SECOND)
    store.clock.set(at(1))
    assert not store.fire_due(node)
    fired = fire_until(store, [node], at(60))
    assert [instant for instant, _ in fired] == [at(6), at(12)]


def test_a_continuation_counts_as_a_fire(store: Harness) -> None:
    node = store.node()
    store.schedule(limited(), once("t0"))
    store.schedule(job("before", continuations=[Continuation("job")]), once("b"))
    ran = {one.trigger_name: one for _ in range(2) for one in store.fire_due(node)}
    store.complete(node, ran["b"])
    assert not store.fire_due(node)
    assert [instant for instant, _ in fire_until(store, [node], at(60))] == [at(6)]


def test_an_execution_that_is_recovered_counts_as_a_fire(store: Harness) -> None:
    dead, node = store.node("dead"), store.node("b")
    store.schedule(limited("1/minute", requests_recovery=True), once("t0"))
    store.fire_one(dead)
    store.clock.set(at(30))
    assert store.recover(node, dead).recovered == 1
    assert not store.fire_due(node)
    assert [instant for instant, _ in fire_until(store, [node], at(90))] == [at(60)]


def test_a_deleted_trigger_leaves_its_turn_to_others(store: Harness) -> None:
    node = store.node()
    store.schedule(limited(), *several(3))
    store.fire_one(node)
    store.store.delete_triggers([once("t1").key])
    assert [name for _, name in fire_until(store, [node], at(60))] == ["t2"]


def test_the_limit_outlives_its_job(store: Harness) -> None:
    node = store.node()
    store.schedule(limited(), once("t0"))
    store.complete(node, store.fire_one(node))
    store.store.delete_jobs([job_key()])
    store.schedule(limited(), once("again"))
    assert not store.fire_due(node)
    assert [instant for instant, _ in fire_until(store, [node], at(30))] == [at(6)]


@pytest.mark.parametrize("limit", [RateLimit(60, per="1m"), None], ids=str)
def test_a_limit_that_is_raised_or_removed_takes_effect_at_once(store: Harness, limit: RateLimit | None) -> None:
    node = store.node()
    store.schedule(limited("1/day"), *several(4))
    store.complete(node, store.fire_one(node))
    assert not store.fire_due(node)
    store.clock.set(at(30))
    store.schedule(job(rate_limit=limit, durable=True), replace=True)
    fired = [instant for instant, _ in fire_until(store, [node], at(60))]
    assert fired == ([at(30)] * 3 if limit is None else [at(31), at(32), at(33)])


def test_a_limit_that_is_added_holds_for_stored_triggers(store: Harness) -> None:
    node = store.node()
    store.schedule(job(durable=True), *several(3))
    store.schedule(limited(), replace=True)
    assert [instant for instant, _ in fire_until(store, [node], at(60))] == [at(0), at(6), at(12)]


def test_a_trigger_that_is_stored_again_keeps_its_turn(store: Harness) -> None:
    node = store.node()
    store.schedule(limited(), *several(3))
    store.fire_one(node)
    store.schedule(limited(), *several(3)[1:], replace=True)
    assert not store.fire_due(node)
    assert fire_until(store, [node], at(60)) == [(at(6), "t1"), (at(12), "t2")]


def test_a_trigger_that_is_replaced_has_the_turn_of_its_new_fire_time(store: Harness) -> None:
    node = store.node()
    store.schedule(limited(), *several(4))
    store.fire_one(node)
    store.add_triggers(job_key(), once("t1", at(5), priority=1), replace=True)
    assert fire_until(store, [node], at(60)) == [(at(6), "t2"), (at(12), "t3"), (at(18), "t1")]


def test_a_trigger_that_is_resumed_asks_the_limit(store: Harness) -> None:
    node = store.node()
    store.schedule(limited(), *several(3))
    store.fire_one(node)
    store.store.pause(NamedTriggers([once("t1").key]))
    assert fire_until(store, [node], at(8)) == [(at(6), "t2")]
    store.clock.set(at(8))
    store.store.resume(NamedTriggers([once("t1").key]))
    assert not store.fire_due(node)
    assert fire_until(store, [node], at(30)) == [(at(12), "t1")]


def test_a_lost_epoch_admits_nothing(store: Harness) -> None:
    node, other = store.node("a"), store.node("b")
    store.schedule(limited(), *several(2))
    store.clock.advance(2 * WINDOW)
    store.recover(other, node)
    with pytest.raises(Exception, match="declared dead"):
        store.acquire(node)
    assert names(store.fire_due(other)) == ["t0"]


def test_a_limit_is_read_as_it_was_stored(store: Harness) -> None:
    node = store.node()
    limit = RateLimit(7, per="90s", burst=2)
    store.schedule(limited(limit, concurrency_key="customer"), once("t0"))
    stored = stored_job(store.store, job_key())
    assert stored is not None
    assert (stored.rate_limit, stored.concurrency_key, stored.max_concurrent) == (limit, "customer", None)
    assert store.fire_one(node).job_detail.rate_limit == limit


def test_the_instant_is_told_at_which_the_limit_admits_the_next_fire(store: Harness) -> None:
    node = store.node()
    store.schedule(limited(), *several(3), once("later", at(1)))
    store.fire_one(node)
    records = store.store.triggers([once(name).key for name in ("t1", "t2", "later")])
    assert [(record.held_by, record.opens_at) for _, record in sorted(records.items())] == [
        (None, None),
        (HeldBy.RATE, at(6)),
        (HeldBy.RATE, at(6)),
    ]
    assert [store.store.ahead(once(name).key) for name in ("t1", "t2", "later", "absent")] == [0, 1, 0, 0]


def test_what_is_parked_names_its_shared_limits_and_how_many_are_before_it(store: Harness) -> None:
    node = store.node()
    store.store.put_limit("erp", Limit(1))
    store.store.put_limit("mail", Limit(rate_limit=RateLimit(10, per="1m")))
    triggers = [once(f"t{n}", priority=9 - n) for n in range(3)]
    store.schedule(job("both", limits=["mail", "erp"], durable=True), *triggers)
    fired = store.fire_one(node)
    records = store.store.triggers([once(f"t{n}").key for n in (1, 2)]).values()
    assert {(record.state, record.held_by, record.shared_limits, record.opens_at) for record in records} == {
        (TriggerState.BLOCKED, HeldBy.SHARED, ("erp", "mail"), at(6))
    }
    assert [store.store.ahead(once(f"t{n}").key) for n in range(3)] == [0, 0, 1]
    limit = store.store.limits()["erp"]
    assert (limit.waiting, limit.used_since) == (2, fired.fire_time)


def conforms(times: Sequence[datetime], limit: RateLimit) -> bool:
    """Return True if no period of the limit has more than `limit + burst - 1` fires."""
    ordered = sorted(times)
    most = limit.limit + limit.burst - 1
    return all(later - earlier >= limit.per for earlier, later in zip(ordered, ordered[most:], strict=False))


@pytest.mark.parametrize("seed", range(4))
def test_no_order_of_steps_exceeds_a_limit_or_loses_a_fire(store: Harness, seed: int) -> None:
    chance = random.Random(seed)
    nodes = [store.node("a"), store.node("b")]
    limit = RateLimit(chance.randint(1, 5), per="10s", burst=1)
    limit = RateLimit(limit.limit, per=limit.per, burst=chance.randint(1, limit.limit))
    store.schedule(limited(limit, concurrency_key="customer"))
    fired: dict[str, list[datetime]] = {"x": [], "y": []}
    ran: list[FiredTrigger] = []
    stored = 0
    for _ in range(60):
        store.clock.advance(timedelta(milliseconds=chance.choice([0, 1, 700, 2500])))
        node = chance.choice(nodes)
        match chance.randint(0, 3):
            case 0:
                data = {"customer": chance.choice("xy")}
                trigger = once(f"t{stored}-{data['customer']}", store.clock.now(), data=data, misfire="ignore")
                store.add_triggers(job_key(), trigger)
                stored += 1
            case 1 if ran:
                store.complete(node, ran.pop())
            case _:
                for one in store.fire_due(node, limit=chance.randint(1, 5)):
                    fired[one.trigger_name[-1]].append(store.clock.now())
                    store.complete(node, one)
    for instant, name in fire_until(store, nodes, store.clock.now() + HOUR):
        fired[name[-1]].append(instant)
    assert sum(map(len, fired.values())) == stored
    assert all(conforms(times, limit) for times in fired.values())


def test_what_the_limit_has_held_back_for_long_fires_with_all_that_it_has_missed_meanwhile(store: Harness) -> None:
    node = store.node()
    store.schedule(limited("1/minute"), every(10, times=8))
    fired = fire_until(store, [node], START + HOUR)
    assert [instant for instant, _ in fired] == [at(60 * n) for n in range(8)]
    assert sorted(record.scheduled_fire_time for record in store.history()) == [at(10 * n) for n in range(8)]
    assert not store.misfire(node).misfired


def test_what_was_held_back_and_waits_for_another_node_is_not_late(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(limited("1/hour", job_type="other"), *several(2))
    assert names(store.fire_due(b, types=["other"])) == ["t0"]
    store.clock.set(START + HOUR)
    # Each node looks for what the limit admits, also one that does not run it.
    assert not store.fire_due(a)
    assert not store.misfire(b, types=["other"]).misfired
    assert names(store.fire_due(b, types=["other"])) == ["t1"]


def test_a_fire_that_is_handed_back_is_charged_again(store: Harness) -> None:
    node = store.node()
    store.schedule(limited(), *several(2))
    fired = store.fire_one(node)
    store.complete(node, fired, outcome=Outcome.SNOOZED, retry_after=timedelta(), is_handed_back=True)
    assert not store.fire_due(node)
    assert [instant for instant, _ in fire_until(store, [node], at(60))] == [at(6), at(12)]


def test_what_skips_at_its_slots_and_waits_for_its_rate_fires_after_an_end(store: Harness) -> None:
    node = store.node()
    how = {"max_concurrent": 1, "overlap_policy": "skip"}
    store.schedule(limited("30/minute", **how), once("t0"))
    store.complete(node, store.fire_one(node))
    store.add_triggers(job_key(), once("t1", at(1)))
    store.clock.set(at(1))
    # The rate holds it back, and no rate skips a fire.
    assert not store.acquire(node).skipped
    store.clock.set(at(2))
    [t1] = store.fire_due(node)
    store.add_triggers(job_key(), once("t2", at(3)))
    store.clock.set(at(3))
    assert len(store.acquire(node).skipped) == 1, "its job is at its limit"
    assert t1.gate is not None, "its end is a look at what the rate has held back"


def test_a_rate_and_a_number_of_executions_hold_together(store: Harness) -> None:
    node = store.node()
    store.schedule(limited("30/minute", max_concurrent=1), *several(3))
    first = store.fire_one(node)
    store.clock.set(at(5))
    assert not store.fire_due(node)
    # The rate has opened while the slot was taken, and the slot opens later than the rate.
    store.complete(node, first)
    second = store.fire_one(node)
    store.complete(node, second)
    # The slot is free, and the rate is not.
    assert not store.fire_due(node)
    assert store.acquire(node).next_due == at(7)
    store.clock.set(at(7))
    assert store.fire_one(node).trigger_name == "t2"
    assert store.acquire(node).next_due is None


def test_a_trigger_that_is_refilled_counts_once(store: Harness) -> None:
    node = store.node()
    store.schedule_exhausted(limited(), every(3600, "hourly"))
    store.add_triggers(job_key(), *several(2))
    assert fire_until(store, [node], at(30)) == [(at(0), "t0"), (at(6), "t1"), (at(12), "hourly")]
