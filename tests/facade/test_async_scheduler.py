"""The scheduler for event loops."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import types
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from quartzpy import AsyncScheduler, CronTrigger, JobDetail, JobKey, Scheduler, SimpleTrigger, TriggerKey
from quartzpy.cli.node import load_app
from quartzpy.errors import NodeUnhealthyError, SchedulerStateError, SettingsError
from quartzpy.events.events import Event, SchedulerStarting
from quartzpy.node.health import HealthState, SchedulerHealth
from quartzpy.scheduler.cluster_events import ExecutionEnded
from quartzpy.states import PublicState
from tests.facade import functions, jobs

HOUR = timedelta(hours=1)
NEVER_SOON = CronTrigger("0 0 0 1 1 ? 2090", "t")


@pytest.fixture
def make(url: str) -> Iterator[Callable[..., AsyncScheduler]]:
    """Schedulers that are shut down at the test's end."""
    jobs.reset()
    made: list[AsyncScheduler] = []

    def make(**settings: Any) -> AsyncScheduler:
        made.append(AsyncScheduler(url, **jobs.arguments(**settings)))
        return made[-1]

    yield make
    for scheduler in made:
        scheduler.blocking.shutdown(timeout=timedelta(seconds=60))


def a_job(name: str = "job", **options: Any) -> JobDetail:
    return JobDetail(jobs.Recorded, name, **options)


def test_jobs_run_while_the_event_loop_runs(make: Callable[..., AsyncScheduler]) -> None:
    async def main() -> None:
        async with make() as scheduler:
            await scheduler.schedule_job(a_job(), SimpleTrigger("t"))
            context = await asyncio.to_thread(jobs.next_run)
            assert context.trigger_key == TriggerKey("t")
            assert scheduler.is_started
        assert scheduler.is_shut_down

    asyncio.run(main())


def test_it_has_the_methods_of_the_scheduler_behind_it(make: Callable[..., AsyncScheduler]) -> None:
    async def main() -> None:
        scheduler = make()
        await scheduler.schedule_job(a_job(), NEVER_SOON)
        await scheduler.pause_trigger(NEVER_SOON.key)
        assert await scheduler.trigger_state(NEVER_SOON.key) is PublicState.PAUSED
        assert scheduler.blocking.trigger_state(NEVER_SOON.key) is PublicState.PAUSED
        assert await scheduler.job_keys() == {JobKey("job")}
        await scheduler.pause_all()
        assert (await scheduler.pauses()).everything
        assert (scheduler.name, scheduler.instance_id, scheduler.is_in_standby) == ("facade", None, True)
        assert scheduler.context == {}
        assert await scheduler.delete_job(JobKey("job"))
        await scheduler.shutdown()

    asyncio.run(main())


def test_errors_are_those_of_the_methods(make: Callable[..., AsyncScheduler]) -> None:
    async def main() -> None:
        scheduler = make()
        await scheduler.shutdown()
        with pytest.raises(SchedulerStateError, match="was shut down"):
            await scheduler.job_keys()

    asyncio.run(main())


def test_it_shares_a_scheduler_that_exists(url: str) -> None:
    async def main() -> None:
        await AsyncScheduler(scheduler).add_job(a_job(durable=True))
        assert scheduler.check_exists(JobKey("job"))

    jobs.reset()
    scheduler = Scheduler(url)
    asyncio.run(main())
    with pytest.raises(SchedulerStateError, match="workers: the scheduler that is given has its settings"):
        AsyncScheduler(scheduler, workers=3)
    scheduler.shutdown()


def test_what_was_decorated_is_scheduled_by_the_start(make: Callable[..., AsyncScheduler]) -> None:
    async def main() -> None:
        scheduler = make()
        scheduler.scheduled_job(NEVER_SOON, "decorated")(functions.undecorated)
        assert not await scheduler.check_exists(JobKey("decorated"))
        async with scheduler:
            assert await scheduler.check_exists(JobKey("decorated"))
            with pytest.raises(SchedulerStateError, match="await schedule_job"):
                scheduler.scheduled_job(NEVER_SOON, "late")

    asyncio.run(main())


def test_many_methods_at_once_are_as_many_as_there_are_connections(make: Callable[..., AsyncScheduler]) -> None:
    async def main() -> None:
        # Threads of a scheduler of another test may not have ended yet.
        others = set(threading.enumerate())
        scheduler = make()
        await asyncio.gather(*[scheduler.add_job(a_job(f"job-{n}", durable=True)) for n in range(50)])
        assert len(await scheduler.job_keys()) == 50
        started = set(threading.enumerate()) - others
        assert sum(thread.name.startswith("quartzpy-method") for thread in started) <= 8
        await scheduler.shutdown()

    asyncio.run(main())


def test_a_long_wait_ends_when_its_task_is_cancelled(make: Callable[..., AsyncScheduler]) -> None:
    async def main() -> None:
        scheduler = make()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(scheduler.wait_until_shut_down(), 0.05)
        await scheduler.shutdown()

    asyncio.run(main())


def test_run_ends_with_somebodys_shutdown(make: Callable[..., AsyncScheduler]) -> None:
    async def main() -> None:
        scheduler = make()
        running = asyncio.create_task(scheduler.run())
        while not scheduler.is_started:
            await asyncio.sleep(0.01)
        await scheduler.schedule_job(a_job(), SimpleTrigger("t"))
        await asyncio.to_thread(jobs.next_run)
        await scheduler.shutdown()
        assert await running

    asyncio.run(main())


def test_run_lets_executions_end_when_its_task_is_cancelled(make: Callable[..., AsyncScheduler]) -> None:
    async def main() -> None:
        scheduler = make()
        running = asyncio.create_task(scheduler.run())
        while not scheduler.is_started:
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert scheduler.is_shut_down

    asyncio.run(main())


@pytest.mark.parametrize("enter", [AsyncScheduler.run, AsyncScheduler.__aenter__], ids=["run", "async with"])
def test_a_start_whose_task_is_cancelled_leaves_no_node(
    make: Callable[..., AsyncScheduler], enter: Callable[[AsyncScheduler], Awaitable[object]]
) -> None:
    starting, go_on = threading.Event(), threading.Event()

    def hold(event: Event) -> None:
        starting.set()
        assert go_on.wait(20)

    async def main() -> None:
        scheduler = make()
        scheduler.listeners.add_listener(hold, SchedulerStarting)
        task = asyncio.ensure_future(enter(scheduler))
        assert await asyncio.to_thread(starting.wait, 20)
        task.cancel()
        # The task has seen its cancellation before the start goes on.
        asyncio.get_running_loop().call_later(0.1, go_on.set)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert go_on.is_set()
        assert scheduler.is_shut_down
        assert not any(thread.alive for thread in scheduler.health().threads)

    asyncio.run(main())


def test_cluster_events_are_iterated_without_awaiting_the_call(make: Callable[..., AsyncScheduler]) -> None:
    async def main() -> None:
        scheduler = make()
        await scheduler.start()
        seen = []
        async with asyncio.timeout(20), scheduler.cluster_events(poll_interval=0.02) as events:
            assert "AsyncClusterEvents" in repr(events)
            handle = await scheduler.schedule_job(a_job(), SimpleTrigger("t"))
            assert repr(handle) == f"AsyncScheduledJob('{handle.key}')"
            async for event in events:
                seen.append(event)
                if isinstance(event, ExecutionEnded):
                    break
        assert seen[-1].execution.job_key == handle.key
        with pytest.raises(SettingsError, match="poll_interval"):
            await scheduler.cluster_events(poll_interval="soon").next()
        await scheduler.shutdown()

    asyncio.run(main())


def test_run_ends_where_the_node_has_failed(make: Callable[..., AsyncScheduler]) -> None:
    async def main() -> None:
        scheduler = make()
        running = asyncio.create_task(scheduler.run())
        while not scheduler.is_started:
            await asyncio.sleep(0.01)
        failed = SchedulerHealth(HealthState.FAILED, instance_id=None)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(scheduler.blocking, "health", lambda: failed)
            with pytest.raises(NodeUnhealthyError, match="start a new process"):
                await asyncio.wait_for(running, 20)
        assert scheduler.is_shut_down

    asyncio.run(main())


def test_the_command_that_runs_a_node_takes_one(monkeypatch: pytest.MonkeyPatch) -> None:
    app = types.ModuleType("quartzpy_async_app")
    app.scheduler = scheduler = AsyncScheduler("memory://")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, app.__name__, app)
    monkeypatch.syspath_prepend(".")
    scheduler.scheduled_job(NEVER_SOON, "decorated")(functions.undecorated)
    assert load_app("quartzpy_async_app:scheduler") is scheduler.blocking
    assert scheduler.blocking.check_exists(JobKey("decorated"))
    scheduler.blocking.shutdown()


RUN = """
import asyncio, sys
from quartzpy import AsyncScheduler

async def main():
    scheduler = AsyncScheduler("memory://")
    running = asyncio.create_task(scheduler.run())
    while not scheduler.is_started:
        await asyncio.sleep(0.01)
    print("up", flush=True)
    print("drained", await running)

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_ends_with_a_signal(number: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", RUN], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "up\n"
        os.kill(process.pid, number)
        assert process.stdout.readline() == "drained True\n"
        log = process.stderr.read()
    assert "has started" in log
    assert f"{signal.Signals(number).name}: stopping; running executions may end within 30 s" in log
    assert process.returncode == 0


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_using_is_awaited_too(postgres_dsn: str, driver: str) -> None:
    async def main() -> None:
        scheduler = AsyncScheduler(postgres_dsn)
        engine = create_async_engine(postgres_dsn.replace("psycopg", driver))
        async with AsyncSession(engine) as session, session.begin():
            await session.execute(text("SELECT 1"))
            await scheduler.using(session).schedule_job(a_job(), NEVER_SOON)
            assert not await scheduler.check_exists(NEVER_SOON.key)
        assert await scheduler.check_exists(NEVER_SOON.key)
        await engine.dispose()
        await scheduler.shutdown()

    asyncio.run(main())


def test_using_a_blocking_connection_is_awaited_as_well(postgres_dsn: str, engine: Any) -> None:
    async def main() -> None:
        scheduler = AsyncScheduler(postgres_dsn)
        with engine.begin() as connection:
            await scheduler.using(connection).schedule_job(a_job(), NEVER_SOON)
        assert await scheduler.check_exists(NEVER_SOON.key)
        await scheduler.shutdown()

    asyncio.run(main())
