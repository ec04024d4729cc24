"""What a node runs and refuses, as its steps find it in its row."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from quartzpy.jobs.job import JobDetail
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import AvailableSlots, DispatchKey, JobEntry, Node
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import prepare
from tests.postgresql.conftest import register

FIRST, SECOND, THIRD = map(DispatchKey, ("first", "second", "third"))
LABELLED = DispatchKey("first", '{"labels":["gpu"]}')
Connect = Callable[[], psycopg.Connection[Any]]


@pytest.fixture
def node(store: SqlJobStore) -> Node:
    return register(store, runs=())


def said(connection: psycopg.Connection[Any]) -> tuple[set[DispatchKey], set[DispatchKey]]:
    """What the node runs, and what it refuses. Both are in ascending order."""
    [(runs, refuses)] = connection.execute("SELECT runs, refuses FROM qrtz_scheduler_state").fetchall()
    assert (runs, refuses) == (sorted(set(runs)), sorted(set(refuses)))
    keys = [FIRST, SECOND, THIRD, LABELLED]
    hashes = [
        connection.execute("SELECT hashtextextended(%s, hashtextextended(%s, 0))", key).fetchall()[0][0] for key in keys
    ]
    named = dict(zip(hashes, keys, strict=True))
    return {named[one] for one in runs}, {named[one] for one in refuses}


def fired(store: SqlJobStore, node: Node, job_types: Collection[str]) -> set[str]:
    """Store a due trigger for each job type, and return the types of those that a step fires."""
    now = datetime.now(UTC)
    for job_type in job_types:
        detail = JobDetail(job_type, job_type, durable=True)
        trigger = SimpleTrigger(job_type, job_key=detail.key, start_time=now - timedelta(seconds=1))
        store.store_jobs([JobEntry(detail, [prepare(trigger, now, None)])], replace=True)
    took = store.acquire(
        node, [AvailableSlots()], limit=100, look_ahead=timedelta(), misfire_threshold=timedelta(hours=1)
    )
    return {one.job_type for one in took.fired}


def test_what_a_node_says_is_in_its_row(store: SqlJobStore, node: Node, connect: Connect) -> None:
    connection = connect()
    assert said(connection) == (set(), set())
    assert store.decide(node, {FIRST: True, LABELLED: True, SECOND: False})
    assert said(connection) == ({FIRST, LABELLED}, {SECOND})
    store.decide(node, {SECOND: True})
    assert said(connection) == ({FIRST, LABELLED, SECOND}, set())
    store.decide(node, {FIRST: False, LABELLED: False, THIRD: False})
    assert said(connection) == ({SECOND}, {FIRST, LABELLED, THIRD})
    assert fired(store, node, ["first", "second", "third"]) == {"second"}


def test_another_epoch_has_said_nothing(store: SqlJobStore, node: Node, connect: Connect) -> None:
    store.decide(node, {FIRST: True})
    store.leave(node)
    again = register(store, runs=())
    assert said(connect()) == (set(), set())
    assert fired(store, again, ["first"]) == set()


@pytest.mark.parametrize("number", [100, 20_000])
def test_each_of_many_keys_is_found(store: SqlJobStore, node: Node, number: int) -> None:
    store.decide(node, {DispatchKey(f"type-{n}"): n % 2 == 0 for n in range(number)})
    types = [f"type-{n}" for n in range(0, number, number // 10 - 1)]
    assert fired(store, node, types) == {name for name in types if int(name[5:]) % 2 == 0}


def test_a_decision_does_not_wait_for_whoever_has_locked_the_row_of_its_node(
    store: SqlJobStore, node: Node, connect: Connect
) -> None:
    store.decide(node, {FIRST: True})
    connection = connect()
    with connection.transaction():
        connection.execute("SELECT FROM qrtz_scheduler_state FOR UPDATE")
        assert not store.decide(node, {FIRST: False, SECOND: True})
        assert fired(store, node, ["first", "second"]) == {"first"}
    assert store.decide(node, {FIRST: False, SECOND: True})
    assert said(connection) == ({SECOND}, {FIRST})
