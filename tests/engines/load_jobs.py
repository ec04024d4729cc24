"""The job of the load proof, and the node that runs it: `python -m tests.engines.load_jobs ENGINE URL`."""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import psycopg

from quartzpy import Job, JobExecutionContext, Scheduler
from quartzpy.config.pools import ExecutorConfig

URL = "LOAD_PROOF_URL"
"""The environment variable with the URL of the database, for what the job writes down outside of its execution."""
WORKERS = 2


@dataclass(frozen=True)
class Setting:
    """How the nodes of a proof are set."""

    executor: str
    tickets: bool | None = None

    @property
    def is_ticketed(self) -> bool:
        return bool(self.tickets)


SETTINGS = {
    "processes": Setting(f"processes:{WORKERS}"),
    "loky": Setting(f"futures:{WORKERS}:tests.engines.load_jobs:loky_pool"),
    "loky-tickets": Setting(f"futures:{WORKERS}:tests.engines.load_jobs:loky_pool", tickets=True),
}


def loky_pool() -> Executor:
    import loky

    return loky.ProcessPoolExecutor(WORKERS)


@cache
def connection() -> psycopg.Connection[Any]:
    """Return the connection of this process, for what its jobs write down outside of their executions."""
    return psycopg.connect(os.environ[URL], autocommit=True)


class Burn(Job):
    """Computes, and writes down that it has begun and that it has come to its end."""

    def execute(self, context: JobExecutionContext) -> None:
        note = (context.fire_id, context.job_data["number"], os.getpid())
        connection().execute("INSERT INTO load_begins (fire_id, number, pid) VALUES (%s, %s, %s)", note)
        end_at = time.process_time() + context.job_data["seconds"]
        while time.process_time() < end_at:
            pass
        if context.job_data["commits"]:
            with context.transaction() as own:
                own.exec_driver_sql("INSERT INTO load_ends (fire_id) VALUES (%s)", note[:1])
        else:
            connection().execute("INSERT INTO load_ends (fire_id) VALUES (%s)", note[:1])


def main(engine: str, url: str) -> None:
    setting = SETTINGS[engine]
    Scheduler(
        url,
        executors={"load": replace(ExecutorConfig.of(setting.executor), tickets=setting.tickets)},
        checkin_interval="1s",
        lock_timeout="1s",
        failure_window="8s",
    ).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
