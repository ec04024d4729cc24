"""Executions that affect nothing else end without the lock: exactly once, whoever else writes the same rows."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from quartzpy.jobs.job import JobDetail
from quartzpy.keys import TriggerKey
from quartzpy.states import Outcome
from quartzpy.store.postgresql.steps import plain_completions
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import Completion, CompletionOutcome, FiredTrigger, JobEntry, Node
from quartzpy.store.queries import HISTORY
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import prepare
from tests.postgresql.conftest import register
from tests.postgresql.test_faults import LANES, acquire, ended, store_due

Connect = Callable[[], psycopg.Connection[Any]]


def running(store: SqlJobStore, node: Node, *names: str) -> list[FiredTrigger]:
    store_due(store, *names)
    fired = sorted(acquire(store, node).fired, key=lambda one: names.index(one.trigger_name))
    assert len(fired) == len(names)
    assert all(plain_completions.is_plain(ended(one)) for one in fired)
    return fired


def outcomes(store: SqlJobStore) -> dict[str, Outcome]:
    return {row.trigger_key.name: Outcome(row.state) for row in store.find(HISTORY, 100)}


class Completing:
    """A completion on a thread of its own."""

    def __init__(self, store: SqlJobStore, node: Node, *fired: FiredTrigger) -> None:
        self._outcome: CompletionOutcome | None = None
        self._act = lambda: store.complete(node, [ended(one) for one in fired])
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        self._outcome = self._act()

    def outcome(self) -> CompletionOutcome:
        self.thread.join(30)
        assert self._outcome is not None
        return self._outcome


def test_a_completion_does_not_wait_for_the_lock(store: SqlJobStore, connect: Connect) -> None:
    node = register(store)
    [fired] = running(store, node, "a")
    holder = connect()
    with holder.transaction():
        holder.execute("SELECT FROM qrtz_locks FOR UPDATE")
        assert not Completing(store, node, fired).outcome().fenced
    assert outcomes(store) == {"a": Outcome.SUCCEEDED}


def test_a_completion_that_comes_behind_the_recovery_of_its_node_has_no_effect(
    store: SqlJobStore, connect: Connect
) -> None:
    node = register(store)
    fired, other = running(store, node, "a", "b")
    recovery = connect()
    with recovery.transaction():
        recovery.execute("DELETE FROM qrtz_fired_triggers WHERE fire_id = %s", [fired.fire_id])
        outcome = Completing(store, node, fired, other).outcome()
        assert not outcome.fenced
        assert set(outcome.deferred) == {fired.fire_id}, "nobody knows yet how the recovery ends"
    assert set(store.complete(node, [ended(fired)]).fenced) == {fired.fire_id}
    assert outcomes(store) == {"b": Outcome.SUCCEEDED}


def test_a_recovery_leaves_an_execution_that_is_being_completed(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore], connect: Connect
) -> None:
    node, other = register(store), register(make_store(), "other")
    fired, lost = running(store, node, "a", "b")
    completion = connect()
    with completion.transaction():
        completion.execute("DELETE FROM qrtz_fired_triggers WHERE fire_id = %s", [fired.fire_id])
        dead = [one for one in store.list_nodes().nodes if one.instance_id == node.instance_id]
        assert make_store().recover(other, dead).lost == 1
    assert outcomes(store) == {"b": Outcome.TERMINATED}, "the completion writes the record of the other"
    assert not make_store().recover(other, []).changed_anything
    assert set(store.complete(node, [ended(lost)]).fenced) == {lost.fire_id}


def test_a_completion_is_recorded_although_its_trigger_was_deleted(store: SqlJobStore) -> None:
    node = register(store)
    [fired] = running(store, node, "a")
    store.delete_triggers([TriggerKey("a")])
    assert not store.complete(node, [ended(fired)]).fenced
    assert outcomes(store) == {"a": Outcome.SUCCEEDED}


def states(connect: Connect) -> dict[str, str]:
    return dict(connect().execute("SELECT trigger_name, trigger_state FROM qrtz_triggers").fetchall())


@pytest.mark.parametrize("waits", [False, True], ids=["nothing waits", "a trigger waits"])
def test_an_execution_of_a_job_with_a_limit_is_ended_without_the_lock(
    store: SqlJobStore, connect: Connect, waits: bool
) -> None:
    node = register(store)
    store_due(store, *("ab" if waits else "a"), serial=True)
    [fired] = acquire(store, node).fired
    holder = connect()
    with holder.transaction():
        holder.execute("SELECT FROM qrtz_locks FOR UPDATE")
        assert not Completing(store, node, fired).outcome().fenced
    assert outcomes(store) == {"a": Outcome.SUCCEEDED}
    if waits:
        assert states(connect)["b"] == "BLOCKED"
        assert fired.gate is not None
        assert [one.trigger_name for one in acquire(store, node, opened=[fired.gate]).fired] == ["b"]


@pytest.mark.parametrize("has_limit", [False, True], ids=["plain", "limit"])
def test_an_instant_that_was_recorded_before_is_reported_and_does_not_hold_up_others(
    store: SqlJobStore, connect: Connect, caplog: pytest.LogCaptureFixture, has_limit: bool
) -> None:
    node = register(store)
    store_due(store, "a", job="a", serial=has_limit)
    store_due(store, "b", job="b", serial=has_limit)
    first, second = sorted(acquire(store, node).fired, key=lambda one: one.trigger_name)
    assert all(plain_completions.is_plain(ended(one)) for one in (first, second))
    connect().execute(
        "INSERT INTO qrtz_executions (fire_id, sched_name, trigger_group, trigger_name, generation, job_group,"
        " job_name, job_type, instance_id, fired_time, scheduled_time, ended_at, outcome)"
        " SELECT 0, sched_name, trigger_group, trigger_name, generation, job_group, job_name, job_type, instance_id,"
        " fired_time, scheduled_time, now(), 'FAILED' FROM qrtz_fired_triggers WHERE fire_id = %s",
        [first.fire_id],
    )
    with caplog.at_level(logging.ERROR):
        assert not store.complete(node, [ended(first), ended(second)]).fenced
    assert f"the instant of fire {first.fire_id} was executed before" in caplog.text
    assert outcomes(store) == {"a": Outcome.FAILED, "b": Outcome.SUCCEEDED}
    assert not store.holdings(node).executions


def test_a_completion_that_is_sent_again_is_recorded_once(store: SqlJobStore, connect: Connect) -> None:
    node = register(store)
    [fired] = running(store, node, "a")
    for _ in range(2):
        outcome = store.complete(node, [ended(fired)])
        assert not outcome.fenced
        assert not outcome.deferred
    assert outcomes(store) == {"a": Outcome.SUCCEEDED}


def once(store: SqlJobStore, node: Node, name: str, *, durable: bool = True) -> FiredTrigger:
    """Return the running execution of a one-shot trigger, which is its job's only one."""
    store_once(store, name, durable=durable)
    [fired] = acquire(store, node).fired
    return fired


def store_once(store: SqlJobStore, name: str, *, durable: bool = True) -> None:
    now = datetime.now(UTC)
    detail = JobDetail(LANES[0].job_type, "once", durable=durable)
    trigger = SimpleTrigger(name, job_key=detail.key, start_time=now - timedelta(seconds=1))
    store.store_jobs([JobEntry(detail, [prepare(trigger, now, None)])], replace=True)


def rows(connect: Connect) -> tuple[list[str], list[str]]:
    """Return the names of all triggers and of all jobs."""
    connection = connect()
    triggers = connection.execute("SELECT trigger_name FROM qrtz_triggers ORDER BY 1").fetchall()
    jobs = connection.execute("SELECT job_name FROM qrtz_job_details ORDER BY 1").fetchall()
    return [name for (name,) in triggers], [name for (name,) in jobs]


def test_the_last_fire_of_a_durable_job_ends_its_trigger_without_the_lock(store: SqlJobStore, connect: Connect) -> None:
    node = register(store)
    fired = once(store, node, "a")
    holder = connect()
    with holder.transaction():
        holder.execute("SELECT FROM qrtz_locks FOR UPDATE")
        assert not Completing(store, node, fired).outcome().fenced
    assert outcomes(store) == {"a": Outcome.SUCCEEDED}
    assert rows(connect) == ([], ["once"])


def test_the_last_fire_of_a_job_that_is_not_durable_ends_both_under_the_lock(
    store: SqlJobStore, connect: Connect
) -> None:
    node = register(store)
    fired = once(store, node, "a", durable=False)
    assert not plain_completions.is_plain(ended(fired))
    assert not store.complete(node, [ended(fired)]).fenced
    assert rows(connect) == ([], [])


def test_the_last_fire_ends_a_job_that_has_become_non_durable_meanwhile(store: SqlJobStore, connect: Connect) -> None:
    node = register(store)
    fired = once(store, node, "a")
    connect().execute("UPDATE qrtz_job_details SET is_durable = false")
    assert plain_completions.is_plain(ended(fired))
    assert not store.complete(node, [ended(fired)]).fenced
    assert rows(connect) == ([], [])


def test_the_last_fire_of_a_trigger_that_was_replaced_meanwhile_does_not_end_the_new_one(
    store: SqlJobStore, connect: Connect
) -> None:
    node = register(store)
    fired = once(store, node, "a")
    store_once(store, "a")
    assert plain_completions.is_plain(ended(fired))
    assert not store.complete(node, [ended(fired)]).fenced
    assert rows(connect) == (["a"], ["once"])
    assert len(acquire(store, node).fired) == 1


def test_the_end_of_a_trigger_does_not_wait_for_a_users_transaction(store: SqlJobStore, connect: Connect) -> None:
    node = register(store)
    fired = once(store, node, "a")
    user = connect()
    with user.transaction():
        user.execute("SELECT FROM qrtz_triggers FOR UPDATE")
        assert not Completing(store, node, fired).outcome().fenced
    assert outcomes(store) == {"a": Outcome.SUCCEEDED}
    store.repair()
    assert rows(connect) == ([], ["once"]), "the repair of stuck triggers deletes it"


def test_the_history_has_the_instants_to_the_microsecond(store: SqlJobStore) -> None:
    node = register(store)
    [fired] = running(store, node, "a")
    began, ended_at = (fired.fire_time + n * timedelta(microseconds=1) for n in (1, 3))
    store.complete(node, [Completion(fired, began, ended_at, Outcome.SUCCEEDED)])
    [record] = store.find(HISTORY, 1)
    assert (record.started_at, record.ended_at) == (began, ended_at)
