"""Expectations are stored with jobs and triggers, and a resumption leaves its instant."""

from __future__ import annotations

from quartzpy.expect import Expect
from quartzpy.store.protocol import NamedTriggers
from tests.contract.harness import Harness, at, every, job, job_key, key, stored_job, stored_trigger

EXPECT = Expect(starts_within="2m", ends_by="06:00", success=0.9)


def expectation_of(store: Harness, name: str = "every") -> Expect | None:
    record = stored_trigger(store.store, key(name))
    assert record is not None
    return record.trigger.expect


def test_an_expectation_is_stored_and_fired_with_its_job(store: Harness) -> None:
    store.schedule(job(expect=EXPECT), every(10))
    stored = stored_job(store.store, job_key())
    assert stored is not None
    assert stored.expect == EXPECT
    fired = store.fire_one(store.node())
    assert fired.job_detail.expect == EXPECT


def test_another_expectation_of_a_trigger_keeps_its_progress(store: Harness) -> None:
    store.schedule(job(), every(10))
    store.complete(store.node(), store.fire_one(store.node("b")))
    for expect in (EXPECT, Expect(starts_within=5), None):
        store.schedule(job(), every(10, expect=expect), replace=True)
        assert expectation_of(store) == expect
        assert store.progress("every").next_fire_time == at(10)


def test_a_resumption_leaves_its_instant(store: Harness) -> None:
    store.schedule(job(), every(10, start=at(60)))
    store.store.pause(NamedTriggers([key("every")]))
    store.clock.set(at(30))
    store.store.resume(NamedTriggers([key("every")]))
    record = stored_trigger(store.store, key("every"))
    assert record is not None
    assert record.resumed_at == at(30)
