"""The jobs and triggers of the demo: one for each guarantee of a cluster."""

from __future__ import annotations

import os
import threading
from datetime import datetime, timedelta
from typing import Any

from quartzpy.factory import Scheduler
from quartzpy.jobs.context import JobExecutionContext
from quartzpy.jobs.function_job import JobFunction, job
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.retry import RetryPolicy
from quartzpy.keys import JobKey
from quartzpy.scheduler.scheduler import BaseScheduler
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger

GROUP = "demo"
HEARTBEAT = JobKey("heartbeat", GROUP)
SERIAL_REPORT = JobKey("serial-report", GROUP)
LONG_EXPORT = JobKey("long-export", GROUP)
FLAKY_IMPORT = JobKey("flaky-import", GROUP)
THUMBNAILS = JobKey("thumbnails", GROUP)
LABELS = {
    LONG_EXPORT: ("E", "outlives its node"),
    FLAKY_IMPORT: ("i", "fails on purpose"),
    SERIAL_REPORT: ("s", "never overlaps"),
    THUMBNAILS: ("t", "a burst"),
    HEARTBEAT: ("h", "every 2 s"),
}
"""The letter of each job in the lanes, and its description. If several ran in one moment, a lane shows the first."""
BURST_SIZE = 60

DSN_VARIABLE = "QUARTZPY_DEMO_DSN"
INSTANCE_VARIABLE = "QUARTZPY_DEMO_INSTANCE"
HELD_VARIABLE = "QUARTZPY_DEMO_HOLDS_STDIN"
"""Says to a node that its standard input is held open for as long as it is to run."""

# With these settings a death and its recovery take less than half a minute. The defaults wait four times as long.
SETTINGS: dict[str, Any] = {
    "name": "demo",
    "workers": 5,
    "checkin_interval": "500ms",
    "lock_timeout": "1s",
    "failure_window": "3s",
    "misfire_threshold": "60s",
}


@job
def heartbeat(context: JobExecutionContext) -> datetime:
    """Takes no time."""
    return context.scheduled_fire_time


@job(disallow_concurrent=True)
def serial_report(context: JobExecutionContext) -> None:
    """Has two triggers that fire at the same instant, but its executions must not overlap."""
    context.wait_cancelled(0.7)


@job(requests_recovery=True, durable=True)
def long_export(context: JobExecutionContext) -> None:
    """Runs for several seconds. If its node dies, another node runs it again."""
    context.wait_cancelled(context.job_data["seconds"])
    context.raise_if_cancelled()


@job(retry=RetryPolicy(attempts=2, delay=timedelta(seconds=1)))
def flaky_import(context: JobExecutionContext) -> None:
    """Fails on purpose at its first attempt; its retry succeeds."""
    if context.attempt == 1:
        raise RuntimeError("failed on purpose: the supplier's server answered 503")


@job(durable=True)
def thumbnail(context: JobExecutionContext) -> None:
    """One of many that are due at the same instant."""
    context.wait_cancelled(0.25)


def _detail(function: JobFunction[..., Any], key: JobKey) -> JobDetail:
    _, description = LABELS[key]
    return function.detail(key.name, key.group, description=description)


def schedule_all(scheduler: BaseScheduler, now: datetime) -> None:
    """Schedule all jobs except the burst. They begin two seconds after `now`."""
    soon = now + timedelta(seconds=2)
    twins = [
        SimpleTrigger(name, GROUP, interval=timedelta(seconds=2), repeat_count=None, start_time=soon)
        for name in ("every-2s-a", "every-2s-b")
    ]
    export = SimpleTrigger("once", GROUP, start_time=soon, data={"seconds": 6})
    scheduler.schedule_jobs(
        [
            (_detail(heartbeat, HEARTBEAT), [CronTrigger("*/2 * * * * ?", "every-2s", GROUP, start_time=soon)]),
            (_detail(serial_report, SERIAL_REPORT), twins),
            (_detail(long_export, LONG_EXPORT), [export]),
            (_detail(flaky_import, FLAKY_IMPORT), [CronTrigger("*/5 * * * * ?", "every-5s", GROUP, start_time=soon)]),
        ]
    )


def schedule_burst(scheduler: BaseScheduler, now: datetime) -> list[Trigger]:
    """Schedule the fires of one job for the same instant, half a second after `now`. Returns their triggers."""
    due = now + timedelta(milliseconds=500)
    triggers: list[Trigger] = [
        SimpleTrigger(f"thumbnail-{number:03}", GROUP, job_key=THUMBNAILS, start_time=due)
        for number in range(1, BURST_SIZE + 1)
    ]
    scheduler.schedule_jobs([(_detail(thumbnail, THUMBNAILS), triggers)])
    return triggers


def _end_with_the_demo() -> None:
    """End this process with the demo, which holds the other end of its standard input, however that ends."""
    while os.read(0, 1_024):
        pass
    # The server of the demo ends, too, so there is nothing to drain.
    os._exit(1)


def make_scheduler() -> Scheduler:
    """The scheduler of a demo node: what `quartzpy node --app quartzpy.demo.jobs:make_scheduler` runs."""
    if HELD_VARIABLE in os.environ:
        threading.Thread(target=_end_with_the_demo, name="quartzpy-demo-end", daemon=True).start()
    return Scheduler(os.environ[DSN_VARIABLE], instance_id=os.environ.get(INSTANCE_VARIABLE, "AUTO"), **SETTINGS)
