"""The tables of the real Quartz, and stores to import into."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quartzpy.config.config import SchedulerConfig
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import JobStore
from quartzpy.testing import SchedulerHarness
from tests.database import Server
from tests.migrate.dump import load
from tests.migrate.quartz_plans import FROM


@pytest.fixture(scope="session")
def quartz_tables(postgres_server: Server) -> Iterator[str]:
    with postgres_server.temporary("quartzpy_quartz") as dsn:
        load(dsn)
        yield dsn


@pytest.fixture(params=["memory", "postgresql"])
def any_store(request: pytest.FixtureRequest) -> Iterator[JobStore]:
    if request.param == "memory":
        yield SchedulerHarness(FROM)._store
        return
    store = SqlJobStore(request.getfixturevalue("postgres_dsn"), SchedulerConfig(name="imported"))
    yield store
    store.close()
