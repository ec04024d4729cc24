"""What a job does to the session of its transaction changes neither its own end nor the next job's transaction."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, text

from quartzpy.config.config import SchedulerConfig
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.queries import HISTORY
from tests.database import connect_to
from tests.postgresql.conftest import NAME, register
from tests.postgresql.test_work_connections import completion_of, executing

# A role is one of the whole server, which the workers of a run share.
ROLE = f"quartzpy_tenant_{uuid.uuid4().hex[:12]}"
MakeStore = Callable[..., SqlJobStore]


@pytest.fixture
def tenant(postgres_dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """A role without rights on our tables, and a schema of its own with a table of the same name as one of ours."""
    with connect_to(postgres_dsn) as connection:
        connection.execute(
            f"DROP SCHEMA IF EXISTS {ROLE} CASCADE; DROP ROLE IF EXISTS {ROLE}; CREATE ROLE {ROLE};"
            f"CREATE SCHEMA {ROLE} AUTHORIZATION {ROLE};"
            f"CREATE TABLE {ROLE}.qrtz_executions (LIKE public.qrtz_executions INCLUDING ALL);"
            f"CREATE TABLE {ROLE}.work (n int); ALTER TABLE {ROLE}.work OWNER TO {ROLE}"
        )
        yield connection
        connection.execute(f"DROP SCHEMA {ROLE} CASCADE; DROP ROLE {ROLE}")


@contextmanager
def stores(make_store: MakeStore, dsn: str, kind: str) -> Iterator[SqlJobStore]:
    """A store at the URL, behind a pooler, or on an engine of the caller's."""
    if kind == "url":
        yield make_store()
    elif kind == "pooled":
        yield make_store(pooled=True)
    elif kind == "function":
        yield make_store(lambda: connect_to(dsn))
    else:
        engine = create_engine(dsn)
        store = SqlJobStore(engine, SchedulerConfig(name=NAME))
        store.open()
        try:
            yield store
        finally:
            store.close()
            engine.dispose()


SETS = {
    "search_path": f"SET LOCAL search_path = {ROLE}",
    "search_path without LOCAL": f"SET search_path = {ROLE}",
    "role": f"SET LOCAL ROLE {ROLE}",
    "role and search_path": f"SET LOCAL ROLE {ROLE}; SET LOCAL search_path = {ROLE}",
    "statement_timeout": "SET LOCAL statement_timeout = 300",
    "session_replication_role": "SET LOCAL session_replication_role = replica",
    "default_transaction_read_only": "SET default_transaction_read_only = on",
}


# Sessions of a pooler or of a caller's engine are not ours: there a job may set something for its transaction only.
LOCAL = [name for name, statement in SETS.items() if "LOCAL" in statement]
KINDS = {"url": list(SETS), "function": list(SETS), "pooled": LOCAL, "engine": LOCAL}


@pytest.mark.parametrize(("kind", "sets"), [(kind, sets) for kind, some in KINDS.items() for sets in some])
def test_the_end_of_a_job_is_recorded_whatever_it_has_set(
    make_store: MakeStore, postgres_dsn: str, tenant: psycopg.Connection[Any], sets: str, kind: str
) -> None:
    with stores(make_store, postgres_dsn, kind) as store:
        node = register(store)
        fired = executing(store, node)
        for commits in ("commit", "complete"):
            work = store.begin_job_transaction()
            try:
                work.connection.exec_driver_sql(SETS[sets])
                work.connection.execute(text(f"INSERT INTO {ROLE}.work VALUES (1)"))
                if commits == "commit":
                    work.commit(node, fired.fire_id)
                else:
                    work.complete(node, completion_of(fired))
            finally:
                work.close()
    assert tenant.execute(f"SELECT count(*) FROM {ROLE}.work").fetchone() == (2,)
    assert tenant.execute(f"SELECT count(*) FROM {ROLE}.qrtz_executions").fetchone() == (0,)
    reader = make_store()
    assert [row.fire_id for row in reader.find(HISTORY, 10)] == [fired.fire_id]


def test_what_a_job_has_set_holds_for_its_deferred_triggers(
    make_store: MakeStore, tenant: psycopg.Connection[Any]
) -> None:
    tenant.execute(
        f"CREATE FUNCTION {ROLE}.notes() RETURNS trigger LANGUAGE plpgsql"
        f" AS 'BEGIN INSERT INTO seen VALUES (current_setting(''role'')); RETURN NEW; END';"
        f"CREATE TABLE {ROLE}.seen (role text); ALTER TABLE {ROLE}.seen OWNER TO {ROLE};"
        f"CREATE CONSTRAINT TRIGGER at_the_end AFTER INSERT ON {ROLE}.work DEFERRABLE INITIALLY DEFERRED"
        f" FOR EACH ROW EXECUTE FUNCTION {ROLE}.notes()"
    )
    store = make_store()
    node = register(store)
    work = store.begin_job_transaction()
    try:
        work.connection.exec_driver_sql(SETS["role and search_path"])
        work.connection.exec_driver_sql("INSERT INTO work VALUES (1)")
        work.complete(node, completion_of(executing(store, node)))
    finally:
        work.close()
    assert tenant.execute(f"SELECT role FROM {ROLE}.seen").fetchall() == [(ROLE,)]


LEAVES = (
    # Before SET ROLE: a role that owns something cannot be dropped at the end.
    "CREATE TEMPORARY TABLE left_behind (n int)",
    "SET statement_timeout = 12345",
    f"SET search_path = {ROLE}",
    f"SET ROLE {ROLE}",
    "SELECT pg_advisory_lock(4711)",
    "SELECT pg_advisory_lock_shared(4712)",
    "LISTEN left_behind",
    "DECLARE left_behind CURSOR WITH HOLD FOR SELECT 1",
    "SET default_transaction_read_only = on",
)
FOUND = """
SELECT pg_backend_pid(), current_setting('statement_timeout'), current_setting('search_path'), current_setting('role'),
       current_setting('default_transaction_read_only'), current_setting('TimeZone'),
       current_setting('synchronous_commit'), current_setting('application_name'),
       current_setting('default_transaction_isolation'), to_regclass('pg_temp.left_behind') IS NULL,
       ARRAY(SELECT pg_listening_channels()), ARRAY(SELECT name FROM pg_cursors)
"""


@pytest.mark.parametrize("kind", ["url", "function"])
@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_what_a_job_leaves_behind_is_not_found_by_the_next(
    make_store: MakeStore,
    postgres_dsn: str,
    tenant: psycopg.Connection[Any],
    connect: Callable[[], psycopg.Connection[Any]],
    ends: str,
    kind: str,
) -> None:
    def of_a_tenant() -> psycopg.Connection[Any]:
        connection = connect_to(postgres_dsn)
        connection.execute("SET search_path = public, pg_catalog")
        return connection

    store = make_store() if kind == "url" else make_store(of_a_tenant)
    node = register(store)
    fired = executing(store, node)
    found = []
    for leaves in (LEAVES, ()):
        work = store.begin_job_transaction()
        try:
            found.append(tuple(work.connection.exec_driver_sql(FOUND).one()))
            for statement in leaves:
                work.connection.exec_driver_sql(statement)
            if ends == "commit":
                work.commit(node, fired.fire_id)
        finally:
            work.close()
        other = connect()
        free = other.execute("SELECT pg_try_advisory_lock(4711), pg_try_advisory_lock(4712)").fetchone()
        assert free == (True, True)
        other.execute("SELECT pg_advisory_unlock_all()")
    assert found[0] == found[1]
