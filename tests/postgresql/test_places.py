"""Where the tables are: search paths, schemas, row level security, and settings of the role."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import make_url

from quartzpy import CronTrigger, JobDetail, Scheduler, SimpleTrigger
from quartzpy.cli.main import cli
from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import SchemaError
from quartzpy.store.postgresql import migrations
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.store import SqlJobStore
from tests.database import Server, execute
from tests.postgresql.conftest import register


class Place:
    """A database with a role of its own that is not the owner of what the administrator makes."""

    def __init__(self, server: Server, name: str) -> None:
        self.administrator = server.administrator_dsn_of(name)
        self.role = f"stranger_{uuid.uuid4().hex[:8]}"
        self.run(f"CREATE ROLE {self.role} LOGIN PASSWORD 'secret'", f"GRANT ALL ON SCHEMA public TO {self.role}")
        url = make_url(self.administrator)
        self.dsn = url.set(username=self.role, password="secret").render_as_string(hide_password=False)

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        return execute(self.administrator, *statements)

    def migrate(self, schema: str | None = None, prefix: str = "qrtz_") -> None:
        migrations.upgrade(self.administrator, schema, prefix=prefix)
        for kind in ("TABLES", "SEQUENCES"):
            self.run(f"GRANT ALL ON ALL {kind} IN SCHEMA {schema or 'public'} TO {self.role}")
        self.run(f"GRANT USAGE ON SCHEMA {schema or 'public'} TO {self.role}")

    def open(self, **settings: Any) -> None:
        """Open a store, register a node and examine the database."""
        store = SqlJobStore(self.dsn, SchedulerConfig.of({"name": "places", **settings}))
        try:
            store.open()
            store.leave(register(store))
            store.check_tables()
            assert not [each for each in admin(store).audit() if each.severity == "error"]
        finally:
            store.close()

    def command(self, *arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(cli, [*arguments, "--url", self.dsn])
        return done.exit_code, done.output + str(done.exception or "")


@pytest.fixture
def place(postgres_server: Server, fresh_database: Callable[[], str]) -> Iterator[Place]:
    made = Place(postgres_server, str(make_url(fresh_database()).database))
    yield made
    made.run(f"DROP OWNED BY {made.role} CASCADE", f"DROP ROLE {made.role}")


def sets_of_tables(place: Place) -> list[str]:
    return [
        name for (name,) in place.run("SELECT schemaname FROM pg_tables WHERE tablename LIKE '%triggers' ORDER BY 1")
    ]


@pytest.mark.parametrize("prefix", ["qrtz_", "jobs_"])
def test_a_schema_with_the_name_of_the_user_stops_nobody(place: Place, prefix: str) -> None:
    place.migrate(prefix=prefix)
    place.run(f"CREATE SCHEMA AUTHORIZATION {place.role}")
    place.open(table_prefix=prefix)
    options = () if prefix == "qrtz_" else ("--table-prefix", prefix)
    for command in (("db", "check"), ("db", "upgrade"), ("db", "current")):
        code, output = place.command(*command, *options)
        assert code == 0, output
    assert set(sets_of_tables(place)) == {"public"}


@pytest.mark.parametrize("path", ["elsewhere", "pg_catalog", "elsewhere, pg_temp"])
def test_tables_that_the_search_path_does_not_lead_to_are_named(place: Place, path: str) -> None:
    place.run("CREATE SCHEMA elsewhere", f"GRANT ALL ON SCHEMA elsewhere TO {place.role}")
    place.migrate()
    place.run(f"ALTER ROLE {place.role} SET search_path = {path}")
    with pytest.raises(SchemaError, match="schema public has some: set schema='public'") as refused:
        place.open()
    assert "db upgrade" not in str(refused.value)
    code, output = place.command("db", "upgrade")
    assert code != 0
    assert "--schema public" in output
    assert set(sets_of_tables(place)) == {"public"}
    place.open(schema="public")


def test_tables_in_a_schema_of_their_own_are_not_made_twice(place: Place) -> None:
    place.migrate("jobs")
    with pytest.raises(SchemaError, match="schema jobs has some"):
        place.open()
    code, output = place.command("db", "upgrade")
    assert code != 0
    assert "--schema jobs" in output
    place.open(schema="jobs")
    place.run(f"ALTER ROLE {place.role} SET search_path = jobs, public")
    place.open()
    place.run(f"ALTER ROLE {place.role} RESET search_path")
    code, output = place.command("db", "upgrade", "--yes")
    assert code == 0, output
    assert set(sets_of_tables(place)) == {"jobs", "public"}


def test_no_tables_at_all_are_said_as_before(place: Place) -> None:
    with pytest.raises(SchemaError, match="run `quartzpy db upgrade`"):
        place.open()


@pytest.mark.parametrize("tables", [("qrtz_triggers",), ("qrtz_scheduler_state", "qrtz_locks"), "all"])
def test_row_level_security_that_hides_rows_is_refused(place: Place, tables: tuple[str, ...] | str) -> None:
    place.migrate()
    if tables == "all":
        tables = tuple(name for (name,) in place.run("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"))
    for name in tables:
        place.run(f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY")
    with pytest.raises(SchemaError, match="row level security hides rows") as refused:
        place.open()
    assert "DISABLE ROW LEVEL SECURITY" in str(refused.value)
    assert "db upgrade" not in str(refused.value)
    code, output = place.command("doctor")
    assert code != 0
    assert "row level security" in output
    # Its owner is not subject to it.
    store = SqlJobStore(place.administrator, SchedulerConfig.of({"name": "places"}))
    store.open()
    store.close()
    for name in tables:
        place.run(f"CREATE POLICY quartzpy ON {name} TO {place.role} USING (true)")
    place.open()


def test_policies_that_refuse_writes_are_refused_for_a_node(place: Place) -> None:
    place.migrate()
    place.run("ALTER TABLE qrtz_triggers ENABLE ROW LEVEL SECURITY")
    place.run("CREATE POLICY reading ON qrtz_triggers FOR SELECT USING (true)")
    with pytest.raises(SchemaError, match="row level security"):
        place.open()
    place.run("CREATE POLICY all_of_it ON qrtz_triggers USING (true)")
    place.open()
    place.run("CREATE POLICY others ON qrtz_triggers AS RESTRICTIVE USING (sched_name = 'other')")
    with pytest.raises(SchemaError, match="row level security"):
        place.open()


def test_a_revision_that_was_deleted_is_not_taken_for_no_tables(place: Place) -> None:
    place.migrate()
    place.run("DELETE FROM qrtz_alembic_version")
    with pytest.raises(SchemaError, match="has no row"):
        place.open()


@pytest.mark.parametrize("privilege", ["SELECT ON qrtz_triggers", "SELECT ON qrtz_alembic_version"])
def test_a_right_that_was_revoked_is_named(place: Place, privilege: str) -> None:
    place.migrate()
    place.run(f"REVOKE {privilege} FROM {place.role}")
    with pytest.raises(SchemaError, match=privilege.split()[-1]):
        place.open()


@pytest.mark.parametrize(
    "setting", ["array_nulls = off", "transform_null_equals = on", "default_transaction_isolation = 'serializable'"]
)
def test_settings_of_the_role_change_nothing(place: Place, setting: str) -> None:
    place.migrate()
    place.run(f"ALTER ROLE {place.role} SET {setting}")
    place.open()
    client = Scheduler(place.dsn, name="places")
    try:
        client.schedule_job(JobDetail("report", "job"), [SimpleTrigger("a"), CronTrigger("0 0 1 * * ?", "b")])
        assert client.triggers().count() == 2
    finally:
        client.shutdown()
