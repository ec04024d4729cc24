"""Roles with the least privileges: each does what it is for, and is told what it lacks."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import sql
from sqlalchemy import make_url

from quartzpy import Job, JobDetail, JobExecutionContext, JobKey, Scheduler, SimpleTrigger, TriggerKey, WeeklyCalendar
from quartzpy.cli.main import cli
from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import ExecutionNotFoundError, ForbiddenError, QuartzpyError, SchemaError
from quartzpy.jobs.context import Progress
from quartzpy.operations import Actor, Operations, Role, Selection
from quartzpy.states import Outcome
from quartzpy.store.postgresql import migrations, roles
from quartzpy.store.postgresql.schema import privileges
from quartzpy.store.postgresql.schema.operator_views import VIEWS
from quartzpy.store.postgresql.schema.privileges import SEQUENCES, TABLES, Use
from quartzpy.store.postgresql.schema.table_columns import TABLES as COLUMNS
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.postgresql.worker_store import Ticket, WorkerReport, WorkerStore
from tests.database import Server, connect_to
from tests.postgresql.conftest import register
from tests.postgresql.test_faults import acquire, store_due

SOON = timedelta(seconds=30)
LATER = datetime(2090, 1, 1, tzinfo=UTC)
QUICK = {"checkin_interval": "200ms", "lock_timeout": "1s", "failure_window": "2s"}
PASSWORD = "not-a-secret"


class Quick(Job):
    def execute(self, context: JobExecutionContext) -> str:
        return "done"


class Waiting(Job):
    begun, end = threading.Event(), threading.Event()

    def execute(self, context: JobExecutionContext) -> None:
        self.begun.set()
        self.end.wait(120)


class Failing(Job):
    def execute(self, context: JobExecutionContext) -> None:
        raise ValueError("on purpose")


class Users(NamedTuple):
    administrator: psycopg.Connection[tuple[object, ...]]
    dsn: str
    names: dict[str, str]

    def dsn_of(self, use: str) -> str:
        url = make_url(self.dsn).set(username=f"{self.names[use]}_login", password=PASSWORD)
        return url.render_as_string(hide_password=False)

    def run(self, statement: str) -> None:
        self.administrator.execute(statement.encode())


@pytest.fixture(params=[None, "Billing"])
def schema(request: pytest.FixtureRequest) -> str | None:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def users(postgres_server: Server, fresh_database: Callable[..., str], schema: str | None) -> Iterator[Users]:
    dsn = fresh_database(None if schema else postgres_server.tables)
    migrations.upgrade(dsn, schema)
    suffix = uuid.uuid4().hex[:8]
    names = {use: f"q-{use}-{suffix}" for use in ("owner", *Use)}
    found = roles.statements(names, schema)
    roles.apply(dsn, found)
    roles.apply(dsn, found)
    with connect_to(dsn) as connection:
        for name in names.values():
            login = sql.Identifier(f"{name}_login")
            connection.execute(
                sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} IN ROLE {}").format(login, PASSWORD, sql.Identifier(name))
            )
        yield Users(connection, dsn, names)
        for name in names.values():
            both = sql.SQL(", ").join([sql.Identifier(name), sql.Identifier(f"{name}_login")])
            connection.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(both))
            connection.execute(sql.SQL("DROP ROLE {}").format(both))


def everything_of_a_client(client: Scheduler) -> None:
    job, key = JobKey("job", "DEFAULT"), TriggerKey("later", "DEFAULT")
    client.add_calendar("weekdays", WeeklyCalendar({6, 7}), replace=True)
    client.schedule_job(JobDetail(Quick, "job", durable=True), SimpleTrigger("later", start_time=LATER), replace=True)
    client.reschedule_job(key, SimpleTrigger("later", start_time=LATER, calendar="weekdays"))
    client.pause_trigger(key)
    client.resume_trigger(key)
    client.pause_all()
    client.resume_all()
    client.pause_job(job)
    client.resume_job(job)
    client.sync([(JobDetail(Quick, "declared"), SimpleTrigger("declared", start_time=LATER))], owner="me")
    client.sync([], owner="me", prune=True)
    with pytest.raises(ExecutionNotFoundError):
        client.cancel("1")
    client.trigger_job(job)
    operations = Operations(client)
    operations.actions.pause(key, reason="why")
    operations.actions.resume(Selection.triggers(group="DEFAULT"))
    [node] = operations.cluster().nodes
    operations.actions.drain(node.node)
    operations.actions.resume_node(node.node)
    assert len(operations.audit_log()) == 4
    client.unschedule_job(key)
    client.delete_calendar("weekdays")
    client.set_limit("erp", 5)
    client.add_job(JobDetail(Quick, "sharing", durable=True, limits=["erp"]))
    client.delete_job("sharing")
    client.delete_limit("erp")


def everything_of_a_reader(reader: Scheduler) -> None:
    reader.jobs()
    reader.triggers()
    reader.nodes()
    reader.running()
    reader.executions()
    reader.trigger_keys()
    reader.calendar_names()
    operations = Operations(reader, actor=Actor("ann", Role.VIEWER))
    assert operations.audit_log()
    # The attempt cannot be recorded by this role.
    with pytest.raises(ForbiddenError, match="ann is a viewer"):
        operations.actions.pause(TriggerKey("t", "DEFAULT"))


def test_each_role_does_what_it_is_for_and_no_more(users: Users, schema: str | None) -> None:
    with Scheduler(users.dsn_of("node"), schema=schema, **QUICK) as node:
        client = Scheduler(users.dsn_of("client"), schema=schema)
        everything_of_a_client(client)
        assert node.wait_until_recorded(1, SOON)
        node.schedule_job(JobDetail(Failing, "failing"), SimpleTrigger("t"))
        assert node.wait_until_recorded(2, SOON)
        reader = Scheduler(users.dsn_of("reader"), schema=schema)
        everything_of_a_reader(reader)
        with connect_to(users.dsn_of("reader"), autocommit=False) as looking:
            place = f'"{schema}".' if schema else ""
            shown = [looking.execute(f"SELECT count(*) FROM {place}{view}".encode()).fetchone() for view in VIEWS]
            assert all(shown)
        assert {record.outcome for record in reader.executions()} == {Outcome.SUCCEEDED, Outcome.FAILED}
        with pytest.raises(SchemaError, match=r"lacks .*INSERT.* on qrtz_paused_trigger_groups"):
            reader.pause_all()
        for other in (client, reader):
            other.shutdown()
    for use, lacks in (("client", "DELETE on qrtz_scheduler_state"), ("reader", "INSERT on qrtz_fired_triggers")):
        wrong = Scheduler(users.dsn_of(use), schema=schema, start_timeout="100ms")
        with pytest.raises(SchemaError, match=f"lacks .*{lacks.split()[0]}.* on {lacks.split()[-1]}"):
            wrong.start()
        wrong.shutdown()
    place = f'"{schema}"' if schema else "public"
    with (
        connect_to(users.dsn_of("client")) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(f"DELETE FROM {place}.qrtz_executions".encode())


def test_the_owner_migrates(users: Users, schema: str | None) -> None:
    migrations.check(users.dsn_of("owner"), schema)
    migrations.downgrade(users.dsn_of("owner"), schema)
    assert migrations.current(users.dsn, schema) is None


def test_a_missing_privilege_of_a_node_is_named(users: Users, schema: str | None) -> None:
    place = f'"{schema}"' if schema else "public"
    role = f'"{users.names["node"]}"'
    for kind, things in (("TABLE", TABLES), ("SEQUENCE", SEQUENCES)):
        for name, uses in things.items():
            for verb in uses[Use.NODE]:
                users.run(f"REVOKE {verb} ON {kind} {place}.{name} FROM {role}")
                node = Scheduler(users.dsn_of("node"), schema=schema, start_timeout="100ms", **QUICK)
                with pytest.raises(QuartzpyError) as caught:
                    node.start()
                assert isinstance(caught.value, SchemaError)
                assert f"lacks {verb} on {name}; `quartzpy db roles` prints" in str(caught.value)
                node.shutdown()
                users.run(f"GRANT {verb} ON {kind} {place}.{name} TO {role}")


FORGED = [
    *[("qrtz_audit", column) for column in ("actor", "role", "action", "subject", "reason", "at", "before", "id")],
    *[("qrtz_fired_triggers", column) for column in ("epoch", "job_name", "trigger_data", "max_concurrent")],
    *[("qrtz_scheduler_state", column) for column in ("epoch", "last_checkin", "checkin_count", "capabilities")],
    *[("qrtz_executions", column) for column in ("outcome", "error")],
    ("qrtz_locks", "sched_name"),
]


def test_no_client_changes_what_it_has_no_business_with(users: Users, schema: str | None) -> None:
    place = f'"{schema}"' if schema else "public"
    with connect_to(users.dsn_of("client")) as connection:
        for table, column in FORGED:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"UPDATE {place}.{table} SET {column} = NULL WHERE false".encode())
        for table in ("qrtz_audit", "qrtz_scheduler_state", "qrtz_locks", "qrtz_executions"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"DELETE FROM {place}.{table} WHERE false".encode())
    with connect_to(users.dsn_of("node")) as connection:
        for table, column in FORGED:
            if table == "qrtz_audit":
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(f"UPDATE {place}.{table} SET {column} = NULL WHERE false".encode())


def test_a_worker_does_what_it_is_for_and_no_more(users: Users, schema: str | None) -> None:
    place = f'"{schema}"' if schema else "public"
    config = SchedulerConfig.of({"name": "main", "schema": schema})
    store = SqlJobStore(users.dsn_of("node"), config)
    store.open()
    node = register(store)
    store_due(store, "a")
    [fired] = acquire(store, node).fired
    ticket = Ticket("main", fired.fire_id, store.submit(node, {fired.fire_id: True})[fired.fire_id])
    worker = WorkerStore(users.dsn_of("worker"), schema=schema)
    assert worker.take(ticket, "gpu:1")
    assert worker.touch({ticket: WorkerReport(Progress(0.5, "half"), "a line")}) == {ticket: False}
    with worker.transaction(ticket, None) as connection:
        connection.exec_driver_sql("SELECT 1")
    with worker.transaction(ticket, lambda: "{}") as connection:
        connection.exec_driver_sql("SELECT 1")
    assert worker.end(ticket, "{}")
    with connect_to(users.dsn_of("worker")) as own:
        assert privileges.missing(own, schema, Use.WORKER) == {}
        columns = {table: set(names) for table, names in COLUMNS.items()}
        allowed: dict[str, set[tuple[str, str]]] = {verb: set() for verb in ("SELECT", "UPDATE")}
        for table, names in columns.items():
            for verb in ("INSERT INTO {} DEFAULT VALUES", "DELETE FROM {} WHERE false", "SELECT FROM {} FOR UPDATE"):
                if (table, verb[:6]) == ("qrtz_fired_triggers", "SELECT"):
                    continue
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    own.execute(verb.format(f"{place}.{table}").encode())
            for name in names:
                for verb, statement in (
                    ("SELECT", f"SELECT {name} FROM {place}.{table} LIMIT 0"),
                    ("UPDATE", f"UPDATE {place}.{table} SET {name} = DEFAULT WHERE false"),
                ):
                    with suppress(psycopg.errors.InsufficientPrivilege):
                        own.execute(statement.encode())
                        allowed[verb].add((table, name))
        for view in VIEWS:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                own.execute(f"SELECT FROM {place}.{view}".encode())
        for sequence in SEQUENCES:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                own.execute(f"SELECT nextval('{place}.{sequence}')".encode())
    fires = "qrtz_fired_triggers"
    written = {"worker", "worker_since", "worker_seen", "ending", "progress", "progress_message", "recent_log"}
    assert allowed["UPDATE"] == {(fires, name) for name in written}
    of_both = {"sched_name", "instance_id", "epoch"}
    read = written | of_both | {"fire_id", "submission", "outlives_node", "cancel_requested"}
    of_nodes = {("qrtz_scheduler_state", name) for name in of_both}
    assert allowed["SELECT"] == {(fires, name) for name in read} | of_nodes
    worker.close()
    store.close()


def test_a_client_locks_rows_as_a_node_does(users: Users, schema: str | None) -> None:
    place = f'"{schema}"' if schema else "public"
    for use in ("client", "node"):
        with connect_to(users.dsn_of(use)) as connection:
            connection.execute(f"SELECT FROM {place}.qrtz_locks WHERE false FOR UPDATE".encode())


ODD = [
    "a b",
    "1a",
    'a"b',
    "a'b",
    "x; drop",
    "a$$b",
    "$q$",
    "Größe",
    "UPPER",
    "a\\b",
    "a'; DROP TABLE x; --",
    "ö" * 31,
    "a" * 63,
]


@pytest.mark.parametrize("suffix", ODD)
def test_any_name_that_postgresql_accepts_is_quoted(fresh_database: Callable[[], str], suffix: str) -> None:
    dsn, own = fresh_database(), uuid.uuid4().hex[:12]
    migrations.upgrade(dsn)
    name = own + suffix if len(suffix.encode()) < 50 else own + suffix[len(own) // len(suffix[0].encode()) :]
    found = roles.statements({Use.READER: name})
    with connect_to(dsn) as connection:
        try:
            roles.apply(dsn, found)
            connection.execute(roles.as_script(found).encode())
            row = connection.execute("SELECT has_table_privilege(%s, 'qrtz_triggers', 'SELECT')", [name]).fetchone()
            assert row == (True,)
        finally:
            role = sql.Identifier(name)
            connection.execute(sql.SQL("DROP OWNED BY {}").format(role))
            connection.execute(sql.SQL("DROP ROLE {}").format(role))


@pytest.mark.parametrize(
    "wrong", ["", "pg_mine", "public", "none", "a" * 64, "ö" * 32, "a\nb", "a\0b", "\udc80", "\u202ea"]
)
def test_names_that_are_no_roles_are_refused(wrong: str) -> None:
    with pytest.raises(QuartzpyError, match="role: "):
        roles.statements({Use.NODE: wrong})


def quartzpy(*arguments: str) -> str:
    done = CliRunner().invoke(cli, ["db", "roles", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_roles_are_printed_or_made_by_command(fresh_database: Callable[[], str]) -> None:
    dsn, reader = fresh_database(), f"q_reader_{uuid.uuid4().hex[:8]}"
    migrations.upgrade(dsn)
    names = ("--node", f"{reader}_n", "--client", f"{reader}_c", "--worker", f"{reader}_w", "--reader", reader)
    script = quartzpy(*names)
    assert script.startswith("BEGIN;\n")
    with connect_to(dsn) as connection:
        connection.execute(script.encode())
        assert "with their privileges" in quartzpy("--apply", "--dsn", dsn, *names)
        [row] = connection.execute(
            "SELECT has_table_privilege(%(who)s, 'qrtz_triggers', 'SELECT'),"
            " has_table_privilege(%(who)s, 'qrtz_triggers', 'UPDATE')",
            {"who": reader},
        ).fetchall()
        assert row == (True, False)
        for name in names[1::2]:
            connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}".encode())


def test_a_client_ends_no_running_execution(users: Users, schema: str | None) -> None:
    place = f'"{schema}"' if schema else "public"
    Waiting.begun.clear()
    Waiting.end.clear()
    own, ending = f"q-both-{uuid.uuid4().hex[:8]}", f"DELETE FROM {place}.qrtz_fired_triggers"
    settings = {"schema": schema, **QUICK}
    node = Scheduler(users.dsn_of("node"), **settings)  # type: ignore[arg-type]
    client = Scheduler(users.dsn_of("client"), **settings)  # type: ignore[arg-type]
    try:
        client.schedule_job(JobDetail(Waiting, "long", durable=True))
        client.schedule_job(JobDetail(Quick, "later"), SimpleTrigger("later", start_time=LATER))
        node.start()
        handle = client.trigger_job("long")
        assert Waiting.begun.wait(60)
        with (
            connect_to(users.dsn_of("client")) as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            connection.execute(ending.encode())
        # Whoever is both a node and a client, and whoever owns the tables, does as before.
        login = sql.Identifier(own)
        users.administrator.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} IN ROLE {}, {}").format(
                login, PASSWORD, sql.Identifier(users.names["client"]), sql.Identifier(users.names["node"])
            )
        )
        url = make_url(users.dsn).set(username=own, password=PASSWORD).render_as_string(hide_password=False)
        with connect_to(url) as connection:
            connection.execute(b"BEGIN")
            assert connection.execute(ending.encode()).rowcount == 1
            connection.execute(b"ROLLBACK")
        Waiting.end.set()
        assert handle.wait(SOON).outcome is Outcome.SUCCEEDED, "the node itself ends it"
        users.administrator.execute(sql.SQL("DROP ROLE {}").format(login))
    finally:
        Waiting.end.set()
        client.shutdown()
        node.shutdown()
