"""Backlogs: jobs of one kind with triggers that are due, and the pace at which a node works them off."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from benchmarks.bench import Bench
from benchmarks.drains import DUE_SINCE, INTERVAL, client, warm_up
from benchmarks.figures import ContestantError
from benchmarks.growth.rows import Part, Values, as_figures, compared, in_rounds, server_values
from benchmarks.jobs import Aside, Nothing, numbered_type
from benchmarks.nodes import NodeError, NodeProcess, nodes, wait_for
from quartzpy import Job, JobDetail, SimpleTrigger

MEASURED, BESIDE = "measured", "beside"
"""The groups of the backlog whose fires are counted, and of another one."""
RATE = "fires a second"
RECORDED_SECONDS = 60.0
RECORDED = f"SELECT count(*) FROM qrtz_executions WHERE job_group = '{MEASURED}' AND outcome = 'SUCCEEDED'"
LAST_END = f"SELECT extract(epoch FROM max(ended_at)) FROM qrtz_executions WHERE job_group = '{MEASURED}'"
TENANT = "tenant"
WARM_UP, WARM_UP_JOBS = "warm-up-", 10
LEFT_OF_WARM_UP = f"SELECT count(*) FROM qrtz_triggers WHERE job_group LIKE '{WARM_UP}%' AND next_fire_time < now()"


@dataclass(frozen=True)
class Backlog:
    """Jobs with due triggers, which take turns: the first trigger of each job is due before the second of any."""

    jobs: int
    triggers: int
    """Of all jobs together."""
    job_type: Callable[[int], type[Job]] = lambda number: Nothing
    options: Callable[[int], dict[str, Any]] = lambda number: {}
    """The options of each job."""
    keys: int = 0
    """The number of values of the concurrency key that the triggers share; 0 for none."""

    def store(self, url: str, group: str = MEASURED) -> None:
        due = datetime.now(UTC) - DUE_SINCE
        triggers: list[list[SimpleTrigger]] = [[] for _ in range(self.jobs)]
        for number in range(self.triggers):
            triggers[number % self.jobs].append(
                SimpleTrigger(
                    f"{group}-{number}",
                    group,
                    start_time=due + number * timedelta(microseconds=10),
                    interval=INTERVAL,
                    repeat_count=None,
                    data={TENANT: f"tenant-{number % self.keys}"} if self.keys else None,
                )
            )
        details = [
            JobDetail(self.job_type(number), f"{group}-{number}", group, durable=True, **self.options(number))
            for number in range(self.jobs)
        ]
        with client(url) as scheduler:
            scheduler.schedule_jobs(zip(details, triggers, strict=True))


def pace(bench: Bench, backlog: Backlog, *, beside: Backlog | None = None, **options: Any) -> Values:
    """Return the fires per second of a node that works a backlog off, and the server's processor time for a fire.

    A backlog that takes longer than the scale allows is measured as far as it came. Options are those of `nodes`.

    Raises:
        ContestantError: the node did not get ready or did not end.
    """
    url = bench.new_database()
    try:
        with nodes(url, **options) as ready:
            [node] = ready
            warm_up(bench, url, ready)
            backlogs = {MEASURED: backlog} if beside is None else {BESIDE: beside, MEASURED: backlog}
            _run_some(bench, url, node, backlogs)
            for group, due in backlogs.items():
                due.store(url, group)
            bench.server.settle(url)
            before, already, released = bench.server.cpu_seconds, node.runs, time.time()
            node.start()
            end = time.monotonic() + bench.scale.growth_seconds
            while (runs := node.runs - already) < backlog.triggers and time.monotonic() < end:
                time.sleep(0.02)
            node.standby()
            wait_for(lambda: bench.server.one(url, RECORDED) >= runs, RECORDED_SECONDS, f"{runs} records", every=0.1)
            values = server_values(before, bench.server.cpu_seconds, runs)
            recorded, last_end = bench.server.one(url, RECORDED), bench.server.one(url, LAST_END)
    except (TimeoutError, NodeError) as error:
        raise ContestantError(str(error)) from error
    bench.server.drop(url)
    return {RATE: recorded / (float(last_end) - released) if recorded else 0.0, **values}


def _run_some(bench: Bench, url: str, node: NodeProcess, backlogs: Mapping[str, Backlog]) -> None:
    """Let a node run some of each backlog, so that the statements that it takes beside the usual ones are prepared."""
    for group, backlog in backlogs.items():
        few = {name: min(getattr(backlog, name), WARM_UP_JOBS) for name in ("jobs", "keys")}
        replace(backlog, **few, triggers=2 * WARM_UP_JOBS).store(url, f"{WARM_UP}{group}")
    node.start()
    end = time.monotonic() + bench.scale.growth_seconds
    while bench.server.one(url, LEFT_OF_WARM_UP) > 0 and time.monotonic() < end:
        time.sleep(0.1)
    node.standby()


@dataclass(frozen=True)
class Contestant:
    """A backlog with the goal of its pace."""

    what: str
    number: int
    """The place on the x axis of the chart."""
    measure: Callable[[], Values]
    ratio: float | None = None
    """The goal of its ratio to the baseline."""
    rate: float | None = None
    """The goal of its fires per second."""


def plain(count: int) -> Backlog:
    """Return the baseline: one job without a limit, of one type."""
    return Backlog(1, count)


def part(bench: Bench, baseline: str, measure: Callable[[], Values], contestants: list[Contestant]) -> Part:
    """Measure the paces of contestants, which take turns with their baseline."""
    measures = {baseline: measure, **{contestant.what: contestant.measure for contestant in contestants}}
    spreads, notes = in_rounds(bench.scale.size_rounds, measures)
    result = Part(notes=notes, figures=as_figures(spreads))
    result.rows.append(compared(baseline, "a second", RATE, baseline, baseline, spreads))
    for contestant in contestants:
        row = compared(
            contestant.what, "a second", RATE, contestant.what, baseline, spreads,
            ratio_goal=contestant.ratio, figure_goal=contestant.rate,
        )  # fmt: skip
        result.rows.append(row)
        if row.ratio:
            result.points.append((contestant.number, 1 / row.ratio))
    return result


def _beside_plain(bench: Bench, count: int, contestants: list[Contestant]) -> Part:
    baseline = f"baseline: {count:,} triggers of one job, no limit"
    return part(bench, baseline, partial(pace, bench, plain(count)), contestants)


def types(bench: Bench) -> Part:
    """Jobs of many types."""
    count = bench.grown(20_000)

    def contestant(full: int, ratio: float | None = None) -> Contestant:
        number = bench.grown(full)
        backlog = Backlog(number, count, job_type=numbered_type)
        return Contestant(f"{number:,} job types", number, partial(pace, bench, backlog, job_types=number), ratio=ratio)

    return _beside_plain(bench, count, [contestant(100), contestant(1_000, 0.9), contestant(5_000)])


def placements(bench: Bench) -> Part:
    """Jobs that each require another label."""
    count = bench.grown(20_000)

    def contestant(full: int, ratio: float | None = None) -> Contestant:
        number = bench.grown(full)
        backlog = Backlog(number, count, options=lambda job: {"requires": [f"label-{job}"]})
        labels = [f"label-{job}" for job in range(number)]
        return Contestant(
            f"{number:,} placement{'s' * (number > 1)}",
            number,
            partial(pace, bench, backlog, labels=labels),
            ratio=ratio,
        )

    return _beside_plain(bench, count, [contestant(50, 0.9), contestant(500)])


def jobs(bench: Bench) -> Part:
    """Many jobs of one type."""
    count, number = bench.grown(20_000), bench.grown(2_000)
    many = Contestant(f"{number:,} jobs of one type", number, partial(pace, bench, Backlog(number, count)))
    return _beside_plain(bench, count, [many])


def serial(bench: Bench) -> Part:
    """Jobs that run once at a time, with some triggers each."""
    count = bench.grown(20_000)

    def contestant(full: int, each: int, ratio: float | None = None) -> Contestant:
        number = bench.grown(full)
        backlog = Backlog(number, number * each, options=lambda job: {"max_concurrent": 1})
        what = f"{number:,} serial jobs with {each} trigger{'s' * (each > 1)} each"
        return Contestant(what, each, partial(pace, bench, backlog), ratio=ratio)

    return _beside_plain(
        bench,
        count,
        [contestant(20_000, 1, 0.85), contestant(5_000, 4), contestant(1_000, 20, 0.8), contestant(200, 100, 0.4)],
    )


def keys(bench: Bench) -> Part:
    """One job that runs once at a time for each value of its concurrency key."""
    count = bench.grown(20_000)

    def contestant(full: int, each: int, ratio: float) -> Contestant:
        number = bench.grown(full)
        limit = {"max_concurrent": 1, "concurrency_key": TENANT}
        backlog = Backlog(1, number * each, options=lambda job: limit, keys=number)
        what = f"limit 1 per key: {number:,} keys with {each} trigger{'s' * (each > 1)} each"
        return Contestant(what, each, partial(pace, bench, backlog), ratio=ratio)

    return _beside_plain(bench, count, [contestant(20_000, 1, 0.85), contestant(1_000, 20, 0.8)])


def limits(bench: Bench) -> Part:
    """One job with a limit and a deep backlog: its own pace."""
    count = bench.grown(20_000)

    def contestant(limit: int, full: int, rate: float) -> Contestant:
        number = bench.grown(full)
        backlog = Backlog(1, number, options=lambda job: {"max_concurrent": limit})
        what = f"limit {limit} over {number:,} triggers" if limit > 1 else f"one serial job with {number:,} due"
        return Contestant(what, number, partial(pace, bench, backlog), rate=rate)

    return _beside_plain(bench, count, [contestant(10, 10_000, 1_000), contestant(1, 20_000, 300)])


def beside(bench: Bench, full: int = 5_000) -> Part:
    """A job without a limit, beside the backlog of another one that has to wait or is skipped."""
    count = bench.grown(full)

    def contestant(others: int, what: str, **limit: Any) -> Contestant:
        number = bench.grown(others)
        other = Backlog(1, number, job_type=lambda job: Aside, options=lambda job: limit)
        what = f"{count:,} without a limit, beside {number:,} {what}"
        return Contestant(what, number, partial(pace, bench, plain(count), beside=other), ratio=0.9)

    return _beside_plain(
        bench,
        count,
        [
            contestant(2 * full, "of a job limited to 10 a second", rate_limit="10/s"),
            contestant(full, 'of a serial job with overlap_policy="skip"', max_concurrent=1, overlap_policy="skip"),
        ],
    )


def beside_deep(bench: Bench) -> Part:
    """The same with four times the triggers: what a burst costs once, such as the plans of statements, weighs less."""
    return beside(bench, 20_000)
