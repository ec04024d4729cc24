"""Drains: nodes run and record everything that is due, as fast as they can."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.bench import Bench
from benchmarks.jobs import Nothing
from benchmarks.nodes import NAME, SETTINGS, NodeProcess, nodes, wait_for
from benchmarks.server import Server
from quartzpy import Job, JobDetail, Scheduler, SimpleTrigger

DUE_SINCE = timedelta(minutes=10)
INTERVAL = timedelta(hours=12)
TIMEOUT_SECONDS = 300.0
RECORDED = "SELECT count(*) FROM qrtz_executions WHERE job_name = '{job}'"
SECONDS = (
    "SELECT extract(epoch FROM max(ended_at)) - {released} FROM qrtz_executions"
    " WHERE job_name = '{job}' AND outcome = 'SUCCEEDED'"
)


@contextmanager
def client(url: str, name: str = NAME) -> Iterator[Scheduler]:
    """Provide a scheduler that only schedules."""
    scheduler = Scheduler(url, **{**SETTINGS, "name": name})
    try:
        yield scheduler
    finally:
        scheduler.shutdown()


def store_due(url: str, job: type[Job], count: int, *, recurring: bool, name: str = "drained", **options: Any) -> None:
    """Store a job with triggers that are due, each at an instant of its own."""
    due = datetime.now(UTC) - DUE_SINCE
    interval: dict[str, Any] = {"interval": INTERVAL, "repeat_count": None} if recurring else {}
    triggers = [
        SimpleTrigger(f"{name}-{number}", start_time=due + number * timedelta(microseconds=10), **interval)
        for number in range(count)
    ]
    with client(url) as scheduler:
        scheduler.schedule_job(JobDetail(job, name, durable=True, **options), triggers)


def warm_up(bench: Bench, url: str, ready: list[NodeProcess]) -> None:
    """Let nodes that are in standby run some jobs, and put them back into standby.

    After that their connections, statements and threads are there.
    """
    count = bench.scale.warm_up_runs * len(ready)
    store_due(url, Nothing, count, recurring=True, name="warm-up")
    _release(ready, count)
    for node in ready:
        node.standby()


def seconds_to_drain(server: Server, url: str, ready: list[NodeProcess], count: int, name: str = "drained") -> float:
    """Release nodes that are in standby; return the seconds until the last job has ended, once all are recorded.

    Raises:
        TimeoutError: the jobs were not run and recorded in time.
    """
    released = time.time()
    _release(ready, count)
    recorded = RECORDED.format(job=name)
    wait_for(lambda: server.one(url, recorded) >= count, TIMEOUT_SECONDS, f"{count} records", every=0.1)
    return float(server.one(url, SECONDS.format(released=released, job=name)))


def _release(ready: list[NodeProcess], count: int) -> None:
    already = sum(node.runs for node in ready)
    for node in ready:
        node.start()
    wait_for(lambda: sum(node.runs for node in ready) - already >= count, TIMEOUT_SECONDS, f"{count} runs", every=0.02)


def drain(
    bench: Bench,
    *,
    job: type[Job] = Nothing,
    recurring: bool = True,
    node_count: int = 1,
    count: int | None = None,
    delayed: Callable[[str], str] | None = None,
    **settings: Any,
) -> float:
    """Return the jobs per second of nodes that drain due triggers of one job, after a warm-up.

    `delayed` is a function that returns the URL of a database through a slower network.
    """
    count = bench.scale.drained if count is None else count
    url = bench.new_database()
    with nodes(url if delayed is None else delayed(url), node_count, **settings) as ready:
        warm_up(bench, url, ready)
        store_due(url, job, count, recurring=recurring)
        bench.server.settle(url)
        seconds = seconds_to_drain(bench.server, url, ready, count)
    bench.server.drop(url)
    return count / seconds
