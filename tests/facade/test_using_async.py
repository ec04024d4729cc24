"""The methods inside a transaction of an event loop: psycopg's, asyncpg's, SQLAlchemy's on both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.pool import NullPool

from quartzpy import CronTrigger, JobDetail, JobKey, Scheduler, SimpleTrigger, TriggerKey, WeeklyCalendar
from quartzpy.errors import (
    CalendarInUseError,
    InvalidValueError,
    JobNotFoundError,
    ObjectAlreadyExistsError,
    StoreUnavailableError,
)
from quartzpy.states import PublicState
from quartzpy.store.postgresql.connection.external_async import with_texts
from tests.database import libpq_url
from tests.facade import jobs

HOUR = timedelta(hours=1)
KEY = TriggerKey("t", "DEFAULT")
Opened = Callable[[], AbstractAsyncContextManager[Any]]


@pytest.fixture
def url(postgres_dsn: str) -> str:
    return postgres_dsn


@asynccontextmanager
async def sqlalchemy_connection(dsn: str) -> AsyncIterator[Any]:
    engine = create_async_engine(dsn, poolclass=NullPool)
    async with engine.connect() as connection:
        yield connection
    await engine.dispose()


@asynccontextmanager
async def sqlalchemy_session(dsn: str) -> AsyncIterator[Any]:
    engine = create_async_engine(dsn, poolclass=NullPool)
    async with async_sessionmaker(engine)() as session:
        yield session
    await engine.dispose()


@asynccontextmanager
async def psycopg_connection(dsn: str) -> AsyncIterator[Any]:
    connection = await psycopg.AsyncConnection.connect(libpq_url(dsn))
    try:
        yield connection
    finally:
        await connection.close()


class AsyncpgConnection:
    """A connection of asyncpg, with its transaction under the names that the others have."""

    def __init__(self, connection: Any, transaction: Any) -> None:
        self.connection = connection
        self.rollback = transaction.rollback
        self.commit = transaction.commit


@asynccontextmanager
async def asyncpg_connection(dsn: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(libpq_url(dsn))
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield AsyncpgConnection(connection, transaction)
    finally:
        await connection.close()


KINDS = {
    "sqlalchemy-psycopg": (sqlalchemy_connection, ""),
    "sqlalchemy-asyncpg": (sqlalchemy_connection, "+asyncpg"),
    "session-psycopg": (sqlalchemy_session, ""),
    "session-asyncpg": (sqlalchemy_session, "+asyncpg"),
    "psycopg": (psycopg_connection, ""),
    "asyncpg": (asyncpg_connection, ""),
}


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest, postgres_dsn: str) -> Opened:
    """Opens a connection or a session of each kind."""
    open_one, driver = KINDS[request.param]
    dsn = postgres_dsn.replace("+psycopg", driver) if driver else postgres_dsn
    return lambda: open_one(dsn)


def given(connection: Any) -> Any:
    return connection.connection if isinstance(connection, AsyncpgConnection) else connection


def a_job(name: str = "job", **options: Any) -> JobDetail:
    return JobDetail(jobs.Recorded, name, **options)


def test_it_is_committed_or_rolled_back_with_the_transaction(client: Scheduler, opened: Opened) -> None:
    async def main() -> None:
        async with opened() as connection:
            await client.using(given(connection)).schedule_job(a_job(), SimpleTrigger("t", start_time=later))
            assert not client.check_exists(KEY), "not before the commit"
            await connection.rollback()
        assert not client.check_exists(KEY)
        async with opened() as connection:
            await client.using(given(connection)).schedule_job(a_job(), SimpleTrigger("t", start_time=later))
            await connection.commit()
        assert client.check_exists(KEY)

    later = client.nodes().now + HOUR
    asyncio.run(main())


def test_all_methods_work_inside(client: Scheduler, opened: Opened) -> None:
    async def main() -> None:
        async with opened() as connection:
            inside = client.using(given(connection))
            await inside.add_calendar("weekly", WeeklyCalendar())
            await inside.schedule_job(a_job(durable=True, data={"a": 'x"{},\\'}), SimpleTrigger("t", start_time=later))
            await inside.pause_trigger(KEY)
            assert await inside.trigger_state(KEY) is PublicState.PAUSED
            await inside.resume_trigger(KEY)
            await inside.pause_trigger_group("DEFAULT")
            await inside.resume_trigger_group("DEFAULT")
            await inside.pause_job(JobKey("job"))
            await inside.resume_job(JobKey("job"))
            await inside.pause_all()
            assert (await inside.pauses()).everything
            await inside.resume_all()
            await inside.modify_job(JobKey("job"), description="changed")
            await inside.reschedule_job(KEY, CronTrigger("0 0 12 * * ?", "other", calendar="weekly"))
            with pytest.raises(CalendarInUseError):
                await inside.delete_calendar("weekly")
            assert {key.name for key in await inside.trigger_keys()} == {"other"}
            stored = await inside.get_job_detail(JobKey("job"))
            assert stored is not None
            assert stored.data == {"a": 'x"{},\\'}
            assert await inside.why(TriggerKey("other"))
            await inside.add_calendar("weekly", WeeklyCalendar(), replace=True, update_triggers=True)
            await inside.trigger_job(JobKey("job"), {"by": "hand"})
            await inside.executions().page()
            await inside.counts()
            await inside.unschedule_job(TriggerKey("other"))
            assert await inside.delete_calendar("weekly")
            await connection.commit()
        assert len(client.trigger_keys()) == 1
        async with opened() as connection:
            assert await client.using(given(connection)).delete_job(JobKey("job"))
            await client.using(given(connection)).clear()
            await connection.commit()
        assert not client.job_keys()

    later = client.nodes().now + HOUR
    asyncio.run(main())


def test_sync_is_part_of_the_transaction_and_needs_no_connection_of_its_own(client: Scheduler, opened: Opened) -> None:
    async def main() -> None:
        async with opened() as connection:
            inside = elsewhere.using(given(connection))
            await inside.sync([(a_job(), SimpleTrigger("t", start_time=later))], owner="app")
            assert not client.check_exists(KEY), "not before the commit"
            await connection.rollback()
        assert not client.check_exists(KEY)
        async with opened() as connection:
            inside = elsewhere.using(given(connection))
            await inside.sync([(a_job(), SimpleTrigger("t", start_time=later))], owner="app")
            await connection.commit()
        assert client.check_exists(KEY)

    later = client.nodes().now + HOUR
    elsewhere = Scheduler("postgresql+psycopg://nobody@127.0.0.1:1/none", name=client.name)
    asyncio.run(main())
    elsewhere.shutdown()


def test_an_error_leaves_the_transaction_usable_and_nothing_half_done(client: Scheduler, opened: Opened) -> None:
    async def main() -> None:
        async with opened() as connection:
            inside = client.using(given(connection))
            with pytest.raises(ObjectAlreadyExistsError):
                await inside.schedule_jobs(
                    [(a_job("new"), [SimpleTrigger("new")]), (a_job(), [SimpleTrigger("t", interval="1h")])]
                )
            with pytest.raises(JobNotFoundError):
                await inside.schedule(SimpleTrigger("x", job_key=JobKey("none")))
            assert not await inside.check_exists(JobKey("new"))
            await inside.add_job(a_job("good", durable=True))
            await connection.commit()
        assert {key.name for key in client.job_keys()} == {"job", "good"}

    client.schedule_job(a_job(), SimpleTrigger("t", start_time=client.nodes().now + HOUR))
    asyncio.run(main())


def test_after_the_end_of_the_transaction_it_is_of_no_more_use(client: Scheduler, opened: Opened) -> None:
    async def main() -> None:
        async with opened() as connection:
            inside = client.using(given(connection))
            await inside.job_keys()
            await connection.rollback()
            with pytest.raises(StoreUnavailableError, match="has ended"):
                await inside.job_keys()

    asyncio.run(main())


def test_a_job_runs_after_the_commit(scheduler: Scheduler, opened: Opened) -> None:
    async def main() -> None:
        async with opened() as connection:
            await scheduler.using(given(connection)).schedule_job(a_job(), SimpleTrigger("t"))
            await connection.commit()

    asyncio.run(main())
    assert jobs.next_run().trigger_key == KEY


def test_methods_that_are_awaited_together_run_one_after_the_other(client: Scheduler, opened: Opened) -> None:
    async def main() -> None:
        async with opened() as connection:
            inside = client.using(given(connection))
            await asyncio.gather(*[inside.add_job(a_job(f"job-{n}", durable=True)) for n in range(10)])
            await connection.commit()

    asyncio.run(main())
    assert len(client.job_keys()) == 10


def test_a_cancelled_task_continues_when_the_method_has_ended(
    client: Scheduler, opened: Opened, postgres_dsn: str
) -> None:
    """The connection is in use by nobody else then, so the transaction can be rolled back at once."""

    async def main() -> None:
        async with psycopg_connection(postgres_dsn) as blocker:
            await blocker.execute("LOCK TABLE qrtz_job_details IN ACCESS EXCLUSIVE MODE")
            async with opened() as connection:
                inside = client.using(given(connection))
                task = asyncio.create_task(inside.add_job(a_job(durable=True)))
                waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
                while await (await blocker.execute(waits)).fetchone() is None:
                    await asyncio.sleep(0.01)
                    await blocker.execute("SELECT pg_stat_clear_snapshot()")
                task.cancel()
                done, _ = await asyncio.wait([task], timeout=0.1)
                assert not done, "the method still uses the connection"
                await blocker.rollback()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await connection.rollback()

    client.nodes()
    asyncio.run(main())
    assert not client.job_keys()


def test_a_connection_in_autocommit_mode_is_refused(client: Scheduler, postgres_dsn: str) -> None:
    async def main() -> None:
        connection = await psycopg.AsyncConnection.connect(libpq_url(postgres_dsn), autocommit=True)
        with pytest.raises(InvalidValueError, match="autocommit"):
            await client.using(connection).job_keys()
        await connection.close()
        other = await asyncpg.connect(libpq_url(postgres_dsn))
        with pytest.raises(InvalidValueError, match="autocommit"):
            await client.using(other).job_keys()
        await other.close()
        for driver in ("psycopg", "asyncpg"):
            engine = create_async_engine(postgres_dsn.replace("psycopg", driver), isolation_level="AUTOCOMMIT")
            async with engine.connect() as third:
                with pytest.raises(InvalidValueError, match="autocommit"):
                    await client.using(third).job_keys()
            await engine.dispose()

    asyncio.run(main())


def test_what_run_sync_gives_is_refused_with_the_right_way(client: Scheduler, postgres_dsn: str) -> None:
    async def main() -> None:
        engine = create_async_engine(postgres_dsn)
        async with AsyncSession(engine) as session:
            with pytest.raises(InvalidValueError, match="pass the AsyncSession or AsyncConnection itself"):
                await session.run_sync(lambda inner: client.using(inner).job_keys())
        await engine.dispose()

    asyncio.run(main())


def test_memory_has_no_transactions(postgres_dsn: str) -> None:
    async def main() -> None:
        engine = create_async_engine(postgres_dsn)
        async with engine.connect() as connection:
            with pytest.raises(InvalidValueError, match="memory://"):
                await Scheduler("memory://").using(connection).job_keys()
        await engine.dispose()

    asyncio.run(main())


def test_the_event_loop_runs_while_a_method_waits(client: Scheduler, opened: Opened, postgres_dsn: str) -> None:
    async def main() -> None:
        async with psycopg_connection(postgres_dsn) as blocker:
            await blocker.execute("LOCK TABLE qrtz_job_details IN ACCESS EXCLUSIVE MODE")
            async with opened() as connection:
                task = asyncio.create_task(client.using(given(connection)).job_keys())
                for _ in range(20):
                    await asyncio.sleep(0.005)
                assert not task.done()
                await blocker.rollback()
                await task

    client.nodes()
    asyncio.run(main())


def test_each_parameter_of_a_statement_becomes_a_text_that_is_cast() -> None:
    assert with_texts("a = $1 AND b = $2::text[] AND c > $3::timestamptz AND d = $3 LIMIT $4::int") == (
        "a = ($1::text) AND b = ($2::text)::text[] AND c > ($3::text)::timestamptz AND d = ($3::text)::timestamptz"
        " LIMIT ($4::text)::int"
    )
