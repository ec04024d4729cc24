"""Tests of the membership of a node: registration, check-in, departure, and reconciliation after a lost answer."""

from __future__ import annotations

from datetime import datetime

import pytest

from quartzpy.errors import InstanceIdInUseError, LeaseLostError
from quartzpy.states import Outcome
from quartzpy.store.node_problems import MAX_PROBLEMS, NodeProblem
from quartzpy.store.protocol import Node
from tests.contract.harness import (
    CHECKIN,
    HOUR,
    SECOND,
    START,
    WINDOW,
    Harness,
    at,
    data_of,
    every,
    job,
    key,
    once,
    serial,
)


def test_a_node_that_registers_is_seen(store: Harness) -> None:
    node = store.node("a")
    listed = store.store.list_nodes()
    [record] = listed.nodes
    assert listed.now == START
    assert (record.instance_id, record.epoch, record.host, record.pid) == ("a", node.epoch, "host", 4711)
    assert (record.started_at, record.last_checkin, record.checkin_interval) == (START, START, CHECKIN)


def test_nodes_are_listed_by_their_ids(store: Harness) -> None:
    for name in ("b", "c", "a"):
        store.node(name)
    assert [record.instance_id for record in store.store.list_nodes().nodes] == ["a", "b", "c"]


def test_a_check_in_renews_the_lease_and_answers_with_all_nodes(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.clock.advance(CHECKIN)
    answer = store.store.check_in(a)
    assert answer.now == START + CHECKIN
    assert {record.epoch: record.last_checkin for record in answer.nodes} == {
        a.epoch: START + CHECKIN,
        b.epoch: START,
    }
    counts = {record.epoch: record.checkin_count for record in answer.nodes}
    store.store.check_in(a)
    again = {record.epoch: record.checkin_count for record in store.store.list_nodes().nodes}
    assert again == {a.epoch: counts[a.epoch] + 1, b.epoch: counts[b.epoch]}


def test_a_check_in_after_a_gap_says_since_when_the_node_is_back(store: Harness) -> None:
    node = store.node("a")

    def back_since_after(seconds: float) -> datetime | None:
        store.clock.advance(seconds * SECOND)
        [record] = store.store.check_in(node).nodes
        assert record == store.store.list_nodes().nodes[0]
        return record.back_since

    assert [back_since_after(seconds) for seconds in (5, 10, 5)] == [None, None, None]
    assert back_since_after(11) == at(31)
    assert [back_since_after(seconds) for seconds in (5, 5)] == [at(31), at(31)]
    assert back_since_after(600) == at(641)


def test_a_check_in_says_what_the_node_finds_wrong_with_itself(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    long = NodeProblem("failing-thread", f"it failed:\n{'x' * 1_000}\x1b[31m", "node-scheduler", at(-3))
    store.store.check_in(a, problems=[NodeProblem("schema", "a table is missing"), long] + 20 * [long])
    nodes = {record.instance_id: record for record in store.store.check_in(b).nodes}
    assert nodes["b"].problems == ()
    assert nodes["a"].problems[:2] == (
        NodeProblem("schema", "a table is missing"),
        NodeProblem("failing-thread", "it failed: ...", "node-scheduler", at(-3)),
    )
    assert len(nodes["a"].problems) == MAX_PROBLEMS
    assert store.store.list_nodes().nodes == tuple(nodes.values())
    [own, _] = store.store.check_in(a).nodes
    assert own.problems == ()


def test_the_store_tells_its_own_time(store: Harness) -> None:
    assert store.store.now() == START
    store.clock.advance(HOUR)
    assert store.store.now() == START + HOUR


def test_an_epoch_is_never_given_twice(store: Harness) -> None:
    given = []
    for name in ("a", "b", "a", "a"):
        node = store.node(name)
        given.append(node.epoch)
        store.store.leave(node)
    assert given == sorted(set(given))


def test_the_id_of_a_living_node_is_refused(store: Harness) -> None:
    node = store.node("a")
    store.clock.advance(WINDOW - SECOND)
    with pytest.raises(InstanceIdInUseError, match="host host, pid 4711"):
        store.node("a")
    store.store.check_in(node)


def test_an_epoch_that_was_silent_for_the_window_is_replaced_and_recovered(store: Harness) -> None:
    old = store.node("a")
    store.schedule(serial(), every(60))
    store.fire_one(old)
    store.clock.advance(WINDOW + SECOND)
    new = store.node("a")
    assert new.epoch > old.epoch
    assert [record.epoch for record in store.store.list_nodes().nodes] == [new.epoch]
    assert store.state("every") == "WAITING"
    assert [record.outcome for record in store.history()] == [Outcome.TERMINATED]
    with pytest.raises(LeaseLostError):
        store.store.check_in(old)
    store.store.check_in(new)


def test_an_epoch_that_has_certainly_ended_is_replaced_at_once(store: Harness) -> None:
    old = store.node("a")
    store.schedule(job(requests_recovery=True), every(60))
    store.fire_one(old)
    new = store.node("a", ended_epoch=old.epoch)
    [again] = store.fire_due(new)
    assert again.trigger_key.group == "RECOVERING_JOBS"
    with pytest.raises(LeaseLostError):
        store.acquire(old)


def test_another_epoch_than_the_one_that_is_gone_is_not_replaced(store: Harness) -> None:
    node = store.node("a")
    with pytest.raises(InstanceIdInUseError):
        store.node("a", ended_epoch=node.epoch + 1000)
    store.store.check_in(node)


def test_registering_leaves_the_work_of_other_nodes_alone(store: Harness) -> None:
    a = store.node("a")
    store.schedule(serial(), every(60))
    fired = store.fire_one(a)
    store.node("b")
    assert store.state("every") == "BLOCKED"
    assert not store.complete(a, fired).fenced


def test_a_node_that_leaves_is_seen_no_more(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(), once("theirs"))
    store.fire_one(b)
    store.store.leave(a)
    assert [record.instance_id for record in store.store.list_nodes().nodes] == ["b"]
    assert [row.epoch for row in store.running()] == [b.epoch]
    with pytest.raises(LeaseLostError):
        store.acquire(a)


def test_what_a_node_executed_when_it_left_is_recovered_by_the_others(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(serial(), every(60))
    store.fire_one(a)
    store.store.leave(a)
    assert store.state("every") == "BLOCKED"
    assert store.store.recover(b, []).lost == 1
    assert store.state("every") == "WAITING"


def test_leaving_twice_changes_nothing(store: Harness) -> None:
    a = store.node("a")
    store.store.leave(a)
    new = store.node("a")
    store.store.leave(a)
    store.store.check_in(new)


def test_a_dead_epoch_cannot_check_in(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.recover(b, a)
    with pytest.raises(LeaseLostError):
        store.store.check_in(a)
    with pytest.raises(LeaseLostError):
        store.store.check_in(Node("nobody", 12345))


# --- comparing the node's executions with the store's


def test_reconciling_finds_fires_whose_answer_was_lost(store: Harness) -> None:
    node = store.node()
    store.schedule(job(data={"a": 1}), every(60, data={"b": 2}), once("known"))
    known, unknown = sorted(store.acquire(node).fired, key=lambda fired: fired.trigger_name != "known")
    found = store.reconcile(node, executions=[known])
    [fired] = found.fired
    assert (fired.fire_id, fired.trigger_key, fired.job_key) == (unknown.fire_id, key("every"), unknown.job_key)
    assert (fired.scheduled_fire_time, fired.fire_time) == (START, START)
    assert (fired.next_fire_time, fired.generation) == (at(60), unknown.generation)
    assert data_of(fired) == ({"a": 1}, {"b": 2})
    assert fired.job_detail == unknown.job_detail
    assert found.holdings.executions == {known.fire_id, unknown.fire_id}
    store.complete(node, fired, known)
    assert not store.store.list_running()
    assert store.states("every", "known") == ["WAITING", "gone"]


def test_a_fire_ahead_of_its_instant_whose_answer_was_lost_is_found(store: Harness) -> None:
    """Nothing may hide the execution, or nobody would ever run it."""
    node = store.node()
    store.schedule(serial(), every(60, start=at(1)), once("other", at(30)))
    [lost] = store.acquire(node, look_ahead=2 * SECOND).fired
    [fired] = store.reconcile(node).fired
    assert (fired.fire_id, fired.fire_time) == (lost.fire_id, at(1))
    store.complete(node, fired)
    assert store.states("every", "other") == ["WAITING", "WAITING"]


def test_a_fire_that_reconciling_found_can_be_completed_like_any_other(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), once(), once("other", at(50)))
    store.fire_one(node)
    [fired] = store.reconcile(node).fired
    assert fired.next_fire_time is None
    store.complete(node, fired)
    assert store.states("once", "other") == ["gone", "WAITING"]


def test_reconciling_keeps_the_coalesced_fire_times(store: Harness) -> None:
    node = store.node()
    store.schedule(job(max_concurrent=1, overlap_policy="buffer_one"), every(10))
    store.clock.advance(25 * SECOND)
    [lost] = store.acquire(node).fired
    assert lost.coalesced_fire_times == (at(0), at(10), at(20))
    assert store.reconcile(node).fired[0].coalesced_fire_times == lost.coalesced_fire_times


def test_reconciling_when_all_is_known_changes_nothing(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), every(60))
    store.schedule(job("other"), once(when=at(1)))
    took = store.acquire(node, look_ahead=SECOND)
    before = store.everything()
    found = store.reconcile(node, executions=took.fired)
    assert not found.fired
    assert store.everything() == before
    holdings = store.store.holdings(node)
    assert holdings == found.holdings
    assert holdings.executions == {one.fire_id for one in took.fired}


def test_reconciling_is_about_the_nodes_own_epoch_only(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(), every(60))
    store.fire_one(a)
    found = store.reconcile(b)
    assert not found.fired
    assert not store.store.holdings(b).executions
    assert len(store.running()) == 1


def test_a_fire_of_a_trigger_that_is_gone_is_still_found(store: Harness) -> None:
    node = store.node()
    store.schedule(job(durable=True), every(60, data={"b": 2}))
    old = store.fire_one(node)
    store.store.delete_triggers([key("every")])
    [fired] = store.reconcile(node).fired
    assert (fired.fire_id, fired.trigger_key) == (old.fire_id, key("every"))
    assert data_of(fired)[1] == {"b": 2}
    assert fired.job_detail.key == old.job_key
    store.complete(node, fired)
    assert not store.store.list_running()


def test_a_dead_epoch_holds_nothing(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(), every(60))
    store.fire_one(a)
    store.recover(b, a)
    with pytest.raises(LeaseLostError):
        store.reconcile(a)
    with pytest.raises(LeaseLostError):
        store.store.holdings(a)
