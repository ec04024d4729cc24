"""Fixtures for every test: databases."""

from __future__ import annotations

import gc
import shutil
import tempfile
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import sql

from quartzpy.embedded import EmbeddedPostgres
from quartzpy.store.postgresql import migrations
from tests.chaos.options import add_chaos_option
from tests.cluster.options import add_restart_option
from tests.conformance.options import add_conformance_option
from tests.contract.options import add_contract_option, given_engine, given_harness
from tests.database import TEMPLATE, Server, empty_tables, given_server
from tests.ha import options as ha
from tests.kept_sessions import KeptSessions
from tests.leftovers import stop_leftover_nodes
from tests.protocol.options import add_protocol_option
from tests.proxy import Proxy
from tests.worlds import options as worlds
from tests.worlds import role
from tests.worlds.stage import binaries_of
from tests.worlds.stage import server as server_of_world

_STACK = pytest.StashKey[ExitStack]()
_SERVER = pytest.StashKey[Server]()
_SHARED = pytest.StashKey[Path]()
_KEPT = pytest.StashKey[KeptSessions]()
_SCHEDULER = pytest.StashKey[Any]()
_COLLECT_AFTER = 20_000
"""New objects after which garbage is collected. With the usual 700, it takes pytest a twelfth of its processor time."""

# A busy machine is no failure: nothing in the suite is timed.
settings.register_profile("quartzpy", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("quartzpy")


def pytest_addoption(parser: pytest.Parser) -> None:
    add_conformance_option(parser)
    add_contract_option(parser)
    add_chaos_option(parser)
    add_restart_option(parser)
    add_protocol_option(parser)
    ha.add_ha_option(parser)
    worlds.add_world_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    worlds.enter(config)
    # The workers of xdist that live in the same world share its server: all are told where.
    given = getattr(config, "workerinput", {}).get("quartzpy_shared")
    config.stash[_SHARED] = Path(given) if given else Path(tempfile.mkdtemp(prefix="quartzpy-tests-"))
    config.stash[_KEPT] = KeptSessions(TEMPLATE)
    # A wrong name is refused before any test.
    given_harness(config)
    given_engine(config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Called by xdist in the main process, for each worker."""
    node.workerinput["quartzpy_shared"] = str(node.config.stash[_SHARED])  # type: ignore[attr-defined]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from tests.scopes import ByScope

    config.stash[_SCHEDULER] = ByScope(config, log)
    return config.stash[_SCHEDULER]


def _server(config: pytest.Config) -> Server:
    """The server, started when the first test needs it."""
    if _SERVER not in config.stash:
        stack = config.stash[_STACK] = ExitStack()
        chosen = None if worlds.is_chosen(config) else stack.enter_context(given_server())
        config.stash[_SERVER] = chosen or stack.enter_context(
            server_of_world(config.stash[_SHARED], worlds.world_of(config))
        )
        stack.callback(config.stash[_SERVER].drop_tables)
    return config.stash[_SERVER]


def pytest_report_header(config: pytest.Config) -> list[str]:
    found = _server(config)
    return [f"PostgreSQL {found.version} ({found.kind})", *worlds.header(config), ha.header(config)]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the collector of garbage: modules and tests stay, and a fifth of the time would go to it.

    Nor does it look at them while the tests run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        # What is frozen does not count as long-lived, so the oldest generation would be collected every few tests.
        gc.set_threshold(_COLLECT_AFTER, *gc.get_threshold()[1:])
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    worlds.leave_out(config, items)


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[_KEPT].end()
    if _SCHEDULER in config.stash:
        config.stash[_SCHEDULER].remember()
    if _STACK in config.stash:
        config.stash[_STACK].close()
    if not hasattr(config, "workerinput"):
        shutil.rmtree(config.stash[_SHARED], ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None]:
    try:
        return (yield)
    finally:
        if left := stop_leftover_nodes():
            pytest.fail(f"the test left nodes running, which were stopped now: {', '.join(left)}", pytrace=False)


@pytest.fixture(scope="session")
def postgres_server(pytestconfig: pytest.Config) -> Server:
    return _server(pytestconfig)


@pytest.fixture(scope="session")
def _worker_database(postgres_server: Server) -> Iterator[str]:
    """A database with our tables, for this process."""
    name = f"{TEMPLATE}_{uuid.uuid4().hex[:12]}"
    if postgres_server.is_restricted:
        # The tables are the administrator's.
        with postgres_server.connect() as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        dsn = postgres_server.administrator_dsn_of(name)
        migrations.upgrade(dsn)
        with postgres_server.connect(name) as connection:
            role.let_use_tables(dsn, connection)
    else:
        postgres_server.create(name, postgres_server.tables)
    yield name
    postgres_server.drop(name)


@pytest.fixture(scope="session")
def _empty_tables(postgres_server: Server, _worker_database: str) -> Iterator[Callable[[], None]]:
    """Empties the tables of this process, by one session for all tests: a new one takes twenty times as long."""
    sessions = [postgres_server.connect(_worker_database)]

    def empty() -> None:
        try:
            empty_tables(sessions[-1])
        except psycopg.OperationalError:
            # A test has ended all sessions of the database.
            sessions.append(postgres_server.connect(_worker_database))
            empty_tables(sessions[-1])

    yield empty
    for session in sessions:
        session.close()


@pytest.fixture
def postgres_dsn(postgres_server: Server, _worker_database: str, _empty_tables: Callable[[], None]) -> str:
    """A database with our tables, all of them empty."""
    _empty_tables()
    return postgres_server.dsn_of(_worker_database)


@pytest.fixture(autouse=True)
def _sessions_are_kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a store use the sessions of those before it; see `tests.kept_sessions`."""
    if request.node.get_closest_marker("new_sessions") is None:
        request.config.stash[_KEPT].serve(monkeypatch)


@pytest.fixture
def administrator_dsn(postgres_server: Server, postgres_dsn: str, _worker_database: str) -> str:
    """The same database, for a test that meddles with rows as no program may: past poolers, and as a superuser."""
    return postgres_server.administrator_dsn_of(_worker_database)


@pytest.fixture
def proxy(postgres_dsn: str) -> Iterator[Proxy]:
    """A network between a test and its database, which the test can cut."""
    with Proxy.to(postgres_dsn) as running:
        yield running


@pytest.fixture
def fresh_database(postgres_server: Server) -> Iterator[Callable[..., str]]:
    """Makes brand-new databases without tables; gives their URLs."""
    made: list[str] = []

    def make(template: str | None = None) -> str:
        made.append(f"quartzpy_fresh_{uuid.uuid4().hex[:12]}")
        return postgres_server.create(made[-1], template)

    yield make
    for name in made:
        postgres_server.drop(name)


@pytest.fixture
def new_database(postgres_server: Server, fresh_database: Callable[..., str]) -> str:
    """The URL of a brand-new database with our tables, for a test that changes them, or looks at the whole database."""
    return fresh_database(postgres_server.tables)


@pytest.fixture
def own_postgres(pytestconfig: pytest.Config) -> Iterator[EmbeddedPostgres]:
    """A server of the test's own, to restart or kill, of the same version as the others of this process."""
    with EmbeddedPostgres.temporary(binaries=binaries_of(worlds.world_of(pytestconfig))) as own:
        yield own
