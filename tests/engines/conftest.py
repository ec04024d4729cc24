from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from quartzpy.config.config import SchedulerConfig
from quartzpy.node.engines import worker
from quartzpy.node.workers.execution import Execution
from quartzpy.node.workers.job_runner import JobRunner
from quartzpy.store.postgresql.store import SqlJobStore
from tests.database import connect_to
from tests.engines import worker_jobs as jobs
from tests.engines.calls import NAME, Submitter
from tests.waiting import LIMIT


@pytest.fixture
def make_store() -> Iterator[Callable[[str], SqlJobStore]]:
    made: list[SqlJobStore] = []

    def make(dsn: str) -> SqlJobStore:
        made.append(SqlJobStore(dsn, SchedulerConfig(name=NAME)))
        made[-1].open()
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def submitter(make_store: Callable[[str], SqlJobStore], postgres_dsn: str) -> Submitter:
    return Submitter(make_store(postgres_dsn))


@pytest.fixture(autouse=True)
def _new_worker(monkeypatch: pytest.MonkeyPatch, postgres_dsn: str) -> Iterator[None]:
    """This process as a worker that has run nothing yet."""
    # The fire ids of another database are the same.
    for of_earlier_tests in (jobs.AT, jobs.GO, jobs.RUNS, jobs.SEEN):
        of_earlier_tests.clear()
    monkeypatch.setenv(worker.URL, postgres_dsn)
    monkeypatch.setattr(worker, "_process", worker._Process())
    yield
    for store in worker._process._stores.values():
        store.close()


@pytest.fixture
def time_is_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The timeouts of executions come once it is set: a busy machine may begin a job later than after its timeout."""
    is_up, time_out = threading.Event(), JobRunner._time_out

    def once_it_is_up(runner: JobRunner, execution: Execution) -> None:
        assert is_up.wait(LIMIT)
        time_out(runner, execution)

    monkeypatch.setattr(JobRunner, "_time_out", once_it_is_up)
    yield is_up
    is_up.set()


@pytest.fixture
def saved(postgres_dsn: str) -> Iterator[Callable[[], list[int]]]:
    """A table of the user's; returns what jobs have committed to it."""
    with connect_to(postgres_dsn) as connection:
        connection.execute("CREATE TABLE saved (number bigint)")
        yield lambda: _numbers(connection)
        connection.execute("DROP TABLE saved")


def _numbers(connection: psycopg.Connection[Any]) -> list[int]:
    return [number for (number,) in connection.execute("SELECT number FROM saved ORDER BY 1")]
