"""What programs on an event loop have: an awaitable scheduler of tests, and in jobs transactions and the scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from quartzpy import AsyncScheduler, Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger, every, job
from quartzpy.errors import SettingsError
from quartzpy.testing import SchedulerHarness
from tests.facade import jobs

SOON = timedelta(seconds=30)


@job
async def remind(number: int) -> int:
    await asyncio.sleep(60)
    return number


@pytest.fixture
def harness() -> SchedulerHarness:
    return SchedulerHarness()


# --- a program with an AsyncScheduler is tested with a moved clock


def test_the_harness_is_the_scheduler_of_an_asynchronous_program(harness: SchedulerHarness) -> None:
    async def program(scheduler: AsyncScheduler) -> None:
        async with scheduler:
            await scheduler.schedule_job(remind, every("1h"), args=[7], name="hourly")
            await scheduler.schedule_job(remind, args=[8], name="by-hand")
            execution = await scheduler.trigger_job("by-hand")
            assert (await execution.wait(timeout="5m")).result == 8
            assert await scheduler.jobs().count() == 2
            assert scheduler.is_started
            assert scheduler.health().state == "HEALTHY"
            assert scheduler.metadata.instance_id == "testing"
            harness.advance("3h")
            assert [record.result async for record in scheduler.executions(job="hourly")] == [7, 7, 7, 7]
            await scheduler.standby()
            assert await scheduler.cancel_job("hourly") == set()
        assert scheduler.is_shut_down

    asyncio.run(program(AsyncScheduler(harness)))


def test_the_harness_takes_decorated_functions_and_runs_until_it_is_shut_down(harness: SchedulerHarness) -> None:
    async def program() -> bool:
        scheduler = AsyncScheduler(harness)
        scheduler.scheduled_job(every("1h"), name="decorated", args=[1])(remind)
        running = asyncio.create_task(scheduler.run())
        while not running.done():
            await asyncio.sleep(0.01)
            await scheduler.shutdown()
        assert [record.key.name async for record in scheduler.jobs()] == ["decorated"]
        return await running

    assert asyncio.run(program())


def test_the_harness_refuses_settings_beside_it(harness: SchedulerHarness) -> None:
    with pytest.raises(Exception, match="workers: the scheduler that is given has its settings already"):
        AsyncScheduler(harness, workers=5)
    with pytest.raises(SettingsError, match=r"AsyncScheduler\(scheduler\).using\(connection\)"):
        AsyncScheduler(harness.using(object()))


def test_a_transaction_of_an_asynchronous_session_is_awaited_in_the_harness(
    harness: SchedulerHarness, postgres_dsn: str
) -> None:
    async def program() -> list[str]:
        engine = create_async_engine(postgres_dsn)
        scheduler = AsyncScheduler(harness)
        for name, ends in (("rolled-back", AsyncSession.rollback), ("committed", AsyncSession.commit)):
            async with AsyncSession(engine) as session:
                await session.execute(text("SELECT 1"))
                await harness.using(session).schedule_job(remind, every("1h"), args=[1], name=name)
                await scheduler.using(session).schedule_job(remind, every("1h"), args=[1], name=f"{name}-2")
                await ends(session)
        await engine.dispose()
        return [record.key.name async for record in scheduler.jobs()]

    assert asyncio.run(program()) == ["committed", "committed-2"]


@pytest.mark.parametrize("database", ["sqlite://", create_async_engine("postgresql+psycopg://app@nowhere/app")])
def test_what_is_no_database_of_a_test_is_refused(database: Any) -> None:
    with pytest.raises(SettingsError, match=r"database: a SQLAlchemy Engine or Connection is needed.*create_engine\('"):
        SchedulerHarness(database=database)


# --- the transaction of an asynchronous job


class AsyncShip(Job):
    """Records an order in its own transaction; fails where its data says so."""

    async def execute(self, context: JobExecutionContext) -> None:
        async with context.transaction() as connection:
            number = await connection.scalar(text("SELECT 40 + :two"), {"two": 2})
            await connection.execute(text("INSERT INTO orders VALUES (:number)"), {"number": number})
            await connection.run_sync(save_with_session, 43)
            rows = await connection.scalars(text("SELECT number FROM orders ORDER BY 1"))
            assert list(rows) == [42, 43]
            assert (await connection.exec_driver_sql("SELECT 1")).scalar_one() == 1
            await context.async_scheduler.using(connection).schedule_job(remind, args=[1], name="follower")
            if context.job_data.get("fails"):
                raise ValueError("rolled back")


def save_with_session(connection: Any, number: int) -> None:
    with Session(connection) as session:
        session.execute(text("INSERT INTO orders VALUES (:number)"), {"number": number})
        session.flush()


class AsyncImport(Job):
    """Saves two pages, each in a transaction of its own, while the loop goes on."""

    async def execute(self, context: JobExecutionContext) -> None:
        for page in (1, 2):
            async with context.fenced_transaction() as connection:
                await connection.execute(text("INSERT INTO orders VALUES (:page)"), {"page": page})


class AsyncSlow(Job):
    """Sleeps in the database, longer than its timeout."""

    async def execute(self, context: JobExecutionContext) -> None:
        async with context.transaction() as connection:
            await connection.execute(text("INSERT INTO orders VALUES (1)"))
            await connection.execute(text("SELECT pg_sleep(1.5)"))


class AsyncPing(Job):
    """Notes whether the loop answered at once."""

    async def execute(self, context: JobExecutionContext) -> None:
        async def ticks() -> int:
            for number in range(1_000_000):
                await asyncio.sleep(0.01)
                if saved.done():
                    return number
            raise AssertionError

        async def save() -> None:
            async with context.fenced_transaction() as connection:
                await connection.execute(text("SELECT pg_sleep(0.5)"))

        saved = asyncio.ensure_future(save())
        context.result = await ticks()


def orders(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        return list(connection.execute(text("SELECT number FROM orders ORDER BY 1")).scalars())


@pytest.fixture
def running(postgres_dsn: str) -> Iterator[Scheduler]:
    with Scheduler(postgres_dsn, **jobs.arguments()) as scheduler:
        yield scheduler


def outcome(scheduler: Scheduler, job_class: type[Job], **options: Any) -> tuple[str, Any]:
    scheduler.schedule_job(JobDetail(job_class, "job", **options), SimpleTrigger("t"))
    assert scheduler.wait_until_recorded(1, SOON)
    [execution] = scheduler.executions(job="job")
    return str(execution.outcome), execution.error or execution.result


def test_a_transaction_is_entered_by_async_with(running: Scheduler, engine: Engine) -> None:
    assert outcome(running, AsyncShip) == ("SUCCEEDED", None)
    assert orders(engine) == [42, 43]
    assert running.check_exists(jobs.JobKey("follower"))


def test_a_transaction_whose_block_raises_is_rolled_back(running: Scheduler, engine: Engine) -> None:
    said, error = outcome(running, AsyncShip, data={"fails": True})
    assert said == "FAILED"
    assert "rolled back" in error
    assert orders(engine) == []
    assert not running.check_exists(jobs.JobKey("follower"))


def test_a_fenced_transaction_is_entered_by_async_with(running: Scheduler, engine: Engine) -> None:
    assert outcome(running, AsyncImport) == ("SUCCEEDED", None)
    assert orders(engine) == [1, 2]


def test_a_job_that_is_cut_off_rolls_back(running: Scheduler, engine: Engine) -> None:
    said, _ = outcome(running, AsyncSlow, timeout="0.3s")
    assert said != "SUCCEEDED"
    assert orders(engine) == []


def test_the_loop_of_the_node_goes_on_during_a_statement(running: Scheduler) -> None:
    said, ticks = outcome(running, AsyncPing)
    assert said == "SUCCEEDED", ticks
    assert ticks > 3


def test_without_a_database_the_error_is_the_same(make_scheduler: Callable[..., Scheduler], url: str) -> None:
    if url == "memory://":
        scheduler = make_scheduler()
        scheduler.start()
        said, error = outcome(scheduler, AsyncImport)
        assert said == "FAILED"
        assert "memory://" in error


def test_a_transaction_is_entered_by_async_with_in_the_harness() -> None:
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE orders (number INTEGER)"))
    harness = SchedulerHarness(database=engine)
    for name, fails in (("first", True), ("second", False)):
        harness.schedule_job(JobDetail(AsyncShip, name, data={"fails": fails}), SimpleTrigger(name))
    said = {run.job_key.name: run.error for run in harness.run_pending()}
    assert "ValueError: rolled back" in (said["first"] or "")
    assert said["second"] is None
    assert orders(engine) == [42, 43]
    assert [each.outcome for each in harness.transactions] == ["rolled back", "committed"]
    engine.dispose()


# --- the scheduler of an asynchronous job


class Counting(Job):
    async def execute(self, context: JobExecutionContext) -> None:
        context.put("scheduler", context.async_scheduler)
        jobs.ran.put(context)
        context.result = await context.async_scheduler.jobs().count()


def test_a_job_has_the_awaitable_scheduler_of_its_program(url: str) -> None:
    jobs.reset()

    async def program() -> None:
        async with AsyncScheduler(url, **jobs.arguments()) as scheduler:
            await scheduler.schedule_job(Counting, SimpleTrigger("t"), name="counting", durable=True)
            assert await scheduler.wait_until_recorded(1, SOON)
            [execution] = [record async for record in scheduler.executions()]
            assert execution.result == 1
            assert jobs.next_run().get("scheduler") is scheduler

    asyncio.run(program())


def test_a_job_of_an_ordinary_scheduler_has_an_awaitable_form_of_it(scheduler: Scheduler) -> None:
    for name in ("a", "b"):
        scheduler.schedule_job(Counting, SimpleTrigger(name), name=name, durable=True)
    assert scheduler.wait_until_recorded(2, SOON)
    first, second = jobs.next_run().get("scheduler"), jobs.next_run().get("scheduler")
    assert first is second
    assert first.blocking is scheduler
    assert {record.outcome for record in scheduler.executions()} == {"SUCCEEDED"}


def test_a_job_in_the_harness_has_it_too(harness: SchedulerHarness) -> None:
    jobs.reset()
    harness.schedule_job(Counting, SimpleTrigger("t"), durable=True)
    [execution] = harness.run_pending()
    assert execution.result == 1
