"""Latency: from the scheduled instant to the start of the job, and from `schedule_job` to the start on another node."""

from __future__ import annotations

import time

from benchmarks.bench import Bench
from benchmarks.drains import client
from benchmarks.figures import Chart, ContestantError, Goal, Line, Result, Table, percentile
from benchmarks.jobs import NoteStart
from benchmarks.nodes import nodes, wait_for
from benchmarks.peers import Peer
from benchmarks.steady import PERCENTILE_COLUMNS, distribution, lateness_ms, percentile_cells
from quartzpy import JobDetail, SimpleTrigger

P50_MS, P99_MS, SCHEDULED_P50_MS = 1.0, 5.0, 5.0
GAP_SECONDS = 0.1
"""The time between two calls, after which the node is idle again. It is not asked meanwhile, which would delay it."""


def run(bench: Bench) -> Result:
    ours = {rate: _lateness(bench, rate) for rate in bench.scale.rates}
    scheduled = _scheduled_now(bench)
    theirs: dict[str, list[float]] = {}
    notes = []
    for peer in bench.peers:
        for rate in bench.scale.peer_rates if peer.fires_at_instants else ():
            label = f"{peer.name}, {rate}/s"
            try:
                theirs[label] = _peer_lateness(bench, peer, rate)
            except ContestantError as error:
                notes.append(f"{label} was left out: {error}")
    measured = {**{f"quartzpy, {rate:,}/s": values for rate, values in ours.items()}, **theirs}
    goals = []
    for rate, values in ours.items():
        for percent, target in ((50.0, P50_MS), (99.0, P99_MS)):
            text = f"{rate:,} fires/s, p{percent:g} from the scheduled instant to the start"
            goals.append(Goal(text, target, percentile(values, percent), "ms", at_most=True))
    goals.append(
        Goal(
            "p50 from schedule_job to the start on an idle node",
            SCHEDULED_P50_MS, percentile(scheduled, 50), "ms", at_most=True,
        )
    )  # fmt: skip
    rows = [(name, f"{len(values):,}", *percentile_cells(values)) for name, values in measured.items()]
    rows.append(("quartzpy, from schedule_job", f"{len(scheduled):,}", *percentile_cells(scheduled)))
    return Result(
        "latency",
        goals=goals,
        tables=[Table("Milliseconds", ("", "jobs", *PERCENTILE_COLUMNS), tuple(rows))],
        charts=[
            Chart(
                "latency", "Latency: jobs that start later than", "milliseconds after the scheduled instant",
                "per cent of the jobs",
                tuple(Line(name, distribution(values)) for name, values in measured.items()),
                log_x=True, log_y=True,
            )
        ],
        notes=notes,
        figures={**measured, "from schedule_job": scheduled},
    )  # fmt: skip


def _lateness(bench: Bench, rate: int) -> list[float]:
    url = bench.new_database()
    scale = bench.scale
    with nodes(url) as (node,):
        values = lateness_ms(
            bench.server, url, node, rate, warm_up=scale.warm_up_seconds, seconds=scale.latency_seconds
        )
    bench.server.drop(url)
    return values


def _peer_lateness(bench: Bench, peer: Peer, rate: int) -> list[float]:
    url = bench.server.new_database(with_tables=False)
    try:
        return peer.lateness_ms(bench.server, url, rate, bench.scale.warm_up_seconds, bench.scale.latency_seconds)
    finally:
        bench.server.drop(url)


def _scheduled_now(bench: Bench) -> list[float]:
    """Return the milliseconds from each call of `schedule_job` to the start on another node, which is idle."""
    url = bench.new_database()
    called: dict[str, float] = {}
    delays: list[float] = []
    with nodes(url) as (node,), client(url) as scheduler:
        node.start()
        for number in range(bench.scale.scheduled_now + 1):
            name = f"now-{number}"
            called[name] = time.time()
            scheduler.schedule_job(JobDetail(NoteStart, name), SimpleTrigger(name))
            time.sleep(GAP_SECONDS)
        wait_for(lambda: node.runs == len(called), 30, "the last start")
        delays = [(start.started - called[start.job]) * 1000 for start in node.starts()]
    bench.server.drop(url)
    # The first job finds connections that have not prepared their statements yet.
    return delays[1:]
