"""Scheduling inside a user's transaction: from its commit to the fire on another node, and what an open one delays."""

from __future__ import annotations

import argparse
import os
import queue
import statistics
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

import sqlalchemy

from benchmarks.harness import database, machine, report, server_version
from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger
from quartzpy.events import Event, JobWasExecuted

DSN_VARIABLE = "BENCH_USING_DSN"
SETTINGS = {"name": "bench-using", "workers": 10}


class Tick(Job, type_name="bench-tick"):
    """Does nothing."""

    def execute(self, context: JobExecutionContext) -> None: ...


def make_scheduler() -> Scheduler:
    """The other node."""
    return Scheduler(os.environ[DSN_VARIABLE], **SETTINGS)  # type: ignore[arg-type]


def commit_to_fire(client: Scheduler, engine: sqlalchemy.Engine, job: JobDetail, rounds: int) -> list[float]:
    delays = []
    for count in range(1, rounds + 1):
        with engine.connect() as connection:
            client.using(connection).trigger_job(job.key)
            committed: datetime = connection.execute(sqlalchemy.text("SELECT clock_timestamp()")).scalar_one()
            connection.commit()
        while len(done := client.executions().page(1)) == 0 or len(client.executions().page(count)) < count:
            time.sleep(0.005)
        delays.append((done[0].fire_time - committed).total_seconds() * 1000)
        time.sleep(0.05)
    return delays


def lateness(client: Scheduler, engine: sqlalchemy.Engine, seconds: float, *, held: bool) -> list[float]:
    """How late a trigger every 100 ms fires, with or without a transaction that stays open for as long."""
    seen: queue.SimpleQueue[float] = queue.SimpleQueue()

    def note(event: Event) -> None:
        if isinstance(event, JobWasExecuted) and event.context.trigger_key.name == "often":
            seen.put((event.context.fire_time - event.context.scheduled_fire_time).total_seconds() * 1000)

    often = SimpleTrigger("often", interval=timedelta(milliseconds=100), repeat_count=None)
    client.schedule_job(JobDetail(Tick, "often"), often, replace=True)
    client.listeners.add_listener(note)
    with engine.connect() as connection:
        if held:
            client.using(connection).schedule_job(JobDetail(Tick, "held"), SimpleTrigger("held"))
        time.sleep(seconds)
        connection.rollback()
    client.listeners.remove(note)
    client.delete_job(JobDetail(Tick, "often").key)
    return [seen.get() for _ in range(seen.qsize())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dsn")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    with database(options.dsn) as dsn:
        engine = sqlalchemy.create_engine(dsn)
        client = Scheduler(dsn, **SETTINGS)  # type: ignore[arg-type]
        job = JobDetail(Tick, "tick", durable=True)
        client.add_job(job, replace=True)
        node = subprocess.Popen(
            [sys.executable, "-m", "quartzpy", "node", "--app", "benchmarks.bench_using:make_scheduler"],
            env={**os.environ, DSN_VARIABLE: dsn, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while not client.nodes().nodes:
                time.sleep(0.1)
            delays = commit_to_fire(client, engine, job, options.rounds)
            facts = {**machine(), "postgresql": server_version(dsn)}
            report("using", what="commit to fire, ms", median=round(statistics.median(delays), 1),
                   most=round(max(delays), 1), **facts)  # fmt: skip
        finally:
            node.terminate()
            node.wait()
        client.start()
        for held in (False, True):
            late = lateness(client, engine, options.seconds, held=held)
            report("using", what=f"lateness of others, ms, {'an open transaction' if held else 'none open'}",
                   fires=len(late), median=round(statistics.median(late), 1), most=round(max(late), 1))  # fmt: skip
        client.shutdown()
        engine.dispose()


if __name__ == "__main__":
    main()
