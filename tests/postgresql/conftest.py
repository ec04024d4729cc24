from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from quartzpy.config.config import SchedulerConfig
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.postgresql.worker_store import WorkerStore
from quartzpy.store.protocol import DispatchKey, Node
from tests.database import connect_to
from tests.full_reads import _every_read_is_full as _every_read_is_full

NAME = "store-sql"


@pytest.fixture
def make_store(postgres_dsn: str) -> Iterator[Callable[..., SqlJobStore]]:
    made: list[SqlJobStore] = []

    def make(dsn: str = postgres_dsn, **settings: Any) -> SqlJobStore:
        made.append(SqlJobStore(dsn, SchedulerConfig.of({"name": NAME, **settings})))
        made[-1].open()
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def store(make_store: Callable[..., SqlJobStore]) -> SqlJobStore:
    return make_store()


@pytest.fixture
def connect(postgres_dsn: str) -> Iterator[Callable[[], psycopg.Connection[Any]]]:
    """Connections of a user's own."""
    made: list[psycopg.Connection[Any]] = []

    def one() -> psycopg.Connection[Any]:
        made.append(connect_to(postgres_dsn))
        return made[-1]

    yield one
    for connection in made:
        connection.close()


@pytest.fixture
def worker(postgres_dsn: str) -> Iterator[WorkerStore]:
    store = WorkerStore(postgres_dsn)
    yield store
    store.close()


@pytest.fixture
def other(connect: Callable[[], psycopg.Connection[Any]]) -> Iterator[psycopg.Connection[Any]]:
    """A connection of somebody else, and a table that jobs write."""
    connection = connect()
    connection.execute("CREATE TABLE saved (number int)")
    yield connection
    connection.execute("ROLLBACK")
    connection.execute("DROP TABLE saved")


RUN_HERE = ("report", "known", "work", "expected", "announced", "limited", "plain", "fenced", "round-trips", "early")
"""The job types of these tests."""


def register(store: SqlJobStore, name: str = "node", *, runs: Sequence[str] = RUN_HERE) -> Node:
    """Register a node that runs these job types, and has said nothing about others."""
    node = store.register(name, host="here", pid=1, checkin_interval=timedelta(seconds=1), window=timedelta(seconds=10))
    store.decide(node, {DispatchKey(job_type): True for job_type in runs})
    return node
