"""A program that schedules its jobs in each of the four ways whenever it starts, as a service does at each deploy.

Each start is a release of its own: descriptions and priorities differ, schedules do not.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from quartzpy import CronTrigger, Job, JobDetail, JobExecutionContext, Scheduler, every
from quartzpy.plugins import DeclaredJobs
from tests.cluster.app import DSN_VARIABLE, SETTINGS_VARIABLE

RELEASE_VARIABLE = "QUARTZPY_TEST_RELEASE"
RECORD_VARIABLE = "QUARTZPY_TEST_RECORD"
WAYS = ("schedule_job", "scheduled_job", "sync", "file")
EACH_SECOND = "* * * * * ?"


def record(context: JobExecutionContext) -> None:
    """Write down by a single write, which survives SIGKILL, which instant an execution is for."""
    line = {
        "job": context.job_key.name,
        # Recoveries know their instant to the millisecond.
        "instant": round(context.nominal_fire_time.timestamp(), 3),
        "recovering": context.recovering,
    }
    descriptor = os.open(os.environ[RECORD_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, (json.dumps(line) + "\n").encode())
    finally:
        os.close(descriptor)


class Instant(Job):
    def execute(self, context: JobExecutionContext) -> None:
        record(context)


def by_decorator(context: JobExecutionContext) -> None:
    record(context)


def declared(path: Path, release: int) -> Path:
    """A file of a release: jobs named `file-cron` and `file-interval`."""
    schedules = {"cron": f'kind = "cron"\nexpression = "{EACH_SECOND}"', "interval": 'kind = "simple"\ninterval = "1s"'}
    path.write_text(
        "\n".join(
            f'[[job]]\ntype = "{__name__}:Instant"\nname = "file-{kind}"\nrequests_recovery = true\n'
            f'description = "release {release}"\n[[job.trigger]]\npriority = {release % 10}\n{schedule}'
            for kind, schedule in schedules.items()
        )
    )
    return path


def make_scheduler() -> Scheduler:
    release = int(os.environ[RELEASE_VARIABLE])
    path = Path(os.environ[RECORD_VARIABLE])
    file = declared(path.with_name(f"release-{release}.toml"), release)
    scheduler = Scheduler(
        os.environ[DSN_VARIABLE],
        plugins=[DeclaredJobs(file, reread_every=None)],
        job_defaults={"requests_recovery": True},
        **json.loads(os.environ[SETTINGS_VARIABLE]),
    )
    said = {"description": f"release {release}"}
    definitions = []
    for kind in ("cron", "interval"):
        trigger = (
            CronTrigger(EACH_SECOND, priority=release % 10) if kind == "cron" else every("1s", priority=release % 10)
        )
        scheduler.schedule_job(Instant, trigger, name=f"schedule_job-{kind}", replace=True, **said)
        scheduler.scheduled_job(trigger, f"scheduled_job-{kind}", **said)(by_decorator)
        definitions.append((JobDetail(Instant, f"sync-{kind}", **said), trigger))
    scheduler.sync(definitions, owner="program", version=release)
    return scheduler
