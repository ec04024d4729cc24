"""Tests of triggers whose stored fire times are used up: they are refilled, then fired."""

from __future__ import annotations

import pytest

from quartzpy.errors import LeaseLostError
from quartzpy.matchers import GroupMatcher
from quartzpy.store.protocol import (
    EVERYTHING,
    JobGroups,
    NamedTriggers,
    Node,
    TriggerGroups,
    TriggersOfJobs,
    UnfilledTrigger,
)
from tests.contract.harness import SECOND, Harness, at, every, job, job_key, key, names, serial, stored_trigger


def unfilled(store: Harness, node: Node) -> UnfilledTrigger:
    [one] = store.acquire(node).unfilled
    return one


def test_the_instants_that_a_node_computes_are_stored_and_the_next_step_fires(store: Harness) -> None:
    node = store.node()
    store.schedule_exhausted(job(), every(10))
    store.refill(node, [unfilled(store, node)])
    assert store.upcoming("every") == [at(10 * n) for n in range(1, 10)]
    [fired] = store.acquire(node).fired
    assert (fired.scheduled_fire_time, fired.next_fire_time, fired.times_triggered) == (at(0), at(10), 1)
    assert fired.upcoming is None, "enough are left"
    assert store.upcoming("every") == [at(10 * n) for n in range(2, 10)]
    store.clock.advance(10 * SECOND)
    assert names(store.acquire(node).fired) == ["every"]


def test_two_nodes_that_compute_the_same_fire_it_once(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule_exhausted(job(), every(10))
    ones, others = unfilled(store, a), unfilled(store, b)
    store.refill(a, [ones])
    assert names(store.acquire(a).fired) == ["every"]
    upcoming = store.upcoming("every")
    store.refill(b, [others])
    assert store.upcoming("every") == upcoming
    assert not store.acquire(b).fired


def test_a_trigger_of_a_job_at_its_limit_is_blocked_after_it_was_refilled(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), every(10))
    store.fire_one(node)
    store.store.store_jobs([], replace=False)
    store.clock.advance(10 * SECOND)
    store.schedule_exhausted(job("other"), every(10, "other"))
    assert names(store.fire_due(node)) == ["other"]
    assert store.state("every") == "BLOCKED"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda h: h.store.pause(NamedTriggers([key("every")])), id="paused"),
        pytest.param(lambda h: h.store.pause(TriggersOfJobs([job_key()])), id="job paused"),
        pytest.param(lambda h: h.store.pause(TriggerGroups(GroupMatcher.equals("DEFAULT"))), id="group paused"),
        pytest.param(lambda h: h.store.pause(JobGroups(GroupMatcher.equals("DEFAULT"))), id="job group paused"),
        pytest.param(lambda h: h.store.pause(EVERYTHING), id="all paused"),
        pytest.param(lambda h: h.store.delete_triggers([key("every")]), id="deleted"),
        pytest.param(lambda h: h.store.delete_jobs([job_key()]), id="job deleted"),
        pytest.param(lambda h: h.store.clear(), id="cleared"),
        pytest.param(
            lambda h: h.store.replace_trigger(key("every"), h.prepare(every(20, start=at(1)), job_key())),
            id="rescheduled",
        ),
        pytest.param(
            lambda h: h.store.replace_trigger(key("every"), h.exhausted(every(20), job_key())),
            id="rescheduled from the same instant",
        ),
    ],
)
def test_what_has_changed_meanwhile_is_neither_refilled_nor_rejected(store: Harness, change: object) -> None:
    node = store.node()
    store.schedule_exhausted(job(), every(10))
    one = unfilled(store, node)
    change(store)  # type: ignore[operator]
    before = store.everything()
    store.refill(node, [one])
    store.store.reject(node, [(one, "cannot be computed")])
    assert store.everything() == before


def test_a_dead_epoch_refills_and_rejects_nothing(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule_exhausted(job(), every(10))
    one = unfilled(store, a)
    store.recover(b, a)
    with pytest.raises(LeaseLostError):
        store.refill(a, [one])
    with pytest.raises(LeaseLostError):
        store.store.reject(a, [(one, "cannot be computed")])
    assert (store.state("every"), store.upcoming("every")) == ("WAITING", [])


def test_refilling_nothing_is_possible(store: Harness) -> None:
    store.refill(store.node(), [])


def test_a_rejected_trigger_is_in_error_whatever_its_reason_holds(store: Harness) -> None:
    node = store.node()
    store.schedule_exhausted(job(), every(10))
    store.store.reject(node, [(unfilled(store, node), "cannot be computed: \0 \ud800")])
    record = stored_trigger(store.store, key("every"))
    assert record is not None
    assert (record.state, "cannot be computed" in str(record.error)) == ("ERROR", True)
