"""Jobs that run on a worker of an engine. Those of one process tell their test where they are, by `AT` and `GO`."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from quartzpy import Job, JobExecutionContext
from quartzpy.errors import LeaseLostError
from quartzpy.jobs.job import persist_job_data_after_execution
from tests.waiting import LIMIT

AT: defaultdict[int, threading.Event] = defaultdict(threading.Event)
"""Set when the job with this fire id has begun."""
GO: defaultdict[int, threading.Event] = defaultdict(threading.Event)
"""What the job then waits for."""
RUNS: list[int] = []
"""The fire ids of the jobs of this process that have begun."""
SEEN: dict[int, Any] = {}
"""What a job has found."""
logger = logging.getLogger(__name__)


class Adds(Job):
    def execute(self, context: JobExecutionContext) -> Any:
        RUNS.append(context.fire_id)
        return {"sum": context.job_data["a"] + context.job_data["b"]}


class AddsAsync(Job):
    async def execute(self, context: JobExecutionContext) -> int:
        await asyncio.sleep(0)
        return int(context.job_data["a"])


class ReturnsAwaitable(Job):
    def execute(self, context: JobExecutionContext) -> Any:
        return asyncio.sleep(0, "awaited")


@persist_job_data_after_execution
class Counts(Job):
    def execute(self, context: JobExecutionContext) -> None:
        context.job_detail_data["count"] = context.job_detail_data.get("count", 0) + 1


class Waits(Job):
    """Waits until the test lets it go; returns what it then knows of itself."""

    def execute(self, context: JobExecutionContext) -> Any:
        RUNS.append(context.fire_id)
        AT[context.fire_id].set()
        assert GO[context.fire_id].wait(LIMIT)
        return {"cancelled": context.cancelled, "lease_lost": context.lease_lost}


class WaitsToStop(Job):
    def execute(self, context: JobExecutionContext) -> Any:
        AT[context.fire_id].set()
        context.wait_cancelled(LIMIT)
        SEEN[context.fire_id] = context.lease_lost
        context.raise_if_cancelled()


class SleepsAsync(Job):
    async def execute(self, context: JobExecutionContext) -> None:
        AT[context.fire_id].set()
        try:
            await asyncio.sleep(LIMIT)
        finally:
            SEEN[context.fire_id] = sys.exc_info()[0]


class WritesFenced(Job):
    """Writes by as many fenced transactions as its data says, the first one before it waits."""

    one_at_a_time = threading.Lock()

    def execute(self, context: JobExecutionContext) -> Any:
        if context.job_data.get("first", True):
            self.write(context)
        AT[context.fire_id].set()
        assert GO[context.fire_id].wait(LIMIT)
        try:
            with self.one_at_a_time:
                self.write(context)
        except LeaseLostError as error:
            SEEN[context.fire_id] = error
            raise

    def write(self, context: JobExecutionContext) -> None:
        with context.fenced_transaction() as connection:
            connection.execute(text("INSERT INTO saved VALUES (:number)"), {"number": context.fire_id})


@persist_job_data_after_execution
class Commits(Job):
    """Commits its end by a transaction of its own, and then waits, and fails if its data says so."""

    def execute(self, context: JobExecutionContext) -> Any:
        with context.transaction() as connection:
            connection.execute(text("INSERT INTO saved VALUES (:number)"), {"number": context.fire_id})
            context.result = "committed"
            context.job_detail_data["committed"] = True
        AT[context.fire_id].set()
        assert GO[context.fire_id].wait(LIMIT)
        SEEN[context.fire_id] = (context.cancelled, context.lease_lost)
        for method in (context.transaction, context.fenced_transaction):
            try:
                with method():
                    pass
            except Exception as error:
                SEEN[context.fire_id] += (str(error),)
        if context.job_data.get("fails"):
            raise ValueError("too late")
        return "later"


class CommitsAndLooks(Job):
    def execute(self, context: JobExecutionContext) -> None:
        try:
            with context.transaction() as connection:
                connection.execute(text("INSERT INTO saved VALUES (:number)"), {"number": context.fire_id})
        finally:
            SEEN[context.fire_id] = (context.cancelled, context.lease_lost)


class FailsInItsTransaction(Job):
    def execute(self, context: JobExecutionContext) -> Any:
        with context.transaction() as connection:
            connection.execute(text("INSERT INTO saved VALUES (1)"))
            raise ValueError("inside")


class Raises(Job):
    def execute(self, context: JobExecutionContext) -> Any:
        raise {"exit": SystemExit, "interrupt": KeyboardInterrupt, "memory": MemoryError}[context.job_data["what"]]("x")


class AsksTheScheduler(Job):
    def execute(self, context: JobExecutionContext) -> Any:
        return context.scheduler.jobs()


class Reports(Job):
    def execute(self, context: JobExecutionContext) -> Any:
        context.log.info("began")
        context.progress(0.25, "a quarter")
        AT[context.fire_id].set()
        assert GO[context.fire_id].wait(LIMIT)
        for number in range(context.job_data.get("lines", 0)):
            logger.warning("line %d %s", number, "x" * 1_000)


class Returns(Job):
    def execute(self, context: JobExecutionContext) -> Any:
        return "x" * 5_000_000 if context.job_data["what"] == "large" else object()


class Forks(Job):
    """Comes back from `execute` in two processes."""

    def execute(self, context: JobExecutionContext) -> Any:
        if os.fork():
            return os.wait()[1]
        return "child"


class UsesItsContextInAFork(Job):
    def execute(self, context: JobExecutionContext) -> Any:
        if pid := os.fork():
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        try:
            with context.fenced_transaction():
                os._exit(1)
        except Exception as error:
            os._exit(33 if "forked" in str(error) else 2)


class LeavesThreads(Job):
    def execute(self, context: JobExecutionContext) -> Any:
        def late() -> None:
            GO[context.fire_id].wait(LIMIT)
            context.progress(0.9, "too late")
            try:
                with context.fenced_transaction() as connection:
                    connection.execute(text("INSERT INTO saved VALUES (1)"))
            except Exception as error:
                SEEN[context.fire_id] = error
            AT[context.fire_id].set()

        threading.Thread(target=late, daemon=True).start()


@dataclass
class Named(Job):
    name: str

    def execute(self, context: JobExecutionContext) -> Any:
        return self.name


def named(job_class: type[Job]) -> Job:
    return Named("made by a factory") if job_class is Named else job_class()


class Ends(Job):
    """Ends its process before it can answer."""

    def execute(self, context: JobExecutionContext) -> Any:
        os._exit(9)
