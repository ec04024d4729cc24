"""Tests of retries: a failed execution runs again by a stored trigger, whose fire is the next attempt."""

from __future__ import annotations

from datetime import timedelta

import pytest

from quartzpy.keys import RETRYING_JOBS, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.states import Outcome
from quartzpy.store.protocol import EVERYTHING, CompletionOutcome, FiredTrigger, Node, TriggerGroups
from tests.contract.harness import Harness, at, every, job, job_key, once, serial, stored_job, stored_trigger

DELAY = timedelta(seconds=30)
RETRIES = GroupMatcher.equals(RETRYING_JOBS)


def fail(store: Harness, node: Node, fired: FiredTrigger, after: timedelta = DELAY) -> CompletionOutcome:
    return store.complete(node, fired, outcome=Outcome.FAILED, error="wrong", retry_after=after)


def test_the_next_attempt_fires_after_its_delay(store: Harness) -> None:
    node = store.node()
    store.schedule(job(data={"job": 1}), every(3600, data={"y": 2}))
    first = store.fire_one(node)
    outcome = fail(store, node, first)
    assert first.attempt == 1
    assert outcome.earliest_unblocked == at(30)
    [retry] = store.store.keys(TriggerKey, RETRIES)
    record = stored_trigger(store.store, retry)
    assert record is not None
    assert record.progress.next_fire_time == at(30)
    assert not store.fire_due(node)
    store.clock.advance(DELAY)
    second = store.fire_one(node)
    assert (second.attempt, second.job_key, second.trigger_key) == (2, job_key(), retry)
    assert dict(second.trigger.data or {}) == {
        "y": 2,
        "QRTZ_RETRIED_TRIGGER_NAME": "every",
        "QRTZ_RETRIED_TRIGGER_GROUP": "DEFAULT",
        "QRTZ_RETRIED_SCHEDULED_FIRETIME_IN_MILLISECONDS_AS_STRING": str(int(at(0).timestamp() * 1000)),
    }
    store.complete(node, second)
    assert not store.store.keys(TriggerKey, RETRIES)
    assert [(e.attempt, e.outcome) for e in reversed(store.history())] == [(1, "FAILED"), (2, "SUCCEEDED")]


def test_each_attempt_remembers_the_first_trigger(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(3600))
    for attempt in (1, 2, 3):
        fired = store.fire_one(node)
        assert fired.attempt == attempt
        fail(store, node, fired)
        store.clock.advance(DELAY)
    last = store.fire_one(node)
    assert (last.attempt, (last.trigger.data or {})["QRTZ_RETRIED_TRIGGER_NAME"]) == (4, "every")


def test_a_retry_keeps_its_job_although_the_trigger_has_ended(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once())
    fail(store, node, store.fire_one(node))
    assert store.state("once") == "gone"
    assert stored_job(store.store, job_key()) is not None
    store.clock.advance(DELAY)
    store.complete(node, store.fire_one(node))
    assert stored_job(store.store, job_key()) is None


def test_an_attempt_outlives_the_node_that_failed(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(), once())
    fail(store, a, store.fire_one(a))
    store.recover(b, a)
    store.clock.advance(DELAY)
    assert store.fire_one(b).attempt == 2


def test_a_recovered_attempt_is_the_same_attempt(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(requests_recovery=True), once())
    fail(store, a, store.fire_one(a))
    store.clock.advance(DELAY)
    assert store.fire_one(a).attempt == 2
    store.recover(b, a)
    again = store.fire_one(b)
    assert (again.trigger_group, again.attempt) == ("RECOVERING_JOBS", 2)


def test_a_serial_job_may_run_others_between_its_attempts(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), once("first"), once("second", at(1)))
    fail(store, node, store.fire_one(node))
    store.clock.advance(DELAY)
    assert store.fire_one(node).trigger_name == "second"
    assert [stored_trigger(store.store, key).state for key in store.store.keys(TriggerKey, RETRIES)] == ["BLOCKED"]  # type: ignore[union-attr]


def test_a_job_that_was_deleted_is_not_tried_again(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once())
    fired = store.fire_one(node)
    store.store.delete_jobs([job_key()])
    fail(store, node, fired)
    assert not store.store.keys(TriggerKey, GroupMatcher.anything())


def test_what_a_fenced_node_says_is_not_tried_again(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(durable=True), once())
    fired = store.fire_one(a)
    store.recover(b, a)
    assert fired.fire_id in fail(store, a, fired).fenced
    assert not store.store.keys(TriggerKey, RETRIES)


def test_recording_twice_stores_one_retry(store: Harness) -> None:
    node = store.node()
    store.schedule(job(durable=True), once())
    fired = store.fire_one(node)
    fail(store, node, fired)
    store.clock.advance(DELAY)
    store.complete(node, store.fire_one(node))
    assert not fail(store, node, fired).fenced
    assert not store.store.keys(TriggerKey, RETRIES)


@pytest.mark.parametrize("paused", ["all", "group"])
def test_a_retry_in_a_paused_group_waits_until_it_is_resumed(store: Harness, paused: str) -> None:
    node = store.node()
    store.schedule(job(), once())
    fired = store.fire_one(node)
    if paused == "all":
        store.store.pause(EVERYTHING)
    else:
        store.store.pause(TriggerGroups(RETRIES))
    fail(store, node, fired)
    store.clock.advance(DELAY)
    assert not store.fire_due(node)
    store.store.resume(EVERYTHING)
    assert store.fire_one(node).attempt == 2


# --- asking an execution to stop


def test_an_execution_can_be_asked_to_stop_from_anywhere(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(), once("one", priority=6), once("two"))
    [one, two] = store.fire_due(b)
    assert not store.store.cancel_requests(b)
    assert store.store.request_cancel(one.fire_id)
    assert store.store.cancel_requests(b) == {one.fire_id}
    assert not store.store.cancel_requests(a)
    assert [row.cancel_requested for row in store.running()] == [True, False]
    store.complete(b, one, outcome=Outcome.CANCELLED)
    assert not store.store.cancel_requests(b)
    assert not store.store.request_cancel(one.fire_id), "it has ended"
    assert store.store.request_cancel(two.fire_id)


def test_a_snoozed_execution_runs_again_as_the_same_attempt(store: Harness) -> None:
    node = store.node()
    store.schedule(job(durable=True), once(data={"a": 1}))
    first = store.fire_one(node)
    store.complete(node, first, outcome=Outcome.SNOOZED, error="not yet", retry_after=timedelta(seconds=10))
    [record] = store.history()
    assert (record.state, record.error, record.retry_at) == ("SNOOZED", "not yet", at(10))
    assert not record.exhausted
    assert store.fire_due(node) == []
    store.clock.set(at(10))
    again = store.fire_one(node)
    assert (again.attempt, again.job_key) == (1, first.job_key)
    # The attempt after one that failed counts on from there.
    store.complete(node, again, outcome=Outcome.FAILED, retry_after=timedelta())
    assert store.fire_one(node).attempt == 2


@pytest.mark.parametrize("batch", [1, 2])
def test_a_failure_that_is_retried_stores_its_data(store: Harness, batch: int) -> None:
    node = store.node()
    store.schedule(job(durable=True, persist_data=True), *[once(f"t{n}") for n in range(batch)])
    outcome = store.complete(
        node, *store.fire_due(node), outcome=Outcome.FAILED, retry_after=DELAY, job_data='{"n": 1}'
    )
    assert not outcome.deferred
    assert store.job_data(job_key()) == {"n": 1}
