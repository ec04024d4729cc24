"""The columns that say which step takes a waiting trigger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import psycopg
import pytest
from sqlalchemy import Computed

from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey
from quartzpy.states import Missed, Unreconciled, misfire_rule_of
from quartzpy.store.postgresql.schema.tables import metadata
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import JobEntry, NamedTriggers
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import PreparedTrigger, prepare
from tests.database import Server
from tests.moves import LISTED, MovesOfDatabase, recorded_in_database
from tests.postgresql.conftest import register
from tests.postgresql.test_faults import LANES, acquire

Connect = Callable[[], psycopg.Connection[Any]]


def test_the_schema_computes_the_rule_that_the_code_does(connect: Connect) -> None:
    computed = metadata.tables["qrtz_triggers"].c.misfire_rule.computed
    assert isinstance(computed, Computed)
    asked = f"""
        SELECT ({computed.sqltext})
          FROM (SELECT %s::text AS misfire_instruction, %s::interval AS misfire_threshold,
                       %s::timestamptz AS catch_up_until, %s::text AS missed_policy, %s::text AS unreconciled) AS t
    """
    now, minute = datetime.now(UTC), timedelta(minutes=1)
    with connect() as connection:
        for ignores, threshold, catch_up, missed, unreconciled in product(
            (False, True),
            (None, minute),
            (None, now),
            Missed,
            (None, *Unreconciled),
        ):
            row = ["ignore" if ignores else "smart", threshold, catch_up]
            row += [None if missed is Missed.MISFIRE else missed.value, unreconciled]
            [(stored,)] = connection.execute(asked.encode(), row).fetchall()
            assert stored == misfire_rule_of(
                ignores_misfires=ignores,
                has_threshold=threshold is not None,
                catches_up=catch_up is not None,
                missed_policy=missed,
                unreconciled=unreconciled,
            ), row


@pytest.fixture
def moves(postgres_server: Server, _worker_database: str, postgres_dsn: str) -> Iterator[MovesOfDatabase]:
    with postgres_server.connect(_worker_database) as connection, recorded_in_database(connection) as recorded:
        yield recorded


def entry(seconds: int) -> JobEntry:
    """Return a job with one trigger, which is due since these seconds."""
    return JobEntry(JobDetail(LANES[0].job_type, "job", durable=True), [trigger(seconds)])


def trigger(seconds: int) -> PreparedTrigger:
    now = datetime.now(UTC)
    start = now - timedelta(seconds=seconds)
    return prepare(SimpleTrigger("t", job_key=JobKey("job"), start_time=start, interval=timedelta(hours=1)), now, None)


def test_a_trigger_of_a_users_transaction_is_reconciled_or_held_and_makes_every_listed_move(
    store: SqlJobStore, connect: Connect, moves: MovesOfDatabase
) -> None:
    node = register(store)

    def by_user(stored: JobEntry) -> None:
        with connect() as user, user.transaction():
            store.within(user).store_jobs([stored], replace=True)

    by_user(entry(1))
    store.pause(NamedTriggers([trigger(1).trigger.key]))
    assert not acquire(store, node).fired, "the pause has come before the first look"
    store.resume(NamedTriggers([trigger(1).trigger.key]))
    assert len(acquire(store, node).fired) == 1
    by_user(entry(2))
    store.pause(NamedTriggers([trigger(2).trigger.key]))
    store.store_jobs([entry(3)], replace=True)
    assert len(acquire(store, node).fired) == 1
    made = {move for move in moves.made() if move.column == "unreconciled"}
    assert made == {move for move in LISTED if move.column == "unreconciled"}


def test_a_held_trigger_that_is_resumed_skips_what_it_has_missed(store: SqlJobStore, connect: Connect) -> None:
    node = register(store)
    with connect() as user, user.transaction():
        store.within(user).store_jobs([entry(1)], replace=True)
    key = trigger(1).trigger.key
    store.pause(NamedTriggers([key]))
    store.resume(NamedTriggers([key]), missed=Missed.SKIP)
    assert not acquire(store, node).fired
    store.recover_misfires(node, threshold=timedelta(minutes=1), limit=10)
    assert not acquire(store, node).fired
    [(rule, policy)] = connect().execute("SELECT misfire_rule, missed_policy FROM qrtz_triggers").fetchall()
    assert (rule, policy) == ("NODE", None)
