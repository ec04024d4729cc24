"""Two triggers never have the same key, whoever stores them, although the rows of triggers do not say so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import SchemaError
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import TriggerKey
from quartzpy.store.postgresql import migrations
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, Result
from quartzpy.store.postgresql.connection.session import Transaction
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import JobEntry
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import PreparedTrigger, prepare
from tests.contract.harness import stored_trigger
from tests.database import connect_to, waiting_sessions
from tests.waiting import wait_until

NOW = datetime.now(UTC)
JOB = JobDetail("known", "job", durable=True)
COPIED = (
    "sched_name, trigger_group, trigger_name, job_group, job_name, job_type, kind, schedule, trigger_state,"
    " next_fire_time, generation, start_time, priority, misfire_instruction"
)
FIRED_COPY = f"""
INSERT INTO qrtz_triggers ({COPIED}, times_triggered)
SELECT {COPIED}, times_triggered + 1 FROM qrtz_triggers
"""
"""A copy of all triggers that have not fired, as if they had."""
Connect = Callable[[], psycopg.Connection[Any]]


def _trigger(name: str, **values: Any) -> PreparedTrigger:
    return prepare(SimpleTrigger(name, job_key=JOB.key, start_time=NOW, **values), NOW, None)


def _keys(connection: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    """The keys of all triggers, which are those that are taken."""
    keys = connection.execute("SELECT trigger_group, trigger_name FROM qrtz_triggers ORDER BY 1, 2").fetchall()
    taken = connection.execute("SELECT trigger_group, trigger_name FROM qrtz_trigger_keys ORDER BY 1, 2").fetchall()
    assert keys == taken
    return keys


@pytest.fixture
def user(store: SqlJobStore, connect: Connect) -> psycopg.Connection[Any]:
    """A connection beside a store that holds the job and two triggers."""
    store.store_jobs([JobEntry(JOB, [_trigger("a"), _trigger("b")])], replace=False)
    return connect()


@pytest.mark.parametrize(
    "copy",
    [f"{FIRED_COPY} WHERE trigger_name = 'a'", f"{FIRED_COPY} WHERE trigger_name = 'a' ON CONFLICT DO NOTHING"],
    ids=["inserted", "on conflict"],
)
def test_a_second_row_of_a_key_is_refused(user: psycopg.Connection[Any], copy: str) -> None:
    with pytest.raises(psycopg.errors.UniqueViolation, match=r"\(DEFAULT, a, store-sql\) already exists") as caught:
        user.execute(copy.encode())
    assert caught.value.diag.constraint_name == "qrtz_trigger_keys_pkey"
    assert _keys(user) == [("DEFAULT", "a"), ("DEFAULT", "b")]


def _as_c(rest: str, count: str = "times_triggered") -> bytes:
    """The statement that copies the trigger `a` as `c`."""
    values = COPIED.replace("trigger_name", "'c'", 1)
    return (
        f"INSERT INTO qrtz_triggers ({COPIED}, times_triggered)"
        f" SELECT {values}, {count} FROM qrtz_triggers{rest} WHERE trigger_name = 'a'"
    ).encode()


def test_two_rows_of_a_new_key_are_refused(user: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.UniqueViolation, match=r"\(DEFAULT, c, store-sql\) already exists"):
        user.execute(_as_c(", generate_series(1, 2) AS n", "n"))
    user.execute(_as_c(""))
    assert _keys(user) == [("DEFAULT", "a"), ("DEFAULT", "b"), ("DEFAULT", "c")]


def test_a_key_does_not_change(user: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="the key of a trigger cannot change"):
        user.execute("UPDATE qrtz_triggers SET trigger_name = 'c' WHERE trigger_name = 'a'")
    user.execute("UPDATE qrtz_triggers SET trigger_name = 'a' WHERE trigger_name = 'a'")
    assert _keys(user) == [("DEFAULT", "a"), ("DEFAULT", "b")]


def test_whoever_removes_triggers_frees_their_keys(store: SqlJobStore, user: psycopg.Connection[Any]) -> None:
    user.execute("DELETE FROM qrtz_triggers WHERE trigger_name = 'a'")
    assert _keys(user) == [("DEFAULT", "b")]
    user.execute("TRUNCATE qrtz_triggers")
    assert _keys(user) == []
    store.store_jobs([JobEntry(JOB, [_trigger("a"), _trigger("b")])], replace=True)
    assert _keys(user) == [("DEFAULT", "a"), ("DEFAULT", "b")]


def test_the_keys_are_those_beside_the_table_wherever_it_is(fresh_database: Callable[[], str]) -> None:
    dsn = fresh_database()
    migrations.upgrade(dsn, "first", prefix="jobs_")
    with connect_to(dsn) as owner:
        owner.execute("ALTER SCHEMA first RENAME TO billing; SET search_path = pg_catalog")
        owner.execute("SET search_path = pg_catalog")
        config = SchedulerConfig.of({"name": "keys", "schema": "billing", "table_prefix": "jobs_"})
        with closing(SqlJobStore(dsn, config)) as moved:
            moved.open()
            moved.store_jobs([JobEntry(JOB, [_trigger("a")])], replace=False)
        copy = FIRED_COPY.replace("qrtz_triggers", "billing.jobs_triggers")
        with pytest.raises(psycopg.errors.UniqueViolation):
            owner.execute(copy.encode())
        row = owner.execute("SHOW search_path").fetchone()
        assert row == ("pg_catalog",)


@pytest.mark.parametrize("change", ["DROP TRIGGER {} ON qrtz_triggers", "ALTER TABLE qrtz_triggers DISABLE TRIGGER {}"])
def test_a_check_of_the_tables_misses_a_guard(fresh_database: Callable[[], str], change: str) -> None:
    dsn = fresh_database()
    migrations.upgrade(dsn)
    with connect_to(dsn) as owner:
        owner.execute(change.format("qrtz_trigger_keys_new").encode())
    with pytest.raises(
        SchemaError, match="trigger qrtz_trigger_keys_new on table qrtz_triggers is missing or disabled"
    ):
        migrations.check(dsn)


class Storing:
    """A call that stores, on a thread of its own."""

    def __init__(self, store: SqlJobStore, *triggers: PreparedTrigger, replace: bool) -> None:
        self.error: BaseException | None = None
        self._store, self._entry, self._replace = store, JobEntry(JOB, list(triggers)), replace
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._store.store_jobs([self._entry], replace=self._replace)
        except BaseException as error:
            self.error = error

    def wait(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()
        assert self.error is None


@pytest.fixture
def storing_user(user: psycopg.Connection[Any], connect: Connect) -> Iterator[psycopg.Connection[Any]]:
    """A transaction of somebody else, which has stored the trigger `c` and has not committed yet."""
    other = connect()
    other.execute("BEGIN")
    other.execute(_as_c(""))
    yield other
    other.rollback()


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_what_somebody_else_is_storing_is_replaced_once_it_is_there(
    store: SqlJobStore, user: psycopg.Connection[Any], storing_user: psycopg.Connection[Any], end: str
) -> None:
    storing = Storing(store, _trigger("b", priority=8), _trigger("c", priority=9), replace=True)
    wait_until(lambda: waiting_sessions(user) == 1)
    storing_user.execute(end.encode())
    storing.wait()
    record = stored_trigger(store, TriggerKey("c"))
    assert record is not None
    assert record.trigger.priority == 9
    assert len(_keys(user)) == 3


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_what_somebody_else_is_deleting_is_stored_anew_once_it_is_gone(
    store: SqlJobStore, user: psycopg.Connection[Any], connect: Connect, end: str
) -> None:
    other = connect()
    other.execute("BEGIN")
    other.execute("DELETE FROM qrtz_triggers WHERE trigger_name = 'b'")
    storing = Storing(store, _trigger("a", priority=8), _trigger("b", priority=9), replace=True)
    wait_until(lambda: waiting_sessions(user) == 1)
    other.execute(end.encode())
    storing.wait()
    record = stored_trigger(store, TriggerKey("b"))
    assert record is not None
    assert record.trigger.priority == 9
    assert len(_keys(user)) == 2


def test_what_somebody_else_is_changing_is_replaced_once_it_is_free(
    store: SqlJobStore, user: psycopg.Connection[Any], connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    execute = Transaction.execute

    def noted(transaction: Transaction, *statements: BoundStatement) -> list[Result]:
        sent.extend(bound.statement.sql.decode() for bound in statements)
        return execute(transaction, *statements)

    monkeypatch.setattr(Transaction, "execute", noted)
    other = connect()
    other.execute("BEGIN")
    other.execute("UPDATE qrtz_triggers SET times_triggered = 1 WHERE trigger_name = 'b'")
    storing = Storing(store, _trigger("b", priority=9), replace=True)
    wait_until(lambda: waiting_sessions(user) == 1)
    other.execute("COMMIT")
    storing.wait()
    record = stored_trigger(store, TriggerKey("b"))
    assert record is not None
    assert (record.trigger.priority, record.progress.times_triggered) == (9, 1)
    assert len([text for text in sent if "SELECT * FROM added" in text]) == 1, "at the first attempt"


def test_programs_that_store_the_same_at_once_wait_for_each_other(
    make_store: Callable[..., SqlJobStore], user: psycopg.Connection[Any]
) -> None:
    """Whatever of it is new, and whoever comes first."""
    stores = [make_store() for _ in range(3)]
    for turn in range(10):
        names = ["a", f"new-{turn}-1", "b", f"new-{turn}-2"]
        triggers = [_trigger(name, interval=timedelta(hours=1 + turn)) for name in names]
        for storing in [Storing(store, *triggers, replace=True) for store in stores]:
            storing.wait()
    assert len(_keys(user)) == 22


def test_a_transaction_whose_snapshot_lacks_a_key_may_not_take_it(
    store: SqlJobStore, user: psycopg.Connection[Any], connect: Connect
) -> None:
    other = connect()
    other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    other.execute("SELECT FROM qrtz_triggers")
    store.store_jobs([JobEntry(JOB, [_trigger("c")])], replace=False)
    user.execute("UPDATE qrtz_triggers SET times_triggered = 1 WHERE trigger_name = 'c'")
    with pytest.raises(psycopg.errors.SerializationFailure):
        other.execute(_as_c(""))
