"""What a node runs, as its steps find it by hashes in `qrtz_scheduler_state.accepted_keys`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from quartzpy.jobs.job import JobDetail
from quartzpy.store.postgresql.steps import node_keys
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import AvailableSlots, DispatchKey, JobEntry, Node
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import prepare
from tests.postgresql.conftest import register

FIRST, SECOND, LABELLED = DispatchKey("first"), DispatchKey("second"), DispatchKey("first", '{"labels":["gpu"]}')
HASHES_OF_TABLE = """
SELECT coalesce(array_agg(hash ORDER BY hash), '{}')
  FROM (SELECT hashtextextended(job_type, hashtextextended(placement, 0)) AS hash FROM qrtz_node_keys WHERE runs) AS s
"""
Connect = Callable[[], psycopg.Connection[Any]]


@pytest.fixture
def node(store: SqlJobStore) -> Node:
    return register(store, runs=())


def accepted(connection: psycopg.Connection[Any]) -> Any:
    [(hashes,)] = connection.execute("SELECT accepted_keys FROM qrtz_scheduler_state").fetchall()
    return hashes


def of_table(connection: psycopg.Connection[Any]) -> Any:
    [(hashes,)] = connection.execute(HASHES_OF_TABLE).fetchall()
    return hashes


def fired(store: SqlJobStore, node: Node, job_types: Collection[str]) -> set[str]:
    """Store a due trigger for each job type, and return the types of those that a step fires."""
    now = datetime.now(UTC)
    for job_type in job_types:
        detail = JobDetail(job_type, job_type, durable=True)
        trigger = SimpleTrigger(job_type, job_key=detail.key, start_time=now - timedelta(seconds=1))
        store.store_jobs([JobEntry(detail, [prepare(trigger, now, None)])], replace=True)
    took = store.acquire(
        node, [AvailableSlots()], limit=10, look_ahead=timedelta(), misfire_threshold=timedelta(hours=1)
    )
    return {one.job_type for one in took.fired}


def test_a_node_notes_the_hashes_of_what_it_runs(store: SqlJobStore, node: Node, connect: Connect) -> None:
    connection = connect()
    assert accepted(connection) is None
    store.decide(node, {FIRST: True, LABELLED: True, SECOND: False})
    assert accepted(connection) == of_table(connection)
    assert len(accepted(connection)) == 2
    store.decide(node, {SECOND: True})
    assert accepted(connection) == of_table(connection)
    assert len(accepted(connection)) == 3
    store.decide(node, {FIRST: False, LABELLED: False})
    assert accepted(connection) == of_table(connection)
    store.decide(node, {SECOND: False})
    assert accepted(connection) is None


def test_another_epoch_has_accepted_nothing(store: SqlJobStore, node: Node, connect: Connect) -> None:
    store.decide(node, {FIRST: True})
    store.leave(node)
    again = register(store, runs=())
    assert accepted(connect()) is None
    assert fired(store, again, ["first"]) == set()


def test_a_key_is_found_by_its_hash_and_others_by_a_look_up(store: SqlJobStore, node: Node, connect: Connect) -> None:
    """So it does not matter whether the array has all of them."""
    store.decide(node, {FIRST: True, SECOND: True})
    connection = connect()
    connection.execute("UPDATE qrtz_scheduler_state SET accepted_keys = accepted_keys[1:1]")
    assert fired(store, node, ["first", "second", "third"]) == {"first", "second"}
    connection.execute("DELETE FROM qrtz_node_keys")
    assert len(fired(store, node, ["first", "second", "third"])) == 1


@pytest.mark.parametrize("most", [0, 1, 2])
def test_more_keys_than_an_array_may_have_are_looked_up(
    store: SqlJobStore, node: Node, connect: Connect, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(node_keys, "MOST_HASHES", most)
    store.decide(node, {FIRST: True, SECOND: True})
    assert (accepted(connect()) is not None) == (most == 2)
    assert fired(store, node, ["first", "second", "third"]) == {"first", "second"}


def test_a_decision_does_not_wait_for_whoever_has_locked_the_row_of_its_node(
    store: SqlJobStore, node: Node, connect: Connect
) -> None:
    store.decide(node, {FIRST: True})
    connection = connect()
    with connection.transaction():
        connection.execute("SELECT FROM qrtz_scheduler_state FOR UPDATE")
        store.decide(node, {FIRST: False, SECOND: True})
        assert fired(store, node, ["first", "second"]) == {"second"}
    store.decide(node, {DispatchKey("third"): True})
    assert accepted(connection) == of_table(connection)
    assert len(accepted(connection)) == 2
