"""Drain queued jobs with procrastinate. It runs with the Python of the peer's own environment."""

from __future__ import annotations

import json
import sys
import time

import procrastinate
import uvloop

CONCURRENCY = 20
STORED_AT_ONCE = 1_000


async def main(url: str, count: int) -> None:
    runs = 0
    began = ended = 0.0
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, min_size=4, max_size=CONCURRENCY))

    @app.task(name="nothing")
    async def nothing() -> None:
        nonlocal runs, began, ended
        runs += 1
        if runs == 1:
            began = time.perf_counter()
        ended = time.perf_counter()

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for first in range(0, count, STORED_AT_ONCE):
            await nothing.batch_defer_async(*({} for _ in range(min(STORED_AT_ONCE, count - first))))
        await app.run_worker_async(
            wait=False, concurrency=CONCURRENCY, delete_jobs="never", install_signal_handlers=False
        )
    if runs != count:
        sys.exit(f"{runs} of {count} jobs ran")
    print(json.dumps({"count": count, "seconds": ended - began}))


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
