"""Rate limits on PostgreSQL: transactions of users, many triggers, faults within a step, and rows that are left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine

from quartzpy import Scheduler
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.states import Outcome
from quartzpy.store.postgresql.steps.acquire import LEAST_MET
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import AvailableSlots, Completion, FiredTrigger, JobEntry, Node
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import PreparedTrigger, prepare
from tests.postgresql.conftest import NAME, register
from tests.waiting import wait_until

SECOND = timedelta(seconds=1)
SLOW = RateLimit(1, per="1d")
JOB = JobDetail("limited", "job", durable=True, rate_limit=SLOW)


def due(count: int, **values: Any) -> list[PreparedTrigger]:
    now = datetime.now(UTC)
    triggers = [
        SimpleTrigger(f"t{n}", job_key=JOB.key, start_time=now - (count - n) * timedelta(milliseconds=1), **values)
        for n in range(count)
    ]
    return [prepare(trigger, now, None) for trigger in triggers]


def acquire(store: SqlJobStore, node: Node, limit: int = 10_000) -> list[FiredTrigger]:
    slots = [AvailableSlots(workers=limit, group_slots=limit)]
    took = store.acquire(node, slots, limit=limit, look_ahead=timedelta(), misfire_threshold=timedelta(minutes=1))
    return list(took.fired)


def complete(store: SqlJobStore, node: Node, fired: Sequence[FiredTrigger]) -> None:
    now = datetime.now(UTC)
    done = [Completion(one, started_at=now, ended_at=now, outcome=Outcome.SUCCEEDED) for one in fired]
    store.complete(node, done)


def states(connection: psycopg.Connection[Any]) -> Counter[str]:
    return Counter(state for (state,) in connection.execute("SELECT trigger_state FROM qrtz_triggers").fetchall())


def test_a_users_transaction_stores_limited_triggers_and_a_limit_for_stored_ones(
    store: SqlJobStore, postgres_dsn: str, connect: Callable[[], psycopg.Connection[Any]]
) -> None:
    node = register(store)
    client = Scheduler(postgres_dsn, name=NAME)
    store.store_jobs([JobEntry(replace(JOB, rate_limit=None), due(2))], replace=False)
    engine = create_engine(postgres_dsn)
    with engine.begin() as connection:
        client.using(connection).schedule_job(JOB, [SimpleTrigger(f"u{n}") for n in range(3)], replace=True)
        assert connection.exec_driver_sql("SELECT count(*) FROM qrtz_limits").scalar_one() == 0
    engine.dispose()
    client.shutdown()
    assert len(acquire(store, node)) == 1
    assert not acquire(store, node)
    assert states(connect()) == {"COMPLETE": 1, "BLOCKED": 4}


def test_of_many_triggers_as_many_fire_as_the_limit_admits_and_the_others_are_set_aside(
    store: SqlJobStore, connect: Callable[[], psycopg.Connection[Any]]
) -> None:
    node, admin = register(store), connect()
    limit = RateLimit(10, per="1h", burst=4)
    store.store_jobs([JobEntry(replace(JOB, rate_limit=limit), due(2_500))], replace=False)
    fired = acquire(store, node)
    assert [one.trigger_name for one in fired] == ["t0", "t1", "t2", "t3"]
    assert not acquire(store, node)
    assert states(admin) == {"COMPLETE": 4, "BLOCKED": 2_496}
    [(tat, opens_at)] = admin.execute("SELECT tat, opens_at FROM qrtz_limits").fetchall()
    assert tat - opens_at == 3 * limit.emission_interval


BATCH = 50
PLAIN = JobDetail("limited", "plain", durable=True)


def beside(count: int) -> JobEntry:
    """Return a job of the same type without a rate limit, whose triggers are due after those of the other one."""
    now = datetime.now(UTC)
    triggers = [
        SimpleTrigger(f"p{n}", job_key=PLAIN.key, start_time=now, interval=timedelta(hours=1), repeat_count=9)
        for n in range(count)
    ]
    return JobEntry(PLAIN, [prepare(trigger, now, None) for trigger in triggers])


def held_back(connection: psycopg.Connection[Any]) -> int:
    return states(connection)["BLOCKED"]


def test_beside_a_backlog_of_other_jobs_a_step_holds_few_triggers_back(
    store: SqlJobStore, connect: Callable[[], psycopg.Connection[Any]]
) -> None:
    """To hold a trigger back takes a write, as a fire does. 1,000 wait for their limit here, beside 1,000 others."""
    node, admin = register(store), connect()
    store.store_jobs([JobEntry(JOB, due(1_000)), beside(1_000)], replace=False)
    fired = [one.job_name for _ in range(40) for one in acquire_and_complete(store, node)]
    assert fired == [JOB.name] + [PLAIN.name] * 1_000
    assert held_back(admin) == 999


def acquire_and_complete(store: SqlJobStore, node: Node) -> list[FiredTrigger]:
    held = held_back_of(store)
    fired = acquire(store, node, BATCH)
    assert held_back_of(store) - held <= max(BATCH, LEAST_MET)
    complete(store, node, fired)
    return fired


def held_back_of(store: SqlJobStore) -> int:
    text = "SELECT count(*) FROM qrtz_triggers WHERE trigger_state = 'BLOCKED'"
    return int(store._session.read_one(text)[0][0])


def test_beside_a_backlog_of_other_jobs_what_a_limit_admits_fires_by_its_fire_time(store: SqlJobStore) -> None:
    """A limit that admits all costs its job no place: its triggers were due before those of the others."""
    node = register(store)
    generous = RateLimit(100_000, per="1s", burst=100_000)
    job = replace(JOB, rate_limit=generous)
    store.store_jobs([JobEntry(job)], replace=False)
    assert not acquire(store, node, BATCH)
    store.store_jobs([JobEntry(job, due(600)), beside(600)], replace=False)
    order: list[str] = []
    while len(order) < 1_200:
        fired = acquire(store, node, BATCH)
        order += [one.job_name for one in fired]
        complete(store, node, fired)
    assert order == [JOB.name] * 600 + [PLAIN.name] * 600


def test_a_rate_limit_beside_a_limit_of_executions_is_taken_by_the_statement_for_both(store: SqlJobStore) -> None:
    node = register(store)
    both = replace(JOB, max_concurrent=2, rate_limit=RateLimit(100_000, per="1s", burst=100_000))
    store.store_jobs([JobEntry(JOB, due(3))], replace=False)
    assert len(acquire(store, node)) == 1
    assert not acquire(store, node)
    store.store_jobs([JobEntry(both)], replace=True)
    fired = [*acquire(store, node), *acquire(store, node)]
    assert len(fired) == 2, "the pass after the change knows of the limit of executions"


def test_a_trigger_that_a_user_has_locked_is_passed_over(
    store: SqlJobStore, connect: Callable[[], psycopg.Connection[Any]]
) -> None:
    node = register(store)
    store.store_jobs([JobEntry(JOB, due(2))], replace=False)
    holder = connect()
    with holder.transaction():
        holder.execute("SELECT FROM qrtz_triggers WHERE trigger_name = 't0' FOR UPDATE")
        assert [one.trigger_name for one in acquire(store, node)] == ["t1"]


def test_a_users_transaction_about_one_job_holds_up_no_other(store: SqlJobStore) -> None:
    """However many of its triggers are due before those of others."""
    node = register(store)
    often = RateLimit(100_000, per=1, burst=1_000)
    other = replace(JOB, name="other", rate_limit=often)
    store.store_jobs([JobEntry(replace(JOB, rate_limit=often), due(3 * LEAST_MET))], replace=False)
    now = datetime.now(UTC)
    late = [SimpleTrigger(f"o{n}", job_key=other.key, start_time=now) for n in range(2)]
    store.store_jobs([JobEntry(other, [prepare(trigger, now, None) for trigger in late])], replace=False)
    with store._connections.call_transaction() as connection:
        store.within(connection).modify_job(
            JOB.key, lambda job: job.with_values({"description": "another"}), keeps_data=True
        )
        fired = {one.trigger_name for one in acquire(store, node) + acquire(store, node)}
        assert {"o0", "o1"} <= fired


def test_a_step_that_fails_half_way_admits_and_charges_nothing(
    store: SqlJobStore, connect: Callable[[], psycopg.Connection[Any]]
) -> None:
    node = register(store)
    store.store_jobs([JobEntry(JOB, due(2))], replace=False)
    admin = connect()
    admin.execute("ALTER TABLE qrtz_limits ADD CONSTRAINT broken CHECK (tat < now())")
    try:
        with pytest.raises(Exception, match="broken"):
            acquire(store, node)
        assert states(admin) == {"WAITING": 2}
        assert admin.execute("SELECT count(*) FROM qrtz_fired_triggers").fetchone() == (0,)
    finally:
        admin.execute("ALTER TABLE qrtz_limits DROP CONSTRAINT broken")
    assert len(acquire(store, node)) == 1


def test_rows_of_rates_without_effect_are_deleted_by_the_purge(
    store: SqlJobStore, connect: Callable[[], psycopg.Connection[Any]]
) -> None:
    node = register(store)
    fast = replace(JOB, rate_limit=RateLimit(1000, per="1s"), concurrency_key="customer")
    store.store_jobs([JobEntry(fast, due(1, data={"customer": "x"}))], replace=False)
    admin = connect()

    def rows() -> int:
        [(count,)] = admin.execute("SELECT count(*) FROM qrtz_limits").fetchall()
        return int(count)

    def purges_and_leaves_none() -> bool:
        store.purge_history(timedelta(days=1), limit=10)
        return not rows()

    complete(store, node, acquire(store, node))
    assert rows() == 1
    wait_until(purges_and_leaves_none, seen=rows)


def test_a_clock_that_was_set_back_does_not_stop_a_job(
    store: SqlJobStore, connect: Callable[[], psycopg.Connection[Any]]
) -> None:
    node = register(store)
    store.store_jobs([JobEntry(replace(JOB, rate_limit=RateLimit(5, per="1s")), due(3))], replace=False)
    complete(store, node, acquire(store, node))
    connect().execute("UPDATE qrtz_limits SET tat = now() + interval '1 year', opens_at = now()")
    fired: list[FiredTrigger] = []
    wait_until(lambda: fired.extend(acquire(store, node)) or len(fired) >= 2, "two fires")
