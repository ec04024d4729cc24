"""Schedulers under different table prefixes share a schema, and even a name, and never meet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from quartzpy import Job, JobDetail, JobExecutionContext, JobKey, Scheduler, SimpleTrigger, WeeklyCalendar
from quartzpy.errors import SchemaError, SettingsError
from quartzpy.store.postgresql import migrations, roles
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.schema.privileges import Use
from quartzpy.store.postgresql.store import SqlJobStore
from tests.database import connect_to

PREFIXES = ("qrtz_", "jobs_")
ran: dict[str, threading.Event] = {}


class Told(Job):
    def execute(self, context: JobExecutionContext) -> None:
        ran[str(context.data["for"])].set()


@pytest.fixture
def dsn(fresh_database: Callable[[], str]) -> str:
    made = fresh_database()
    for prefix in PREFIXES:
        migrations.upgrade(made, prefix=prefix)
    return made


@pytest.fixture
def two(dsn: str) -> Iterator[list[Scheduler]]:
    schedulers = [Scheduler(dsn, table_prefix=prefix, idle_wait="60s") for prefix in PREFIXES]
    yield schedulers
    for scheduler in schedulers:
        scheduler.shutdown()


def test_two_schedulers_of_one_name_run_side_by_side(two: list[Scheduler], dsn: str) -> None:
    for scheduler, prefix in zip(two, PREFIXES, strict=True):
        ran[prefix] = threading.Event()
        scheduler.start()
        scheduler.add_calendar("weekly", WeeklyCalendar())
        scheduler.add_job(JobDetail(Told, prefix, durable=True))
    for scheduler, prefix in zip(two, PREFIXES, strict=True):
        assert scheduler.job_keys() == {JobKey(prefix)}
        assert [node.instance_id for node in scheduler.nodes().nodes] == [scheduler.instance_id]
        # From another connection, so that only a notification tells the node.
        other = Scheduler(dsn, table_prefix=prefix)
        other.trigger_job(JobKey(prefix), {"for": prefix})
        assert ran[prefix].wait(20)
        other.shutdown()
        scheduler.clear()
    assert two[0].job_keys() == set()


def test_their_notifications_and_sessions_are_distinguished(two: list[Scheduler]) -> None:
    stores = [scheduler._store for scheduler in two]
    assert all(isinstance(store, SqlJobStore) for store in stores)
    sessions = [store._session.channel for store in stores]  # type: ignore[attr-defined]
    assert len(set(sessions)) == 2
    told = [store._connections.connect_information("work")["application_name"] for store in stores]  # type: ignore[attr-defined]
    assert len({name[:24] for name in told}) == 2


def test_the_doctor_looks_at_the_tables_of_its_prefix(two: list[Scheduler], dsn: str) -> None:
    two[1].nodes()
    with connect_to(dsn) as connection:
        connection.execute("DROP INDEX jobs_triggers_due")
        connection.execute("ALTER TABLE jobs_triggers DROP CONSTRAINT jobs_triggers_catch_up_check")
        connection.execute("DELETE FROM jobs_locks")
    checks = {finding.check: finding for finding in admin(two[1]._store).audit()}
    assert {"missing-index", "missing-constraint", "lock-rows"} <= checks.keys()
    assert "jobs_triggers_due" in checks["missing-index"].rows[0]
    assert "ON jobs_triggers " in checks["missing-index"].rows[0]
    two[0].nodes()
    assert not {"missing-index", "missing-constraint", "lock-rows"} & {
        one.check for one in admin(two[0]._store).audit()
    }


def test_roles_and_privileges_are_those_of_the_prefix(dsn: str) -> None:
    script = roles.as_script(roles.statements(prefix="jobs_"))
    assert "ON TABLE public.jobs_triggers" in script
    assert "jobs_alembic_version" in script
    assert "qrtz_" not in script
    from quartzpy.store.postgresql.schema import privileges

    with connect_to(dsn) as connection:
        connection.execute("DROP ROLE IF EXISTS prefix_reader")
        connection.execute("CREATE ROLE prefix_reader; GRANT USAGE ON SCHEMA public TO prefix_reader")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO prefix_reader")
        connection.execute("REVOKE SELECT ON jobs_triggers FROM prefix_reader; SET ROLE prefix_reader")
        assert privileges.missing(connection, None, Use.READER) == {}
        assert privileges.missing(connection, None, Use.READER, "jobs_") == {"jobs_triggers": ["SELECT"]}
        connection.execute("RESET ROLE; DROP OWNED BY prefix_reader; DROP ROLE prefix_reader")


def test_tables_of_another_prefix_are_not_found(dsn: str) -> None:
    scheduler = Scheduler(dsn, table_prefix="other_")
    with pytest.raises(SchemaError, match="--table-prefix other_"):
        scheduler.job_keys()
    scheduler.shutdown()


@pytest.mark.parametrize("wrong", ["", "Jobs_", "1_", "a-b", "pg_x", 'x"', "a" * 21, None, 3])
def test_a_prefix_that_cannot_be_is_refused(wrong: object) -> None:
    with pytest.raises(SettingsError, match="table_prefix"):
        Scheduler("memory://", table_prefix=wrong)


def test_all_methods_work_under_a_prefix(two: list[Scheduler]) -> None:
    scheduler = two[1]
    scheduler.schedule_job(
        JobDetail(Told, "job", durable=True),
        SimpleTrigger("t", interval=timedelta(hours=1), start_time=scheduler.nodes().now + timedelta(hours=1)),
    )
    scheduler.pause_all()
    scheduler.resume_all()
    assert scheduler.why(next(iter(scheduler.trigger_keys())))
    assert scheduler.counts()
    assert not scheduler.executions()
    assert not scheduler.misfires()
    scheduler.clear()
