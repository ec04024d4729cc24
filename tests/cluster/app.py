"""The program whose nodes the cluster tests start: `quartzpy node --app tests.cluster.app:make_scheduler`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading

from quartzpy import (
    Job,
    JobExecutionContext,
    Scheduler,
    disallow_concurrent_execution,
    persist_job_data_after_execution,
)
from tests.cluster import journal

SETTINGS_VARIABLE = "QUARTZPY_TEST_SETTINGS"
DSN_VARIABLE = "QUARTZPY_TEST_NODE_DSN"


class Quick(Job):
    def execute(self, context: JobExecutionContext) -> None:
        journal.write("start", context)


class Long(Job):
    """Runs for `seconds`, and says whether it came to its end."""

    def execute(self, context: JobExecutionContext) -> None:
        journal.write("start", context)
        context.wait_cancelled(float(context.job_data.get("seconds", 5)))
        journal.write("lost" if context.lease_lost else "cancelled" if context.cancelled else "end", context)


class Brief(Job):
    """Runs for a moment, and writes down when it began and ended."""

    def execute(self, context: JobExecutionContext) -> None:
        journal.write("start", context)
        journal.write("end", context)


class Deadly(Job):
    """Kills its process."""

    def execute(self, context: JobExecutionContext) -> None:
        journal.write("start", context)
        os.kill(os.getpid(), signal.SIGKILL)


class Failing(Job):
    def execute(self, context: JobExecutionContext) -> None:
        journal.write("start", context)
        raise RuntimeError("fails each time")


class Endless(Job):
    """Has to be cut off."""

    async def execute(self, context: JobExecutionContext) -> None:
        journal.write("start", context)
        try:
            await asyncio.sleep(3600)
        finally:
            journal.write("end", context)


@disallow_concurrent_execution
class Serial(Long):
    """As `Long`, one at a time."""


class Stubborn(Job):
    """Does not hear that it should stop."""

    def execute(self, context: JobExecutionContext) -> None:
        threading.Event().wait(60)


@disallow_concurrent_execution
@persist_job_data_after_execution
class Counting(Job):
    def execute(self, context: JobExecutionContext) -> None:
        context.job_detail_data["count"] = context.job_detail_data.get("count", 0) + 1
        journal.write("start", context)


def make_scheduler() -> Scheduler:
    return Scheduler(os.environ[DSN_VARIABLE], **json.loads(os.environ[SETTINGS_VARIABLE]))
