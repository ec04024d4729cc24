"""A scheduler on the caller's engine, or on connections that a function of the caller's makes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool, StaticPool

from quartzpy import AsyncScheduler, JobDetail, JobKey, Scheduler, SimpleTrigger, TriggerKey
from quartzpy.errors import SettingsError, StoreUnavailableError
from quartzpy.store.postgresql import migrations
from quartzpy.store.postgresql.schema_version import HEAD
from tests.database import connect_to, libpq_url
from tests.facade import jobs

HOUR = timedelta(hours=1)
Make = Callable[..., Scheduler]


@pytest.fixture
def engine(postgres_dsn: str) -> Iterator[Engine]:
    made = create_engine(postgres_dsn, pool_size=10, max_overflow=0, pool_timeout=60)
    yield made
    made.dispose()


@pytest.fixture
def connects() -> list[int]:
    return []


@pytest.fixture(params=["engine", "NullPool", "connect"])
def make(request: pytest.FixtureRequest, postgres_dsn: str, connects: list[int]) -> Iterator[Make]:
    """Makes schedulers on each kind of source; they are shut down at the end."""
    jobs.reset()
    made: list[Scheduler] = []
    pool: dict[str, Any] = {"poolclass": NullPool} if request.param == "NullPool" else {"pool_size": 12}
    engine = create_engine(postgres_dsn, **pool)
    event.listen(engine, "connect", lambda *_: connects.append(1))

    def connect() -> psycopg.Connection[Any]:
        connects.append(1)
        return connect_to(postgres_dsn, autocommit=False)

    def make_one(**settings: Any) -> Scheduler:
        arguments = jobs.arguments(**settings)
        one = Scheduler(connect=connect, **arguments) if request.param == "connect" else Scheduler(engine, **arguments)
        made.append(one)
        return one

    yield make_one
    jobs.go_on.set()
    for scheduler in made:
        scheduler.shutdown(timeout=timedelta(seconds=60))
    engine.dispose()


def test_a_node_runs_jobs_and_is_notified_of_what_others_schedule(make: Make, connects: list[int]) -> None:
    node = make(idle_wait="60s")
    node.start()
    client = make()
    client.schedule_job(JobDetail(jobs.Recorded, "job"), SimpleTrigger("t"))
    assert jobs.next_run().trigger_key == TriggerKey("t")
    assert node.health().raise_if_failed() is None
    assert connects, "each connection is made the caller's way"


def test_ten_executions_of_a_serial_job_are_each_recorded_once(make: Make) -> None:
    node = make()
    node.start()
    fast = SimpleTrigger("t", interval=timedelta(milliseconds=20), repeat_count=9)
    node.schedule_job(JobDetail(jobs.Recorded, "job"), fast)
    for _ in range(10):
        jobs.next_run()
    assert node.wait_until_recorded(10, timedelta(seconds=20))
    assert len({record.scheduled_fire_time for record in node.executions()}) == 10


def test_a_job_has_its_transaction(make: Make, postgres_dsn: str) -> None:
    with connect_to(postgres_dsn) as plain:
        plain.execute("DROP TABLE IF EXISTS payments; CREATE TABLE payments (number int)")
        node = make()
        node.start()
        node.schedule_job(JobDetail(jobs.Paying, "job", data={"how": ""}), SimpleTrigger("t"))
        jobs.next_run()
        assert node.wait_until_recorded(1, timedelta(seconds=20))
        assert plain.execute("SELECT count(*) FROM payments").fetchone() == (1,)
        plain.execute("DROP TABLE payments")


def test_the_engine_stays_the_callers(engine: Engine) -> None:
    before = [len(getattr(engine.pool.dispatch, name)) for name in ("checkout", "checkin", "connect")]
    scheduler = Scheduler(engine)
    scheduler.add_job(JobDetail(jobs.Recorded, "job", durable=True))
    with engine.begin() as connection:
        scheduler.using(connection).delete_job(JobKey("job"))
    assert engine.pool.checkedout() == 0, "nothing is kept between calls"  # type: ignore[attr-defined]
    assert engine.pool.checkedin() == 1, "one connection served for all of it"  # type: ignore[attr-defined]
    scheduler.shutdown()
    assert engine.pool.checkedin() == 1  # type: ignore[attr-defined]
    assert before == [len(getattr(engine.pool.dispatch, name)) for name in ("checkout", "checkin", "connect")]
    with engine.connect() as connection:
        found = connection.execute(text("SELECT current_setting('enable_seqscan'), current_setting('lock_timeout')"))
        assert found.one() == ("on", "0"), "its sessions are as they were"


def test_what_a_caller_left_open_on_the_pool_is_rolled_back_not_committed(postgres_dsn: str) -> None:
    engine = create_engine(postgres_dsn, pool_size=1, max_overflow=0, pool_reset_on_return=None)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE left_open (number int)"))
    careless = engine.raw_connection()
    careless.cursor().execute("INSERT INTO left_open VALUES (1)")
    careless.close()
    scheduler = Scheduler(engine)
    scheduler.job_keys()
    with engine.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM left_open")).scalar_one() == 0
        connection.execute(text("DROP TABLE left_open"))
    scheduler.shutdown()
    engine.dispose()


def test_an_exhausted_pool_is_reported(postgres_dsn: str) -> None:
    engine = create_engine(postgres_dsn, pool_size=1, max_overflow=0, pool_timeout=0.05)
    scheduler = Scheduler(engine)
    with engine.connect(), pytest.raises(StoreUnavailableError, match="no connection of the pool was free in time"):
        scheduler.job_keys()
    scheduler.shutdown()
    engine.dispose()


def test_a_connection_that_was_cut_while_idle_is_replaced(engine: Engine) -> None:
    scheduler = Scheduler(engine)
    scheduler.job_keys()
    with engine.connect() as first, engine.connect() as second:
        pid = first.execute(text("SELECT pg_backend_pid()")).scalar_one()
        first.rollback()
        second.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
        first.invalidate()
    assert scheduler.job_keys() == set()
    scheduler.shutdown()


def test_the_check_in_of_a_node_waits_no_longer_than_its_deadline(postgres_dsn: str) -> None:
    """A function that hangs costs one check-in, not the lease."""
    blocked, hang = threading.Event(), threading.Event()

    def connect() -> psycopg.Connection[Any]:
        if hang.is_set():
            blocked.wait(30)
        return connect_to(postgres_dsn, autocommit=False)

    scheduler = Scheduler(connect=connect)
    scheduler.job_keys()
    hang.set()
    control = scheduler._store._control  # type: ignore[attr-defined]
    with pytest.raises(StoreUnavailableError, match="in time"):
        control.execute([], within=0.1)
    blocked.set()
    hang.clear()
    scheduler.shutdown()


def test_an_error_of_the_function_is_one_of_the_database() -> None:
    errors = [PoolTimeoutError("of the pool"), OSError("of the network"), RuntimeError("of the vault")]
    words = ["of the pool", "connect: OSError: of the network", "connect: RuntimeError: of the vault"]

    def connect() -> psycopg.Connection[Any]:
        raise errors[0]

    scheduler = Scheduler(connect=connect)
    for expected in words:
        with pytest.raises(StoreUnavailableError, match=expected):
            scheduler.job_keys()
        with pytest.raises(StoreUnavailableError, match=expected):
            migrations.current(connect)
        errors.pop(0)


def test_an_error_of_the_function_shows_no_password() -> None:
    def connect() -> psycopg.Connection[Any]:
        raise ValueError("no token for postgresql://app:hush@db/app")

    scheduler = Scheduler(connect=connect)
    for call in (scheduler.job_keys, lambda: migrations.current(connect)):
        with pytest.raises(StoreUnavailableError, match=r"ValueError: no token for postgresql://app:\*\*\*@db"):
            call()


@pytest.mark.parametrize("returned", [3, None, "postgresql://app:hush@db/app"])
def test_what_is_no_connection_is_refused(returned: Any) -> None:
    scheduler = Scheduler(connect=lambda: returned)
    for call in (scheduler.job_keys, lambda: migrations.current(lambda: returned)):
        with pytest.raises(SettingsError) as raised:
            call()
        kind = type(returned).__name__
        assert str(raised.value) == f"connect: must return a psycopg connection (got {kind})"


def test_a_connection_may_have_rows_of_another_kind(postgres_dsn: str) -> None:
    def connect() -> psycopg.Connection[Any]:
        return psycopg.connect(libpq_url(postgres_dsn), row_factory=dict_row)

    assert migrations.current(connect) == HEAD
    jobs.reset()
    scheduler = Scheduler(connect=connect, **jobs.arguments())
    try:
        scheduler.schedule_job(JobDetail(jobs.Recorded, "job"), SimpleTrigger("trigger"))
        scheduler.start()
        jobs.ran.get(timeout=60)
    finally:
        scheduler.shutdown()


def test_engines_that_cannot_be_used_are_refused(postgres_dsn: str) -> None:
    with pytest.raises(SettingsError, match=r"expected one for postgresql\+psycopg:// \(got sqlite\)"):
        Scheduler(create_engine("sqlite://"))
    with pytest.raises(SettingsError, match="each thread a connection of its own"):
        Scheduler(create_engine(postgres_dsn, poolclass=StaticPool))
    with pytest.raises(SettingsError, match="AsyncEngine is for AsyncScheduler"):
        Scheduler(create_async_engine(postgres_dsn))  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="expected either a URL"):
        Scheduler()
    with pytest.raises(SettingsError, match="expected either a URL"):
        Scheduler(postgres_dsn, connect=lambda: psycopg.connect(""))
    with pytest.raises(SettingsError, match=r"got sqlite\+aiosqlite"):
        AsyncScheduler(
            type("AsyncEngine", (), {"url": create_engine("sqlite://").url.set(drivername="sqlite+aiosqlite")})()
        )  # type: ignore[arg-type]


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_an_asynchronous_engine_gives_its_url(postgres_dsn: str, driver: str) -> None:
    async def main() -> None:
        engine = create_async_engine(postgres_dsn.replace("psycopg", driver))
        scheduler = AsyncScheduler(engine)
        await scheduler.add_job(JobDetail(jobs.Recorded, "job", durable=True))
        async with engine.begin() as connection:
            await scheduler.using(connection).delete_job(JobKey("job"))
        assert await scheduler.job_keys() == set()
        await scheduler.shutdown()
        await engine.dispose()

    asyncio.run(main())
