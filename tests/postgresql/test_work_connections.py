"""The connection of a job's own transaction: a user's to use, and never the worse for it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from quartzpy.errors import InvalidValueError, OutcomeUnknownError, StoreUnavailableError
from quartzpy.jobs.job import JobDetail
from quartzpy.states import Outcome
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import AvailableSlots, Completion, FiredTrigger, JobEntry, Node
from quartzpy.store.queries import HISTORY
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import prepare
from tests.contract.harness import stored_job
from tests.database import end_sessions
from tests.postgresql.conftest import register
from tests.postgresql.test_fenced_work import until_one_waits

MINUTE = timedelta(minutes=1)


def executing(store: SqlJobStore, node: Node, name: str = "job", **values: Any) -> FiredTrigger:
    now = datetime.now(UTC)
    job = JobDetail("work", name, **values)
    trigger = SimpleTrigger(name, job_key=job.key, start_time=now - timedelta(seconds=1))
    store.store_jobs([JobEntry(job, [prepare(trigger, now, None)])], replace=False)
    [fired] = store.acquire(node, [AvailableSlots()], limit=1, look_ahead=MINUTE, misfire_threshold=MINUTE).fired
    return fired


def completion_of(fired: FiredTrigger, **values: Any) -> Completion:
    now = datetime.now(UTC)
    return Completion(fired, now, now, Outcome.SUCCEEDED, **values)


def test_an_error_or_ddl_in_a_block_does_not_spoil_the_next_ones(store: SqlJobStore) -> None:
    node = register(store)
    fired = executing(store, node)
    backends = set()
    for block in range(12):
        work = store.begin_job_transaction()
        try:
            # From the sixth on the driver prepares it; to forget it, it discards all prepared statements.
            for _ in range(6):
                backends.add(work.connection.execute(text("SELECT pg_backend_pid()")).scalar_one())
            if block == 1:
                with pytest.raises(psycopg.errors.DivisionByZero):
                    work.connection.connection.cursor().execute("SELECT 1 / 0")
                continue
            if block == 3:
                work.connection.execute(text("CREATE TEMPORARY TABLE scratch (number int)"))
                work.connection.execute(text("DROP TABLE scratch"))
            if block == 5:
                work.connection.execute(text("DEALLOCATE ALL"))
            work.commit(node, fired.fire_id)
        finally:
            work.close()
    assert len(backends) == 1
    work = store.begin_job_transaction()
    work.complete(node, completion_of(fired))
    work.close()
    [execution] = store.find(HISTORY, 9)
    assert execution.outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize("pooled", [False, True])
def test_a_jobs_own_queries_run_by_the_databases_settings(
    make_store: Callable[..., SqlJobStore], connect: Callable[[], psycopg.Connection[Any]], pooled: bool
) -> None:
    names = (
        "enable_seqscan", "enable_bitmapscan", "plan_cache_mode", "jit", "idle_in_transaction_session_timeout",
        "statement_timeout", "lock_timeout", "max_parallel_workers_per_gather",
    )  # fmt: skip
    expected = [connect().execute(f"SHOW {name}").fetchone() for name in names]
    store = make_store(pooled=pooled)
    node = register(store)
    fired = executing(store, node)
    for _ in range(2):
        work = store.begin_job_transaction()
        try:
            assert [work.connection.execute(text(f"SHOW {name}")).one() for name in names] == expected
            work.commit(node, fired.fire_id)
        finally:
            work.close()


def test_an_unknown_outcome_is_not_hidden_by_giving_back_the_dead_connection(
    store: SqlJobStore, connect: Callable[[], psycopg.Connection[Any]]
) -> None:
    node = register(store)
    fired = executing(store, node)
    work = store.begin_job_transaction()
    pid = work.connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
    end_sessions(connect(), "pid = %s", pid)
    with pytest.raises((OutcomeUnknownError, StoreUnavailableError)):
        work.commit(node, fired.fire_id)
    work.close()
    # Nor does the pool keep it.
    work = store.begin_job_transaction()
    work.commit(node, fired.fire_id)
    work.close()


def test_a_dead_connection_is_returned_without_an_error(
    store: SqlJobStore, connect: Callable[[], psycopg.Connection[Any]]
) -> None:
    work = store.begin_job_transaction()
    pid = work.connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
    end_sessions(connect(), "pid = %s", pid)
    work.close()


@pytest.mark.parametrize("ends", ["COMMIT", "ROLLBACK"])
def test_the_end_of_a_persisting_job_waits_for_its_locked_row(
    store: SqlJobStore, connect: Callable[[], psycopg.Connection[Any]], ends: str
) -> None:
    node = register(store)
    fired = executing(store, node, persist_data=True, durable=True)
    other = connect()
    other.execute("BEGIN")
    other.execute("UPDATE qrtz_job_details SET owner = 'held'")
    work = store.begin_job_transaction()
    with ThreadPoolExecutor() as pool:
        done = pool.submit(work.complete, node, completion_of(fired, job_data='{"n": 1}'))
        until_one_waits(connect(), done)  # type: ignore[arg-type]
        # The cluster's lock is free meanwhile.
        assert executing(store, node, "another").job_name == "another"
        other.execute(ends)
        done.result(20)
    work.close()
    [execution] = store.find(HISTORY, 9)
    assert execution.outcome is Outcome.SUCCEEDED
    assert (stored_job(store, fired.job_key).data) == {"n": 1}


@pytest.mark.parametrize("how", ["close", "commit", "rollback"])
def test_a_block_that_ends_its_transaction_itself_raises(store: SqlJobStore, how: str) -> None:
    node = register(store)
    fired = executing(store, node)
    work = store.begin_job_transaction()
    try:
        getattr(work.connection, how)()
        with pytest.raises(InvalidValueError, match=f"execution {fired.fire_id}: the job (closed|ended)"):
            work.commit(node, fired.fire_id)
    finally:
        work.close()
