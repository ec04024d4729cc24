"""A node that was told of a due trigger claims it without a look, and never at the price of a lock for nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from quartzpy.errors import LeaseLostError, OutcomeUnknownError
from quartzpy.jobs.job import JobDetail
from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.pool import PoolShare
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import Acquisition, AvailableSlots, JobEntry, Node, Notification, Subscription
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import prepare
from tests.postgresql.conftest import register
from tests.waiting import wait_until

TYPE = "announced"
SECOND = timedelta(seconds=1)
PLAIN = JobDetail(TYPE, "plain", durable=True)
SERIAL = JobDetail(TYPE, "serial", durable=True, disallow_concurrent=True)
LOOK, CLAIM_IF_DUE, CLAIM = "a look", "a claim if one is due", "a claim under the lock"
Connect = Callable[[], psycopg.Connection[Any]]


@pytest.fixture
def node(store: SqlJobStore) -> Node:
    """A node that expects nothing."""
    node = register(store)
    assert take(store, node).next_due is None
    return node


@pytest.fixture
def other(make_store: Callable[..., SqlJobStore]) -> SqlJobStore:
    """The store of another process."""
    return make_store()


@pytest.fixture
def news(store: SqlJobStore) -> Iterator[Subscription]:
    found = store.subscribe()
    assert found is not None
    yield found
    found.close()


@pytest.fixture
def pipelines(store: SqlJobStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The round trips of the acquire steps of `store`."""
    seen: list[str] = []
    execute = store._connections.execute

    def noted(sends: list[BoundStatement], share: PoolShare) -> Any:
        texts = [send.statement.sql.decode() for send in sends]
        kind = CLAIM_IF_DUE if "SKIP LOCKED" in texts[0] else CLAIM if len(texts) > 1 else LOOK
        seen.append(kind)
        return execute(sends, share)

    monkeypatch.setattr(store._connections, "execute", noted)
    return seen


def add(store: SqlJobStore, job: JobDetail, name: str, due_in: timedelta = -SECOND) -> None:
    now = datetime.now(UTC)
    trigger = SimpleTrigger(name, job_key=job.key, start_time=now + due_in)
    store.store_jobs([JobEntry(job, [prepare(trigger, now, None)])], replace=True)


def announce(store: SqlJobStore) -> None:
    store._session.next_due.note_announcement()


def take(store: SqlJobStore, node: Node) -> Acquisition:
    return store.acquire(
        node, [AvailableSlots()], limit=10, look_ahead=timedelta(), misfire_threshold=timedelta(minutes=1)
    )


def fired(took: Acquisition) -> list[str]:
    return sorted(one.trigger_name for one in took.fired)


def locker(connect: Connect) -> int:
    """Return the transaction that was the last one to lock TRIGGER_ACCESS."""
    row = connect().execute("SELECT xmax::text::bigint FROM qrtz_locks WHERE lock_name = 'TRIGGER_ACCESS'").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("due_in", [-SECOND, timedelta(hours=1)])
def test_only_a_trigger_that_is_due_is_announced_as_due(
    store: SqlJobStore, other: SqlJobStore, news: Subscription, due_in: timedelta
) -> None:
    add(other, PLAIN, "t", due_in)
    assert wait_until(lambda: news.wait(1)) == {Notification.SCHEDULED}
    assert store._session.next_due.take_announcement() is (due_in < timedelta())
    assert not store._session.next_due.take_announcement()


def test_a_new_trigger_is_announced_as_due_as_well(store: SqlJobStore, other: SqlJobStore, news: Subscription) -> None:
    other.store_jobs([JobEntry(PLAIN)], replace=False)
    assert other._session.expects_new
    other.now()
    now = datetime.now(UTC)
    one = prepare(SimpleTrigger("t", job_key=PLAIN.key, start_time=now - SECOND), now, None)
    other.store_jobs([JobEntry(None, [one])], replace=False)
    assert wait_until(lambda: news.wait(1)) == {Notification.SCHEDULED}
    assert store._session.next_due.take_announcement()


def test_an_announced_trigger_is_claimed_in_one_round_trip(
    store: SqlJobStore, node: Node, other: SqlJobStore, pipelines: list[str]
) -> None:
    add(other, PLAIN, "t")
    announce(store)
    took = take(store, node)
    assert fired(took) == ["t"]
    assert pipelines == [CLAIM_IF_DUE]
    assert took.next_due is not None
    assert took.next_due < took.now, "the node soon looks for what is left"
    assert take(store, node).next_due is None
    assert pipelines == [CLAIM_IF_DUE, LOOK]


def test_a_node_that_comes_after_another_one_takes_no_lock(
    store: SqlJobStore, node: Node, other: SqlJobStore, connect: Connect, pipelines: list[str]
) -> None:
    add(other, PLAIN, "t")
    assert fired(take(other, register(other, "other"))) == ["t"]
    before = locker(connect)
    announce(store)
    took = take(store, node)
    assert not took.fired
    assert took.next_due is None
    assert pipelines == [CLAIM_IF_DUE, LOOK]
    assert locker(connect) == before


def test_a_node_that_finds_the_lock_taken_looks_and_waits_only_for_a_trigger_that_is_left(
    store: SqlJobStore, node: Node, other: SqlJobStore, connect: Connect, pipelines: list[str]
) -> None:
    add(other, PLAIN, "t")
    holder = connect()
    holder.execute("BEGIN")
    holder.execute("SELECT FROM qrtz_locks WHERE lock_name = 'TRIGGER_ACCESS' FOR UPDATE")
    announce(store)
    found: list[Acquisition] = []
    thread = threading.Thread(target=lambda: found.append(take(store, node)))
    thread.start()
    wait_until(lambda: pipelines == [CLAIM_IF_DUE, LOOK, CLAIM])
    assert not found
    holder.execute("ROLLBACK")
    thread.join()
    assert fired(found[0]) == ["t"]


def test_a_node_that_finds_the_lock_taken_leaves_it_if_the_trigger_is_gone_then(
    store: SqlJobStore,
    node: Node,
    other: SqlJobStore,
    connect: Connect,
    pipelines: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add(other, PLAIN, "t")
    holder = connect()
    holder.execute("BEGIN")
    holder.execute("SELECT FROM qrtz_locks WHERE lock_name = 'TRIGGER_ACCESS' FOR UPDATE")
    unlocked = store._steps.unlocked

    def then_the_holder_claims(*sends: BoundStatement) -> Any:
        results = unlocked(*sends)
        holder.execute("UPDATE qrtz_triggers SET trigger_state = 'PAUSED'")
        holder.execute("COMMIT")
        return results

    monkeypatch.setattr(store._steps, "unlocked", then_the_holder_claims)
    announce(store)
    assert not take(store, node).fired
    assert pipelines == [CLAIM_IF_DUE, LOOK]


def test_a_trigger_with_a_limit_is_claimed_under_the_lock(
    store: SqlJobStore, node: Node, other: SqlJobStore, pipelines: list[str]
) -> None:
    add(other, SERIAL, "a")
    add(other, SERIAL, "b")
    announce(store)
    assert fired(take(store, node)) == ["a"]
    assert pipelines == [CLAIM_IF_DUE, LOOK, CLAIM]


def test_what_an_announced_claim_leaves_is_found_by_the_next_look(
    store: SqlJobStore, node: Node, other: SqlJobStore
) -> None:
    add(other, PLAIN, "plain", -2 * SECOND)
    add(other, SERIAL, "serial")
    announce(store)
    assert fired(take(store, node)) == ["plain"]
    assert fired(take(store, node)) == ["serial"]


def test_a_trigger_whose_row_is_locked_is_due_next(
    store: SqlJobStore, node: Node, other: SqlJobStore, connect: Connect
) -> None:
    add(other, PLAIN, "t")
    holder = connect()
    with holder.transaction():
        holder.execute("SELECT FROM qrtz_triggers FOR UPDATE")
        announce(store)
        took = take(store, node)
    assert not took.fired
    assert took.next_due is not None
    assert took.next_due < took.now
    assert fired(take(store, node)) == ["t"]


def test_a_node_that_was_declared_dead_claims_nothing(
    store: SqlJobStore, node: Node, other: SqlJobStore, connect: Connect
) -> None:
    add(other, PLAIN, "t")
    connect().execute("DELETE FROM qrtz_scheduler_state")
    announce(store)
    with pytest.raises(LeaseLostError):
        take(store, node)
    assert connect().execute("SELECT count(*) FROM qrtz_fired_triggers").fetchall() == [(0,)]


def test_a_fire_whose_answer_was_lost_is_found_again(
    store: SqlJobStore, node: Node, other: SqlJobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(other, PLAIN, "t")
    execute = store._connections.execute

    def lost(sends: list[BoundStatement], share: PoolShare) -> Any:
        execute(sends, share)
        raise OutcomeUnknownError("the connection broke during the commit")

    with monkeypatch.context() as patched:
        patched.setattr(store._connections, "execute", lost)
        announce(store)
        with pytest.raises(OutcomeUnknownError):
            take(store, node)
    assert fired(take(store, node)) == [], "it fires once"
    assert [one.trigger_name for one in store.reconcile(node, claims=(), executions=()).fired] == ["t"]
