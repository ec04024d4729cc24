"""A managed PostgreSQL: the owner of the tables is no superuser, and functions of the server are not for us."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta

import pytest
from click.testing import CliRunner
from sqlalchemy import make_url

from quartzpy import JobDetail, Scheduler, SimpleTrigger
from quartzpy.cli.main import cli
from quartzpy.errors import SchemaError
from quartzpy.store.postgresql import migrations
from tests.database import Server
from tests.facade import jobs
from tests.managed import make_owner
from tests.pooler import Pooler

pytestmark = pytest.mark.new_sessions


@pytest.fixture
def managed(postgres_server: Server, fresh_database: Callable[[], str]) -> Iterator[str]:
    """The URL of a database without tables, of a role that owns it and may do nothing else."""
    role, password = f"owner_{uuid.uuid4().hex[:8]}", uuid.uuid4().hex
    name = str(make_url(fresh_database()).database)
    with postgres_server.connect(name) as connection:
        make_owner(connection, role, password)
    url = postgres_server.administrator.set(database=name, username=role, password=password)
    yield url.render_as_string(hide_password=False)
    with postgres_server.connect() as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
        connection.execute(f"DROP ROLE {role}".encode())


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, list(arguments), catch_exceptions=False)
    return done.exit_code, done.output


def test_an_owner_without_privileges_makes_checks_and_drops_the_tables(managed: str) -> None:
    assert run("db", "upgrade", "--url", managed)[0] == 0
    assert run("db", "check", "--url", managed)[0] == 0
    assert run("db", "downgrade", "base", "--yes", "--url", managed)[0] == 0
    assert run("db", "current", "--url", managed) == (0, "nothing\n")


@pytest.mark.parametrize("way", ["direct", "behind a transaction pooler"])
def test_a_node_fires_and_recovers_although_its_sessions_are_ended(
    managed: str, postgres_server: Server, way: str
) -> None:
    jobs.reset()
    migrations.upgrade(managed)
    with ExitStack() as stack:
        if way == "direct":
            scheduler = Scheduler(managed, **jobs.arguments())
        else:
            pooler = stack.enter_context(Pooler(managed))
            scheduler = Scheduler(pooler.through(managed), pooled=True, listen_url=managed, **jobs.arguments())
        stack.callback(scheduler.shutdown)
        scheduler.schedule_job(JobDetail(jobs.Recorded, "job"), SimpleTrigger("often", interval=timedelta(seconds=0.2)))
        scheduler.start()
        status, report = run("doctor", "--url", managed)
        assert status in (0, 1), report
        for command in ("nodes", "incidents", "executions", "jobs"):
            assert run(command, "--url", managed)[0] in (0, 1), command
        for _ in range(3):
            _end_sessions(postgres_server, managed)
            for _ in range(10):
                jobs.ran.get(timeout=60)


def _end_sessions(server: Server, dsn: str) -> None:
    with server.connect() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [make_url(dsn).database]
        )


@pytest.mark.parametrize("kind", ["bdr", "spock", "subscription"])
def test_a_node_does_not_fire_where_other_servers_write(
    kind: str, fresh_database: Callable[[], str], postgres_server: Server
) -> None:
    dsn = fresh_database()
    migrations.upgrade(dsn)
    with postgres_server.connect(str(make_url(dsn).database)) as connection:
        for statement in _SUBSCRIBED if kind == "subscription" else [_EXTENDED.format(kind)]:
            connection.execute(statement.encode())
        scheduler = Scheduler(dsn, **jobs.arguments())
        with pytest.raises(SchemaError, match=f"other servers can write into the tables: .*{kind}"):
            scheduler.start()
        scheduler.shutdown()
        assert "several-writers" in run("doctor", "--url", dsn)[1]
        connection.execute(b"DELETE FROM pg_extension WHERE extname IN ('bdr', 'spock')")
        connection.execute(b"UPDATE pg_subscription SET subenabled = false")
        assert "several-writers" not in run("doctor", "--url", dsn)[1]
        connection.execute(b"DELETE FROM pg_subscription_rel; DELETE FROM pg_subscription")


_EXTENDED = """
INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
SELECT 99999, '{}', oid, 11, false, '1' FROM pg_roles WHERE rolname = current_user
"""
"""What the server knows of an extension that is not to be had here."""
_SUBSCRIBED = (
    "CREATE SUBSCRIPTION subscription CONNECTION 'host=nowhere' PUBLICATION p"
    " WITH (connect = false, enabled = false, slot_name = NONE)",
    "UPDATE pg_subscription SET subenabled = true WHERE subname = 'subscription'",
    "INSERT INTO pg_subscription_rel (srsubid, srrelid, srsubstate)"
    " SELECT oid, 'qrtz_triggers'::regclass, 'r' FROM pg_subscription",
)
