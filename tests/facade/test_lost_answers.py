"""A running node whose answers are lost, whose rows somebody holds or edits: each difference ends by itself."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from quartzpy import JobDetail, PublicState, Scheduler, SimpleTrigger, TriggerKey
from quartzpy.node import housekeeping
from quartzpy.store.postgresql.schema.naming import DEFAULT_NAMES
from quartzpy.store.postgresql.steps import acquire, complete, holdings
from quartzpy.store.protocol import Acquisition, AvailableSlots
from tests.database import connect_to
from tests.facade import jobs
from tests.proxy import Proxy
from tests.waiting import wait_until

CHECK_IN = timedelta(milliseconds=300)
COSTLY = {"rule": "\n".join(["RRULE:FREQ=YEARLY", *["EXRULE:FREQ=DAILY"] * 490]), "time_zone": "UTC"}


@pytest.fixture
def user(postgres_dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection of a user's own."""
    with connect_to(postgres_dsn) as connection:
        yield connection


@pytest.fixture
def make(postgres_dsn: str, proxy: Proxy) -> Iterator[Callable[..., Scheduler]]:
    """Schedulers behind the proxy."""
    jobs.reset()
    made: list[Scheduler] = []

    def one(**settings: Any) -> Scheduler:
        settings = {"checkin_interval": CHECK_IN, "failure_window": "6s", "lock_timeout": "1s", **settings}
        made.append(Scheduler(proxy.through(postgres_dsn), **jobs.arguments(**settings)))
        return made[-1]

    yield one
    jobs.go_on.set()
    for scheduler in made:
        scheduler.shutdown(timeout=timedelta(seconds=60))


def name_of(statement: str) -> bytes:
    """How the bytes of a round trip name a statement of ours."""
    return f"q_{hash((statement, DEFAULT_NAMES)):x}".encode()


def in_(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def soon(name: str, seconds: float = 1.0, **values: Any) -> SimpleTrigger:
    return SimpleTrigger(name, start_time=in_(seconds), **values)


def held_fire_ids(scheduler: Scheduler) -> list[str]:
    return [str(record.state) for record in scheduler._store.list_running()]


def is_due(scheduler: Scheduler) -> bool:
    at = scheduler.triggers()[0].progress.next_fire_time
    return at is not None and scheduler.nodes().now > at


HAS_FIRED = b"""
SELECT (SELECT count(*) FROM qrtz_fired_triggers WHERE trigger_name = 'second')
     + (SELECT count(*) FROM qrtz_executions WHERE trigger_name = 'second')
"""


@pytest.mark.parametrize(
    "statement",
    [
        acquire.ACQUIRE_OF_ONE_POOL,
        holdings.REFILL,
        complete.RECORD,
    ],
    ids=["acquire", "refill", "complete"],
)
def test_each_instant_runs_once_though_the_answer_to_a_step_is_lost(
    make: Callable[..., Scheduler],
    user: psycopg.Connection[Any],
    proxy: Proxy,
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
) -> None:
    scheduler = make()
    original = scheduler._store.acquire
    second = soon("second", 3_600)

    def noted(*args: Any, **values: Any) -> Acquisition:
        # Other steps may follow the end of the first execution, and several come just before the instant: those that
        # fire nothing may be lost, too, until one has fired.
        is_near = statement is acquire.ACQUIRE_OF_ONE_POOL and in_(0.1) >= second.start_time
        if is_near and user.execute(HAS_FIRED).fetchone() == (0,):
            proxy.cut_after = name_of(statement)
        return original(*args, **values)

    monkeypatch.setattr(scheduler._store, "acquire", noted)
    scheduler.schedule_job(
        JobDetail(jobs.Recorded, "serial", durable=True, disallow_concurrent=True), soon("first", 0.3)
    )
    scheduler.start()
    jobs.next_run()
    assert scheduler.wait_until_recorded(1, timedelta(seconds=30))
    node = scheduler._node
    assert node is not None
    thread = node.parts.scheduler_thread
    if statement is not acquire.ACQUIRE_OF_ONE_POOL:
        proxy.cut_after = name_of(statement)
    scheduler.schedule_job(
        JobDetail(jobs.Recorded, "serial", disallow_concurrent=True),
        [second := soon("second", 3.0), soon("third", 300)],
        replace=True,
    )
    if statement is holdings.REFILL:
        user.execute("UPDATE qrtz_triggers SET upcoming_is_complete = false")
    assert jobs.next_run().trigger_key.name == "second"
    assert scheduler.wait_until_recorded(2, timedelta(seconds=60))
    assert proxy.cut_after is None, "an answer was lost"
    assert jobs.ran.empty()
    wait_until(lambda: scheduler.trigger_state(TriggerKey("third", "DEFAULT")) is PublicState.NORMAL)
    assert scheduler.executions().count() == 2
    assert thread.differences == (statement is acquire.ACQUIRE_OF_ONE_POOL), "a fire, and nothing else, was found later"


def test_executions_that_a_node_does_not_know_of_start_at_its_next_check_in(
    make: Callable[..., Scheduler], caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = make()
    scheduler.start()
    node = scheduler._node
    assert node is not None
    scheduler.standby()
    scheduler.schedule_job(JobDetail(jobs.Recorded, "serial"), soon("late", 0))
    # As by a round trip of this node that was committed after it had been given up.
    wait_until(lambda: is_due(scheduler))
    node.parts.known_types.learn()
    with caplog.at_level(logging.WARNING):
        took = scheduler._store.acquire(
            node.parts.registration.present_epoch().node,
            [AvailableSlots()],
            limit=1,
            look_ahead=timedelta(),
            misfire_threshold=timedelta(minutes=1),
        )
        assert len(took.fired) == 1
        assert jobs.next_run().trigger_key.name == "late"
    assert scheduler.wait_until_recorded(1, timedelta(seconds=30))
    assert "that it did not know" in caplog.text


def test_an_execution_whose_row_is_gone_is_cancelled(
    make: Callable[..., Scheduler], user: psycopg.Connection[Any]
) -> None:
    scheduler = make()
    scheduler.schedule_job(JobDetail(jobs.Waiting, "job"), soon("t", 0))
    scheduler.start()
    context = jobs.next_run()
    assert not context.lease_lost
    user.execute("DELETE FROM qrtz_fired_triggers")
    wait_until(lambda: context.lease_lost and context.cancelled)


def test_a_due_trigger_locked_by_a_transaction_costs_few_passes(
    make: Callable[..., Scheduler], user: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make()
    scheduler.start(standby=True)
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job"), [soon("held", 0)])
    passes = []
    original = scheduler._store.acquire
    monkeypatch.setattr(scheduler._store, "acquire", lambda *a, **k: (passes.append(1), original(*a, **k))[1])
    with user.transaction():
        user.execute("UPDATE qrtz_triggers SET description = 'mine'")
        scheduler.start()
        scheduler.schedule_job(JobDetail(jobs.Recorded, "other"), [soon("waiting", 0)])
        assert jobs.next_run().trigger_key.name == "waiting"
        passes.clear()
        began = time.monotonic()
        time.sleep(2)
        wait_until(lambda: len(passes) > 2)
        assert len(passes) < 40 * (time.monotonic() - began)
    assert jobs.next_run().trigger_key.name == "held"


@pytest.mark.parametrize(
    ("edit", "state"),
    [
        ("schedule = '{}'", PublicState.ERROR),
        ("schedule = '[7]'", PublicState.ERROR),
        ("kind = 'lunar'", PublicState.NORMAL),
        (f"kind = 'recurrence', schedule = '{json.dumps(COSTLY)}'", PublicState.ERROR),
    ],
    ids=["no schedule", "no object", "a kind of another release", "a rule that takes too many steps"],
)
def test_a_trigger_that_cannot_be_read_does_not_affect_others(
    make: Callable[..., Scheduler],
    user: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
    edit: str,
    state: PublicState,
) -> None:
    scheduler = make()
    every = SimpleTrigger("bad", interval=timedelta(seconds=1), repeat_count=None, start_time=in_(0))
    scheduler.schedule_job(JobDetail(jobs.Recorded, "bad"), every)
    user.execute(f"UPDATE qrtz_triggers SET upcoming = '{{}}', {edit}")
    passes = []
    original = scheduler._store.acquire
    monkeypatch.setattr(scheduler._store, "acquire", lambda *a, **k: (passes.append(1), original(*a, **k))[1])
    scheduler.start()
    often = SimpleTrigger("good", interval=timedelta(milliseconds=100), repeat_count=9)
    scheduler.schedule_job(JobDetail(jobs.Recorded, "good"), often)
    assert [jobs.next_run().trigger_key.name for _ in range(10)] == ["good"] * 10
    wait_until(lambda: scheduler.trigger_state(TriggerKey("bad", "DEFAULT")) is state)
    wait_until(lambda: held_fire_ids(scheduler) == [])
    passes.clear()
    time.sleep(1)
    assert len(passes) < 40
    errors = {record.key.name: record.error for record in scheduler.triggers()}
    assert ("cannot be computed" in str(errors["bad"])) is (state is PublicState.ERROR)


def test_the_cluster_repairs_rows_that_contradict_each_other(
    make: Callable[..., Scheduler], user: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "REPAIR_EVERY", 0.0)
    scheduler = make()
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job", max_concurrent=1), soon("t", 3_600))
    user.execute("UPDATE qrtz_triggers SET max_concurrent = NULL")
    scheduler.start()
    wait_until(lambda: user.execute("SELECT max_concurrent FROM qrtz_triggers").fetchone() == (1,))
