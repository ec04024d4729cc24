"""The jobs of the calm soak: one of each way in which a job can run and end."""

from __future__ import annotations

import logging
from typing import Any

from benchmarks.jobs import runs
from quartzpy import (
    Job,
    JobExecutionContext,
    RetryPolicy,
    disallow_concurrent_execution,
    job,
    persist_job_data_after_execution,
)
from quartzpy.jobs.function_job import JobFunction

logger = logging.getLogger(__name__)


class PlannedError(Exception):
    """An error that a job raises on purpose."""


class Plain(Job, type_name="calm-plain"):
    """Does nothing."""

    def execute(self, context: JobExecutionContext) -> None:
        runs.add()


class Async(Job, type_name="calm-async"):
    """Does nothing, on the event loop."""

    async def execute(self, context: JobExecutionContext) -> None:
        runs.add()


@disallow_concurrent_execution
@persist_job_data_after_execution
class Counting(Job, type_name="calm-counting"):
    """Stores a number in its data."""

    def execute(self, context: JobExecutionContext) -> None:
        context.job_data["number"] = int(context.job_data.get("number", 0)) + 1
        runs.add()


class Transactional(Job, type_name="calm-transactional"):
    """Works and ends in one transaction."""

    def execute(self, context: JobExecutionContext) -> None:
        with context.transaction() as connection:
            connection.exec_driver_sql("SELECT 1")
        runs.add()


class Scheduling(Job, type_name="calm-scheduling"):
    """Triggers another job, and reads."""

    def execute(self, context: JobExecutionContext) -> None:
        context.scheduler.trigger_job("calm-plain", data={"by": context.fire_id})
        list(context.scheduler.triggers()[:5])
        runs.add()


@job(type_name="calm-failing", retry=RetryPolicy(attempts=2, delay="1s"))
def failing(context: JobExecutionContext) -> None:
    """Fails at first, and succeeds when it is retried."""
    runs.add()
    if context.attempt == 1:
        raise PlannedError("planned")


@job(type_name="calm-logging", capture_logs="INFO")
def logging_lines(context: JobExecutionContext) -> dict[str, Any]:
    """Logs lines that are captured, and returns a result."""
    for number in range(20):
        logger.info("line %d of %s", number, context.fire_id)
    runs.add()
    return {"fire": context.fire_id}


@job(type_name="calm-limited", rate_limit="5/s")
def limited(context: JobExecutionContext) -> None:
    """Is limited in its rate."""
    runs.add()


JOBS: dict[str, type[Job] | JobFunction[..., Any]] = {
    "calm-plain": Plain,
    "calm-async": Async,
    "calm-counting": Counting,
    "calm-transactional": Transactional,
    "calm-scheduling": Scheduling,
    "calm-failing": failing,
    "calm-logging": logging_lines,
    "calm-limited": limited,
}
