"""The program of the nodes: `quartzpy node --app tests.ha.app:make_scheduler`."""

from __future__ import annotations

import json
import os

from quartzpy import (
    Job,
    JobExecutionContext,
    Scheduler,
    disallow_concurrent_execution,
    persist_job_data_after_execution,
)
from tests.ha import record

SETTINGS_VARIABLE = "QUARTZPY_TEST_HA_SETTINGS"
DSN_VARIABLE = "QUARTZPY_TEST_HA_DSN"


class Quick(Job):
    def execute(self, context: JobExecutionContext) -> None:
        record.write("start", context)


class Once(Quick):
    """What a client schedules, each a single time."""


class Lasting(Job):
    """Takes a while, so that some of its executions are under way whatever happens."""

    def execute(self, context: JobExecutionContext) -> None:
        record.write("start", context)
        context.wait_cancelled(float(context.job_data["seconds"]))
        record.write("end", context)


@disallow_concurrent_execution
class Serial(Lasting):
    """As `Lasting`, one at a time."""


@disallow_concurrent_execution
@persist_job_data_after_execution
class Counting(Job):
    """Counts its executions in its own stored data."""

    def execute(self, context: JobExecutionContext) -> None:
        count = context.job_detail_data.get("count", 0) + 1
        context.job_detail_data["count"] = count
        record.write("start", context, count)


def make_scheduler() -> Scheduler:
    return Scheduler(os.environ[DSN_VARIABLE], **json.loads(os.environ[SETTINGS_VARIABLE]))
