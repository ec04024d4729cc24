"""The stores that keep the contract: every test of this folder runs on each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.engine_harness import OURS
from tests.contract.harness import Harness, RamHarness, SqlBackend, SqlHarness
from tests.contract.options import given_engine, given_harness
from tests.database import Server
from tests.full_reads import _every_read_is_full as _every_read_is_full
from tests.moves import LISTED, MovesInMemory, MovesOfDatabase, recorded_in_database, recorded_in_memory


@pytest.fixture(scope="session")
def sql_backends() -> Iterator[dict[str, SqlBackend]]:
    """The backends by their URL, made by the first test that needs one."""
    made: dict[str, SqlBackend] = {}
    yield made
    for backend in made.values():
        backend.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    named = any(mark.args[0] == "store" for mark in metafunc.definition.iter_markers("parametrize"))
    if "store" in metafunc.fixturenames and not named:
        stores = ["given"] if given_harness(metafunc.config) else ["ram", "postgresql"]
        metafunc.parametrize("store", stores, indirect=True)
    if metafunc.module.__name__ == "tests.contract.test_engines":
        engines = ["given"] if given_engine(metafunc.config) else list(OURS)
        metafunc.parametrize("harness", engines, indirect=True, scope="module")


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Iterator[Harness]:
    """A store with its clock; for a database, on tables that are empty."""
    harness: Harness
    if given := given_harness(request.config):
        harness = given()
    elif request.param == "ram":
        harness = RamHarness()
    else:
        dsn: str = request.getfixturevalue("postgres_dsn")
        backends: dict[str, SqlBackend] = request.getfixturevalue("sql_backends")
        if dsn not in backends:
            backends[dsn] = SqlBackend(dsn)
        harness = SqlHarness(backends[dsn])
    yield harness
    harness.close()


@pytest.fixture(scope="module")
def moves_of_database(postgres_server: Server, _worker_database: str) -> Iterator[MovesOfDatabase]:
    """The moves of the rows that the tests of a module make; see `tests.moves`."""
    with postgres_server.connect(_worker_database) as connection, recorded_in_database(connection) as moves:
        yield moves


@pytest.fixture
def moves(request: pytest.FixtureRequest) -> Iterator[MovesInMemory | MovesOfDatabase]:
    """The moves of the rows of `store`."""
    if request.node.callspec.params["store"] == "ram":
        with recorded_in_memory() as in_memory:
            yield in_memory
    else:
        recorded: MovesOfDatabase = request.getfixturevalue("moves_of_database")
        recorded.forget()
        yield recorded


@pytest.fixture(autouse=True)
def _rows_make_only_listed_moves(request: pytest.FixtureRequest) -> Iterator[None]:
    if "store" not in request.fixturenames or given_harness(request.config):
        yield
        return
    moves: MovesInMemory | MovesOfDatabase = request.getfixturevalue("moves")
    yield
    assert moves.made() <= LISTED
