"""Transactions of users: from their commit to the start of the job, and how much an open one delays other triggers."""

from __future__ import annotations

import time

import sqlalchemy

from benchmarks.bench import Bench
from benchmarks.drains import client
from benchmarks.figures import Result, Table
from benchmarks.jobs import NoteStart, Nothing
from benchmarks.nodes import nodes, wait_for
from benchmarks.scenarios.latency import GAP_SECONDS
from benchmarks.steady import PERCENTILE_COLUMNS, lateness_ms, percentile_cells
from quartzpy import JobDetail, JobKey, SimpleTrigger

RATE = 10


def run(bench: Bench) -> Result:
    delays = _commit_to_start(bench)
    measured = {
        "from the commit to the start on another node": delays,
        f"late at {RATE} fires/s": _beside_a_transaction(bench, is_open=False),
        f"late at {RATE} fires/s, beside an open transaction that scheduled a job": _beside_a_transaction(
            bench, is_open=True
        ),
    }
    rows = tuple((name, f"{len(values):,}", *percentile_cells(values)) for name, values in measured.items())
    return Result(
        "transactions",
        tables=[Table("Milliseconds", ("", "jobs", *PERCENTILE_COLUMNS), rows)],
        figures=dict(measured),
    )


def _commit_to_start(bench: Bench) -> list[float]:
    url = bench.new_database()
    engine = sqlalchemy.create_engine(url)
    with nodes(url) as (node,), client(url) as scheduler:
        scheduler.schedule_job(JobDetail(NoteStart, "inside", durable=True))
        node.start()
        committed = []
        for _ in range(bench.scale.scheduled_now):
            with engine.connect() as connection:
                scheduler.using(connection).trigger_job(JobKey("inside"))
                connection.commit()
            committed.append(time.time())
            time.sleep(GAP_SECONDS)
        wait_for(lambda: node.runs == len(committed), 30, "the last start")
        # Each job has started before the next one was committed, unless the machine stood still.
        starts = sorted(start.started for start in node.starts())
        delays = [(start - commit) * 1000 for start, commit in zip(starts, committed, strict=True)]
    engine.dispose()
    bench.server.drop(url)
    return delays


def _beside_a_transaction(bench: Bench, *, is_open: bool) -> list[float]:
    url = bench.new_database()
    scale = bench.scale
    engine = sqlalchemy.create_engine(url)
    with nodes(url) as (node,), client(url) as scheduler, engine.connect() as connection:
        if is_open:
            scheduler.using(connection).schedule_job(JobDetail(Nothing, "held"), SimpleTrigger("held"))
        values = lateness_ms(
            bench.server, url, node, RATE, warm_up=scale.warm_up_seconds, seconds=scale.latency_seconds
        )
        connection.rollback()
    engine.dispose()
    bench.server.drop(url)
    return values
