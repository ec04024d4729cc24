"""Drain due schedules with APScheduler 4. It runs with the Python of the peer's own environment."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from datetime import UTC, datetime

import uvloop
from apscheduler import AsyncScheduler
from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore
from apscheduler.eventbrokers.psycopg import PsycopgEventBroker
from apscheduler.triggers.interval import IntervalTrigger
from sqlalchemy.ext.asyncio import create_async_engine

JOBS_AT_ONCE = 200
STORED_AT_ONCE = 20
TIMEOUT = 300.0


async def main(url: str, count: int) -> None:
    runs = 0
    began = ended = 0.0
    done = asyncio.Event()

    async def nothing() -> None:
        nonlocal runs, began, ended
        runs += 1
        if runs == 1:
            began = time.perf_counter()
        if runs == count:
            ended = time.perf_counter()
            done.set()

    engine = create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://"), pool_size=STORED_AT_ONCE)
    store = SQLAlchemyDataStore(engine)
    broker = PsycopgEventBroker(url)
    async with AsyncScheduler(store, broker, max_concurrent_jobs=JOBS_AT_ONCE) as scheduler:
        await scheduler.configure_task("nothing", func=nothing, job_executor="async", max_running_jobs=count)
        now = datetime.now(UTC)
        storing = asyncio.Semaphore(STORED_AT_ONCE)

        async def stored(number: int) -> None:
            async with storing:
                trigger = IntervalTrigger(hours=12, start_time=now)
                await scheduler.add_schedule("nothing", trigger, id=f"schedule-{number}")

        await asyncio.gather(*(stored(number) for number in range(count)))
        await scheduler.start_in_background()
        await asyncio.wait_for(done.wait(), TIMEOUT)
        await scheduler.stop()
    await engine.dispose()
    print(json.dumps({"count": count, "seconds": ended - began}))


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
