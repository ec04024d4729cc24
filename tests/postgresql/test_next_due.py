"""What a session expects decides which statement it sends, and never which triggers fire."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from quartzpy.errors import LeaseLostError, OutcomeUnknownError
from quartzpy.jobs.job import JobDetail
from quartzpy.node.scheduler_thread import refill_of
from quartzpy.store.postgresql.connection import next_due
from quartzpy.store.postgresql.connection.next_due import NextDueCache, NextDueRead
from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.pool import PoolShare
from quartzpy.store.postgresql.steps.acquire import BACKLOG
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import Acquisition, AvailableSlots, FiredTrigger, Gate, JobEntry, Node
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import PreparedTrigger, UpcomingFireTimes, prepare
from tests.postgresql.conftest import register
from tests.postgresql.test_faults import ended
from tests.waiting import wait_until

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
) -> Acquisition:
    return store.acquire(
        node,
        [AvailableSlots()],
        limit=limit,
        look_ahead=look_ahead,
        misfire_threshold=timedelta(minutes=1),
        opened=opened,
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
    expected = take(store, node).next_due
    holder = connect()
    with holder.transaction():
        holder.execute("SELECT FROM qrtz_locks FOR UPDATE")
        assert take(store, node).next_due == expected


def test_a_trigger_that_another_process_has_stored_fires_although_none_was_expected(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore]
) -> None:
    node = register(store)
    assert not names(take(store, node))
    for job in (PLAIN, SERIAL):
        add(make_store(), job, job.name)
        assert names(take(store, node)) == [job.name]


def test_anything_is_expected_after_a_transaction_whose_answer_was_lost(
    store: SqlJobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = register(store)
    add(store, PLAIN, "later", due_in=timedelta(hours=1))
    take(store, node)
    assert store._session.next_due._expectation is not None

    def lost(sends: list[BoundStatement], share: PoolShare) -> Any:
        raise OutcomeUnknownError("the connection broke during the commit")

    monkeypatch.setattr(store._connections, "execute", lost)
    with pytest.raises(OutcomeUnknownError):
        store._session.locked()
    assert store._session.next_due._expectation is None


def test_triggers_without_a_limit_take_the_short_statement_and_one_with_a_limit_the_other(
    store: SqlJobStore, pipelines: list[list[str]]
) -> None:
    node = register(store)
    add(store, PLAIN, "a", due_in=timedelta(minutes=1))
    take(store, node)
    pipelines.clear()
    assert names(take(store, node, look_ahead=timedelta(minutes=2))) == ["a"]
    assert [decides_about_limits(one) for one in pipelines] == [False]

    add(store, SERIAL, "b", "c", due_in=timedelta(minutes=1))
    take(store, node)
    pipelines.clear()
    assert names(take(store, node, look_ahead=timedelta(minutes=2))) == ["b"]
    assert [decides_about_limits(one) for one in pipelines] == [True]


def test_a_trigger_with_a_limit_that_was_not_expected_is_not_left_behind_others(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore], pipelines: list[list[str]]
) -> None:
    node = register(store)
    add(store, PLAIN, "a", due_in=timedelta(minutes=1))
    take(store, node)
    add(make_store(), SERIAL, "b", "c")
    pipelines.clear()
    ahead = timedelta(minutes=2)
    took = take(store, node, look_ahead=ahead)
    assert names(took) == ["a"]
    assert not decides_about_limits(pipelines[-1])
    assert took.next_due is not None
    assert took.next_due < took.now, "the node looks again at once"
    assert names(take(store, node, look_ahead=ahead)) == ["b"]
    assert names(take(store, node, look_ahead=ahead)) == []


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


def test_a_backlog_is_taken_without_a_read_after_each_batch_and_nothing_is_left(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore], pipelines: list[list[str]]
) -> None:
    node = register(store)
    add(store, PLAIN, *[f"t{n}" for n in range(7 * BACKLOG + 3)])
    pipelines.clear()
    took = [take(store, node, limit=BACKLOG) for _ in range(3)]
    assert [len(pipeline) for pipeline in pipelines] == [3, 2, 2], "the lock, and a read after the first"
    # Before those that were taken: found by the next batch that is followed by a read.
    add(make_store(), PLAIN, "soonest", due_in=-10 * SECOND)
    for _ in range(5):
        took.append(take(store, node, limit=BACKLOG))
    assert [len(one.fired) for one in took] == [BACKLOG] * 7 + [4]
    assert len({one.fire_id for each in took for one in each.fired}) == 7 * BACKLOG + 4
    for batch in took:
        assert isinstance(batch.now, datetime)
        assert isinstance(batch.next_due, datetime)
    assert took[-1].next_due > took[-1].now


def test_a_backlog_of_jobs_with_a_limit_is_read_as_rarely_as_one_without(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore], pipelines: list[list[str]]
) -> None:
    node = register(store)
    of_key = JobDetail(TYPE, "of_key", durable=True, max_concurrent=1, concurrency_key="key")
    now = datetime.now(UTC)
    backlog = [
        SimpleTrigger(f"t{n}", job_key=of_key.key, start_time=now - SECOND, data={"key": str(n)})
        for n in range(6 * BACKLOG)
    ]
    store.store_jobs([JobEntry(of_key, [prepare(trigger, now, None) for trigger in backlog])], replace=True)
    pipelines.clear()
    fired = []
    for _ in range(3):
        took = take(store, node, limit=BACKLOG)
        fired += took.fired
        # These ends release nothing.
        store.complete(node, [ended(one) for one in took.fired])
    claims = [statements for statements in pipelines if decides_about_limits(statements)]
    assert [len(statements) for statements in claims] == [3, 2, 2], "the lock, and a read after the first"
    # Before those that were taken: found by the next batch, which begins with the earliest fire time.
    add(make_store(), SERIAL, "soonest", due_in=-10 * SECOND)
    for _ in range(5):
        took = take(store, node, limit=BACKLOG)
        fired += took.fired
        store.complete(node, [ended(one) for one in took.fired])
    assert names_of(fired) == sorted(["soonest", *(f"t{n}" for n in range(6 * BACKLOG))])
    assert took.next_due > took.now


def test_what_is_parked_is_taken_although_a_backlog_is_expected_to_follow(store: SqlJobStore) -> None:
    node = register(store)
    now = datetime.now(UTC)
    first = SimpleTrigger("first", job_key=SERIAL.key, start_time=now - 20 * SECOND)
    second = SimpleTrigger("second", job_key=SERIAL.key, start_time=now - 10 * SECOND)
    store.store_jobs([JobEntry(SERIAL, [prepare(trigger, now, None) for trigger in (first, second)])], replace=True)
    add(store, PLAIN, *[f"t{n}" for n in range(4 * BACKLOG)])
    took = take(store, node, limit=BACKLOG)
    assert "first" in names(took)
    assert "second" not in names(took)
    [first_fired] = [one for one in took.fired if one.trigger_name == "first"]
    store.complete(node, [ended(first_fired)])
    assert first_fired.gate is not None
    assert "second" in names(take(store, node, limit=BACKLOG, opened=[first_fired.gate]))


def test_a_node_that_was_declared_dead_takes_nothing_of_a_backlog(store: SqlJobStore, connect: Connect) -> None:
    node = register(store)
    add(store, PLAIN, *[f"t{n}" for n in range(3 * BACKLOG)])
    assert len(take(store, node, limit=BACKLOG).fired) == BACKLOG
    connect().execute("DELETE FROM qrtz_scheduler_state")
    with pytest.raises(LeaseLostError):
        take(store, node, limit=BACKLOG)
    assert connect().execute("SELECT count(*) FROM qrtz_fired_triggers").fetchall() == [(BACKLOG,)]


@pytest.fixture
def expensive_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each full read is expensive, as with a million dead entries in the index."""
    monkeypatch.setattr(next_due, "EXPENSIVE_READ", 0.0)
    monkeypatch.setattr(next_due, "FULL_READ_SHARE", 1e-9)


@pytest.mark.usefixtures("expensive_reads")
def test_after_an_expensive_read_the_next_ones_begin_at_the_front_until_it_is_time_for_another(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Longer than what follows takes on a busy machine.
    monkeypatch.setattr(next_due, "MOST_SECONDS_BETWEEN_FULL_READS", 3.0)
    node = register(store)
    add(store, PLAIN, "later", due_in=timedelta(hours=1))
    assert not names(take(store, node))
    add(make_store(), PLAIN, "earlier", due_in=-10 * SECOND)
    add(make_store(), PLAIN, "now", due_in=timedelta())
    assert names(took := take(store, node)) == ["now"], "it is due after the front"
    assert took.next_due is not None
    assert took.next_due <= took.now + 3 * SECOND, "a full read follows soon"
    assert wait_until(lambda: names(take(store, node)), "the next full read", every=0.1) == ["earlier"]


@pytest.mark.usefixtures("expensive_reads")
def test_a_notification_or_a_change_of_ones_own_is_followed_by_a_full_read(
    store: SqlJobStore, make_store: Callable[..., SqlJobStore]
) -> None:
    node = register(store)
    listener = store.subscribe()
    assert listener is not None
    with contextlib.closing(listener):
        assert not names(take(store, node))
        add(make_store(), PLAIN, "told", due_in=-10 * SECOND)
        wait_until(lambda: listener.wait(1), "a notification")
        assert names(take(store, node)) == ["told"]
    assert not names(take(store, node))
    add(store, PLAIN, "own", due_in=-10 * SECOND)
    assert names(take(store, node)) == ["own"]


def read_of(expected: NextDueCache, *pools: str, passed_over: int = 0) -> NextDueRead:
    return expected.next_read(pools or ("",), passed_over)


def note(
    expected: NextDueCache, read: NextDueRead, at: datetime, *pools: str, passed_over: int = 0, took: float = 1.0
) -> None:
    """Note that nothing waited before an instant."""
    expected.note_read(read, pools or ("",), passed_over, at, [None] * len(read.sinces), took)


@pytest.mark.usefixtures("expensive_reads")
def test_a_read_that_was_overtaken_by_a_change_sets_no_floor() -> None:
    expected = NextDueCache()
    before = read_of(expected)
    expected.require_full_read()
    note(expected, before, datetime.now(UTC))
    assert read_of(expected).sinces == (None,)
    before = read_of(expected)
    expected.note_waiting(datetime.now(UTC))
    note(expected, before, datetime.now(UTC) + SECOND)
    assert read_of(expected).sinces == (None,)


@pytest.mark.usefixtures("expensive_reads")
def test_the_floor_is_that_of_a_slot_pool_and_of_the_same_triggers() -> None:
    expected, at = NextDueCache(), datetime.now(UTC)
    note(expected, read_of(expected, "", "a"), at, "", "a")
    assert read_of(expected, "a").sinces == (at,)
    assert read_of(expected, "a", "b").sinces == (at, None), "the slots of another pool have become free"
    assert read_of(expected, passed_over=1).sinces == (None,), "other triggers are passed over"
    later = at + SECOND
    note(expected, read_of(expected, "a"), later, "a", took=0.0)
    assert read_of(expected, "", "a").sinces == (at, later)


@pytest.mark.usefixtures("expensive_reads")
def test_a_trigger_that_begins_to_wait_lowers_the_floors_above_it() -> None:
    expected, at = NextDueCache(), datetime.now(UTC)
    note(expected, read_of(expected, "", "a"), at, "", "a")
    note(expected, read_of(expected, "a"), at + 2 * SECOND, "a")
    expected.note_waiting(at + SECOND)
    assert read_of(expected, "", "a").sinces == (at, at + SECOND)
    expected.note_waiting(None)
    assert read_of(expected, "", "a").sinces == (at, at + SECOND), "none began to wait"
    expected.note_announced(at - SECOND)
    assert read_of(expected, "", "a").sinces == (at - SECOND, at - SECOND)
    expected.note_announced()
    assert read_of(expected, "", "a").sinces == (None, None), "it was not told which"


@pytest.mark.usefixtures("expensive_reads")
def test_what_walked_far_is_read_without_the_lock_before_it_is_claimed() -> None:
    expected = NextDueCache()
    assert not expected.is_costly([""], read_of(expected)), "nothing is known"
    note(expected, read_of(expected), datetime.now(UTC))
    assert not expected.is_costly([""], read_of(expected)), "it begins at the floor"
    expected.require_full_read()
    assert expected.is_costly([""], read_of(expected))
    assert not expected.is_costly(["a"], read_of(expected, "a"))


def test_after_a_refusal_is_read_without_the_lock_how_far_a_step_would_walk() -> None:
    expected = NextDueCache()
    expected.note_refused()
    assert expected.is_costly([""], read_of(expected))
    note(expected, read_of(expected), datetime.now(UTC))
    assert not expected.is_costly([""], read_of(expected)), "that was a short way"


def test_a_quick_read_sets_no_floor() -> None:
    expected = NextDueCache()
    note(expected, read_of(expected), datetime.now(UTC), took=0.0001)
    assert read_of(expected).sinces == (None,)
