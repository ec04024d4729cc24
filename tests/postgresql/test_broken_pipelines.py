"""A round trip whose connection breaks reports the cause, and knows whether the server may have committed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from quartzpy.errors import StoreUnavailableError
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, DeadlineError, execute_pipelined
from quartzpy.store.postgresql.connection.pool import is_stale
from quartzpy.store.postgresql.connection.session import Transaction
from quartzpy.store.postgresql.schema.statement import prepare
from quartzpy.store.postgresql.store import SqlJobStore
from tests.database import connect_to, end_sessions, execute
from tests.waiting import wait_until

Connect = Callable[[], psycopg.Connection[Any]]

LONG = "SELECT pg_sleep(600)"
ENDED = "terminating connection due to administrator command"
IDLE_IN_TRANSACTION = "terminating connection due to idle-in-transaction timeout"
IDLE = "terminating connection due to idle-session timeout"


def ask(text: str, **values: Any) -> BoundStatement:
    return BoundStatement(prepare(f"broken {text}", text), values)


LARGE = ask("SELECT length(:'value'::text)", value="x" * 8_000_000)
SMALL = ask("SELECT 1")


def end_session(dsn: str, pid: int) -> None:
    with connect_to(dsn) as connection:
        end_sessions(connection, "pid = %s", pid)


def heard(connection: psycopg.Connection[Any]) -> None:
    """Wait until the server has said something on an idle connection."""
    wait_until(lambda: is_stale(connection))


@pytest.mark.parametrize("asked", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize(
    ("setting", "in_transaction", "said"),
    [
        (None, False, ENDED),
        (None, True, ENDED),
        ("idle_in_transaction_session_timeout", True, IDLE_IN_TRANSACTION),
        ("idle_session_timeout", False, IDLE),
    ],
)
def test_a_session_that_was_ended_before_a_pipeline(
    connect: Connect, postgres_dsn: str, asked: BoundStatement, setting: str | None, in_transaction: bool, said: str
) -> None:
    connection = connect()
    if setting is not None:
        # An end that comes with the answer would be read with it, as a notice.
        connection.execute(f"SET {setting} = '500ms'".encode())
    if in_transaction:
        connection.execute("BEGIN")
    if setting is None:
        end_session(postgres_dsn, connection.info.backend_pid)
    heard(connection)
    with pytest.raises(psycopg.Error) as raised:
        execute_pipelined(connection, [asked], seconds=600, begin=None if in_transaction else b"BEGIN")
    assert str(raised.value) == said
    assert raised.value.__dict__["outcome_unknown"] is False, "the server executed nothing of it"


def test_a_session_that_is_ended_during_a_pipeline(connect: Connect, postgres_dsn: str) -> None:
    connection = connect()
    pid = connection.info.backend_pid

    def end_while_it_sleeps() -> None:
        asleep = f"SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND wait_event = 'PgSleep'"
        wait_until(lambda: execute(postgres_dsn, asleep) == [(1,)])
        end_session(postgres_dsn, pid)

    other = threading.Thread(target=end_while_it_sleeps)
    other.start()
    with pytest.raises(psycopg.errors.AdminShutdown, match=ENDED) as raised:
        execute_pipelined(connection, [SMALL, ask(LONG), SMALL], seconds=600)
    other.join()
    assert raised.value.__dict__["outcome_unknown"] is False, "COMMIT comes after the statement that was interrupted"


DIES_WITH_COMMIT = """
CREATE TEMPORARY TABLE fatal (n int);
CREATE FUNCTION pg_temp.die() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(600); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER fatal AFTER INSERT ON fatal DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION pg_temp.die();
"""


def test_the_outcome_is_unknown_if_the_session_ends_during_the_commit(connect: Connect) -> None:
    connection = connect()
    connection.execute(DIES_WITH_COMMIT)
    with pytest.raises(psycopg.errors.AdminShutdown, match=ENDED) as raised:
        execute_pipelined(connection, [ask("INSERT INTO fatal VALUES (1)")], seconds=600)
    assert raised.value.__dict__["outcome_unknown"] is True


def test_the_first_error_counts_if_the_connection_breaks_after_it(connect: Connect) -> None:
    connection = connect()
    fails = ask("SELECT 1 / CASE WHEN pg_terminate_backend(pg_backend_pid()) THEN 0 ELSE 1 END")
    with pytest.raises((psycopg.errors.DivisionByZero, psycopg.errors.AdminShutdown)) as raised:
        execute_pipelined(connection, [fails], seconds=600)
    assert not getattr(raised.value, "outcome_unknown", False)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("statement_timeout", "canceling statement due to statement timeout"),
        ("lock_timeout", "canceling statement due to lock timeout"),
    ],
)
def test_a_timeout_of_the_server_is_named(
    connect: Connect, store: SqlJobStore, postgres_dsn: str, setting: str, said: str
) -> None:
    with connect_to(postgres_dsn, autocommit=False) as holder:
        holder.execute("LOCK TABLE qrtz_locks")
        connection = connect()
        # An end that comes with the answer would be read with it, as a notice.
        connection.execute(f"SET {setting} = '500ms'".encode())
        with pytest.raises(psycopg.OperationalError, match=said):
            execute_pipelined(connection, [ask("SELECT count(*) FROM qrtz_locks")], seconds=600)
        assert execute_pipelined(connection, [ask("SET statement_timeout = 0"), SMALL], seconds=600)[1].rows == [(1,)]


def test_a_deadline_is_named(connect: Connect, store: SqlJobStore, postgres_dsn: str) -> None:
    with connect_to(postgres_dsn, autocommit=False) as holder:
        holder.execute("LOCK TABLE qrtz_locks")
        connection = connect()
        with pytest.raises(DeadlineError, match="did not answer in time") as raised:
            execute_pipelined(connection, [ask("SELECT count(*) FROM qrtz_locks")], seconds=0.1)
        assert raised.value.__dict__["outcome_unknown"] is True


def test_a_transaction_whose_session_is_ended_names_the_cause(store: SqlJobStore, postgres_dsn: str) -> None:
    def work(transaction: Transaction) -> None:
        [found] = transaction.execute(ask("SELECT pg_backend_pid()"))
        end_session(postgres_dsn, found.rows[0][0])
        transaction.commit(SMALL)

    with pytest.raises(StoreUnavailableError, match=f"^{ENDED}$"):
        store._session.transaction(work)


def test_a_read_is_repeated_if_its_session_is_ended(store: SqlJobStore, connect: Connect) -> None:
    connect().execute("CREATE SEQUENCE IF NOT EXISTS broken_reads")
    # The first time, it ends its own session.
    once = ask(
        "SELECT CASE WHEN nextval('broken_reads') > 1 THEN 7"
        " WHEN pg_terminate_backend(pg_backend_pid()) THEN length(pg_sleep(600)::text) END"
    )
    try:
        assert store._session.read(once)[0].rows == [(7,)]
    finally:
        connect().execute("DROP SEQUENCE broken_reads")
