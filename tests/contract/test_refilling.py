"""Refilling the stored fire times of a trigger when an execution is completed."""

from __future__ import annotations

from quartzpy.store.protocol import FiredTrigger
from quartzpy.triggers.upcoming import UpcomingFireTimes, refill
from tests.contract.harness import (
    SECOND,
    Harness,
    at,
    every,
    job,
    job_key,
)


def refill_of(fired: FiredTrigger) -> UpcomingFireTimes | None:
    assert fired.next_fire_time is not None
    return refill(fired.trigger, fired.next_fire_time, fired.upcoming, fired.times_triggered, None)


def test_the_stored_instants_are_topped_up(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(10))
    for _ in range(6):
        fired = store.fire_one(node)
        more = refill_of(fired)
        store.complete(node, fired, refill=more)
        store.clock.advance(10 * SECOND)
    assert more is not None
    assert store.upcoming("every") == [at(10 * n) for n in range(7, 19)]


def test_a_fire_tells_the_stored_instants_when_few_are_left(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(10))
    told = []
    for _ in range(8):
        fired = store.fire_one(node)
        told.append(fired.upcoming)
        store.complete(node, fired)
        store.clock.advance(10 * SECOND)
    assert told[:5] == [None] * 5
    assert told[5:] == [UpcomingFireTimes(tuple(at(10 * n) for n in range(m, 9))) for m in (7, 8, 9)]
    assert fired.last_known_fire_time == at(80)


def test_a_trigger_that_is_topped_up_is_never_unfilled(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(1, times=40))
    for n in range(40):
        took = store.acquire(node)
        assert not took.unfilled
        [fired] = took.fired
        assert fired.scheduled_fire_time == at(n)
        more = None if fired.next_fire_time is None else refill_of(fired)
        store.complete(node, fired, refill=more)
        store.clock.advance(SECOND)
    assert store.state("every") == "gone"


def test_instants_are_appended_while_the_trigger_fires_on(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(1))
    for _ in range(6):
        fired = store.fire_one(node)
        store.clock.advance(SECOND)
    store.fire_one(node)  # it went on while the other was running
    store.complete(node, fired, refill=refill_of(fired))
    assert store.progress("every").next_fire_time == at(7)
    assert store.upcoming("every") == [at(n) for n in range(8, 19)]


def test_instants_are_never_appended_twice(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(1))
    both = []
    for _ in range(7):
        both.append(store.fire_one(node))
        store.clock.advance(SECOND)
    older, newer = both[-2:]
    store.complete(node, older, refill=refill_of(older))
    before = store.upcoming("every")
    store.complete(node, newer, refill=refill_of(newer))
    assert store.upcoming("every") == before == sorted(set(before))


def test_instants_are_appended_only_to_the_generation_they_were_computed_from(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(10))
    for _ in range(6):
        fired = store.fire_one(node)
        store.clock.advance(10 * SECOND)
    more = refill_of(fired)
    store.add_triggers(job_key(), every(3, start=at(1000)), replace=True)
    before = store.upcoming("every")
    store.complete(node, fired, refill=more)
    assert store.upcoming("every") == before


def test_fire_times_that_reach_the_end_of_the_schedule_are_marked_complete(store: Harness) -> None:
    node = store.node()
    store.schedule_exhausted(job(), every(10, times=3))
    [fired] = store.fire_due(node)
    assert fired.upcoming == UpcomingFireTimes((at(20),), is_complete=True)
    store.complete(node, fired)
    for _ in range(2):
        store.clock.advance(10 * SECOND)
        [fired] = store.acquire(node).fired
    assert fired.next_fire_time is None
