"""Tests of recovery: the executions of dead nodes are ended exactly once, and never by a dead node."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from quartzpy.errors import LeaseLostError
from quartzpy.job_data import decode
from quartzpy.jobs.internal_entries import nominal_fire, recovered_by
from quartzpy.matchers import GroupMatcher
from quartzpy.states import Outcome, TriggerState
from quartzpy.store.protocol import FiredTrigger, Gate, JobGroups, NamedTriggers
from quartzpy.store.queries import TriggerQuery
from tests.contract.harness import (
    HOUR,
    SECOND,
    START,
    Harness,
    at,
    data_of,
    every,
    job,
    job_key,
    key,
    names,
    once,
    serial,
    stored_job,
    stored_trigger,
)

RECOVERING = "RECOVERING_JOBS"
PREFIX = "QRTZ_FAILED_JOB_ORIG_TRIGGER_"
NAME, GROUP = f"{PREFIX}NAME", f"{PREFIX}GROUP"
FIRED = f"{PREFIX}FIRETIME_IN_MILLISECONDS_AS_STRING"
SCHEDULED = f"{PREFIX}SCHEDULED_FIRETIME_IN_MILLISECONDS_AS_STRING"


def milliseconds(seconds: float) -> str:
    return str(int(at(seconds).timestamp() * 1000))


def test_an_execution_that_does_not_request_recovery_is_lost(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(), every(10))
    fired = store.fire_one(a)
    store.clock.advance(5 * SECOND)
    outcome = store.recover(b, a)
    assert (outcome.recovered, outcome.lost) == (0, 1)
    [record] = store.history()
    assert (record.fire_id, record.trigger_key, record.instance_id) == (fired.fire_id, key("every"), "a")
    assert (record.outcome, record.started_at, record.ended_at) == (Outcome.TERMINATED, None, at(5))
    assert record.scheduled_fire_time == START
    assert record.error
    assert not store.fire_due(b)


def test_an_execution_that_requests_recovery_runs_again_exactly_once(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(
        job(requests_recovery=True, data={"region": "eu"}),
        every(1000, group="nightly", start=at(2), priority=8, data={"day": "monday"}),
    )
    store.clock.advance(5 * SECOND)
    dead = store.fire_one(a)
    outcome = store.recover(b, a)
    assert (outcome.recovered, outcome.lost) == (1, 0)
    recovery = key(f"recover_a_{dead.fire_id}", RECOVERING)
    record = stored_trigger(store.store, recovery)
    assert record is not None
    assert (record.state, record.trigger.job_key) == (TriggerState.WAITING, job_key())
    assert (record.trigger.priority, str(record.trigger.misfire)) == (8, "ignore")
    assert record.progress.next_fire_time == at(2)
    store.clock.advance(100 * HOUR)  # however late
    [fired] = store.fire_due(b)
    assert fired.trigger_key == recovery
    assert (fired.scheduled_fire_time, fired.next_fire_time) == (at(2), None)
    assert fired.job_key == job_key()
    assert data_of(fired) == (
        {"region": "eu"},
        {
            "day": "monday",
            NAME: "every",
            GROUP: "nightly",
            FIRED: milliseconds(5),
            SCHEDULED: milliseconds(2),
        },
    )
    assert [row.recovering for row in store.running()] == [True]
    assert not store.fire_due(b, types=["report"], threshold=SECOND)
    store.complete(b, fired)
    assert store.state(recovery.name, RECOVERING) == "gone"
    [record_of_run] = store.history()
    assert (record_of_run.recovering, record_of_run.outcome) == (True, Outcome.SUCCEEDED)


@pytest.mark.parametrize(
    "start",
    [START + timedelta(microseconds=1), START + timedelta(microseconds=999_999), START + timedelta(milliseconds=20)],
)
def test_what_repeats_an_execution_knows_its_instant_to_the_microsecond(store: Harness, start: datetime) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job("recovered", requests_recovery=True), once("recovered", start))
    store.schedule(job("retried"), once("retried", start))
    store.clock.advance(SECOND)
    fires = {fired.trigger_key.name: fired for fired in store.fire_due(a)}
    assert {fired.scheduled_fire_time for fired in fires.values()} == {start}
    store.complete(a, fires["retried"], outcome=Outcome.FAILED, error="wrong", retry_after=SECOND)
    store.recover(b, a)
    store.clock.advance(100 * SECOND)
    again = store.fire_due(b)
    assert len(again) == 2
    for fired in again:
        data = {**(fired.trigger.data or {})}
        _, instant = nominal_fire(fired.trigger_key, fired.scheduled_fire_time, data)
        assert instant == start, fired.trigger_key
        if (lost := recovered_by(fired.trigger_key, data)) is not None:
            assert lost.fire_time == at(1)


def test_a_recovery_whose_node_dies_too_keeps_the_first_originals_keys(store: Harness) -> None:
    a, b, c = store.node("a"), store.node("b"), store.node("c")
    store.schedule(job(requests_recovery=True), once(data={"x": 1}))
    store.clock.advance(SECOND)
    store.fire_one(a)
    store.recover(b, a)
    store.clock.advance(SECOND)
    second = store.fire_one(b)
    store.recover(c, b)
    third = store.fire_one(c)
    assert third.trigger_key == key(f"recover_b_{second.fire_id}", RECOVERING)
    assert data_of(third)[1] == {
        "x": 1,
        NAME: "once",
        GROUP: "DEFAULT",
        FIRED: milliseconds(1),
        SCHEDULED: milliseconds(0),
    }
    assert third.scheduled_fire_time == START


def test_typed_data_survives_a_recovery(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(requests_recovery=True), once(data={"when": START, "names": ["ä", "%"]}))
    store.fire_one(a)
    store.recover(b, a)
    data = decode(store.fire_one(b).trigger_data)
    assert (data["when"], data["names"]) == (START, ["ä", "%"])


def test_a_one_shot_trigger_of_a_dead_node_is_deleted_and_its_recovery_runs(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(requests_recovery=True), once(data={"x": 1}))
    store.fire_one(a)
    assert store.state("once") == "COMPLETE"
    outcome = store.recover(b, a)
    assert (outcome.recovered, outcome.repaired) == (1, 0)
    assert store.state("once") == "gone"
    assert stored_job(store.store, job_key()) is not None
    fired = store.fire_one(b)
    assert data_of(fired)[1]["x"] == 1
    store.complete(b, fired)
    assert stored_job(store.store, job_key()) is None


def test_a_one_shot_trigger_whose_execution_was_lost_is_deleted_with_its_job(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(), once())
    store.fire_one(a)
    outcome = store.recover(b, a)
    assert (outcome.lost, outcome.repaired) == (1, 0)
    assert store.state("once") == "gone"
    assert stored_job(store.store, job_key()) is None


def test_a_complete_trigger_that_another_node_still_executes_stays(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(), every(1, times=2))
    store.fire_one(a)
    store.clock.advance(SECOND)
    last = store.fire_one(b)
    store.recover(b, a)
    assert store.state("every") == "COMPLETE"
    store.complete(b, last)
    assert store.state("every") == "gone"


def test_an_execution_of_a_job_that_is_gone_is_lost_even_if_it_requested_recovery(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(requests_recovery=True), every(10))
    store.fire_one(a)
    store.store.delete_jobs([job_key()])
    outcome = store.recover(b, a)
    assert (outcome.recovered, outcome.lost) == (0, 1)
    assert [record.outcome for record in store.history()] == [Outcome.TERMINATED]
    assert not store.store.find(TriggerQuery(), 10)


def test_blocked_triggers_of_a_dead_nodes_job_are_released(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(serial(), every(10), once("other", at(500)), once("paused", at(500)))
    store.store.pause(NamedTriggers([key("paused")]))
    store.fire_one(a)
    assert store.states("every", "other", "paused") == ["BLOCKED", "BLOCKED", "PAUSED_BLOCKED"]
    assert store.recover(b, a).repaired == 0
    assert store.states("every", "other", "paused") == ["WAITING", "WAITING", "PAUSED"]


def test_a_recovery_of_a_serial_job_runs_alone(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(serial(requests_recovery=True), every(10))
    dead = store.fire_one(a)
    store.recover(b, a)
    store.clock.advance(20 * SECOND)
    fired = store.fire_one(b)
    assert fired.trigger_name == f"recover_a_{dead.fire_id}"
    assert store.state("every") == "BLOCKED"
    assert not store.fire_due(b)
    store.complete(b, fired)
    assert store.fire_one(b).trigger_name == "every"


def test_a_recovery_is_paused_where_new_triggers_of_its_job_would_be(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(group="jobs", requests_recovery=True), every(10))
    dead = store.fire_one(a)
    store.store.pause(JobGroups(GroupMatcher.equals("jobs")))
    store.recover(b, a)
    assert store.state(f"recover_a_{dead.fire_id}", RECOVERING) == "PAUSED"
    store.store.resume(JobGroups(GroupMatcher.equals("jobs")))
    assert f"recover_a_{dead.fire_id}" in names(store.fire_due(b))


def test_recovering_twice_changes_nothing(store: Harness) -> None:
    a, b, c = store.node("a"), store.node("b"), store.node("c")
    store.schedule(job(requests_recovery=True), every(10))
    store.schedule(serial("lost"), every(10, "lost"))
    store.acquire(a)
    dead = [record for record in store.store.list_nodes().nodes if record.instance_id == "a"]
    first = store.store.recover(b, dead)
    assert (first.recovered, first.lost) == (1, 1)
    before = store.everything()
    for survivor in (b, c):
        assert not store.store.recover(survivor, dead).changed_anything
    assert store.everything() == before


def test_a_node_that_checked_in_meanwhile_is_not_recovered(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(serial(), every(10))
    fired = store.fire_one(a)
    judged = [record for record in store.store.list_nodes().nodes if record.instance_id == "a"]
    store.store.check_in(a)
    assert not store.store.recover(b, judged).changed_anything
    assert store.state("every") == "BLOCKED"
    assert not store.complete(a, fired).fenced


def test_a_new_epoch_of_a_dead_node_is_not_recovered_for_the_old_one(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    judged = [record for record in store.store.list_nodes().nodes if record.instance_id == "a"]
    new = store.node("a", ended_epoch=a.epoch)
    assert not store.store.recover(b, judged).changed_anything
    store.store.check_in(new)


def test_several_dead_nodes_are_recovered_at_once(store: Harness) -> None:
    a, b, c = store.node("a"), store.node("b"), store.node("c")
    store.schedule(job("one"), every(10, "one"))
    store.fire_one(a)
    store.schedule(job("two", requests_recovery=True), every(10, "two"))
    store.fire_one(b)
    outcome = store.recover(c, a, b)
    assert sorted(outcome.nodes) == ["a", "b"]
    assert (outcome.recovered, outcome.lost) == (1, 1)


def test_the_work_of_living_nodes_is_left_alone(store: Harness) -> None:
    a, b, c = store.node("a"), store.node("b"), store.node("c")
    store.schedule(serial(), every(10))
    fired = store.fire_one(c)
    store.recover(b, a)
    assert store.state("every") == "BLOCKED"
    assert not store.complete(c, fired).fenced


def test_nothing_to_recover_changes_nothing(store: Harness) -> None:
    a = store.node("a")
    store.schedule(serial(), every(10))
    store.fire_one(a)
    before = store.everything()
    assert not store.store.recover(a, []).changed_anything
    assert store.everything() == before


def test_a_trigger_that_nothing_holds_is_repaired(store: Harness) -> None:
    node = store.node()
    skipping = job(max_concurrent=1, overlap_policy="skip")
    store.schedule(skipping, once(when=at(100)), once("other", at(100)))
    store.set_state(key("once"), TriggerState.BLOCKED)
    assert store.store.recover(node, []).repaired == 1
    assert store.states("once", "other") == ["WAITING", "WAITING"]
    assert not store.store.recover(node, []).changed_anything


@pytest.mark.parametrize("policy", ["block", "buffer_one", "cancel_other"])
def test_what_is_parked_beside_a_free_place_is_found(store: Harness, policy: str) -> None:
    node = store.node()
    store.schedule(job(max_concurrent=1, overlap_policy=policy), once(when=at(-1)), once("other", at(100)))
    store.set_state(key("once"), TriggerState.BLOCKED)
    assert not store.fire_due(node)
    outcome = store.store.recover(node, [])
    assert (outcome.repaired, [*outcome.opened]) == (0, [Gate("DEFAULT", "job", "")])
    assert names(store.fire_due(node, opened=outcome.opened)) == ["once"]
    assert not store.store.recover(node, []).opened


def test_a_complete_trigger_whose_last_fire_is_lost_is_deleted(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once(when=at(100)))
    store.set_state(key("once"), TriggerState.COMPLETE)
    assert store.store.recover(node, []).repaired == 0
    assert store.state("once") == "gone"
    assert stored_job(store.store, job_key()) is None


def test_every_step_of_a_dead_epoch_is_refused_and_changes_nothing(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(), every(10), every(86400, "late", start=at(-HOUR.total_seconds())))
    fired: FiredTrigger = store.acquire(a).fired[0]
    store.recover(b, a)
    store.clock.advance(5 * SECOND)
    before = store.everything()
    with pytest.raises(LeaseLostError):
        store.store.check_in(a)
    with pytest.raises(LeaseLostError):
        store.acquire(a)
    with pytest.raises(LeaseLostError):
        store.store.refill(a, [])
    with pytest.raises(LeaseLostError):
        store.misfire(a)
    with pytest.raises(LeaseLostError):
        store.store.recover(a, store.store.list_nodes().nodes)
    with pytest.raises(LeaseLostError):
        store.reconcile(a)
    assert set(store.complete(a, fired).fenced) == {fired.fire_id}
    assert store.everything() == before
