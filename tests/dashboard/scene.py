"""Jobs and triggers that a page has to show, hostile names among them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from quartzpy import Scheduler
from quartzpy.jobs.context import JobExecutionContext
from quartzpy.jobs.job import Job, JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.simple import SimpleTrigger

HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>' onmouseover='alert(1)",
    "a/b/../c",
    "..",
    "100% & more?x=1#y+z;",
    "تقرير يومي",
    "{{ 7 * 7 }}{% raw %}",
    "x" * 200,
    "emoji 🚀 name",
    " spaces around ",
)
"""Names that break pages which do not escape, or whose URLs do not encode, them."""


class Report(Job):
    """A job that does nothing."""

    def execute(self, context: JobExecutionContext) -> None: ...


def fill(scheduler: Scheduler) -> None:
    """Store the jobs and triggers."""
    data = {"region": "eu", "api_token": "t0p"}
    nightly = JobDetail(Report, "nightly", "billing", description="Writes the report.", data=data)
    at_two = CronTrigger("0 0 2 ? * MON-FRI", "at-two", "billing", time_zone="Europe/Berlin")
    often = SimpleTrigger("often", "billing", interval=timedelta(minutes=5), repeat_count=None)
    scheduler.schedule_jobs([(nightly, [at_two, often])])
    for name in HOSTILE:
        later = datetime.now(UTC) + timedelta(hours=1)
        scheduler.schedule_job(
            JobDetail(Report, name, description=name, data={name[:50]: name}),
            SimpleTrigger(name, start_time=later, description=name),
        )
    scheduler.pause_trigger(TriggerKey("often", "billing"), reason="<b>why</b>")
    scheduler.add_job(JobDetail(Report, "idle", durable=True))
    assert scheduler.check_exists(JobKey("idle"))
