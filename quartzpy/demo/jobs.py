"""The demo's jobs and triggers: one of each kind that a cluster has to get right."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import Any

from quartzpy.context import JobExecutionContext
from quartzpy.factory import Scheduler
from quartzpy.job import Job, JobDetail, disallow_concurrent_execution
from quartzpy.keys import JobKey
from quartzpy.scheduler import BaseScheduler
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger

GROUP = "demo"
HEARTBEAT = JobKey("heartbeat", GROUP)
SERIAL_REPORT = JobKey("serial-report", GROUP)
LONG_EXPORT = JobKey("long-export", GROUP)
FLAKY_IMPORT = JobKey("flaky-import", GROUP)

DSN_VARIABLE = "QUARTZPY_DEMO_DSN"
INSTANCE_VARIABLE = "QUARTZPY_DEMO_INSTANCE"

# Quick settings, so that half a minute shows a death and a recovery. The defaults are four times as patient.
SETTINGS: dict[str, Any] = {
    "name": "demo",
    "workers": 5,
    "checkin_interval": "500ms",
    "lock_timeout": "1s",
    "failure_window": "3s",
    "misfire_threshold": "60s",
}


class Heartbeat(Job):
    """Quick, every two seconds."""

    def execute(self, context: JobExecutionContext) -> None:
        context.result = context.scheduled_fire_time


@disallow_concurrent_execution
class SerialReport(Job):
    """Slower than its two triggers come; no two may overlap."""

    def execute(self, context: JobExecutionContext) -> None:
        context.wait_cancelled(0.7)


class LongExport(Job):
    """Long, and run again by another node when its node dies."""

    def execute(self, context: JobExecutionContext) -> None:
        context.wait_cancelled(float(context.job_data["seconds"]))
        context.raise_if_cancelled()


class FlakyImport(Job):
    """Always fails: its schedule goes on."""

    def execute(self, context: JobExecutionContext) -> None:
        raise RuntimeError("the supplier's server answered 503")


def schedule_all(scheduler: BaseScheduler, now: datetime) -> None:
    """Register everything, to begin a moment after `now`."""
    soon = now + timedelta(seconds=2)
    serial: list[Trigger] = [
        SimpleTrigger(name, GROUP, interval=timedelta(seconds=2), repeat_count=None, start_time=soon)
        for name in ("every-2s-a", "every-2s-b")
    ]
    export = SimpleTrigger("once", GROUP, start_time=soon, data={"seconds": 6})
    scheduler.schedule_jobs(
        [
            (
                JobDetail(Heartbeat, HEARTBEAT.name, GROUP, description="quick, every 2 s"),
                [CronTrigger("*/2 * * * * ?", "every-2s", GROUP, start_time=soon)],
            ),
            (JobDetail(SerialReport, SERIAL_REPORT.name, GROUP, description="never overlaps"), serial),
            (
                JobDetail(
                    LongExport,
                    LONG_EXPORT.name,
                    GROUP,
                    description="recovered when its node dies",
                    requests_recovery=True,
                    durable=True,
                ),
                [export],
            ),
            (
                JobDetail(FlakyImport, FLAKY_IMPORT.name, GROUP, description="always fails"),
                [CronTrigger("*/5 * * * * ?", "every-5s", GROUP, start_time=soon)],
            ),
        ]
    )


def make_scheduler() -> Scheduler:
    """The scheduler of a demo node: what `quartzpy node --app quartzpy.demo.jobs:make_scheduler` runs."""
    return Scheduler(os.environ[DSN_VARIABLE], instance_id=os.environ.get(INSTANCE_VARIABLE, "AUTO"), **SETTINGS)
