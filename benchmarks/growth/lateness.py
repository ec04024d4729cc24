"""How late triggers fire that share a scheduler with many types, or with the deep backlog of a serial job."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from functools import partial

from benchmarks.bench import Bench
from benchmarks.drains import client
from benchmarks.figures import percentile
from benchmarks.growth.backlogs import MEASURED, Backlog
from benchmarks.growth.rows import Part, Row, Values, as_figures, compared, in_rounds, median, server_values
from benchmarks.jobs import Aside, Lasting, numbered_type
from benchmarks.nodes import nodes
from benchmarks.situations import SITUATIONS
from benchmarks.steady import lateness_ms
from quartzpy import Job, JobDetail, SimpleTrigger

RATE = 10
P50, P99, FIRES = "p50, ms", "p99, ms", "fires"
OFTEN = "ten of every 100 ms"
OFTEN_A_SECOND = 100


def types(bench: Bench) -> Part:
    """Ten fires a second of one job, on a node that knows many types, each with a job that is due much later."""
    numbers = {full: bench.grown(full) for full in (1, 100, 1_000)}
    names = {full: f"{number:,} type{'s' * (number > 1)}" for full, number in numbers.items()}
    spreads, notes = in_rounds(
        bench.scale.size_rounds, {names[full]: partial(beside_types, bench, numbers[full]) for full in numbers}
    )
    part = Part(notes=notes, figures=as_figures(spreads))
    for full, name in names.items():
        for what in (P50, P99):
            row = compared(
                f"latency {what.split(',')[0]} at {RATE} fires a second, {name}", "ms", what, name, names[1], spreads,
                ratio_goal=1.3 if full == 1_000 and what == P99 else None, at_most=True,
            )  # fmt: skip
            part.rows.append(row)
            if what == P99 and row.ratio:
                part.points.append((numbers[full], row.ratio))
    return part


def beside_types(bench: Bench, number: int) -> Values:
    """Return how late ten fires a second are, and what each costs the server, on a node that knows so many types."""
    url = bench.new_database()
    later = datetime.now(UTC) + timedelta(days=1)
    pairs = [
        (JobDetail(numbered_type(job), f"later-{job}"), [SimpleTrigger(f"later-{job}", start_time=later)])
        for job in range(number)
    ]
    with client(url) as scheduler:
        scheduler.schedule_jobs(pairs)
    scale = bench.scale
    with nodes(url, job_types=number) as (node,):
        late = lateness_ms(bench.server, url, node, RATE, warm_up=scale.warm_up_seconds, seconds=scale.growth_seconds)
        before = bench.server.cpu_seconds
        time.sleep(scale.growth_seconds / 3)
        values = server_values(before, bench.server.cpu_seconds, len(node.starts()))
    bench.server.drop(url)
    return {P50: percentile(late, 50), P99: percentile(late, 99), **values}


def beside_serial(bench: Bench) -> Part:
    """Ten triggers of every 100 ms, beside the backlog of one serial job, which does nothing, or lasts."""
    seconds = bench.scale.growth_seconds / 2
    expected = round(OFTEN_A_SECOND * seconds)
    numbers = [0, *(bench.grown(full) for full in (100, 2_000, 20_000))]
    backlogs: dict[str, tuple[int, type[Job]]] = {f"{number}": (number, Aside) for number in numbers}
    backlogs["lasting"] = numbers[-1], Lasting
    spreads, notes = in_rounds(
        bench.scale.size_rounds,
        {name: partial(beside_backlog, bench, *backlog, seconds) for name, backlog in backlogs.items()},
    )
    part = Part(notes=notes, figures=as_figures(spreads))
    for name, (number, job_type) in backlogs.items():
        is_deepest = number == numbers[-1]
        what = f"{OFTEN}, {seconds:g} s, beside {number:,} due of one serial job"
        what += " that lasts" * (job_type is Lasting)
        part.rows += [
            compared(
                f"{what}: fires of {expected:,}", "", FIRES, name, "0", spreads,
                figure_goal=expected if is_deepest else None,
            ),
            compared(f"{what}: p50 of lateness", "ms", P50, name, "0", spreads),
            compared(
                f"{what}: p99 of lateness", "ms", P99, name, "0", spreads,
                figure_goal=20.0 if is_deepest else None, at_most=True,
            ),
            Row(f"{what}: fires of the serial job", median(spreads.get(name, {}), MEASURED), ""),
        ]  # fmt: skip
    return part


def beside_backlog(bench: Bench, number: int, job_type: type[Job], seconds: float) -> Values:
    """Return the fires within so many seconds, how late they were, and the fires of the serial job meanwhile.

    Where no trigger fired in time, the lateness is the whole time.
    """
    url = bench.new_database()
    if number:
        Backlog(1, number, job_type=lambda job: job_type, options=lambda job: {"max_concurrent": 1}).store(url)
    bench.server.settle(url)
    with nodes(url) as (node,):
        begin = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)
        with client(url) as scheduler:
            scheduler.schedule_jobs(SITUATIONS[OFTEN](begin))
        # The backlog is there first, as where a job was slow for long.
        node.start()
        end = begin.timestamp() + seconds
        time.sleep(max(0.0, end - time.time()))
        # The last instant has its chance, too.
        time.sleep(0.1)
        starts = [start for start in node.starts() if start.scheduled < end]
        ended = f"SELECT count(*) FROM qrtz_executions WHERE job_group = '{MEASURED}'"
        of_backlog = bench.server.one(url, ended)
    bench.server.drop(url)
    late = [start.late_ms for start in starts] or [seconds * 1_000]
    return {
        FIRES: float(len(starts)),
        P50: percentile(late, 50),
        P99: percentile(late, 99),
        MEASURED: float(of_backlog),
    }
