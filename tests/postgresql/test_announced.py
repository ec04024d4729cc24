"""What a node does that was told of a due trigger, and never at the price of a lock for nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from quartzpy.errors import LeaseLostError, OutcomeUnknownError
from quartzpy.jobs.job import JobDetail
from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.pool import PoolShare
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import Acquisition, AvailableSlots, Expectation, JobEntry, Node
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import prepare
from tests.postgresql.conftest import register

TYPE = "announced"
SECOND = timedelta(seconds=1)
PLAIN = JobDetail(TYPE, "plain", durable=True)
LOOK, CLAIM = "a look", "a claim under the lock"
Connect = Callable[[], psycopg.Connection[Any]]


@pytest.fixture
def node(store: SqlJobStore) -> Node:
    """A node for which nothing waits."""
    node = register(store)
    assert take(store, node).next_due is None
    return node


@pytest.fixture
def other(make_store: Callable[..., SqlJobStore]) -> SqlJobStore:
    """The store of another process."""
    return make_store()


@pytest.fixture
def pipelines(store: SqlJobStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The round trips of the acquire steps of `store`."""
    seen: list[str] = []
    execute = store._connections.execute

    def noted(sends: list[BoundStatement], share: PoolShare) -> Any:
        seen.append(CLAIM if len(sends) > 1 else LOOK)
        return execute(sends, share)

    monkeypatch.setattr(store._connections, "execute", noted)
    return seen


def add(store: SqlJobStore, job: JobDetail, name: str) -> None:
    now = datetime.now(UTC)
    trigger = SimpleTrigger(name, job_key=job.key, start_time=now - SECOND)
    store.store_jobs([JobEntry(job, [prepare(trigger, now, None)])], replace=True)


def take(store: SqlJobStore, node: Node) -> Acquisition:
    """Take a step that expects nothing, as of a node that was told of something."""
    return store.acquire(
        node,
        [AvailableSlots()],
        limit=10,
        look_ahead=timedelta(),
        misfire_threshold=timedelta(minutes=1),
        expected=Expectation(reads_first=True),
    )


def fired(took: Acquisition) -> list[str]:
    return sorted(one.trigger_name for one in took.fired)


def locker(connect: Connect) -> int:
    """Return the transaction that was the last one to lock TRIGGER_ACCESS."""
    row = connect().execute("SELECT xmax::text::bigint FROM qrtz_locks WHERE lock_name = 'TRIGGER_ACCESS'").fetchone()
    assert row is not None
    return int(row[0])


def test_a_node_that_comes_after_another_one_takes_no_lock(
    store: SqlJobStore, node: Node, other: SqlJobStore, connect: Connect, pipelines: list[str]
) -> None:
    add(other, PLAIN, "t")
    assert fired(take(other, register(other, "other"))) == ["t"]
    before = locker(connect)
    took = take(store, node)
    assert not took.fired
    assert took.next_due is None
    assert pipelines == [LOOK]
    assert locker(connect) == before


def test_a_trigger_whose_row_is_locked_is_due_next(
    store: SqlJobStore, node: Node, other: SqlJobStore, connect: Connect
) -> None:
    add(other, PLAIN, "t")
    holder = connect()
    with holder.transaction():
        holder.execute("SELECT FROM qrtz_triggers FOR UPDATE")
        took = take(store, node)
    assert not took.fired
    assert took.next_due is not None
    assert took.next_due < took.now
    assert fired(take(store, node)) == ["t"]


def test_a_node_that_was_declared_dead_fires_nothing(
    store: SqlJobStore, node: Node, other: SqlJobStore, connect: Connect
) -> None:
    add(other, PLAIN, "t")
    connect().execute("DELETE FROM qrtz_scheduler_state")
    with pytest.raises(LeaseLostError):
        take(store, node)
    assert connect().execute("SELECT count(*) FROM qrtz_fired_triggers").fetchall() == [(0,)]


def test_a_fire_whose_answer_was_lost_is_found_again(
    store: SqlJobStore, node: Node, other: SqlJobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(other, PLAIN, "t")
    execute = store._connections.execute

    def lost(sends: list[BoundStatement], share: PoolShare) -> Any:
        results = execute(sends, share)
        if len(sends) == 1:
            return results
        raise OutcomeUnknownError("the connection broke during the commit")

    with monkeypatch.context() as patched:
        patched.setattr(store._connections, "execute", lost)
        with pytest.raises(OutcomeUnknownError):
            take(store, node)
    assert fired(take(store, node)) == [], "it fires once"
    assert [one.trigger_name for one in store.reconcile(node, executions=()).fired] == ["t"]
