"""A simulated cluster on each store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from quartzpy.config.config import SchedulerConfig
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import JobStore
from tests.alone.simulation import Simulation
from tests.contract.harness import Harness, RamHarness, SqlBackend, SqlHarness
from tests.full_reads import _every_read_is_full as _every_read_is_full

MAX_NODES = 3
MAX_NODES_IN_MEMORY = 10


class _Sql:
    """A store for each node, as each process has one, on one database."""

    def __init__(self, dsn: str) -> None:
        self.backend = SqlBackend(dsn)
        config = SchedulerConfig(name=SqlBackend.NAME)
        self.stores = [SqlJobStore(dsn, config, now_sql=SqlBackend.NOW) for _ in range(MAX_NODES)]

    def close(self) -> None:
        for store in self.stores:
            store.close()
        self.backend.close()


@pytest.fixture(scope="session")
def sql_of_nodes() -> Iterator[dict[str, _Sql]]:
    made: dict[str, _Sql] = {}
    yield made
    for one in made.values():
        one.close()


@pytest.fixture(params=["memory", "postgresql"])
def simulate(request: pytest.FixtureRequest) -> Iterator[Callable[..., Simulation]]:
    """Makes a cluster of so many nodes, which have nothing to do."""
    harness: Harness
    stores: list[JobStore]
    if request.param == "memory":
        harness = RamHarness()
        stores = [harness.store] * MAX_NODES_IN_MEMORY
    else:
        dsn: str = request.getfixturevalue("postgres_dsn")
        known: dict[str, _Sql] = request.getfixturevalue("sql_of_nodes")
        if dsn not in known:
            known[dsn] = _Sql(dsn)
        harness = SqlHarness(known[dsn].backend)
        stores = list(known[dsn].stores)
        for store in known[dsn].stores:
            store.open()

    def make(nodes: int = 1, **values: Any) -> Simulation:
        if nodes > len(stores):
            pytest.skip("the nodes of PostgreSQL are few, because each has connections of its own")
        return Simulation(harness, stores[:nodes], **values)

    yield make
    harness.close()
