"""A transaction notifies where somebody can be asleep past what it stored, and only there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from quartzpy import Scheduler
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import TriggerKey
from quartzpy.states import Outcome
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import (
    AvailableSlots,
    Completion,
    DispatchKey,
    JobEntry,
    NamedTriggers,
    Notification,
    Subscription,
)
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import prepare
from tests.postgresql.conftest import NAME, register

SOON = 20.0
NEVER = 0.15
NOW = datetime.now(UTC)


@pytest.fixture
def news(store: SqlJobStore) -> Iterator[Subscription]:
    found = store.subscribe()
    assert found is not None
    yield found
    found.close()


def put(store: SqlJobStore, name: str, after: timedelta, job_type: str = "known") -> None:
    detail = JobDetail(job_type, f"job-of-{job_type}", durable=True)
    trigger = SimpleTrigger(name, job_key=detail.key, start_time=NOW + after)
    store.store_jobs([JobEntry(detail, [prepare(trigger, NOW, None)])], replace=True)


def test_what_is_due_sooner_than_all_else_is_announced(store: SqlJobStore, news: Subscription) -> None:
    put(store, "first", timedelta(hours=2))
    assert news.wait(SOON)
    put(store, "sooner", timedelta(hours=1))
    assert news.wait(SOON)
    put(store, "now", timedelta())
    assert news.wait(SOON)
    news.close()


def test_what_is_due_later_than_something_else_of_its_job_type_is_not(store: SqlJobStore, news: Subscription) -> None:
    put(store, "first", timedelta(hours=1))
    assert news.wait(SOON)
    put(store, "later", timedelta(hours=2))
    assert not news.wait(NEVER)
    put(store, "of another type", timedelta(hours=2), "other")
    assert not news.wait(NEVER), "every node looks when the first one is due"
    news.close()


def test_what_is_due_after_triggers_that_a_node_has_refused_is_announced(
    store: SqlJobStore, news: Subscription
) -> None:
    node = register(store)
    put(store, "first", timedelta(hours=1), "foreign")
    assert news.wait(SOON)
    store.decide(node, {DispatchKey("foreign"): False})
    put(store, "later", timedelta(hours=2))
    assert news.wait(SOON), "the node sleeps beyond the first trigger"
    put(store, "between", timedelta(hours=1.5), "foreign")
    assert not news.wait(NEVER), "it does not concern that node, and all others look when the first is due"
    put(store, "still later", timedelta(hours=3))
    assert not news.wait(NEVER), "the node looks when the one before is due"
    store.leave(node)
    assert news.wait(SOON)
    store.delete_triggers([TriggerKey("later"), TriggerKey("still later")])
    while news.wait(NEVER):
        pass
    put(store, "later again", timedelta(hours=2))
    assert not news.wait(NEVER), "the node is gone"
    news.close()


def test_an_announcement_looks_at_a_limited_number_of_triggers(store: SqlJobStore, news: Subscription) -> None:
    """Those before the new trigger may all be refused; then the notification costs less than to look for one more."""
    node = register(store)
    foreign = JobDetail("foreign", "foreign", durable=True)
    triggers = [SimpleTrigger(f"t{n}", job_key=foreign.key, start_time=NOW + timedelta(hours=1)) for n in range(30)]
    store.store_jobs([JobEntry(foreign, [prepare(trigger, NOW, None) for trigger in triggers])], replace=True)
    store.decide(node, {DispatchKey("foreign"): False})
    put(store, "first", timedelta(hours=2))
    while news.wait(NEVER):
        pass
    put(store, "later", timedelta(hours=3))
    assert news.wait(SOON)
    news.close()


def test_the_trigger_after_a_paused_one_is_announced(store: SqlJobStore, news: Subscription) -> None:
    put(store, "first", timedelta(hours=1))
    store.pause(NamedTriggers([TriggerKey("first", "DEFAULT")]))
    assert news.wait(SOON)
    put(store, "later", timedelta(hours=2))
    assert news.wait(SOON)
    store.resume(NamedTriggers([TriggerKey("first", "DEFAULT")]))
    assert set(news.wait(SOON)) == {Notification.RESUMED}
    news.close()


def test_a_leaving_node_wakes_the_others(store: SqlJobStore, news: Subscription) -> None:
    """It may have been the only one that was awake for what is due next."""
    node = register(store)
    store.leave(node)
    assert news.wait(SOON)
    news.close()


@pytest.mark.parametrize("ends", [Scheduler.standby, Scheduler.shutdown])
def test_a_node_that_takes_no_more_wakes_the_others(
    postgres_dsn: str, news: Subscription, ends: Callable[[Scheduler], object]
) -> None:
    with Scheduler(postgres_dsn, name=NAME, idle_wait="60s") as scheduler:
        while news.wait(NEVER):
            pass
        ends(scheduler)
        assert news.wait(SOON)
    news.close()


@pytest.mark.parametrize("takes_more", [True, False])
def test_what_a_completion_frees_is_announced_where_its_node_takes_no_more(
    store: SqlJobStore, news: Subscription, takes_more: bool
) -> None:
    node = register(store)
    detail = JobDetail("known", "serial", durable=True, disallow_concurrent=True)
    triggers = [SimpleTrigger(name, job_key=detail.key, start_time=NOW) for name in ("a", "b")]
    store.store_jobs([JobEntry(detail, [prepare(trigger, NOW, None) for trigger in triggers])], replace=True)
    assert news.wait(SOON)
    minute = timedelta(minutes=1)
    [fired] = store.acquire(
        node, [AvailableSlots()], limit=2, look_ahead=timedelta(), misfire_threshold=60 * minute
    ).fired
    ended = Completion(fired, started_at=NOW, ended_at=NOW, outcome=Outcome.SUCCEEDED)
    store.complete(node, [ended], wakes_others=not takes_more)
    assert fired.gate is not None
    took = store.acquire(
        node,
        [AvailableSlots()] if takes_more else (),
        limit=int(takes_more),
        look_ahead=timedelta(),
        misfire_threshold=60 * minute,
        opened=[fired.gate],
    )
    assert len(took.fired) == takes_more
    assert bool(news.wait(NEVER if takes_more else SOON)) is not takes_more
    news.close()


def test_a_subscription_whose_connection_was_cut_reports_it(
    store: SqlJobStore, news: Subscription, connect: Callable[[], object]
) -> None:
    from quartzpy.errors import StoreUnavailableError

    connect().execute(  # type: ignore[attr-defined]
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
        " AND application_name LIKE 'quartzpy:%:listen%'"
    )
    # The server's last words may be heard before its hanging up.
    with pytest.raises(StoreUnavailableError):
        list(map(news.wait, [SOON] * 10))
    news.close()


def test_a_rate_limit_that_changes_is_announced_because_triggers_may_fire_sooner(
    store: SqlJobStore, news: Subscription
) -> None:
    limited = JobDetail("known", "limited", durable=True, rate_limit="1/day")
    store.store_jobs([JobEntry(limited, [])], replace=True)
    store.store_jobs([JobEntry(limited, [])], replace=True)
    assert not news.wait(NEVER)
    store.modify_job(limited.key, lambda job: job.with_values({"rate_limit": "10/s"}), keeps_data=True)
    assert news.wait(SOON)


def test_what_a_node_leaves_to_the_others_is_for_all_of_them_at_once(store: SqlJobStore, news: Subscription) -> None:
    """A new trigger is for one node to be on time for; one that is resumed or left is for all."""
    store.wake_others(register(store))
    assert set(news.wait(SOON)) == {Notification.RESUMED}
    news.close()


def test_what_a_node_refuses_is_stored_under_the_lock(
    store: SqlJobStore, connect: Callable[[], psycopg.Connection[Any]]
) -> None:
    """Either who announces a trigger sees it, or the node sees the trigger when it looks after that."""
    node = register(store)
    with connect() as user, ThreadPoolExecutor(1) as pool:
        user.autocommit = False
        user.execute("SELECT FROM qrtz_locks WHERE lock_name = 'TRIGGER_ACCESS' FOR UPDATE")
        saying = pool.submit(store.decide, node, {DispatchKey("foreign"): False})
        with pytest.raises(TimeoutError):
            saying.result(0.5)
        user.rollback()
        saying.result(SOON)
