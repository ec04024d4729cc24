from __future__ import annotations

import io
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger
from quartzpy.errors import AuthenticationError, SchemaError, StoreUnavailableError
from quartzpy.store.postgresql import migrations, schema_version
from quartzpy.store.postgresql.schema.tables import metadata
from tests.database import connect_to, execute
from tests.proxy import over_tcp
from tools import table_columns

ROOT = Path(__file__).resolve().parents[2]
Fresh = Callable[[], str]


class Nothing(Job):
    def execute(self, context: JobExecutionContext) -> None: ...


def qrtz_tables(dsn: str) -> set[tuple[object, ...]]:
    return set(execute(dsn, "SELECT schemaname, tablename FROM pg_tables WHERE tablename LIKE 'qrtz%' ORDER BY 1, 2"))


OURS = (
    "SELECT relname FROM pg_class WHERE relnamespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname ~ '^pg_|^inf')"
)


@pytest.mark.parametrize("prefix", ["qrtz_", "jobs_"])
@pytest.mark.parametrize("schema", [None, "billing"])
def test_upgrading_makes_what_the_code_needs_and_downgrading_leaves_nothing(
    fresh_database: Fresh, schema: str | None, prefix: str
) -> None:
    dsn = fresh_database()
    before = execute(dsn, OURS)
    assert migrations.current(dsn, schema, prefix=prefix) is None
    migrations.upgrade(dsn, schema, prefix=prefix)
    migrations.upgrade(dsn, schema, prefix=prefix)
    assert migrations.current(dsn, schema, prefix=prefix) == schema_version.HEAD
    migrations.check(dsn, schema, prefix=prefix)
    made = execute(dsn, OURS)
    assert len(made) > 30
    assert all(str(name).startswith(prefix) for (name,) in made), "tables, sequences and indexes"
    constraints = execute(
        dsn, f"SELECT conname FROM pg_constraint WHERE conname NOT LIKE '{prefix}%' AND conrelid <> 0"
    )
    assert not [name for (name,) in constraints if str(name).startswith("qrtz_")]
    migrations.downgrade(dsn, schema, prefix=prefix)
    assert migrations.current(dsn, schema, prefix=prefix) is None
    assert execute(dsn, OURS) == before


def test_a_table_under_a_prefix_is_compared_to_the_last_index(fresh_database: Fresh) -> None:
    dsn = fresh_database()
    migrations.upgrade(dsn, prefix="jobs_")
    with pytest.raises(SchemaError, match=r"no quartzpy tables in the database; run `quartzpy db upgrade`"):
        migrations.check(dsn)
    with pytest.raises(SchemaError, match=r"under the prefix x_; run `quartzpy db upgrade --table-prefix x_`"):
        migrations.check(dsn, prefix="x_")
    execute(dsn, "DROP INDEX jobs_triggers_due")
    with pytest.raises(SchemaError, match="jobs_triggers_due"):
        migrations.check(dsn, prefix="jobs_")
    execute(dsn, "DROP TABLE jobs_misfires")
    with pytest.raises(
        SchemaError, match=r"in the database under the prefix jobs_ differ .*: table jobs_misfires is missing;"
    ):
        migrations.check(dsn, prefix="jobs_")


def test_the_printed_statements_make_the_tables_of_a_prefix(fresh_database: Fresh) -> None:
    dsn = fresh_database()
    execute(dsn, migrations.sql(prefix="jobs_"))
    migrations.check(dsn, prefix="jobs_")


def test_the_tables_of_the_code_are_those_of_the_migrations(fresh_database: Fresh) -> None:
    by_migrations, by_code = fresh_database(), fresh_database()
    migrations.upgrade(by_migrations)
    engine = create_engine(by_code)
    metadata.create_all(engine)
    engine.dispose()
    for question in (
        "SELECT table_name, column_name, data_type, is_nullable, column_default, character_maximum_length"
        " FROM information_schema.columns WHERE table_name LIKE 'qrtz%%' AND table_name <> 'qrtz_alembic_version'"
        " AND table_name NOT IN (SELECT viewname FROM pg_views) ORDER BY 1, 2",
        "SELECT indexdef FROM pg_indexes WHERE tablename LIKE 'qrtz%%' AND tablename <> 'qrtz_alembic_version'"
        " ORDER BY 1",
        "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE conrelid::regclass::text LIKE 'qrtz%%' AND contype <> 'n'"
        " AND conrelid::regclass::text <> 'qrtz_alembic_version' ORDER BY 1, 2",
        "SELECT sequencename, data_type::text, cycle FROM pg_sequences WHERE sequencename LIKE 'qrtz%%' ORDER BY 1",
        "SELECT relname, reloptions FROM pg_class WHERE relname LIKE 'qrtz%%' AND relkind = 'r'"
        " AND relname <> 'qrtz_alembic_version' ORDER BY 1",
    ):
        assert execute(by_migrations, question) == execute(by_code, question)


def test_the_names_that_a_node_knows_are_those_of_the_tables() -> None:
    assert table_columns.FILE.read_text() == table_columns.text(), "write them anew: python -m tools.table_columns"


def test_the_rendered_sql_is_that_of_the_migrations_and_works(fresh_database: Fresh) -> None:
    rendered = (ROOT / "schema" / "postgresql.sql").read_text()
    assert rendered == migrations.sql(), "render it anew: quartzpy db sql > schema/postgresql.sql"
    dsn = fresh_database()
    execute(dsn, rendered)
    migrations.check(dsn)


def test_the_revisions_that_the_code_knows_are_those_of_the_scripts() -> None:
    scripts = sorted((ROOT / "schema" / "versions").glob("*.py"))
    revisions = [re.search(r'^revision(?:: str)? = "(\w+)"', path.read_text(), re.M) for path in scripts]
    assert tuple(found[1] for found in revisions if found) == schema_version.REVISIONS


def test_a_store_on_an_absent_older_newer_or_damaged_schema_says_what_mends_it(fresh_database: Fresh) -> None:
    dsn = fresh_database()

    def refusal() -> str:
        with pytest.raises(SchemaError) as caught:
            Scheduler(dsn).jobs()
        return str(caught.value)

    assert "run `quartzpy db upgrade`" in refusal()
    migrations.upgrade(dsn)
    execute(dsn, "UPDATE qrtz_alembic_version SET version_num = '9999'")
    assert "newer than this release" in refusal()
    execute(dsn, f"UPDATE qrtz_alembic_version SET version_num = '{schema_version.HEAD}'")
    execute(dsn, "ALTER TABLE qrtz_triggers DROP COLUMN upcoming CASCADE")
    assert "table qrtz_triggers in the database lacks upcoming; run `quartzpy db check`" in refusal()
    execute(dsn, "ALTER TABLE qrtz_triggers ALTER COLUMN description TYPE varchar(7)")
    execute(dsn, "ALTER TABLE qrtz_job_details ADD COLUMN extra integer")
    execute(dsn, "DROP TABLE qrtz_audit")
    with pytest.raises(SchemaError) as caught:
        migrations.check(dsn)
    told = str(caught.value)
    assert "table qrtz_triggers lacks column upcoming" in told
    assert "table qrtz_audit is missing" in told
    assert "column extra of table qrtz_job_details does not belong there" in told
    assert "type of column description of table qrtz_triggers is VARCHAR(7), not TEXT" in told
    assert "change them to what `quartzpy db sql` prints" in told
    assert "db check" not in told, "this is what the command itself says"


def test_the_tables_say_of_which_revision_they_are_and_who_can_use_them(fresh_database: Fresh) -> None:
    dsn = fresh_database()
    migrations.upgrade(dsn)
    migrations.upgrade(dsn, "x", prefix="other_")
    with connect_to(dsn) as connection:
        for schema, prefix in ((None, "qrtz_"), ("x", "other_")):
            assert (
                schema_version.usable_from(connection, schema_version.HEAD, schema, prefix) in schema_version.REVISIONS
            )
            assert schema_version.usable_from(connection, "9999", schema, prefix) is None


def test_newer_tables_are_used_if_they_say_that_this_release_can(fresh_database: Fresh) -> None:
    dsn = fresh_database()
    migrations.upgrade(dsn)
    execute(dsn, "ALTER TABLE qrtz_triggers ADD COLUMN of_the_future integer")
    execute(dsn, "UPDATE qrtz_alembic_version SET version_num = '9999'")

    def say(revision: str, since: str) -> None:
        mark = f"tables of revision {revision}, usable by releases from revision {since} on"
        execute(dsn, f"COMMENT ON TABLE qrtz_scheduler_state IS '{mark}'")

    say("9999", schema_version.HEAD)
    with Scheduler(dsn, name="old", idle_wait="50ms") as scheduler:
        scheduler.schedule_job(
            JobDetail("x:y", "job"), SimpleTrigger("later", start_time=datetime(2090, 1, 1, tzinfo=UTC))
        )
        assert scheduler.triggers().count() == 1
    migrations.check(dsn)
    for revision, since in (("9999", "9998"), ("9998", schema_version.HEAD), ("", "")):
        say(revision, since)
        with pytest.raises(SchemaError, match="do not say that this release can use them"):
            Scheduler(dsn).jobs()
    say("9999", schema_version.HEAD)
    execute(dsn, "ALTER TABLE qrtz_triggers DROP COLUMN upcoming CASCADE")
    with pytest.raises(SchemaError, match="lacks upcoming"):
        Scheduler(dsn).jobs()


def test_an_older_schema_is_named_as_such(fresh_database: Fresh) -> None:
    dsn = fresh_database()
    migrations.upgrade(dsn, "x", "0001")
    with pytest.raises(SchemaError, match="older than this release's 0002; run `quartzpy db upgrade --schema x`"):
        Scheduler(dsn, schema="x").jobs()


def test_two_schemas_of_one_database_do_not_know_of_each_other(fresh_database: Fresh) -> None:
    dsn = fresh_database()
    schedulers = []
    for schema in ("one", "two"):
        migrations.upgrade(dsn, schema)
        schedulers.append(Scheduler(dsn, schema=schema))
    one, two = schedulers
    one.schedule_job(JobDetail(Nothing, "job"), SimpleTrigger("only-in-one"))
    assert [key.name for key in one.trigger_keys()] == ["only-in-one"]
    assert two.trigger_keys() == set()
    migrations.check(dsn, "one")
    for scheduler in schedulers:
        scheduler.shutdown()


def test_a_schedulers_name_parts_clusters_within_one_schema(postgres_dsn: str) -> None:
    one, two = Scheduler(postgres_dsn, name="one"), Scheduler(postgres_dsn, name="two")
    one.schedule_job(JobDetail(Nothing, "job"), SimpleTrigger("t"))
    assert list(two.jobs()) == []
    two.schedule_job(JobDetail(Nothing, "job"), SimpleTrigger("t"))
    one.clear()
    assert two.jobs().count() == 1
    one.shutdown()
    two.shutdown()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda url: url.replace("quartzpy_fresh", "quartzpy_absent"), AuthenticationError),
        (lambda url: re.sub(r"//(\w+):[^@]*@", r"//\1:wrong@", url), AuthenticationError),
        (lambda url: re.sub(r":(\d+)/", ":9/", over_tcp(url)), StoreUnavailableError),
    ],
)
def test_a_database_that_cannot_be_used_is_named_without_its_password(
    fresh_database: Fresh, change: Callable[[str], str], error: type[Exception]
) -> None:
    dsn = fresh_database()
    password = dsn.split("@")[0].rsplit(":", 1)[1]
    for use in (lambda url: Scheduler(url).jobs(), migrations.current):
        with pytest.raises(error) as caught:
            use(change(dsn))
        assert password not in str(caught.value)
        assert "wrong" not in str(caught.value)


def test_the_wheel_carries_the_migrations(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(io.BytesIO(wheel.read_bytes())) as archive:
        names = set(archive.namelist())
    assert {"quartzpy/py.typed", "quartzpy/_schema/env.py", "quartzpy/_schema/versions/0001_initial.py"} <= names
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/"))]
