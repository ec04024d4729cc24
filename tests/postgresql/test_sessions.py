"""What our sessions are, whatever the URL, the role, the database and the machine say."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import make_url

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger
from quartzpy.store.postgresql import migrations
from quartzpy.store.postgresql.connection.pipeline import DeadlineError, undo
from quartzpy.store.postgresql.connection.session import channel
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import Notification
from tests.database import connect_to, execute
from tests.postgresql.conftest import NAME

Fresh = Callable[[], str]
MakeStore = Callable[..., SqlJobStore]


class Nothing(Job):
    def execute(self, context: JobExecutionContext) -> None: ...


def test_the_search_path_of_the_url_is_the_one_that_is_used(fresh_database: Fresh) -> None:
    dsn = fresh_database()
    migrations.upgrade(dsn)
    execute(dsn, "CREATE SCHEMA app2")
    there = make_url(dsn).update_query_dict({"options": "-c search_path=app2"}).render_as_string(hide_password=False)
    # SQLAlchemy writes a + for a space, which libpq takes for a plus.
    there = there.replace("+search_path", "%20search_path")
    migrations.upgrade(there)
    scheduler = Scheduler(there)
    scheduler.schedule_job(JobDetail(Nothing, "job"), SimpleTrigger("t", start_time=datetime(2090, 1, 1, tzinfo=UTC)))
    scheduler.shutdown()
    assert execute(dsn, "SELECT count(*) FROM app2.qrtz_triggers") == [(1,)]
    assert execute(dsn, "SELECT count(*) FROM public.qrtz_triggers") == [(0,)]


@pytest.mark.parametrize("schema", ["user", "order", "Mixed", "a" * 63, "_1"])
def test_a_schema_may_have_any_name_that_is_not_refused(fresh_database: Fresh, schema: str) -> None:
    dsn = fresh_database()
    migrations.upgrade(dsn, schema)
    migrations.check(dsn, schema)
    with Scheduler(dsn, schema=schema, checkin_interval="200ms", failure_window="6s") as scheduler:
        scheduler.schedule_job(JobDetail(Nothing, "job"), SimpleTrigger("t"))
        assert scheduler.wait_until_recorded(1, timedelta(seconds=20))
    assert execute(dsn, f'SELECT count(*) FROM "{schema}".qrtz_executions') == [(1,)]
    migrations.downgrade(dsn, schema)


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_the_databases_default_isolation_level_is_not_ours(
    new_database: str, make_store: MakeStore, level: str
) -> None:
    name = make_url(new_database).database
    execute(new_database, f"ALTER DATABASE {name} SET default_transaction_isolation = '{level}'")
    for settings in ({}, {"pooled": True}):
        store = make_store(new_database, **settings)
        show = store._session.bind("SELECT current_setting('transaction_isolation')")
        assert store._session.unlocked(show)[0].rows == [("read committed",)]
        connection, _ = store._connections.begin_job_transaction()
        with connection:
            shown = connection.exec_driver_sql("SHOW transaction_isolation").scalar_one()
            assert shown == "read committed"


def test_a_database_of_another_encoding_keeps_text_as_it_is(postgres_dsn: str, fresh_database: Fresh) -> None:
    name = f"quartzpy_latin1_{os.getpid()}"
    execute(postgres_dsn, f"CREATE DATABASE {name} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    dsn = make_url(postgres_dsn).set(database=name).render_as_string(hide_password=False)
    try:
        migrations.upgrade(dsn)
        scheduler = Scheduler(dsn)
        later = datetime(2090, 1, 1, tzinfo=UTC)
        scheduler.schedule_job(JobDetail(Nothing, "caf\u00e9"), SimpleTrigger("caf\u00e9", start_time=later))
        assert [key.name for key in scheduler.trigger_keys()] == ["caf\u00e9"]
        scheduler.shutdown()
    finally:
        execute(postgres_dsn, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.new_sessions
def test_a_listener_works_with_a_descriptor_above_1023(make_store: MakeStore, postgres_dsn: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(4_096, hard)), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    try:
        listener = make_store().subscribe()
        assert listener is not None
        assert listener._connection.pgconn.socket > 1_023
        assert not listener.wait(0.01)
        execute(postgres_dsn, f"SELECT pg_notify('{channel(NAME)}', '{Notification.SCHEDULED}')")
        assert set(listener.wait(30)) == {Notification.SCHEDULED}
        listener.close()
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_what_a_later_release_tells_is_passed_over(make_store: MakeStore, postgres_dsn: str) -> None:
    listener = make_store().subscribe()
    assert listener is not None
    tell = f"SELECT pg_notify('{channel(NAME)}', %s)"
    with connect_to(postgres_dsn) as connection, connection.transaction():
        for word in ("of tomorrow", str(Notification.CANCELLED), ""):
            connection.execute(tell, [word])
    assert set(listener.wait(30)) == {Notification.CANCELLED}
    listener.close()


def test_a_rollback_that_is_not_answered_ends_at_its_deadline(postgres_dsn: str) -> None:
    connection = connect_to(postgres_dsn)
    began = time.monotonic()
    with pytest.raises(DeadlineError):
        undo(connection.pgconn, b"SELECT pg_sleep(60)", 0.2)
    assert time.monotonic() - began < 30
    connection.close()
