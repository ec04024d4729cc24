"""Drain queued jobs with pgqueuer. It runs with the Python of the peer's own environment."""

from __future__ import annotations

import json
import sys
import time
from datetime import timedelta

import asyncpg
import uvloop
from pgqueuer import QueueManager
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

BATCH = 100
STORED_AT_ONCE = 1_000


async def main(url: str, count: int) -> None:
    runs = 0
    began = ended = 0.0
    async with asyncpg.create_pool(url, min_size=2, max_size=10) as pool:
        queries = Queries(AsyncpgPoolDriver(pool))
        await queries.install()
        manager = QueueManager(queries)

        @manager.entrypoint("nothing")
        async def nothing(job: Job) -> None:
            nonlocal runs, began, ended
            runs += 1
            if runs == 1:
                began = time.perf_counter()
            if runs == count:
                ended = time.perf_counter()
                manager.shutdown.set()

        for first in range(0, count, STORED_AT_ONCE):
            size = min(STORED_AT_ONCE, count - first)
            await queries.enqueue(["nothing"] * size, [None] * size, [0] * size)
        await pool.execute("VACUUM ANALYZE")
        await manager.run(dequeue_timeout=timedelta(seconds=2), batch_size=BATCH)
    if runs < count:
        sys.exit(f"{runs} of {count} jobs ran")
    print(json.dumps({"count": count, "seconds": ended - began}))


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
