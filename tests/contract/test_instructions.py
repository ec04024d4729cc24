"""Tests of completion instructions, by which an execution ends, deletes or fails triggers of its job."""

from __future__ import annotations

import pytest

from quartzpy.scheduler.singles import reset_from_error
from quartzpy.states import CompletionInstruction, Outcome
from quartzpy.store.protocol import NamedTriggers
from quartzpy.store.protocol.outcomes import NOT_FAILED
from tests.contract.harness import (
    HOUR,
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

TRIGGER_COMPLETE = CompletionInstruction.SET_TRIGGER_COMPLETE
DELETE = CompletionInstruction.DELETE_TRIGGER
TRIGGER_ERROR = CompletionInstruction.SET_TRIGGER_ERROR
ALL_COMPLETE = CompletionInstruction.SET_ALL_JOB_TRIGGERS_COMPLETE
ALL_ERROR = CompletionInstruction.SET_ALL_JOB_TRIGGERS_ERROR


def test_a_job_can_end_the_trigger_that_fired_it(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(10), once("other", at(100)))
    store.complete_asking(node, store.fire_one(node), TRIGGER_COMPLETE)
    assert store.states("every", "other") == ["COMPLETE", "WAITING"]
    assert store.progress("every").next_fire_time == at(10), "as it was"


def test_a_job_that_ends_its_only_trigger_stays_with_it(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(10))
    store.complete_asking(node, store.fire_one(node), TRIGGER_COMPLETE)
    assert not store.store.recover(node, []).changed_anything
    assert store.state("every") == "COMPLETE"
    assert stored_job(store.store, job_key()) is not None
    store.clock.advance(HOUR)
    assert not store.fire_due(node)
    assert not store.misfire(node).misfired
    store.store.delete_triggers([key("every")])
    assert stored_job(store.store, job_key()) is None


def test_a_job_can_end_its_trigger_at_its_last_fire(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once())
    store.complete_asking(node, store.fire_one(node), TRIGGER_COMPLETE)
    assert store.state("once") == "COMPLETE"


def test_a_serial_job_can_end_the_trigger_that_fired_it(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), every(10), once("other", at(5)))
    fired = store.fire_one(node)
    assert not store.fire_due(node, look_ahead=HOUR), "a store may block them only when a step meets them"
    store.complete_asking(node, fired, TRIGGER_COMPLETE)
    assert store.states("every", "other") == ["COMPLETE", "WAITING"]


def test_a_job_can_end_all_its_triggers(store: Harness) -> None:
    node = store.node()
    store.schedule(job(durable=True), every(10), once("waiting", at(100)), once("paused", at(100)))
    store.schedule(job("unrelated"), once("unrelated", at(100)))
    store.store.pause(NamedTriggers([key("paused")]))
    store.complete_asking(node, store.fire_one(node), ALL_COMPLETE)
    assert store.states("every", "waiting", "paused", "unrelated") == ["COMPLETE", "COMPLETE", "COMPLETE", "WAITING"]


def test_a_job_that_cannot_be_made_puts_all_its_triggers_into_error(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), every(10), once("waiting", at(100)), once("paused", at(100)))
    store.schedule(job("unrelated"), once("unrelated", at(100)))
    store.store.pause(NamedTriggers([key("paused")]))
    store.complete(node, store.fire_one(node), instruction=ALL_ERROR, error="no such luck")
    assert store.states("every", "waiting", "paused", "unrelated") == ["ERROR", "ERROR", "ERROR", "WAITING"]
    record = stored_trigger(store.store, key("waiting"))
    assert record is not None
    assert record.error == "no such luck"
    store.clock.advance(HOUR)
    assert [one.trigger_name for one in store.fire_due(node, threshold=2 * HOUR)] == ["unrelated"]
    assert not store.misfire(node).misfired
    assert reset_from_error(store.store, key("every")) == at(10)
    assert store.states("every", "waiting") == ["WAITING", "ERROR"]


def test_a_trigger_whose_last_fire_failed_so_is_complete_when_it_is_reset(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once())
    store.complete(node, store.fire_one(node), instruction=ALL_ERROR, error="no such luck")
    assert store.state("once") == "ERROR"
    assert reset_from_error(store.store, key("once")) is None
    assert store.state("once") == "COMPLETE"


def test_a_job_can_delete_the_trigger_that_fired(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), every(10), once("other", at(5)))
    fired = store.fire_one(node)
    assert not store.fire_due(node, look_ahead=HOUR), "a store may block them only when a step meets them"
    store.complete_asking(node, fired, DELETE)
    assert store.states("every", "other") == ["gone", "WAITING"]
    assert stored_job(store.store, job_key()) is not None
    assert not store.store.list_running()


@pytest.mark.parametrize("durable", [True, False])
def test_deleting_the_last_trigger_removes_a_job_that_is_not_durable(store: Harness, durable: bool) -> None:
    node = store.node()
    store.schedule(job(durable=durable), every(10))
    store.complete_asking(node, store.fire_one(node), DELETE)
    assert store.state("every") == "gone"
    assert (stored_job(store.store, job_key()) is not None) is durable


def test_a_trigger_can_be_deleted_at_its_last_fire(store: Harness) -> None:
    node = store.node()
    store.schedule(job(durable=True), once())
    store.complete_asking(node, store.fire_one(node), DELETE)
    assert store.state("once") == "gone"


def test_an_execution_continues_when_another_one_deletes_its_trigger(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(10))
    first = store.fire_one(node)
    store.clock.advance(10 * SECOND)
    second = store.fire_one(node)
    store.complete_asking(node, first, DELETE)
    assert [row.fire_id for row in store.running()] == [second.fire_id]
    assert not store.complete_asking(node, second, DELETE).fenced
    assert [record.outcome for record in store.history()] == [Outcome.SUCCEEDED] * 2


def test_a_job_can_put_the_trigger_that_fired_into_error(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), every(10), once("other", at(100)))
    store.complete(node, store.fire_one(node), instruction=TRIGGER_ERROR, error="no such luck")
    assert store.states("every", "other") == ["ERROR", "WAITING"]
    record = stored_trigger(store.store, key("every"))
    assert record is not None
    assert record.error == "no such luck"
    assert reset_from_error(store.store, key("every")) == at(10)
    assert store.state("every") == "WAITING"


def test_a_trigger_in_error_has_a_reason_if_no_execution_failed(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(10))
    store.complete_asking(node, store.fire_one(node), TRIGGER_ERROR)
    record = stored_trigger(store.store, key("every"))
    assert record is not None
    assert record.error == NOT_FAILED
