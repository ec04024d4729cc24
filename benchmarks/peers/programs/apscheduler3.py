"""Drain due jobs with APScheduler 3. It runs with the Python of the peer's own environment."""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from datetime import UTC, datetime

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

WORKERS = 10
TIMEOUT = 300.0

_runs = itertools.count(1)
_done = threading.Event()
_times: dict[str, float] = {}


def nothing(total: int) -> None:
    number = next(_runs)
    if number == 1:
        _times["first"] = time.perf_counter()
    if number == total:
        _times["last"] = time.perf_counter()
        _done.set()


def main(url: str, count: int) -> None:
    scheduler = BackgroundScheduler(
        timezone="UTC",
        jobstores={"default": SQLAlchemyJobStore(url)},
        executors={"default": ThreadPoolExecutor(WORKERS)},
        job_defaults={"misfire_grace_time": None, "coalesce": True},
    )
    now = datetime.now(UTC)
    for number in range(count):
        scheduler.add_job(nothing, "interval", [count], hours=12, id=f"job-{number}", next_run_time=now)
    scheduler.start()
    if not _done.wait(TIMEOUT):
        sys.exit(f"{count} jobs did not run within {TIMEOUT} s")
    scheduler.shutdown()
    print(json.dumps({"count": count, "seconds": _times["last"] - _times["first"]}))


if __name__ == "__main__":
    main(sys.argv[1].replace("postgresql://", "postgresql+psycopg://"), int(sys.argv[2]))
