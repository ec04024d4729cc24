"""What the locks are for: nobody decides by what somebody else is about to change."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from quartzpy.jobs.job import JobDetail
from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.schema.statement import prepare as prepare_statement
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import Acquisition, AvailableSlots, JobEntry, Node
from quartzpy.store.queries import JobQuery
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import prepare
from tests.postgresql.conftest import register
from tests.waiting import wait_until

Connect = Callable[[], psycopg.Connection[Any]]
REPORT = "report"
WAITERS = (
    "SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')"
)
HELD_AT = 4713
HOLD = BoundStatement(prepare_statement("test_hold", f"SELECT pg_advisory_xact_lock({HELD_AT})", {}), {})


def store_due(store: SqlJobStore, job: JobDetail, *names: str) -> None:
    now = datetime.now(UTC)
    triggers = [SimpleTrigger(name, job_key=job.key, start_time=now) for name in names]
    store.store_jobs([JobEntry(job, [prepare(trigger, now, None) for trigger in triggers])], replace=False)


def acquire(store: SqlJobStore, node: Node, limit: int = 100) -> Acquisition:
    return store.acquire(
        node, [AvailableSlots()], limit=limit, look_ahead=timedelta(), misfire_threshold=timedelta(minutes=1)
    )


def wait_for(connection: psycopg.Connection[Any], query: str, *, or_else: Callable[[], bool] = lambda: False) -> None:
    """Wait until a query of one value says that it is so."""
    wait_until(lambda: connection.execute(query).fetchall() == [(True,)] or or_else(), query)


def test_two_nodes_that_claim_at_once_keep_the_limit_of_a_job(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore], connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither sees what the other fires before that is committed."""
    other = make_store()
    nodes = [register(store, "a"), register(other, "b")]
    store_due(store, JobDetail(REPORT, "limited", durable=True, max_concurrent=3), "t1", "t2", "t3", "t4")
    took: list[Acquisition] = []

    def claim(by: SqlJobStore, node: Node) -> None:
        took.append(acquire(by, node, limit=2))

    holder, user = connect(), connect()
    holder.execute("SELECT pg_advisory_lock(%s)", [HELD_AT])
    execute = store._connections.execute
    monkeypatch.setattr(store._connections, "execute", lambda sends, share: execute([*sends, HOLD], share)[:-1])
    first, second = (threading.Thread(target=claim, args=each) for each in zip((store, other), nodes, strict=True))
    first.start()
    wait_for(user, f"{WAITERS} = 1")
    second.start()
    wait_for(user, f"{WAITERS} = 2", or_else=lambda: not second.is_alive())
    holder.execute("SELECT pg_advisory_unlock(%s)", [HELD_AT])
    first.join()
    second.join()
    assert sorted(len(one.fired) for one in took) == [1, 2]


def test_a_step_decides_by_the_time_at_which_it_has_the_lock(store: SqlJobStore, connect: Connect) -> None:
    """Not by the time at which it began to wait: what came due meanwhile would be late by another pass."""
    node = register(store)
    acquire(store, node)
    store_due(store, JobDetail(REPORT, "job", durable=True), "t")
    holder, user = connect(), connect()
    user.execute("UPDATE qrtz_triggers SET next_fire_time = clock_timestamp() + interval '1 hour'")
    holder.execute("BEGIN")
    holder.execute("SELECT FROM qrtz_locks WHERE lock_name = 'TRIGGER_ACCESS' FOR UPDATE")
    took: list[Acquisition] = []
    waiter = threading.Thread(target=lambda: took.append(acquire(store, node)))
    waiter.start()
    wait_for(user, f"{WAITERS} = 1")
    user.execute("UPDATE qrtz_triggers SET next_fire_time = clock_timestamp() + interval '20 ms'")
    wait_for(user, "SELECT bool_and(next_fire_time < clock_timestamp()) FROM qrtz_triggers")
    holder.execute("COMMIT")
    waiter.join()
    assert [[fired.trigger_name for fired in one.fired] for one in took] == [["t"]]


def test_two_who_modify_a_job_at_once_both_do(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore], connect: Connect
) -> None:
    """Whoever reads a job to write it back holds it meanwhile."""
    detail = JobDetail(REPORT, "job", durable=True)
    store.store_jobs([JobEntry(detail)], replace=False)
    other, user = make_store(), connect()

    def describe(job: JobDetail) -> JobDetail:
        return replace(job, description="changed")

    second = threading.Thread(target=lambda: other.modify_job(detail.key, describe, keeps_data=True))

    def limit(job: JobDetail) -> JobDetail:
        second.start()
        wait_for(user, f"{WAITERS} = 1", or_else=lambda: not second.is_alive())
        return replace(job, timeout=timedelta(seconds=7))

    store.modify_job(detail.key, limit, keeps_data=True)
    second.join()
    [record] = store.find(JobQuery(), 2)
    assert (record.job.description, record.job.timeout) == ("changed", timedelta(seconds=7))
