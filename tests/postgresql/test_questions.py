"""Questions asked together in one round trip: one that the database refuses does not affect the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from quartzpy.errors import JobStoreError, SchemaError, StoreUnavailableError
from quartzpy.jobs.job import JobDetail
from quartzpy.scheduler.batched_reads import BatchedReads
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import ActionEntry
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import JobEntry, JobStore
from quartzpy.store.queries import ActionQuery, JobQuery
from tests.proxy import Proxy

JOB = JobDetail("work", "job", durable=True)


@pytest.fixture
def remote(make_store: Callable[..., SqlJobStore], postgres_dsn: str, proxy: Proxy) -> SqlJobStore:
    store = make_store(proxy.through(postgres_dsn))
    store.store_jobs([JobEntry(JOB)], replace=True)
    return store


def test_questions_that_are_asked_before_the_first_answer_share_a_pipeline(remote: SqlJobStore, proxy: Proxy) -> None:
    reading = BatchedReads(lambda: remote)
    jobs = reading.defer(lambda store: store.find(JobQuery(), 10))
    nodes = reading.defer(lambda store: store.list_nodes())
    before = proxy.pipelines
    assert [record.key for record in jobs()] == [JOB.key]
    assert list(nodes().nodes) == []
    assert reading.now() <= nodes().now
    assert jobs() is jobs()
    assert proxy.pipelines - before == 1
    assert reading.defer(lambda store: store.count(JobQuery()))() == 1
    assert proxy.pipelines - before == 2


def test_a_statement_that_the_database_refuses_is_the_error_of_its_own_question(
    remote: SqlJobStore, connect: Callable[[], psycopg.Connection[Any]]
) -> None:
    connection = connect()
    reading = BatchedReads(lambda: remote)
    limits = reading.defer(lambda store: admin(store).rate_usage(10))
    jobs = reading.defer(lambda store: store.find(JobQuery(), 10))
    connection.execute("ALTER TABLE qrtz_limits RENAME TO elsewhere")
    try:
        assert [record.key for record in jobs()] == [JOB.key]
        with pytest.raises(SchemaError, match="qrtz_limits"):
            limits()
    finally:
        connection.execute("ALTER TABLE elsewhere RENAME TO qrtz_limits")


@pytest.mark.parametrize(
    ("damage", "question"),
    [
        ("""UPDATE qrtz_job_details SET definition = '{"timeout": -1}'""", lambda store: store.jobs([JOB.key])),
        ("UPDATE qrtz_audit SET at = 'infinity'", lambda store: admin(store).find(ActionQuery(), 10)),
    ],
    ids=["by us", "by the driver"],
)
def test_a_row_that_cannot_be_decoded_is_the_error_of_its_own_question(
    remote: SqlJobStore,
    connect: Callable[[], psycopg.Connection[Any]],
    damage: str,
    question: Callable[[JobStore], object],
) -> None:
    admin(remote).record_action(ActionEntry("ann", "admin", "pause", "everything"))
    connect().execute(damage.encode())
    reading = BatchedReads(lambda: remote)
    bad = reading.defer(question)
    count = reading.defer(lambda store: store.count(JobQuery()))
    assert count() == 1
    with pytest.raises((ValueError, JobStoreError), match=r"timeout|timestamp too large"):
        bad()


def test_a_database_that_cannot_be_reached_is_the_error_of_the_first_answer(remote: SqlJobStore, proxy: Proxy) -> None:
    reading = BatchedReads(lambda: remote)
    jobs = reading.defer(lambda store: store.find(JobQuery(), 10))
    proxy.refuse()
    with pytest.raises(StoreUnavailableError):
        jobs()
    proxy.admit()
    assert [record.key for record in jobs()] == [JOB.key]


def test_questions_may_be_asked_inside_a_transaction_of_the_caller(
    remote: SqlJobStore, connect: Callable[[], psycopg.Connection[Any]]
) -> None:
    with connect() as connection, connection.transaction():
        inside = remote.within(connection)
        inside.store_jobs([JobEntry(JobDetail("work", "inside", durable=True))], replace=True)
        reading = BatchedReads(lambda: inside)
        names = [record.key.name for record in reading.defer(lambda store: store.find(JobQuery(), 10))()]
        assert names == ["inside", "job"]
        assert [record.key for record in remote.find(JobQuery(), 10)] == [JOB.key]
