"""The jobs and triggers of the demo: one for each guarantee of a cluster."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import Any

from quartzpy.factory import Scheduler
from quartzpy.jobs.context import JobExecutionContext
from quartzpy.jobs.job import Job, JobDetail, disallow_concurrent_execution
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

DSN_VARIABLE = "QUARTZPY_DEMO_DSN"
INSTANCE_VARIABLE = "QUARTZPY_DEMO_INSTANCE"

# With these settings a death and its recovery take less than half a minute. The defaults wait four times as long.
SETTINGS: dict[str, Any] = {
    "name": "demo",
    "workers": 5,
    "checkin_interval": "500ms",
    "lock_timeout": "1s",
    "failure_window": "3s",
    "misfire_threshold": "60s",
}


class Heartbeat(Job):
    """Runs every two seconds and takes no time."""

    def execute(self, context: JobExecutionContext) -> None:
        context.result = context.scheduled_fire_time


@disallow_concurrent_execution
class SerialReport(Job):
    """Has two triggers that fire at the same instant, but its executions must not overlap."""

    def execute(self, context: JobExecutionContext) -> None:
        context.wait_cancelled(0.7)


class LongExport(Job):
    """Runs for several seconds. If its node dies, another node runs it again."""

    def execute(self, context: JobExecutionContext) -> None:
        context.wait_cancelled(float(context.job_data["seconds"]))
        context.raise_if_cancelled()


class FlakyImport(Job):
    """Fails on purpose at its first attempt; its retry succeeds."""

    def execute(self, context: JobExecutionContext) -> None:
        if context.attempt == 1:
            raise RuntimeError("failed on purpose: the supplier's server answered 503")


class Thumbnail(Job):
    """One of many that are due at the same instant."""

    def execute(self, context: JobExecutionContext) -> None:
        context.wait_cancelled(0.25)


def schedule_all(scheduler: BaseScheduler, now: datetime) -> None:
    """Schedule all jobs except the burst. They begin two seconds after `now`."""
    soon = now + timedelta(seconds=2)
    serial: list[Trigger] = [
        SimpleTrigger(name, GROUP, interval=timedelta(seconds=2), repeat_count=None, start_time=soon)
        for name in ("every-2s-a", "every-2s-b")
    ]
    export = SimpleTrigger("once", GROUP, start_time=soon, data={"seconds": 6})
    scheduler.schedule_jobs(
        [
            (
                JobDetail(Heartbeat, HEARTBEAT.name, GROUP, description="every 2 s"),
                [CronTrigger("*/2 * * * * ?", "every-2s", GROUP, start_time=soon)],
            ),
            (JobDetail(SerialReport, SERIAL_REPORT.name, GROUP, description="never overlaps itself"), serial),
            (
                JobDetail(
                    LongExport,
                    LONG_EXPORT.name,
                    GROUP,
                    description="runs again when its node dies",
                    requests_recovery=True,
                    durable=True,
                ),
                [export],
            ),
            (
                JobDetail(
                    FlakyImport,
                    FLAKY_IMPORT.name,
                    GROUP,
                    description="fails on purpose, then its retry succeeds",
                    retry=RetryPolicy(attempts=2, delay=timedelta(seconds=1)),
                ),
                [CronTrigger("*/5 * * * * ?", "every-5s", GROUP, start_time=soon)],
            ),
        ]
    )


def schedule_burst(scheduler: BaseScheduler, now: datetime, size: int) -> list[Trigger]:
    """Schedule `size` fires of one job for the same instant, half a second after `now`. Returns their triggers."""
    due = now + timedelta(milliseconds=500)
    triggers: list[Trigger] = [
        SimpleTrigger(f"thumbnail-{number:03}", GROUP, job_key=THUMBNAILS, start_time=due, repeat_count=0)
        for number in range(1, size + 1)
    ]
    detail = JobDetail(Thumbnail, THUMBNAILS.name, GROUP, description="all due at the same instant", durable=True)
    scheduler.schedule_jobs([(detail, triggers)])
    return triggers


def make_scheduler() -> Scheduler:
    """The scheduler of a demo node: what `quartzpy node --app quartzpy.demo.jobs:make_scheduler` runs."""
    return Scheduler(os.environ[DSN_VARIABLE], instance_id=os.environ.get(INSTANCE_VARIABLE, "AUTO"), **SETTINGS)
