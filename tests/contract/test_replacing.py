"""Replacing jobs and triggers."""

from __future__ import annotations

import pytest

from quartzpy.errors import CalendarNotFoundError, ObjectAlreadyExistsError
from quartzpy.matchers import GroupMatcher
from quartzpy.store.protocol import DispatchKey, TriggerGroups
from quartzpy.store.queries import TriggerQuery
from tests.contract.harness import (
    SECOND,
    Harness,
    at,
    every,
    job,
    job_key,
    key,
    once,
    serial,
    stored_job,
    stored_trigger,
)


def test_replacing_a_job_keeps_its_triggers(store: Harness) -> None:
    store.schedule(job(), once("kept", at(100)), once("changed", at(100)))
    kept, changed = store.generation("kept"), store.generation("changed")
    store.schedule(job(data={"n": 2}), once("changed", at(50)), replace=True)
    assert store.job_data(job_key()) == {"n": 2}
    assert store.states("kept", "changed") == ["WAITING", "WAITING"]
    assert store.generation("kept") == kept
    assert store.generation("changed") > changed
    assert store.progress("changed").next_fire_time == at(50)


def test_replacing_a_trigger_restarts_it(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(10))
    store.complete(node, store.fire_one(node))
    store.add_triggers(job_key(), every(30, start=at(5), priority=9), replace=True)
    record = stored_trigger(store.store, key("every"))
    assert record is not None
    assert record.trigger == store.prepare(every(30, start=at(5), priority=9), job_key()).trigger
    assert (record.progress.times_triggered, record.progress.previous_fire_time) == (0, None)
    assert record.progress.next_fire_time == at(5)
    assert next(iter(record.upcoming)) == at(35)


def test_replacing_what_does_not_exist_stores_it(store: Harness) -> None:
    store.schedule(job(), once(), replace=True)
    assert store.state("once") == "WAITING"


def test_a_replaced_job_type_decides_which_nodes_claim_its_triggers(store: Harness) -> None:
    node = store.node()
    store.schedule(job(job_type="old"), once())
    store.schedule(job(job_type="report"), replace=True)
    assert store.store.waiting_dispatch_keys() == {DispatchKey("report")}
    assert not store.fire_due(node, types=["old"])
    assert store.fire_one(node).job_type == "report"


def test_a_job_that_becomes_serial_is_serial_from_its_next_fire_on(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(1))
    store.fire_one(node)
    store.schedule(serial(), replace=True)
    store.clock.advance(SECOND)
    assert store.fire_one(node).job_detail.disallow_concurrent
    store.clock.advance(SECOND)
    assert not store.fire_due(node)


def test_a_trigger_can_be_moved_to_another_job(store: Harness) -> None:
    store.schedule(job("one", durable=True), once())
    store.schedule(job("two", durable=True))
    store.add_triggers(job_key("two"), once(when=at(9)), replace=True)
    assert not store.store.find(TriggerQuery(job_key=job_key("one")), None)
    assert [record.trigger.key for record in store.store.find(TriggerQuery(job_key=job_key("two")), None)] == [
        key("once")
    ]


def test_a_trigger_replaces_another_one(store: Harness) -> None:
    store.schedule(job(), once("old"), once("kept", at(100)))
    new = store.prepare(every(10, "new", start=at(5)), job_key())
    assert store.store.replace_trigger(key("old"), new) == at(5)
    assert store.states("old", "new", "kept") == ["gone", "WAITING", "WAITING"]


def test_a_trigger_replaces_itself(store: Harness) -> None:
    store.schedule(job(), once())
    old = store.generation("once")
    store.store.replace_trigger(key("once"), store.prepare(once(when=at(5)), job_key()))
    assert store.generation("once") > old
    assert store.progress("once").next_fire_time == at(5)
    assert stored_job(store.store, job_key()) is not None


def test_a_trigger_that_is_not_stored_cannot_be_replaced(store: Harness) -> None:
    store.schedule(job(durable=True))
    before = store.everything()
    assert store.store.replace_trigger(key("absent"), store.prepare(once(), job_key())) is None
    assert store.everything() == before


def test_a_replacement_with_the_key_of_a_third_trigger_is_refused(store: Harness) -> None:
    store.schedule(job(), once("old"), once("third"))
    before = store.everything()
    with pytest.raises(ObjectAlreadyExistsError):
        store.store.replace_trigger(key("old"), store.prepare(once("third", at(9)), job_key()))
    assert store.everything() == before


def test_a_replacement_with_an_absent_calendar_is_refused(store: Harness) -> None:
    store.schedule(job(), once("old"))
    before = store.everything()
    with pytest.raises(CalendarNotFoundError):
        store.store.replace_trigger(key("old"), store.prepare(once("new", calendar="absent"), job_key()))
    assert store.everything() == before


def test_a_replacement_is_paused_where_its_group_is(store: Harness) -> None:
    store.schedule(job(), once())
    store.store.pause(TriggerGroups(GroupMatcher.equals("DEFAULT")))
    store.store.replace_trigger(key("once"), store.prepare(once(when=at(5)), job_key()))
    assert store.state("once") == "PAUSED"
