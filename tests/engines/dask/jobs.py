"""Jobs that run on the workers of the tests of Dask. Where they wait for a file, the test decides when they go on."""

from __future__ import annotations

import os
import time
from pathlib import Path

from sqlalchemy import text

from quartzpy import Job, JobExecutionContext
from quartzpy.errors import JobCancelledError
from quartzpy.node.engines import worker  # noqa: F401 - workers import it before their first call


def note(path: str, line: object) -> None:
    with Path(path).open("a") as file:
        file.write(f"{line}\n")


class Computes(Job):
    """Uses the processor for a moment, writes down its run, and returns a result."""

    def execute(self, context: JobExecutionContext) -> int:
        note(context.job_data["runs"], f"{context.fire_id} {context.job_key.name}")
        until = time.process_time() + context.job_data.get("seconds", 0.05)
        while time.process_time() < until:
            sum(range(1000))
        return int(context.job_data.get("number", 0)) ** 2


class Tells(Job):
    """Reports progress and writes log lines, and goes on when its file is there."""

    def execute(self, context: JobExecutionContext) -> str:
        context.progress(0.5, "half")
        context.log.info("from a worker")
        note(context.job_data["runs"], os.getpid())
        while not Path(context.job_data["until"]).exists():
            if context.wait_cancelled(0.05):
                raise JobCancelledError("it was told to stop")
        return "told"


class Outlives(Tells):
    """Goes on without its node."""

    outlives_node = True


class Writes(Tells):
    """Waits, and then writes a row by a fenced transaction."""

    def execute(self, context: JobExecutionContext) -> str:
        note(context.job_data["runs"], os.getpid())
        while not Path(context.job_data["until"]).exists():
            time.sleep(0.05)
        with context.fenced_transaction() as connection:
            connection.execute(text("INSERT INTO written (fire_id) VALUES (:fire_id)"), {"fire_id": context.fire_id})
        return "written"
