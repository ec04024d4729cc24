"""Ends of executions that pause, end or fail very many triggers of their job."""

from __future__ import annotations

from datetime import timedelta

import pytest

from quartzpy.keys import MANUAL_TRIGGERS
from quartzpy.states import CompletionInstruction, Outcome
from quartzpy.store.postgresql.steps import halts
from quartzpy.store.protocol import Completion, CompletionOutcome, JobEntry, Node, TriggersOfJobs
from quartzpy.store.queries import HISTORY
from tests.contract.harness import HOUR, SECOND, Harness, at, every, job, job_key, key, once, stored_trigger

NAMES = [f"many{number}" for number in range(8)]


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halts, "MOST", 3)


def end(store: Harness, node: Node, *completions: Completion) -> CompletionOutcome:
    """End executions, as a node does it."""
    outcome = store.store.complete(node, completions)
    if not outcome.halting:
        return outcome
    return store.store.complete(node, [c for c in completions if c.fired.fire_id in outcome.halting], at_length=True)


def scheduled(store: Harness, **values: object) -> None:
    store.schedule(job(durable=True, **values), every(10, "first"), *(once(name, at(60)) for name in NAMES))


def test_failures_in_a_row_pause_all_triggers_of_the_schedule(store: Harness) -> None:
    node = store.node()
    scheduled(store, pause_after_failures=2)
    store.schedule(job("other"), once("of-other", at(5)))
    [first] = store.fire_due(node)
    assert not end(store, node, store.ended(first, outcome=Outcome.FAILED, error="boom")).paused
    store.clock.advance(10 * SECOND)
    first, other = sorted(store.fire_due(node), key=lambda fired: fired.trigger_name)
    outcome = end(store, node, store.ended(first, outcome=Outcome.FAILED, error="boom"), store.ended(other))
    assert set(outcome.paused) == {job_key()}
    assert not outcome.deferred
    assert set(store.states("first", *NAMES)) == {"PAUSED"}
    record = stored_trigger(store.store, key(NAMES[-1]))
    assert record is not None
    assert (record.paused_by, record.pause_reason) == ("pause_after_failures", "2 executions in a row failed")
    assert sorted(str(one.outcome) for one in store.store.find(HISTORY, 9)) == ["FAILED", "FAILED", "SUCCEEDED"]
    store.clock.advance(timedelta(seconds=50))
    assert store.fire_due(node) == []
    store.store.resume(TriggersOfJobs([job_key()]))
    assert set(store.states(*NAMES)) == {"WAITING"}
    assert len(store.fire_due(node)) == len(NAMES) + 1


def test_failures_that_end_together_are_counted_each(store: Harness) -> None:
    node = store.node()
    scheduled(store, pause_after_failures=3)
    fires = []
    for _ in range(3):
        fires += store.fire_due(node)
        store.clock.advance(10 * SECOND)
    failures = [store.ended(fired, outcome=Outcome.FAILED, error="boom") for fired in fires]
    assert set(end(store, node, *failures).paused) == {job_key()}
    assert set(store.states("first", *NAMES)) == {"PAUSED"}
    assert len(store.store.find(HISTORY, 9)) == 3


def test_what_no_schedule_made_is_not_paused(store: Harness) -> None:
    node = store.node()
    scheduled(store, pause_after_failures=1)
    [first] = store.fire_due(node)
    manual = store.prepare(once("manual", at(60), group=MANUAL_TRIGGERS), job_key(), None)
    store.store.store_jobs([JobEntry(None, [manual])], replace=False)
    assert end(store, node, store.ended(first, outcome=Outcome.FAILED, error="boom")).paused
    assert store.state("manual", MANUAL_TRIGGERS) == "WAITING"


@pytest.mark.parametrize(
    ("instruction", "state"),
    [
        (CompletionInstruction.SET_ALL_JOB_TRIGGERS_COMPLETE, "COMPLETE"),
        (CompletionInstruction.SET_ALL_JOB_TRIGGERS_ERROR, "ERROR"),
    ],
)
def test_a_job_can_give_all_its_triggers_a_state(
    store: Harness, instruction: CompletionInstruction, state: str
) -> None:
    node = store.node()
    scheduled(store)
    store.store.pause(TriggersOfJobs([job_key()]))
    store.store.resume(TriggersOfJobs([job_key()]))
    [first] = store.fire_due(node)
    failed = {"outcome": Outcome.FAILED, "error": "boom"} if state == "ERROR" else {}
    outcome = end(store, node, store.ended(first, instruction=instruction, **failed))
    assert not outcome.deferred
    assert not outcome.fenced
    assert set(store.states("first", *NAMES)) == {state}
    record = stored_trigger(store.store, key(NAMES[0]))
    assert record is not None
    assert record.error == ("boom" if state == "ERROR" else None)
    store.clock.advance(HOUR)
    assert store.fire_due(node) == []
    assert not store.misfire(node).misfired
    assert len(store.store.find(HISTORY, 9)) == 1
    assert store.store.list_running() == []


def test_data_that_the_execution_leaves_is_stored_with_its_end(store: Harness) -> None:
    node = store.node()
    scheduled(store, persist_data=True)
    [first] = store.fire_due(node)
    asked = CompletionInstruction.SET_ALL_JOB_TRIGGERS_COMPLETE
    end(store, node, store.ended(first, instruction=asked, job_data='{"n": 1}'))
    assert store.job_data(job_key()) == {"n": 1}
    assert set(store.states("first", *NAMES)) == {"COMPLETE"}
