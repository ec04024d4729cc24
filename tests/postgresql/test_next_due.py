"""What a node expects decides which statements a step sends, and never which triggers fire."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine

from quartzpy.errors import LeaseLostError
from quartzpy.jobs.job import JobDetail
from quartzpy.node.outlook import Outlook
from quartzpy.node.scheduler_thread import refill_of
from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.pool import PoolShare
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import ANYTHING, Acquisition, AvailableSlots, FiredTrigger, Gate, JobEntry, Node
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import PreparedTrigger, UpcomingFireTimes, prepare
from tests.postgresql.conftest import register
from tests.postgresql.test_faults import ended

TYPE = "expected"
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
PLAIN = JobDetail(TYPE, "plain", durable=True)
SERIAL = JobDetail(TYPE, "serial", durable=True, disallow_concurrent=True)
Connect = Callable[[], psycopg.Connection[Any]]


def add(store: SqlJobStore, job: JobDetail, *names: str, due_in: timedelta = -SECOND) -> None:
    now = datetime.now(UTC)
    triggers = [
        # Each is due after the one before: the order of triggers with the same fire time and priority is undefined.
        SimpleTrigger(
            name,
            job_key=job.key,
            start_time=now + due_in + n * timedelta(milliseconds=1),
            interval=timedelta(hours=1),
            repeat_count=None,
        )
        for n, name in enumerate(names)
    ]
    store.store_jobs([JobEntry(job, [prepare(trigger, now, None) for trigger in triggers])], replace=True)


def take(
    store: SqlJobStore,
    node: Node,
    *,
    limit: int = 10,
    look_ahead: timedelta = timedelta(),
    opened: Collection[Gate] = (),
    after: Acquisition | None = None,
) -> Acquisition:
    """Take a step that expects anything, or what the step before it has read."""
    expected = ANYTHING
    if after is not None:
        expected = (
            Outlook()
            .after_step(after, ANYTHING, (), 0.0)
            .expectation(
                [""],
                met_pools=[""],
                passed_over=(),
                is_on_time=True,
                asks=bool(opened),
                is_backlog=False,
                until=datetime.now(UTC) + look_ahead,
                monotonic=0.0,
            )
        )
    return store.acquire(
        node,
        [AvailableSlots()],
        limit=limit,
        look_ahead=look_ahead,
        misfire_threshold=timedelta(minutes=1),
        opened=opened,
        expected=expected,
    )


def names(took: Acquisition) -> list[str]:
    return names_of(took.fired)


def names_of(fired: Iterable[FiredTrigger]) -> list[str]:
    return sorted(one.trigger_name for one in fired)


@pytest.fixture
def pipelines(store: SqlJobStore, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The statements of each round trip of `store`."""
    seen: list[list[str]] = []
    execute = store._connections.execute

    def noted(sends: list[BoundStatement], share: PoolShare) -> Any:
        seen.append([send.statement.sql.decode() for send in sends])
        return execute(sends, share)

    monkeypatch.setattr(store._connections, "execute", noted)
    return seen


def decides_about_limits(statements: list[str]) -> bool:
    return any("parked AS MATERIALIZED" in one or "free AS MATERIALIZED" in one for one in statements)


def test_a_look_for_triggers_when_none_is_expected_takes_no_lock(store: SqlJobStore, connect: Connect) -> None:
    node = register(store)
    add(store, PLAIN, "later", due_in=timedelta(hours=1))
    before = take(store, node)
    holder = connect()
    with holder.transaction():
        holder.execute("SELECT FROM qrtz_locks FOR UPDATE")
        assert take(store, node, after=before).next_due == before.next_due


def test_a_trigger_that_another_process_has_stored_fires_although_none_was_expected(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore]
) -> None:
    node = register(store)
    before = take(store, node)
    assert not names(before)
    for job in (PLAIN, SERIAL):
        add(make_store(), job, job.name)
        before = take(store, node, after=before)
        assert names(before) == [job.name]


def test_triggers_without_a_limit_take_the_short_statement_and_one_with_a_limit_the_other(
    store: SqlJobStore, pipelines: list[list[str]]
) -> None:
    node = register(store)
    add(store, PLAIN, "a", due_in=timedelta(minutes=1))
    before = take(store, node)
    pipelines.clear()
    assert names(take(store, node, look_ahead=timedelta(minutes=2), after=before)) == ["a"]
    assert [decides_about_limits(one) for one in pipelines] == [False]

    add(store, SERIAL, "b", "c", due_in=timedelta(minutes=1))
    before = take(store, node)
    pipelines.clear()
    assert names(take(store, node, look_ahead=timedelta(minutes=2), after=before)) == ["b"]
    assert [decides_about_limits(one) for one in pipelines] == [True]


def test_a_trigger_with_a_limit_that_was_not_expected_is_not_left_behind_others(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore], pipelines: list[list[str]]
) -> None:
    node = register(store)
    add(store, PLAIN, "a", due_in=timedelta(minutes=1))
    before = take(store, node)
    add(make_store(), SERIAL, "b", "c")
    pipelines.clear()
    ahead = timedelta(minutes=2)
    took = take(store, node, look_ahead=ahead, after=before)
    assert names(took) == ["a"]
    assert not decides_about_limits(pipelines[-1])
    assert took.next_due is not None
    assert took.next_due < took.now, "the node looks again at once"
    took = take(store, node, look_ahead=ahead, after=took)
    assert names(took) == ["b"]
    assert names(take(store, node, look_ahead=ahead, after=took)) == []


def test_what_was_refilled_fires_within_a_limit_that_its_job_has_got_since(
    store: SqlJobStore, connect: Connect
) -> None:
    node, now = register(store), datetime.now(UTC)
    triggers = [SimpleTrigger(name, job_key=PLAIN.key, start_time=now - SECOND, interval=HOUR) for name in ("a", "b")]
    whole = [prepare(trigger, now, None) for trigger in triggers]
    unfilled = [PreparedTrigger(one.trigger, one.progress, UpcomingFireTimes()) for one in whole]
    store.store_jobs([JobEntry(PLAIN, unfilled)], replace=True)
    met = take(store, node).unfilled
    assert [one.trigger_name for one in met] == ["a", "b"]
    for table in ("qrtz_job_details", "qrtz_triggers"):
        connect().execute(f"UPDATE {table} SET max_concurrent = 1")  # type: ignore[arg-type]
    store.refill(node, [refill_of(one, now) for one in met])
    assert [one.max_concurrent for one in take(store, node).fired] == [1]
    assert not take(store, node).fired
    states = connect().execute("SELECT trigger_state FROM qrtz_triggers ORDER BY 1").fetchall()
    assert states == [("BLOCKED",), ("WAITING",)], "the one that fired waits for its next fire time"
    assert connect().execute("SELECT max_concurrent FROM qrtz_fired_triggers").fetchall() == [(1,)]


def test_triggers_of_users_transactions_are_reconciled_before_a_step_that_expects_none(
    store: SqlJobStore, pipelines: list[list[str]], postgres_dsn: str
) -> None:
    node = register(store)
    before = take(store, node)
    engine = create_engine(postgres_dsn)
    with engine.begin() as connection:
        add(store.within(connection), PLAIN, "new")  # type: ignore[arg-type]
    engine.dispose()
    pipelines.clear()
    took = take(store, node, after=before)
    assert names(took) == ["new"]
    assert [len(pipeline) for pipeline in pipelines] == [1, 4], "a read, then the lock, that, the claim and a read"


def test_what_is_parked_is_taken_although_triggers_without_a_limit_are_expected(store: SqlJobStore) -> None:
    node = register(store)
    now = datetime.now(UTC)
    first = SimpleTrigger("first", job_key=SERIAL.key, start_time=now - 20 * SECOND)
    second = SimpleTrigger("second", job_key=SERIAL.key, start_time=now - 10 * SECOND)
    store.store_jobs([JobEntry(SERIAL, [prepare(trigger, now, None) for trigger in (first, second)])], replace=True)
    add(store, PLAIN, *[f"t{n}" for n in range(200)])
    took = take(store, node, limit=50)
    assert "first" in names(took)
    assert "second" not in names(took)
    [first_fired] = [one for one in took.fired if one.trigger_name == "first"]
    store.complete(node, [ended(first_fired)])
    assert first_fired.gate is not None
    assert "second" in names(take(store, node, limit=50, opened=[first_fired.gate], after=took))


def test_a_node_that_was_declared_dead_takes_nothing(store: SqlJobStore, connect: Connect) -> None:
    node = register(store)
    add(store, PLAIN, *[f"t{n}" for n in range(60)])
    took = take(store, node, limit=50)
    assert len(took.fired) == 50
    connect().execute("DELETE FROM qrtz_scheduler_state")
    with pytest.raises(LeaseLostError):
        take(store, node, limit=50, after=took)
    assert connect().execute("SELECT count(*) FROM qrtz_fired_triggers").fetchall() == [(50,)]
