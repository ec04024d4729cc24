"""Tests of the complete step: the effects of an execution that ended, and the fencing of one that was lost."""

from __future__ import annotations

import pytest

from quartzpy.job_data import encode
from quartzpy.states import CompletionInstruction, Outcome
from quartzpy.store.protocol import NamedTriggers
from quartzpy.triggers.upcoming import UpcomingFireTimes
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
    once,
    serial,
    stored_job,
)
from tests.contract.test_instructions import ALL_COMPLETE, DELETE, TRIGGER_COMPLETE, TRIGGER_ERROR


def test_an_ended_execution_releases_its_claim_and_enters_the_history(store: Harness) -> None:
    node = store.node("a")
    store.schedule(job(), every(10))
    fired = store.fire_one(node)
    store.clock.advance(2 * SECOND)
    completion = store.ended(fired, outcome=Outcome.FAILED, error="it broke")
    completion.started_at = at(1)
    outcome = store.store.complete(node, [completion])
    assert (outcome.now, set(outcome.fenced), set(outcome.deferred)) == (at(2), set(), set())
    assert not store.store.list_running()
    [record] = store.history()
    assert (record.fire_id, record.trigger_key, record.job_key) == (fired.fire_id, key("every"), job_key())
    assert (record.instance_id, record.outcome, record.error) == ("a", Outcome.FAILED, "it broke")
    assert (record.scheduled_fire_time, record.fire_time) == (START, START)
    assert (record.started_at, record.ended_at, record.recovering) == (at(1), at(2), False)
    assert store.state("every") == "WAITING"


def test_the_history_shows_no_instant_before_the_fire_or_after_the_end(store: Harness) -> None:
    """A node estimates the store's time, and is wrong by up to a round trip."""
    node = store.node("a")
    store.schedule(job(), every(10))
    fired = store.fire_one(node)
    store.clock.advance(2 * SECOND)
    completion = store.ended(fired)
    completion.started_at, completion.ended_at = at(-1), at(3)
    store.store.complete(node, [completion])
    [record] = store.history()
    assert (record.fire_time, record.started_at, record.ended_at) == (START, START, at(2))


def test_completing_nothing_is_possible(store: Harness) -> None:
    node = store.node()
    outcome = store.store.complete(node, [])
    assert (set(outcome.fenced), set(outcome.deferred), outcome.earliest_unblocked) == (set(), set(), None)


def test_a_batch_of_completions_ends_all_of_them(store: Harness) -> None:
    node = store.node()
    store.schedule(job("plain", durable=True), *[once(f"t{n}") for n in range(5)])
    store.schedule(serial("serial"), every(10, "s"))
    fired = store.fire_due(node)
    assert len(fired) == 6
    store.complete(node, *fired)
    assert not store.store.list_running()
    assert len(store.history()) == 6
    assert store.state("s") == "WAITING"
    assert store.state("t0") == "gone"


def test_blocked_triggers_of_the_job_are_released(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), every(10), once("other", at(5)), once("paused", at(3)))
    store.store.pause(NamedTriggers([key("paused")]))
    fired = store.fire_one(node)
    assert store.states("every", "other", "paused") == ["BLOCKED", "BLOCKED", "PAUSED_BLOCKED"]
    assert not store.fire_due(node, look_ahead=HOUR), "a store may block them only when a step meets them"
    store.complete(node, fired)
    assert store.states("every", "other", "paused") == ["WAITING", "WAITING", "PAUSED"]


def test_the_blocked_triggers_of_other_jobs_stay_blocked(store: Harness) -> None:
    node = store.node()
    store.schedule(serial("one"), every(10, "one"))
    store.schedule(serial("two"), every(10, "two"))
    fired = {one.job_name: one for one in store.fire_due(node)}
    store.complete(node, fired["one"])
    assert store.states("one", "two") == ["WAITING", "BLOCKED"]


def test_a_concurrent_job_that_ends_releases_nothing(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(10))
    assert store.complete(node, store.fire_one(node)).earliest_unblocked is None


def test_a_complete_trigger_is_deleted_with_its_job(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once())
    fired = store.fire_one(node)
    assert stored_job(store.store, job_key()) is not None
    store.complete(node, fired)
    assert store.state("once") == "gone"
    assert stored_job(store.store, job_key()) is None


def test_a_durable_job_stays_when_its_last_trigger_is_deleted(store: Harness) -> None:
    node = store.node()
    store.schedule(job(durable=True), once())
    store.complete(node, store.fire_one(node))
    assert store.state("once") == "gone"
    assert stored_job(store.store, job_key()) is not None


def test_a_job_with_another_trigger_stays(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once(), once("later", at(100)))
    store.complete(node, store.fire_one(node))
    assert store.state("later") == "WAITING"
    assert stored_job(store.store, job_key()) is not None


def test_a_complete_trigger_stays_while_its_last_fire_executes(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(1, times=2))
    first = store.fire_one(node)
    store.clock.advance(SECOND)
    last = store.fire_one(node)
    store.complete(node, first)
    assert store.state("every") == "COMPLETE"
    store.complete(node, last)
    assert store.state("every") == "gone"


def test_changed_job_data_is_stored_and_given_to_the_next_fire(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(data={"runs": 0}, persist_data=True), every(10))
    for runs in range(3):
        fired = store.fire_one(node)
        assert data_of(fired)[0] == {"runs": runs}
        assert dict(fired.job_detail.data or {}) == {"runs": runs}
        store.complete(node, fired, job_data=encode({"runs": runs + 1}))
        store.clock.advance(10 * SECOND)
    assert store.job_data(job_key()) == {"runs": 3}


def test_emptied_job_data_is_stored_as_none(store: Harness) -> None:
    node = store.node()
    store.schedule(job(data={"runs": 0}, persist_data=True), every(10))
    store.complete(node, store.fire_one(node), job_data="{}")
    assert store.job_data(job_key()) == {}
    store.clock.advance(10 * SECOND)
    assert data_of(store.fire_one(node))[0] == {}


def test_job_data_that_did_not_change_is_kept(store: Harness) -> None:
    node = store.node()
    store.schedule(job(data={"runs": 0}, persist_data=True), every(10))
    store.complete(node, store.fire_one(node))
    assert store.job_data(job_key()) == {"runs": 0}


def test_the_last_of_several_completions_of_a_job_decides_its_data(store: Harness) -> None:
    node = store.node()
    store.schedule(job(persist_data=True, durable=True), once("a"), once("b"))
    one, two = store.fire_due(node)
    store.store.complete(
        node, [store.ended(one, job_data=encode({"n": 1})), store.ended(two, job_data=encode({"n": 2}))]
    )
    assert store.job_data(job_key()) == {"n": 2}


# --- generations


def test_a_trigger_that_was_replaced_meanwhile_is_not_ended(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once())
    fired = store.fire_one(node)
    store.add_triggers(job_key(), once(when=at(100)), replace=True)
    assert not store.complete(node, fired).fenced
    assert store.state("once") == "WAITING"
    assert stored_job(store.store, job_key()) is not None
    assert len(store.history()) == 1


def test_a_job_cannot_end_a_trigger_that_replaced_the_one_that_fired(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(10))
    fired = store.fire_one(node)
    store.store.replace_trigger(key("every"), store.prepare(every(20, start=at(100)), job_key()))
    store.complete_asking(node, fired, TRIGGER_COMPLETE)
    assert store.state("every") == "WAITING"


@pytest.mark.parametrize("instruction", [DELETE, TRIGGER_ERROR])
def test_a_trigger_that_was_replaced_meanwhile_is_neither_deleted_nor_put_into_error(
    store: Harness, instruction: CompletionInstruction
) -> None:
    node = store.node()
    store.schedule(job(), every(10))
    fired = store.fire_one(node)
    store.store.replace_trigger(key("every"), store.prepare(every(20, start=at(100)), job_key()))
    store.complete_asking(node, fired, instruction)
    assert store.state("every") == "WAITING"


def test_a_replaced_trigger_that_is_complete_itself_is_left_to_its_own_fire(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once())
    first = store.fire_one(node)
    store.add_triggers(job_key(), once(when=at(-1)), replace=True)
    second = store.fire_one(node)
    store.complete(node, first)
    assert store.state("once") == "COMPLETE"
    store.complete(node, second)
    assert store.state("once") == "gone"


def test_a_trigger_replaced_while_its_serial_job_runs_is_released_with_it(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), every(10))
    fired = store.fire_one(node)
    store.add_triggers(job_key(), every(20, start=at(30)), replace=True)
    assert store.state("every") == "BLOCKED"
    store.complete(node, fired)
    assert store.state("every") == "WAITING"


def test_a_job_deleted_while_it_runs_leaves_only_history(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(persist_data=True), every(10))
    fired = store.fire_one(node)
    store.store.delete_jobs([job_key()])
    assert len(store.running()) == 1
    outcome = store.complete(node, fired, job_data=encode({"n": 1}))
    assert (set(outcome.fenced), set(outcome.deferred)) == (set(), set())
    assert stored_job(store.store, job_key()) is None
    assert len(store.history()) == 1


def test_a_trigger_deleted_while_it_runs_stays_deleted(store: Harness) -> None:
    node = store.node()
    store.schedule(job(durable=True), every(10))
    fired = store.fire_one(node)
    store.store.delete_triggers([key("every")])
    store.complete(node, fired, refill=UpcomingFireTimes((at(100),)))
    assert store.state("every") == "gone"


# --- fire_ids


def test_a_completion_after_recovery_is_fenced_and_keeps_nothing(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(serial(data={"n": 0}, persist_data=True), every(10))
    fired = store.fire_one(a)
    store.recover(b, a)
    store.clock.advance(10 * SECOND)
    theirs = store.fire_one(b)
    outcome = store.complete(a, fired, job_data=encode({"n": 666}))
    assert set(outcome.fenced) == {fired.fire_id}
    assert store.job_data(job_key()) == {"n": 0}
    assert store.state("every") == "BLOCKED"
    assert [row.fire_id for row in store.running()] == [theirs.fire_id]
    assert [record.outcome for record in store.history()] == [Outcome.TERMINATED]


def test_a_fenced_completion_of_a_recovered_execution_leaves_its_recovery_alone(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(requests_recovery=True, durable=True), once())
    fired = store.fire_one(a)
    store.recover(b, a)
    outcome = store.complete_asking(a, fired, ALL_COMPLETE)
    assert set(outcome.fenced) == {fired.fire_id}
    assert not store.history()
    assert len(store.fire_due(b)) == 1


@pytest.mark.parametrize("instruction", [TRIGGER_COMPLETE, DELETE, TRIGGER_ERROR, ALL_COMPLETE])
def test_the_instruction_of_a_fenced_completion_is_ignored(store: Harness, instruction: CompletionInstruction) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(), every(10))
    fired = store.fire_one(a)
    store.recover(b, a)
    assert set(store.complete_asking(a, fired, instruction).fenced) == {fired.fire_id}
    assert store.state("every") == "WAITING"


def test_only_the_epoch_that_fired_can_complete(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(serial(), every(10))
    fired = store.fire_one(a)
    assert set(store.complete(b, fired).fenced) == {fired.fire_id}
    assert store.state("every") == "BLOCKED"
    assert not store.complete(a, fired).fenced


def test_of_a_batch_only_the_fenced_completions_are_lost(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(durable=True), once("mine"))
    mine = store.fire_one(a)
    store.schedule(job("other", durable=True), once("theirs"))
    theirs = store.fire_one(b)
    assert set(store.complete(a, mine, theirs).fenced) == {theirs.fire_id}
    assert store.states("mine", "theirs") == ["gone", "COMPLETE"]


def test_completing_an_execution_again_changes_nothing(store: Harness) -> None:
    node = store.node()
    store.schedule(job(persist_data=True), every(10))
    fired = store.fire_one(node)
    store.complete(node, fired, job_data=encode({"n": 1}))
    store.clock.advance(10 * SECOND)
    store.complete(node, store.fire_one(node), job_data=encode({"n": 2}))
    before = store.everything()
    outcome = store.complete(node, fired, job_data=encode({"n": 1}))
    assert (set(outcome.fenced), set(outcome.deferred)) == (set(), set())
    assert store.everything() == before
