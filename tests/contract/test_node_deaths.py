"""Tests of jobs that crash their nodes: after several node deaths in a row a job does not run again."""

from __future__ import annotations

import pytest

from quartzpy.errors import InstanceIdInUseError
from quartzpy.jobs.job import JobDetail
from quartzpy.scheduler.singles import reset_from_error
from quartzpy.states import Outcome
from quartzpy.store.queries import TriggerQuery
from tests.contract.harness import SECOND, WINDOW, Harness, at, every, job, job_key, once


def die_of_it(store: Harness, name: str) -> list[object]:
    """Let a node die while executing the due fires; return the jobs that its recovery quarantined."""
    node, survivor = store.node(name), store.node("survivor-" + name)
    assert store.fire_due(node), "there is something to die of"
    outcome = store.recover(survivor, node)
    store.store.leave(survivor)
    return list(outcome.quarantined)


def test_a_job_that_nodes_die_of_is_set_to_error_with_the_reason(store: Harness) -> None:
    store.schedule(job(requests_recovery=True, durable=True), every(86400), once("later", at(3600)))
    assert die_of_it(store, "a") == []
    assert die_of_it(store, "b") == []
    assert die_of_it(store, "c") == [job_key()]
    triggers = store.store.find(TriggerQuery(job_key=job_key()), None)
    assert len(triggers) == 3, "the two, and the recovery of what ran last"
    assert {str(record.state) for record in triggers} == {"ERROR"}
    assert {record.error for record in triggers} == {
        "3 nodes died in a row while they executed its job (max_node_deaths)"
    }
    assert not store.fire_due(store.node("d"))


def test_an_execution_to_recover_runs_once_its_trigger_is_reset(store: Harness) -> None:
    store.schedule(job(requests_recovery=True, durable=True), once())
    for name in ("a", "b", "c"):
        die_of_it(store, name)
    [record] = store.store.find(TriggerQuery(job_key=job_key()), None)
    reset_from_error(store.store, record.trigger.key)
    node = store.node("d")
    store.complete(node, store.fire_one(node))
    assert [record.outcome for record in store.history()] == [Outcome.SUCCEEDED]


def test_a_job_that_is_not_recovered_counts_from_fire_to_fire(store: Harness) -> None:
    store.schedule(job(), every(10))
    quarantined = []
    for name in ("a", "b", "c"):
        quarantined.append(die_of_it(store, name))
        store.clock.advance(10 * SECOND)
    assert quarantined == [[], [], [job_key()]]
    assert store.state("every") == "ERROR"
    assert [record.outcome for record in store.history()] == [Outcome.TERMINATED] * 3


@pytest.mark.parametrize("persist_data", [False, True])
def test_a_success_resets_the_count(store: Harness, persist_data: bool) -> None:
    store.schedule(JobDetail("report", "job", persist_data=persist_data), every(10))
    for name in ("a", "b"):
        die_of_it(store, name)
        store.clock.advance(10 * SECOND)
    node = store.node("well")
    fired = store.fire_one(node)
    store.complete(node, fired, job_data='{"n": 1}' if persist_data else None)
    store.clock.advance(10 * SECOND)
    for name in ("c", "d"):
        assert die_of_it(store, name) == []
        store.clock.advance(10 * SECOND)
    assert die_of_it(store, "e") == [job_key()]


def test_a_failure_does_not(store: Harness) -> None:
    store.schedule(job(), every(10))
    for name in ("a", "b"):
        die_of_it(store, name)
        store.clock.advance(10 * SECOND)
    node = store.node("well")
    store.complete(node, store.fire_one(node), outcome=Outcome.FAILED)
    store.clock.advance(10 * SECOND)
    assert die_of_it(store, "c") == [job_key()]


def test_a_death_counts_once_however_many_executions_of_the_job_there_were(store: Harness) -> None:
    store.schedule(job(), *[every(10, f"t{n}") for n in range(5)])
    assert die_of_it(store, "a") == []


def test_a_node_that_left_with_executions_did_not_die_of_them(store: Harness) -> None:
    store.schedule(job(requests_recovery=True), once())
    survivor = store.node("survivor")
    for name in "abcd":
        node = store.node(name)
        store.fire_one(node)
        store.store.leave(node)
        outcome = store.store.recover(survivor, [])
        assert (outcome.recovered, list(outcome.quarantined)) == (1, [])


def test_a_death_that_was_none_is_taken_back(store: Harness) -> None:
    store.schedule(job(), every(10))
    for name in "abcde":
        assert die_of_it(store, name) == []
        store.store.subtract_node_deaths([job_key(), job_key("unknown")])
        store.clock.advance(10 * SECOND)


def test_a_death_that_was_none_is_one_less(store: Harness) -> None:
    store.schedule(job(), every(10))
    for name in "ab":
        assert die_of_it(store, name) == []
        store.clock.advance(10 * SECOND)
    store.store.subtract_node_deaths([job_key()])
    assert die_of_it(store, "c") == []
    store.clock.advance(10 * SECOND)
    assert die_of_it(store, "d") == [job_key()]


def test_the_limit_is_a_setting(store: Harness) -> None:
    store.schedule(job(), every(10))
    a, b = store.node("a"), store.node("b")
    store.fire_one(a)
    dead = [record for record in store.store.list_nodes().nodes if record.epoch == a.epoch]
    assert list(store.store.recover(b, dead, max_node_deaths=1).quarantined) == [job_key()]


def test_a_node_that_is_started_again_at_once_each_time_counts_too(store: Harness) -> None:
    store.schedule(job(requests_recovery=True), once())
    ended_epoch: int | None = None
    for _ in range(3):
        node = store.node("a", ended_epoch=ended_epoch)
        store.fire_one(node)
        ended_epoch = node.epoch
    node = store.node("a", ended_epoch=ended_epoch)
    assert not store.fire_due(node)
    store.store.recover(node, [])
    assert [str(record.state) for record in store.store.find(TriggerQuery(), 10)] == ["ERROR"]


def test_the_window_that_judges_a_node_is_its_own(store: Harness) -> None:
    store.node("slow", window=10 * WINDOW)
    store.clock.advance(2 * WINDOW)
    [record] = store.store.list_nodes().nodes
    assert record.failure_window == 10 * WINDOW
    with pytest.raises(InstanceIdInUseError):
        store.node("slow", window=SECOND)
