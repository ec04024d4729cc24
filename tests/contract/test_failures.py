"""Tests of jobs that are paused after several executions in a row have failed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from quartzpy.jobs.job import JobDetail
from quartzpy.keys import MANUAL_TRIGGERS
from quartzpy.states import Outcome
from quartzpy.store.protocol import CompletionOutcome, Node, TriggersOfJobs
from tests.contract.harness import SECOND, Harness, every, job, job_key, key, once, stored_job, stored_trigger


def careful(most: int = 3, **values: Any) -> JobDetail:
    return job(durable=True, pause_after_failures=most, **values)


def run(store: Harness, node: Node, *outcomes: Outcome, **how: Any) -> CompletionOutcome:
    """Let the trigger fire once for each outcome, and end all fires in one step."""
    completions = []
    for outcome in outcomes:
        [fired] = [one for one in store.fire_due(node) if one.trigger_name == "every"]
        completions.append(store.ended(fired, outcome=outcome, error="boom", **how))
        store.clock.advance(SECOND)
    return store.store.complete(node, completions)


def pause_of(store: Harness) -> tuple[str, str | None, str | None]:
    record = stored_trigger(store.store, key("every"))
    assert record is not None
    return str(record.state), record.paused_by, record.pause_reason


FAILED, SUCCEEDED = Outcome.FAILED, Outcome.SUCCEEDED


def test_a_job_is_paused_after_failures_in_a_row(store: Harness) -> None:
    node = store.node()
    store.schedule(careful(), every(1))
    for _ in range(2):
        assert not run(store, node, FAILED).paused
        assert store.state("every") == "WAITING"
    assert set(run(store, node, FAILED).paused) == {job_key()}
    assert pause_of(store) == ("PAUSED", "pause_after_failures", "3 executions in a row failed")
    assert store.fire_due(node) == []


def test_failures_that_end_in_one_step_are_counted_each(store: Harness) -> None:
    node = store.node()
    store.schedule(careful(), every(1))
    assert set(run(store, node, FAILED, FAILED, FAILED).paused) == {job_key()}


def test_a_success_ends_a_row_of_failures(store: Harness) -> None:
    node = store.node()
    store.schedule(careful(), every(1))
    run(store, node, FAILED, FAILED)
    run(store, node, SUCCEEDED)
    assert not run(store, node, FAILED, FAILED).paused
    # Also among those that end in one step, in their order.
    assert not run(store, node, FAILED, SUCCEEDED, FAILED, FAILED).paused
    assert store.state("every") == "WAITING"
    assert run(store, node, FAILED).paused


def test_what_is_retried_or_was_cancelled_does_not_count(store: Harness) -> None:
    node = store.node()
    store.schedule(careful(1), every(1))
    assert not run(store, node, FAILED, retry_after=timedelta(days=1)).paused
    assert not run(store, node, Outcome.CANCELLED).paused
    assert not run(store, node, Outcome.SKIPPED).paused
    assert run(store, node, FAILED).paused


def test_after_a_resume_the_next_failure_pauses_again(store: Harness) -> None:
    node = store.node()
    store.schedule(careful(2), every(1))
    run(store, node, FAILED, FAILED)
    store.store.resume(TriggersOfJobs([job_key()]))
    assert run(store, node, FAILED).paused
    assert pause_of(store)[2] == "3 executions in a row failed"
    store.store.resume(TriggersOfJobs([job_key()]))
    run(store, node, SUCCEEDED)
    assert not run(store, node, FAILED).paused


def test_all_triggers_of_the_schedule_are_paused_and_other_jobs_go_on(store: Harness) -> None:
    node = store.node()
    store.schedule(careful(1), every(1), once("second", store.clock.now() + SECOND))
    store.schedule(job("other"), every(1, "other"))
    store.add_triggers(job_key(), once("by hand", store.clock.now() + SECOND, group=MANUAL_TRIGGERS))
    outcome = store.store.complete(node, [store.ended(one, outcome=FAILED) for one in store.fire_due(node)])
    assert set(outcome.paused) == {job_key()}
    assert store.states("every", "second", "other") == ["PAUSED", "PAUSED", "WAITING"]
    assert store.state("by hand", MANUAL_TRIGGERS) == "WAITING"


def test_a_job_that_does_not_ask_is_never_paused(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(1))
    for _ in range(5):
        assert not run(store, node, FAILED).paused
    assert store.state("every") == "WAITING"


def test_a_completion_that_is_sent_again_is_counted_once(store: Harness) -> None:
    node = store.node()
    store.schedule(careful(2), every(1))
    [fired] = store.fire_due(node)
    completion = store.ended(fired, outcome=FAILED)
    for _ in range(3):
        assert not store.store.complete(node, [completion]).paused
    assert store.state("every") == "WAITING"


def test_the_limit_is_stored_with_the_job(store: Harness) -> None:
    store.schedule(careful(7), every(1))
    stored = stored_job(store.store, job_key())
    assert stored is not None
    assert stored.pause_after_failures == 7
    store.store.modify_job(job_key(), lambda one: one.with_values({"pause_after_failures": None}), keeps_data=True)
    stored = stored_job(store.store, job_key())
    assert stored is not None
    assert stored.pause_after_failures is None


def test_a_failure_whose_job_stores_its_data_is_counted_too(store: Harness) -> None:
    node = store.node()
    store.schedule(careful(1, persist_data=True), every(1))
    [fired] = store.fire_due(node)
    outcome = store.complete(node, fired, outcome=FAILED, job_data='{"n": 1}')
    assert not outcome.deferred
    assert set(outcome.paused) == {job_key()}
    assert store.job_data(job_key()) == {"n": 1}
