"""What is wrong with a server, a session or a role is said at the start, or when it happens, with what to do."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger
from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import SchemaError, SettingsError, StoreUnavailableError
from quartzpy.store.health_findings import Severity
from quartzpy.store.postgresql import migrations, server_checks
from quartzpy.store.postgresql.connection.conninfo import session_settings
from quartzpy.store.postgresql.connection.error_translation import LockRowMissingError
from quartzpy.store.postgresql.connection.locks import LockName
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import EVERYTHING
from tests.database import connect_to
from tests.pooler import Pooler
from tests.postgresql.conftest import NAME, register
from tests.proxy import over_tcp

Connect = Callable[[], psycopg.Connection[Any]]
MakeStore = Callable[..., SqlJobStore]
LATER = datetime(2090, 1, 1, tzinfo=UTC)
CANARY = "c4n4ry-pass"


class Nothing(Job):
    def execute(self, context: JobExecutionContext) -> None: ...


@pytest.fixture
def own_role(postgres_dsn: str, connect: Connect) -> Iterator[str]:
    """The URL of another superuser, whose settings can be changed."""
    administrator, name = connect(), f"checked_{os.getpid()}"
    administrator.execute(f"CREATE ROLE {name} LOGIN SUPERUSER PASSWORD '{CANARY}'".encode())
    yield make_url(postgres_dsn).set(username=name, password=CANARY).render_as_string(hide_password=False)
    administrator.execute(f"DROP OWNED BY {name}; DROP ROLE {name}".encode())


def alter(connect: Connect, dsn: str, setting: str) -> None:
    connect().execute(f"ALTER ROLE {make_url(dsn).username} {setting}".encode())


def found(dsn: str, **settings: Any) -> dict[str, tuple[Severity, str]]:
    config = SchedulerConfig.of(settings)
    told = session_settings(config)
    with connect_to(dsn) as connection:
        for name, value in told.items():
            connection.execute("SELECT set_config(%s, %s, false)", [name, value])
        return {one.check: (one.severity, str(one)) for one in server_checks.of_node(connection, config)}


def test_a_server_past_its_end_of_life_is_refused_with_what_is_needed(
    make_store: MakeStore, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = server_checks.facts

    def older(connection: psycopg.Connection[Any]) -> server_checks.Facts:
        return server(connection)._replace(version=140_019, version_text="14.19")

    store = make_store()
    assert "server-version" not in found(postgres_dsn)
    monkeypatch.setattr(server_checks, "facts", older)
    words = "the server is PostgreSQL 14.19; quartzpy needs PostgreSQL 15 or later"
    severity, text = found(postgres_dsn)["server-version"]
    assert severity is Severity.ERROR
    assert words in text
    with pytest.raises(SchemaError, match=words):
        register(store)
    with pytest.raises(SchemaError, match=words):
        make_store()


def test_a_role_that_cannot_write_is_reported_at_the_start(own_role: str, connect: Connect) -> None:
    alter(connect, own_role, "SET default_transaction_read_only = on")
    scheduler = Scheduler(own_role, start_timeout="100ms")
    with pytest.raises(StoreUnavailableError, match="reset default_transaction_read_only") as caught:
        scheduler.start()
    assert caught.value.sqlstate == "25006"
    scheduler.shutdown()


def test_a_role_that_does_not_wait_for_its_commits_waits_for_ours(
    own_role: str, connect: Connect, make_store: MakeStore
) -> None:
    alter(connect, own_role, "SET synchronous_commit = off")
    for settings in ({}, {"pooled": True}):
        store = make_store(own_role, **settings)
        assert store._session.read_one("SELECT current_setting('synchronous_commit')") == [("on",)]


def test_too_few_connections_are_reported(own_role: str, connect: Connect) -> None:
    alter(connect, own_role, "CONNECTION LIMIT 6")
    assert "may have 6 connections, and a node uses up to 10" in found(own_role)["max-connections"][1]
    alter(connect, own_role, "CONNECTION LIMIT -1")
    assert "connections free, and a node uses up to 1005" in found(own_role, pool_size=1_000)["max-connections"][1]


def test_a_server_that_may_lose_commits_is_reported(postgres_dsn: str, connect: Connect) -> None:
    fsync = connect().execute("SHOW fsync").fetchone()
    assert ("durability" in found(postgres_dsn)) == (fsync == ("off",))


def test_what_is_found_is_logged_once(make_store: MakeStore, own_role: str, connect: Connect) -> None:
    alter(connect, own_role, "CONNECTION LIMIT 9")
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("quartzpy.store.postgresql.store").addHandler(handler)
    try:
        store = make_store(own_role)
        register(store, "a")
        register(store, "b")
    finally:
        logging.getLogger("quartzpy.store.postgresql.store").removeHandler(handler)
    assert len([line for line in records if "CONNECTION LIMIT" in line]) == 1


def test_an_encoding_other_than_utf8_is_reported_with_its_consequences(postgres_dsn: str, connect: Connect) -> None:
    name, administrator = f"quartzpy_ascii_{os.getpid()}", connect()
    create = f"CREATE DATABASE {name} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    administrator.execute(create.encode())
    dsn = make_url(postgres_dsn).set(database=name).render_as_string(hide_password=False)
    try:
        migrations.upgrade(dsn)
        assert found(dsn)["encoding"][0] is Severity.WARNING
        scheduler = Scheduler(dsn)
        trigger = SimpleTrigger("t", start_time=LATER)
        with pytest.raises(Exception, match="encoding has no such character"):
            scheduler.schedule_job(JobDetail(Nothing, "job", description="\u4e2d"), trigger)
        scheduler.shutdown()
    finally:
        administrator.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def test_a_pooler_that_takes_our_settings_away_is_found(postgres_dsn: str) -> None:
    with Pooler(postgres_dsn, ignores_options=True) as pooler:
        through = pooler.through(postgres_dsn)
        with pytest.raises(SettingsError, match="set pooled=True"):
            Scheduler(through).jobs()
        client = Scheduler(through, pooled=True)
        assert list(client.jobs()) == []
        client.shutdown()


def test_lock_rows_that_went_are_restored_and_nothing_is_done_without_them(
    store: SqlJobStore, connect: Connect
) -> None:
    user = connect()
    node = register(store)
    for use in (lambda: store.pause(EVERYTHING), store.open, lambda: store.reconcile(node, executions=[])):
        user.execute("DELETE FROM qrtz_locks")
        use()
        assert user.execute("SELECT count(*) FROM qrtz_locks").fetchone() == (3,)
    user.execute("DELETE FROM qrtz_locks")
    with pytest.raises(LockRowMissingError):
        store._session.connections.execute(
            [store._session.lock(LockName.TRIGGER_ACCESS), store._session.bind("CREATE TABLE never (a int)")],
            store._connections.steps,
        )
    assert user.execute("SELECT to_regclass('never')").fetchone() == (None,)


def test_a_table_that_went_is_named(new_database: str) -> None:
    scheduler = Scheduler(new_database)
    assert list(scheduler.jobs()) == []
    with connect_to(new_database) as connection:
        connection.execute("DROP TABLE qrtz_misfires, qrtz_paused_trigger_groups")
    with pytest.raises(
        SchemaError, match=r'"qrtz_paused_trigger_groups" does not exist(?s:.*); run `quartzpy db upgrade`'
    ):
        scheduler.pause_all()
    scheduler.shutdown()


@pytest.mark.parametrize(
    ("sqlstate", "says"), [("53100", "disk full"), ("25006", "read-only"), ("53200", "out of memory")]
)
def test_a_server_that_cannot_write_now_is_unavailable_with_its_code(
    postgres_dsn: str, connect: Connect, sqlstate: str, says: str
) -> None:
    user = connect()
    user.execute(
        f"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN RAISE EXCEPTION '{says}' USING ERRCODE = '{sqlstate}'; END $$".encode()
    )
    user.execute("CREATE TRIGGER refuse BEFORE INSERT ON qrtz_job_details EXECUTE FUNCTION refuse()")
    scheduler = Scheduler(postgres_dsn)
    job, trigger = JobDetail(Nothing, "job"), SimpleTrigger("t", start_time=LATER)
    try:
        with pytest.raises(StoreUnavailableError, match=says) as caught:
            scheduler.schedule_job(job, trigger)
        assert caught.value.sqlstate == sqlstate
    finally:
        user.execute("DROP FUNCTION refuse CASCADE")
    scheduler.schedule_job(job, trigger)
    assert scheduler.trigger_keys() == {trigger.key}
    scheduler.shutdown()


def test_who_holds_the_lock_is_named_after_some_waits(make_store: MakeStore, postgres_dsn: str) -> None:
    store = make_store(lock_timeout="100ms", failure_window="20s")
    with connect_to(postgres_dsn, autocommit=False, application_name="a report of theirs") as user:
        user.execute("SELECT FROM qrtz_locks WHERE sched_name = %s FOR UPDATE", [NAME])
        for _ in range(2):
            with pytest.raises(StoreUnavailableError) as caught:
                store.pause(EVERYTHING)
            assert "held by" not in str(caught.value)
        with pytest.raises(StoreUnavailableError) as caught:
            store.pause(EVERYTHING)
        assert caught.value.sqlstate == "55P03"
        assert re.search(
            rf"held by pid {user.info.backend_pid} \(user {user.info.user}, application a report of theirs",
            str(caught.value),
        )
        user.rollback()
    store.pause(EVERYTHING)


def test_sessions_that_wait_too_are_not_blamed(make_store: MakeStore, postgres_dsn: str) -> None:
    store = make_store()
    with connect_to(postgres_dsn, autocommit=False, application_name="guilty") as user:
        user.execute("SELECT FROM qrtz_locks WHERE sched_name = %s FOR UPDATE", [NAME])
        assert "guilty" in store._session.diagnosis.holders()
        user.rollback()
    assert store._session.diagnosis.holders() == ""


def test_no_secret_is_shown_by_what_fails_or_starts(own_role: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    shown: list[str] = []
    wrong = CANARY + "-wrong"
    # Over TCP, because most forms of a URL have a host before the path.
    url = make_url(over_tcp(own_role))
    forms = [
        url.set(password=wrong).render_as_string(hide_password=False),
        f"postgresql://{url.username}:{wrong}@{url.host}:{url.port},{url.host}:9/{url.database}",
        f"postgresql:///{url.database}?host={url.host}&port={url.port}&user={url.username}&password={wrong}",
        f"postgresql://{url.username}@{url.host}:{url.port}/{url.database}?password={wrong}&nothing=1",
        f"host={url.host} port={url.port} user={url.username} password={wrong} dbname={url.database}",
        f"postgresql://{url.username}:{wrong}@{url.host}:port/{url.database}",
    ]
    for form in forms:
        with pytest.raises(Exception) as caught:
            Scheduler(form, start_timeout="100ms", connect_timeout="2s").start()
        shown += [str(caught.value), repr(caught.value)]
    with Scheduler(own_role, checkin_interval="200ms", failure_window="6s", listen_url=own_role) as scheduler:
        store = scheduler._store
        assert isinstance(store, SqlJobStore)
        shown += [repr(part) for part in (scheduler, scheduler.config, store, store._connections, store._session)]
        with store._connections.checked_out() as connection:
            shown.append(repr(connection))
    assert CANARY not in "\n".join([*shown, caplog.text])
