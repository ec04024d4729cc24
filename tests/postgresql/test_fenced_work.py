"""A job's fenced transaction against a recovery of its execution: one comes wholly before the other."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from quartzpy.errors import LeaseLostError
from quartzpy.jobs.context import Progress
from quartzpy.jobs.job import JobDetail
from quartzpy.states import Outcome
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import AvailableSlots, Completion, FiredTrigger, JobEntry, Node
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import prepare
from tests.postgresql.conftest import register
from tests.postgresql.submitting import SLOW_TO_COMMIT, until_one_waits

JOB = JobDetail("fenced", "job", disallow_concurrent=True, requests_recovery=True)


def executing(store: SqlJobStore, node: Node) -> FiredTrigger:
    now = datetime.now(UTC)
    trigger = SimpleTrigger("t", job_key=JOB.key, start_time=now - timedelta(seconds=1))
    store.store_jobs([JobEntry(JOB, [prepare(trigger, now, None)])], replace=False)
    minute = timedelta(minutes=1)
    [fired] = store.acquire(node, [AvailableSlots()], limit=1, look_ahead=minute, misfire_threshold=minute).fired
    return fired


def save(store: SqlJobStore, node: Node, fire_id: int) -> None:
    work = store.begin_job_transaction()
    try:
        work.connection.execute(text("INSERT INTO saved VALUES (1)"))
        work.commit(node, fire_id)
    finally:
        work.close()


def saved(connection: psycopg.Connection[Any]) -> int:
    [count] = connection.execute("SELECT count(*) FROM saved").fetchone() or ()
    return int(count)


@pytest.mark.parametrize("ends", ["COMMIT", "ROLLBACK"])
def test_a_recovery_that_came_first_is_waited_for(
    store: SqlJobStore, other: psycopg.Connection[Any], connect: Callable[[], psycopg.Connection[Any]], ends: str
) -> None:
    node = register(store)
    fired = executing(store, node)
    other.execute("BEGIN")
    other.execute("DELETE FROM qrtz_scheduler_state")
    other.execute("DELETE FROM qrtz_fired_triggers")
    with ThreadPoolExecutor() as pool:
        commit = pool.submit(save, store, node, fired.fire_id)
        until_one_waits(connect(), commit)
        other.execute(ends)
        error = commit.exception(10)
    if ends == "COMMIT":
        assert isinstance(error, LeaseLostError)
        assert saved(other) == 0
    else:
        assert error is None
        assert saved(other) == 1


def test_a_recovery_that_comes_second_waits_for_nothing_and_takes_the_claim_next_time(
    store: SqlJobStore, other: psycopg.Connection[Any], connect: Callable[[], psycopg.Connection[Any]]
) -> None:
    node, living = register(store), register(store, "living")
    fired = executing(store, node)
    other.execute(SLOW_TO_COMMIT)
    other.execute("SELECT pg_advisory_lock(1)")
    dead = [record for record in store.list_nodes().nodes if record.instance_id == node.instance_id]
    with ThreadPoolExecutor() as pool:
        commit = pool.submit(save, store, node, fired.fire_id)
        until_one_waits(connect(), commit)
        first = store.recover(living, dead)
        assert (list(first.nodes), first.recovered) == (["node"], 0)
        assert [row.fire_id for row in store.list_running()] == [fired.fire_id], "the job may not run elsewhere yet"
        other.execute("SELECT pg_advisory_unlock(1)")
        commit.result(10)
    assert saved(other) == 1
    assert store.recover(living, []).recovered == 1
    with pytest.raises(LeaseLostError, match="rolled back"):
        save(store, node, fired.fire_id)
    assert saved(other) == 1


def test_asking_an_execution_to_stop_does_not_wait_for_its_commit(
    store: SqlJobStore, other: psycopg.Connection[Any], connect: Callable[[], psycopg.Connection[Any]]
) -> None:
    node = register(store)
    fired = executing(store, node)
    other.execute(SLOW_TO_COMMIT)
    other.execute("SELECT pg_advisory_lock(1)")
    with ThreadPoolExecutor() as pool:
        commit = pool.submit(save, store, node, fired.fire_id)
        until_one_waits(connect(), commit)
        assert store.request_cancel(fired.fire_id)
        other.execute("SELECT pg_advisory_unlock(1)")
        commit.result(10)


def test_the_end_of_a_jobs_transaction_waits_for_a_report_of_its_progress(
    store: SqlJobStore, other: psycopg.Connection[Any], connect: Callable[[], psycopg.Connection[Any]]
) -> None:
    """Otherwise the end would miss the new version of the row, and roll the transaction back as fenced."""
    node = register(store)
    fired = executing(store, node)
    now = datetime.now(UTC)

    def end() -> None:
        work = store.begin_job_transaction()
        try:
            work.connection.execute(text("INSERT INTO saved VALUES (1)"))
            work.complete(node, Completion(fired, now, now, Outcome.SUCCEEDED))
        finally:
            work.close()

    other.execute("BEGIN")
    other.execute("UPDATE qrtz_fired_triggers SET progress = 0.5 WHERE fire_id = %s", [fired.fire_id])
    with ThreadPoolExecutor() as pool:
        commit = pool.submit(end)
        until_one_waits(connect(), commit)
        other.execute("COMMIT")
        commit.result(10)
    assert saved(other) == 1
    assert store.list_running() == []


def test_a_report_of_progress_passes_over_a_locked_row(store: SqlJobStore, other: psycopg.Connection[Any]) -> None:
    node = register(store)
    fired = executing(store, node)
    other.execute("BEGIN")
    other.execute("SELECT FROM qrtz_fired_triggers WHERE fire_id = %s FOR UPDATE", [fired.fire_id])
    assert not store.report_progress(node, {fired.fire_id: Progress(0.5)})
    other.execute("ROLLBACK")
    assert store.report_progress(node, {fired.fire_id: Progress(0.5)}) == {fired.fire_id}
