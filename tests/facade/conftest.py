from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text

from quartzpy import Scheduler
from tests.facade import jobs


@pytest.fixture(params=["memory", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    return "memory://" if request.param == "memory" else request.getfixturevalue("postgres_dsn")


@pytest.fixture
def make_scheduler(url: str) -> Iterator[Callable[..., Scheduler]]:
    """Schedulers that are shut down at the test's end."""
    jobs.reset()
    made: list[Scheduler] = []

    def make(**settings: Any) -> Scheduler:
        made.append(Scheduler(url, **jobs.arguments(**settings)))
        return made[-1]

    yield make
    jobs.go_on.set()
    for scheduler in made:
        scheduler.shutdown(timeout=timedelta(seconds=60), interrupt=True)


@pytest.fixture
def client(make_scheduler: Callable[..., Scheduler]) -> Scheduler:
    """A scheduler that was not started."""
    return make_scheduler()


@pytest.fixture
def scheduler(make_scheduler: Callable[..., Scheduler]) -> Scheduler:
    """A scheduler that runs."""
    running = make_scheduler()
    running.start()
    return running


@pytest.fixture
def engine(postgres_dsn: str) -> Iterator[Engine]:
    """A user's own way to the database, with tables of theirs."""
    made = create_engine(postgres_dsn)
    with made.begin() as connection:
        for table in ("orders", "payments"):
            connection.execute(text(f"CREATE TABLE IF NOT EXISTS {table} (number int)"))
            connection.execute(text(f"DELETE FROM {table}"))
    yield made
    made.dispose()
