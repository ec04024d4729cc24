"""A trigger without a start time starts by an estimate of the database's clock, which is checked when it is stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import StoreUnavailableError
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import TriggerKey
from quartzpy.store.postgresql.connection.session import (
    CLOCK_LONGEST_AGE,
    CLOCK_TOLERANCE,
    ClockEstimate,
    LastReturn,
    SqlSession,
)
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import JobEntry
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import UnpreparedTrigger, prepare
from tests.contract.harness import stored_trigger
from tests.database import execute
from tests.proxy import Proxy

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


class Steady:
    """A monotonic clock that is moved by hand."""

    seconds = 5.0

    def __call__(self) -> float:
        return self.seconds


def test_the_estimate_goes_on_with_the_steady_clock_until_it_is_old() -> None:
    steady = Steady()
    estimate = ClockEstimate(steady)
    assert estimate.now() is None
    estimate.learn(NOON)
    steady.seconds += 2
    assert estimate.now() == NOON + 2 * SECOND
    steady.seconds += CLOCK_LONGEST_AGE - 2
    assert estimate.now() is None


@pytest.mark.parametrize(
    ("moved", "agrees"),
    [
        (timedelta(), True),
        (CLOCK_TOLERANCE, True),
        (-CLOCK_TOLERANCE, True),
        (-2 * CLOCK_TOLERANCE, False),
        (3 * CLOCK_TOLERANCE, False),
        (timedelta(hours=-1), False),
        (timedelta(hours=1), False),
    ],
)
def test_a_reading_that_differs_is_found_and_is_the_next_estimate(moved: timedelta, agrees: bool) -> None:
    steady = Steady()
    estimate = ClockEstimate(steady)
    estimate.learn(NOON)
    before = estimate.now()
    reading = NOON + moved
    assert estimate.agrees(reading, before) is agrees
    assert estimate.now() == reading


def test_a_slow_answer_is_no_difference() -> None:
    steady = Steady()
    estimate = ClockEstimate(steady)
    estimate.learn(NOON)
    before = estimate.now()
    steady.seconds += 3
    assert estimate.agrees(NOON + SECOND, before)


def _store_now(store: SqlJobStore, name: str) -> datetime:
    """Store a trigger without a start time, and return the one that it got."""
    trigger = SimpleTrigger(name, job_key=JOB.key, interval=3600, repeat_count=None)
    store.store_jobs(
        [JobEntry(JOB, [UnpreparedTrigger(trigger, lambda one, now: prepare(one, now, None))])], replace=False
    )
    record = stored_trigger(store, TriggerKey(name))
    assert record is not None
    assert record.trigger.start_time is not None
    return record.trigger.start_time


JOB = JobDetail("known", "job", durable=True)


def test_the_next_trigger_is_stored_without_a_pipeline_for_the_time(
    store: SqlJobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    now = SqlSession.now

    def noted(self: SqlSession) -> datetime:
        asked.append(self)
        return now(self)

    monkeypatch.setattr(SqlSession, "now", noted)
    first = _store_now(store, "first")
    assert len(asked) == 1
    second = _store_now(store, "second")
    assert len(asked) == 1
    assert timedelta() < second - first < timedelta(seconds=CLOCK_LONGEST_AGE)
    assert second <= store.now()


@pytest.mark.parametrize("wrong", [timedelta(hours=-1), timedelta(hours=1)])
def test_a_trigger_starts_by_the_database_clock_even_if_the_estimate_is_wrong(
    store: SqlJobStore, wrong: timedelta
) -> None:
    real = _store_now(store, "first")
    session: Any = store._session
    session.clock.learn(real + wrong)
    start = _store_now(store, "second")
    assert real < start <= store.now()
    # Nothing of the first attempt is left, and the estimate is right again.
    assert real < _store_now(store, "third") <= store.now()


def test_the_database_has_returned_when_a_read_reaches_it_however_long_nobody_has_read() -> None:
    seconds = [0.0]
    returned = LastReturn(lambda: seconds[0])
    returned.succeeded()
    assert returned.ago() is None
    returned.failed(StoreUnavailableError("gone", sqlstate="57P03"))
    seconds[0] = 600
    returned.succeeded()
    seconds[0] = 603
    returned.succeeded()
    assert returned.ago() == timedelta(seconds=3)
    returned.failed(StoreUnavailableError("it took too long", sqlstate="57014"))
    returned.succeeded()
    assert returned.ago() == timedelta(seconds=3), "a statement that took too long has reached it"


def test_an_attempt_to_open_that_could_not_reach_the_database_counts(postgres_dsn: str, proxy: Proxy) -> None:
    store = SqlJobStore(proxy.through(postgres_dsn), SchedulerConfig.of({}))
    proxy.refuse()
    with pytest.raises(StoreUnavailableError):
        store.open()
    [[before]] = execute(postgres_dsn, "SELECT clock_timestamp()")
    proxy.admit()
    store.open()
    answer = store.list_nodes()
    assert answer.answers_since is not None
    assert before < answer.answers_since <= answer.now
    store.close()
