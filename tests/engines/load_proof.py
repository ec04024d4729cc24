"""The load proof of an engine: `python -m tests.engines.load_proof ENGINE [--jobs 1000]`. It is no part of the suite.

Two nodes run CPU-bound jobs on the engine. A worker that runs a job is killed at intervals, and each node once. A
job that failed with its worker is retried, and one whose node died is recovered, so that every job comes to its end.
Then the rows must agree with what the jobs have written down themselves.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from quartzpy import JobDetail, RetryPolicy, Scheduler, SimpleTrigger
from quartzpy.embedded import EmbeddedPostgres
from quartzpy.store.postgresql import migrations
from tests.engines.load_jobs import SETTINGS, URL, Burn

TABLES = """
CREATE TABLE load_begins (fire_id bigint NOT NULL, number integer NOT NULL, pid integer NOT NULL,
    at timestamptz NOT NULL DEFAULT now());
CREATE TABLE load_ends (fire_id bigint NOT NULL);
"""
FIGURES = {
    "begins": "SELECT count(*) FROM load_begins",
    "doubled begins": "SELECT count(*) - count(DISTINCT fire_id) FROM load_begins",
    "lost": "SELECT count(*) FROM generate_series(1, {jobs}) AS number WHERE number NOT IN (SELECT number FROM"
    " load_begins JOIN qrtz_executions USING (fire_id) WHERE outcome = 'SUCCEEDED')",
    "stuck": "SELECT (SELECT count(*) FROM qrtz_fired_triggers) + (SELECT count(*) FROM qrtz_triggers)",
    # An execution that runs again because its node died is recorded as the one that runs again.
    "begins without a row": "SELECT count(*) FROM load_begins WHERE fire_id NOT IN (SELECT fire_id FROM"
    " qrtz_executions) AND NOT EXISTS (SELECT FROM qrtz_executions WHERE trigger_name LIKE 'recover@_%@_' ||"
    " load_begins.fire_id ESCAPE '@')",
    "succeeded without an end": "SELECT count(*) FROM qrtz_executions WHERE outcome = 'SUCCEEDED' AND fire_id NOT IN"
    " (SELECT fire_id FROM load_ends)",
    "ends without a success": "SELECT count(*) FROM load_ends LEFT JOIN qrtz_executions USING (fire_id) WHERE outcome"
    " IS DISTINCT FROM 'SUCCEEDED'",
}
"""What is counted at the end: all but the first must be 0. The last is only if calls have tickets."""


class Nodes:
    """Two node processes."""

    def __init__(self, engine: str, url: str, log: Path) -> None:
        self._command = [sys.executable, "-m", "tests.engines.load_jobs", engine, url]
        self._environment = os.environ | {URL: psycopg_url(url), "QUARTZPY_WORKER_URL": url}
        self._log = log.open("wb")
        self._groups: list[int] = []
        self._processes = [self._started() for _ in range(2)]

    def _started(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            self._command, env=self._environment, stdout=self._log, stderr=self._log, start_new_session=True
        )
        self._groups.append(process.pid)
        return process

    def replace(self, number: int) -> None:
        """Kill a node, which leaves its workers behind, and start another one."""
        self._processes[number].kill()
        self._processes[number].wait()
        self._processes[number] = self._started()

    def close(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
        for group in self._groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)


def psycopg_url(url: str) -> str:
    return url.replace("postgresql+psycopg://", "postgresql://")


@contextmanager
def database(url: str | None) -> Iterator[str]:
    with ExitStack() as stack:
        if url is None:
            url = stack.enter_context(EmbeddedPostgres.temporary()).dsn
        migrations.upgrade(url)
        yield url


def schedule(url: str, jobs: int, seconds: float, commits: bool) -> None:
    detail = JobDetail(
        Burn,
        "load",
        durable=True,
        executor="load",
        requests_recovery=True,
        retry=RetryPolicy(attempts=50, delay="1s", factor=1),
        data={"seconds": seconds, "commits": commits},
        persist_data=False,
    )
    start = datetime.now(UTC) + timedelta(seconds=1)
    with Scheduler(url) as scheduler:
        scheduler.schedule_job(
            detail,
            [
                SimpleTrigger(f"load-{number}", start_time=start, data={"number": number})
                for number in range(1, jobs + 1)
            ],
        )


def kill_a_worker(connection: psycopg.Connection[Any]) -> bool:
    """Kill the process of an execution that has begun and has no row of its end."""
    busy = connection.execute(
        "SELECT pid FROM load_begins JOIN qrtz_fired_triggers USING (fire_id) WHERE fire_id NOT IN (SELECT fire_id FROM"
        " load_ends)"
    ).fetchall()
    if not busy:
        return False
    with suppress(ProcessLookupError):
        os.kill(random.choice(busy)[0], signal.SIGKILL)
        return True
    return False


def prove(
    engine: str, url: str, jobs: int, seconds: float, kill_every: float, limit: float, log: Path
) -> dict[str, Any]:
    """Run the jobs while workers and nodes die, and return the figures."""
    connection = psycopg.connect(psycopg_url(url), autocommit=True)
    connection.execute(TABLES)
    schedule(url, jobs, seconds, SETTINGS[engine].is_ticketed)
    nodes = Nodes(engine, url, log)
    began = last_kill = time.monotonic()
    killed_workers = killed_nodes = 0
    try:
        while time.monotonic() < began + limit:
            [(ends, left)] = connection.execute(
                "SELECT (SELECT count(DISTINCT fire_id) FROM load_ends),"
                " (SELECT count(*) FROM qrtz_triggers) + (SELECT count(*) FROM qrtz_fired_triggers)"
            ).fetchall()
            if not left:
                break
            if killed_nodes < 2 and ends >= jobs * (killed_nodes + 1) / 3:
                nodes.replace(killed_nodes)
                killed_nodes += 1
            if time.monotonic() >= last_kill + kill_every:
                # Nobody waits for a worker: one that is killed with its first job each time would never end one.
                killed_workers += kill_a_worker(connection)
                last_kill = time.monotonic()
            print(
                f"\r{ends} of {jobs} ended, {killed_workers} workers and {killed_nodes} nodes killed",
                end="",
                flush=True,
            )
            time.sleep(0.2)
    finally:
        took = time.monotonic() - began
        nodes.close()
    print()
    figures: dict[str, Any] = {"engine": engine, "jobs": jobs, "seconds": round(took)}
    figures |= {"workers killed": killed_workers, "nodes killed": killed_nodes}
    for name, query in FIGURES.items():
        figures[name] = connection.execute(query.format(jobs=jobs).encode()).fetchall()[0][0]
    figures["outcomes"] = dict(
        connection.execute("SELECT outcome, count(*) FROM qrtz_executions GROUP BY outcome").fetchall()
    )
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=SETTINGS)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=0.1, help="the processor time of a job")
    parser.add_argument("--kill-every", type=float, default=2.0, help="the time between two kills of workers")
    parser.add_argument("--limit", type=float, default=1200, help="the longest time, in seconds")
    parser.add_argument("--url", help="an empty database; without it an embedded server is started")
    parser.add_argument("--log", type=Path, help="the file for what the nodes print")
    options = parser.parse_args()
    log = options.log or Path(tempfile.mkstemp(prefix="load-proof-", suffix=".log")[1])
    with database(options.url) as url:
        figures = prove(options.engine, url, options.jobs, options.seconds, options.kill_every, options.limit, log)
    print(json.dumps(figures, indent=2))
    zeros = [name for name in FIGURES if name != "begins"]
    if not SETTINGS[options.engine].is_ticketed:
        # Without a ticket, a worker may die between the end of its job and its answer.
        zeros.remove("ends without a success")
    wrong = [name for name in zeros if figures[name]]
    print(f"wrong: {', '.join(wrong)}; the nodes said: {log}" if wrong else "all as it should be")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
