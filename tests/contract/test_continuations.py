"""Tests of the jobs that run after others: `JobDetail(continuations=...)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from quartzpy.job_data import (
    NOMINAL_FIRE_TIME,
    PREDECESSOR_FIRE_ID,
    PREDECESSOR_GROUP,
    PREDECESSOR_NAME,
    PREDECESSOR_OUTCOME,
    PREDECESSOR_RESULT,
)
from quartzpy.jobs.continuation import Continuation
from quartzpy.jobs.join import occasion_of_instant
from quartzpy.keys import CONTINUATIONS, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.states import JobMode, Outcome
from quartzpy.store.protocol import FiredTrigger
from tests.contract.harness import SECOND, Harness, at, data_of, every, job, job_key, once, stored_job


def waiting(store: Harness) -> list[str]:
    """The jobs that wait to run after another one."""
    keys = sorted(store.store.keys(TriggerKey, GroupMatcher.equals(CONTINUATIONS)))
    return [record.trigger.job_key.name for record in store.store.triggers(keys).values() if record.trigger.job_key]


def schedule(store: Harness, *continuations: Any, **values: Any) -> None:
    for name in ("load", "alert"):
        store.schedule(job(name, durable=True))
    store.schedule(job("extract", durable=True, continuations=continuations, **values), every(100))


def jobs(fired: Sequence[FiredTrigger]) -> list[str]:
    return sorted(one.job_name for one in fired)


ON_FAILURE = Continuation("alert", [Outcome.FAILED, Outcome.TERMINATED], data={"about": "extract"})


def test_a_job_runs_once_after_each_success_with_the_result_as_data(store: Harness) -> None:
    node = store.node()
    schedule(store, "load", ON_FAILURE)
    for n in range(3):
        first = store.fire_one(node)
        assert first.job_name == "extract"
        outcome = store.complete(node, first, result=f'{{"rows": {n}}}')
        assert outcome.earliest_unblocked == store.clock.now()
        second = store.fire_one(node)
        assert second.job_name == "load"
        assert data_of(second)[1] == {
            PREDECESSOR_NAME: "extract",
            PREDECESSOR_GROUP: "DEFAULT",
            PREDECESSOR_FIRE_ID: first.fire_id,
            PREDECESSOR_OUTCOME: "SUCCEEDED",
            PREDECESSOR_RESULT: {"rows": n},
            NOMINAL_FIRE_TIME: occasion_of_instant(first.scheduled_fire_time),
        }
        store.complete(node, second)
        assert not store.fire_due(node)
        store.clock.set(at(100 * (n + 1)))


def test_the_outcome_decides_which_jobs_run_after_it(store: Harness) -> None:
    node = store.node()
    schedule(store, "load", ON_FAILURE)
    store.complete(node, store.fire_one(node), outcome=Outcome.FAILED, error="no source")
    after = store.fire_one(node)
    assert after.job_name == "alert"
    data = data_of(after)[1]
    assert (data["about"], data[PREDECESSOR_OUTCOME], data[PREDECESSOR_RESULT]) == ("extract", "FAILED", None)
    store.complete(node, after)
    store.clock.set(at(100))
    store.complete(node, store.fire_one(node), outcome=Outcome.CANCELLED)
    assert not waiting(store)


def test_a_failure_that_is_retried_is_no_end_yet(store: Harness) -> None:
    node = store.node()
    schedule(store, "load", ON_FAILURE)
    store.complete(node, store.fire_one(node), outcome=Outcome.FAILED, retry_after=SECOND)
    assert not waiting(store)
    store.clock.advance(SECOND)
    [again] = store.fire_due(node)
    assert again.attempt == 2
    store.complete(node, again)
    assert waiting(store) == ["load"]


def test_a_completion_that_is_sent_again_is_followed_once(store: Harness) -> None:
    node = store.node()
    schedule(store, "load")
    first = store.fire_one(node)
    store.complete(node, first)
    store.complete(node, first)
    assert waiting(store) == ["load"]


def test_an_execution_that_was_fenced_is_not_followed_by_its_own_node(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    schedule(store, "load", ON_FAILURE)
    first = store.fire_one(a)
    store.recover(b, a)
    assert waiting(store) == ["alert"]
    assert store.complete(a, first).fenced == {first.fire_id}
    assert waiting(store) == ["alert"]
    after = store.fire_one(b)
    assert data_of(after)[1][PREDECESSOR_OUTCOME] == "TERMINATED"


def test_an_execution_that_runs_again_after_its_node_died_is_followed_once(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    schedule(store, "load", ON_FAILURE, requests_recovery=True)
    store.fire_one(a)
    store.recover(b, a)
    assert not waiting(store)
    store.complete(b, store.fire_one(b))
    assert waiting(store) == ["load"]


def test_a_follower_that_died_with_its_node_runs_again_and_knows_its_predecessor(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    schedule(store, "load")
    store.schedule(job("load", durable=True, requests_recovery=True), replace=True)
    store.complete(a, store.fire_one(a))
    lost = store.fire_one(a)
    store.recover(b, a)
    again = store.fire_one(b)
    assert again.job_name == "load"
    assert data_of(again)[1][PREDECESSOR_FIRE_ID] == data_of(lost)[1][PREDECESSOR_FIRE_ID]


def test_several_jobs_run_after_one_and_each_other(store: Harness) -> None:
    node = store.node()
    schedule(store, "load", "alert")
    store.schedule(job("load", durable=True, continuations=["alert"]), replace=True)
    store.complete(node, store.fire_one(node))
    both = store.fire_due(node)
    assert jobs(both) == ["alert", "load"]
    store.complete(node, *both)
    assert waiting(store) == ["alert"]


@pytest.mark.parametrize("stores", [False, True])
def test_a_job_may_run_after_itself_and_in_one_batch_with_what_it_follows(store: Harness, stores: bool) -> None:
    node = store.node()
    store.schedule(
        job("loop", durable=True, persist_data=True, continuations=["loop"]),
        *[once(name, priority=9 - n) for n, name in enumerate("ab")],
    )
    fired = store.fire_due(node)
    how = {"job_data": '{"n": 1}'} if stores else {}
    outcome = store.complete(node, *fired, **how)
    assert not outcome.deferred
    assert waiting(store) == ["loop", "loop"]
    assert store.job_data(job_key("loop")) == ({"n": 1} if stores else {})


def test_a_job_that_is_not_stored_does_not_run(store: Harness) -> None:
    node = store.node()
    store.schedule(job("extract", durable=True, continuations=["nowhere", "load"]), once())
    store.schedule(job("load", durable=True))
    store.complete(node, store.fire_one(node))
    assert waiting(store) == ["load"]


def test_a_job_that_is_deleted_with_its_last_trigger_has_its_continuations(store: Harness) -> None:
    node = store.node()
    store.schedule(job("load", durable=True))
    store.schedule(job("extract", continuations=["load"]), once())
    store.complete(node, store.fire_one(node))
    assert stored_job(store.store, job_key("extract")) is None
    assert waiting(store) == ["load"]


def test_a_job_that_is_deleted_while_it_runs_is_not_followed(store: Harness) -> None:
    node = store.node()
    schedule(store, "load")
    first = store.fire_one(node)
    store.store.delete_jobs([job_key("extract")])
    assert not store.complete(node, first).fenced
    assert not waiting(store)


def test_a_follower_keeps_the_limits_and_the_pauses_of_its_job(store: Harness) -> None:
    node = store.node()
    schedule(store, Continuation("load", data={"customer": "x"}), Continuation("alert"))
    store.schedule(
        job("load", durable=True, concurrency_key="customer"), once("running", data={"customer": "x"}), replace=True
    )
    store.store.set_mode(job_key("alert"), JobMode.DISABLED)
    fired = {one.job_name: one for one in store.fire_due(node)}
    store.complete(node, fired["extract"])
    assert not store.fire_due(node)
    store.complete(node, fired["load"])
    assert jobs(store.fire_due(node)) == ["load"]


def test_continuations_are_read_back_with_their_job(store: Harness) -> None:
    node = store.node()
    schedule(store, "load", ON_FAILURE)
    expected = (Continuation("load"), ON_FAILURE)
    read = stored_job(store.store, job_key("extract"))
    assert read is not None
    assert read.continuations == expected
    assert store.fire_one(node).job_detail.continuations == expected


def test_a_job_that_had_no_continuations_when_it_was_fired_has_none_at_its_end(store: Harness) -> None:
    """A node knows from the fire whether there is anything to look up."""
    node = store.node()
    store.schedule(job("load", durable=True))
    store.schedule(job("extract", durable=True), every(100))
    fired = store.fire_one(node)
    store.store.modify_job(
        job_key("extract"), lambda old: old.with_values({"continuations": ["load"]}), keeps_data=True
    )
    store.complete(node, fired)
    assert not waiting(store)
    store.clock.set(at(100))
    store.complete(node, store.fire_one(node))
    assert waiting(store) == ["load"]
