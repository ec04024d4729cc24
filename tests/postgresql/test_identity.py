"""A database that is a copy: no node fires in it until somebody says what it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from sqlalchemy import make_url
from starlette.testclient import TestClient

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger
from quartzpy.cli.main import cli
from quartzpy.dashboard import create_app
from quartzpy.errors import CopiedDatabaseError
from quartzpy.keys import TriggerKey
from quartzpy.node.health import HealthState
from quartzpy.operations import Actor, Operations, Role
from quartzpy.store.postgresql import identity, migrations
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.store import SqlJobStore
from tests.database import Server, connect_to, execute
from tests.postgresql.conftest import NAME, register
from tests.waiting import wait_until

Connect = Callable[[], psycopg.Connection[Any]]
MakeStore = Callable[..., SqlJobStore]
NODE: dict[str, Any] = {"name": NAME, "checkin_interval": "200ms", "failure_window": "20s"}
FORMER = "UPDATE qrtz_identity SET database_oid = database_oid + 1, database_name = 'prod'"
"""Makes the tables those of another database of the same server."""


@pytest.fixture
def original(connect: Connect) -> Iterator[None]:
    """The tables are those of their database, before and afterwards."""
    connection = connect()
    identity.StoredTables(connection, None).record("test")
    yield
    connection.execute("DELETE FROM qrtz_identity")
    identity.StoredTables(connection, None).record("test")


def run(dsn: str, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, [*arguments, "--url", dsn])
    return done.exit_code, f"{done.output}{done.exception or ''}"


def test_new_tables_are_those_of_their_database(store: SqlJobStore, connect: Connect) -> None:
    register(store)
    [(oid, name)] = connect().execute("SELECT database_oid, database_name FROM qrtz_identity").fetchall()
    [(present, database)] = (
        connect().execute("SELECT oid::bigint, datname FROM pg_database WHERE datname = current_database()").fetchall()
    )
    assert (oid, name) == (present, database)
    store.check_tables()


@pytest.mark.usefixtures("original")
def test_a_node_of_a_copy_fires_nothing_until_it_is_adopted(
    postgres_dsn: str, administrator_dsn: str, connect: Connect, store: SqlJobStore
) -> None:
    connection = connect()
    execute(administrator_dsn, FORMER)
    ran: list[int] = []
    with Scheduler(postgres_dsn, **NODE) as node:
        node.schedule_job(noting_job(ran), SimpleTrigger("due"), replace=True)
        health = node.health()
        assert health.state is HealthState.UNHEALTHY
        assert "db adopt" in " ".join(health.problems)
        assert "'prod'" in " ".join(health.problems)
        wait_until(
            lambda: any(node.problems for node in store.list_nodes().nodes),
            "the node's problem in its row",
        )
        assert [each.check for each in admin(store).audit() if "db adopt" in each.what] == ["copied-database"]
        incidents = Operations(node, actor=Actor("ann", Role.VIEWER)).incidents()
        assert "db adopt" in " ".join(" ".join(one.why) for one in incidents.incidents)
        page = TestClient(create_app(node), base_url="http://127.0.0.1", client=("127.0.0.1", 50_000))
        assert all("db adopt" in page.get(path).text for path in ("/", "/nodes"))
        before = connection.execute("SELECT last_value FROM qrtz_fire_ids").fetchall()[0][0]
        wait_until(lambda: node.health().checkin_age is not None, "a check-in")
        assert ran == []
        code, output = run(administrator_dsn, "db", "adopt", "--yes")
        assert code == 0, output
        wait_until(lambda: ran, "the fire after the adoption")
        assert connection.execute("SELECT last_value FROM qrtz_fire_ids").fetchall()[0][0] >= before + 100_000_000
        wait_until(lambda: node.health().state is HealthState.HEALTHY, "health")
        # A second time, or by the URL of production.
        code, output = run(administrator_dsn, "db", "adopt", "--pause-all", "--yes")
        assert code != 0
        assert "nothing to adopt" in output
        assert not store.pauses().everything


def noting_job(ran: list[int]) -> JobDetail:
    class Noting(Job, type_name="identity-noting"):
        def execute(self, context: JobExecutionContext) -> None:
            ran.append(1)

    return JobDetail(Noting, "job")


@pytest.mark.usefixtures("original")
def test_an_adopted_copy_may_begin_with_all_paused(
    administrator_dsn: str, connect: Connect, store: SqlJobStore
) -> None:
    client = Scheduler(administrator_dsn, name=NAME)
    client.schedule_job(JobDetail("report", "job"), SimpleTrigger("t", interval=60))
    client.shutdown()
    register(store, "former")
    execute(administrator_dsn, "UPDATE qrtz_scheduler_state SET last_checkin = now() - interval '1 day'", FORMER)
    with pytest.raises(CopiedDatabaseError, match="restored"):
        store.check_tables()
    code, output = run(administrator_dsn, "db", "adopt", "--pause-all", "--yes")
    assert code == 0, output
    store.check_tables()
    assert store.triggers([TriggerKey("t")])[TriggerKey("t")].state == "PAUSED"
    assert store.list_nodes().nodes == ()
    assert "former" in output


@pytest.mark.parametrize(
    ("recorded", "present", "same"),
    [
        (("1", 5, "a"), ("1", 5, "renamed"), True),
        (("1", 5, "a"), ("1", 6, "a"), False),
        (("1", 5, "a"), ("2", 5, "a"), False),
        # The role may not read the identifier, or could not when it was recorded.
        (("1", 5, "a"), (None, 5, "a"), True),
        ((None, 5, "a"), ("2", 5, "a"), True),
        ((None, 5, "a"), (None, 6, "a"), False),
    ],
)
def test_what_makes_another_database(recorded: tuple[Any, ...], present: tuple[Any, ...], same: bool) -> None:
    assert identity.Identity(*recorded).is_same(identity.Identity(*present)) is same


@pytest.mark.usefixtures("original")
def test_a_role_that_may_not_ask_the_server_is_told_by_the_database_alone(
    administrator_dsn: str, postgres_server: Server, make_store: MakeStore
) -> None:
    role = f"no_control_{os.getpid()}"
    with connect_to(administrator_dsn) as connection:
        connection.execute(f"CREATE ROLE {role}".encode())
        try:
            connection.execute(f"GRANT pg_read_all_data TO {role}".encode())
            connection.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
            connection.execute(f"SET ROLE {role}".encode())
            tables = identity.StoredTables(connection, None)
            assert tables.present().system is None
            tables.check()
            connection.execute("RESET ROLE")
            connection.execute(FORMER.encode())
            connection.execute(f"SET ROLE {role}".encode())
            with pytest.raises(CopiedDatabaseError):
                tables.check()
        finally:
            connection.execute("RESET ROLE")
            connection.execute("GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC")
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def test_a_database_made_from_a_template_that_had_nodes_is_a_copy(
    postgres_server: Server, fresh_database: Callable[[], str]
) -> None:
    """A template without nodes, as test runners make one for each process, is nobody's schedule."""
    template = fresh_database()
    name = str(make_url(template).database)
    dsn = postgres_server.administrator_dsn_of(name)
    migrations.upgrade(dsn)
    with (
        postgres_server.temporary("quartzpy_copy", name) as copy,
        Scheduler(postgres_server.administrator_dsn_of(str(make_url(copy).database)), **NODE) as node,
    ):
        assert not node.health().problems
    with Scheduler(dsn, **NODE):
        pass
    with postgres_server.temporary("quartzpy_copy", name) as copy:
        copied = postgres_server.administrator_dsn_of(str(make_url(copy).database))
        with connect_to(copied) as connection:
            with pytest.raises(CopiedDatabaseError):
                identity.StoredTables(connection, None).check()
            migrations.upgrade(copied)
            with pytest.raises(CopiedDatabaseError):
                identity.StoredTables(connection, None).check()
            migrations.adopt(copied, by="test")
            identity.StoredTables(connection, None).check()
        with postgres_server.connect() as server:
            server.execute(f'ALTER DATABASE "{make_url(copy).database}" RENAME TO "{name}_renamed"'.encode())
        try:
            with connect_to(postgres_server.administrator_dsn_of(f"{name}_renamed")) as connection:
                identity.StoredTables(connection, None).check()
        finally:
            postgres_server.drop(f"{name}_renamed")


def test_tables_made_by_hand_are_those_of_the_first_node(store: SqlJobStore, connect: Connect) -> None:
    connect().execute("DELETE FROM qrtz_identity")
    register(store)
    [(number,)] = connect().execute("SELECT count(*) FROM qrtz_identity WHERE adopted_by = 'node'").fetchall()
    assert number == 1
