"""Pauses, resumes, deletions and misfires of very many triggers, and for how long they hold the other passes up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import psycopg

from benchmarks.bench import Bench
from benchmarks.drains import client
from benchmarks.figures import percentile
from benchmarks.growth.rows import Part, Row, Values, as_figures, in_rounds, median
from benchmarks.jobs import Nothing
from benchmarks.nodes import NAME, nodes
from benchmarks.scenarios.misfires import LEFT, THRESHOLD, TIMEOUT_SECONDS
from benchmarks.steady import steady_lateness_ms, store_steady
from quartzpy import JobDetail, JobKey, Scheduler, SimpleTrigger

GROUP = "many"
TRIGGERS, JOBS = 100_000, 1_000
MAX_MS = 100.0
"""The longest time for which the passes of other jobs may be held up."""
RATE = 100
JOB, OF_GROUP = "a job", "a group"
PAUSE, RESUME, DELETE, MISFIRE = "pause", "resume", "delete", "misfire"
_SECONDS, _HELD, _LATE = "s", "ms held", "ms late"
# What a pass waits for, as the pass takes it; measured by the server, because this process computes for the command.
LOCK = """
WITH began AS MATERIALIZED (SELECT clock_timestamp() AS at),
held AS MATERIALIZED (
    SELECT FROM began, qrtz_locks l WHERE l.sched_name = %s AND l.lock_name = 'TRIGGER_ACCESS' FOR UPDATE OF l
)
SELECT extract(epoch FROM clock_timestamp() - began.at)::float8 * 1000
  FROM began, (SELECT count(*) FROM held) AS counted
"""
PROBE_SECONDS = 0.001


class Passes:
    """Passes of other jobs: takes their lock again and again, and notes how long it waits for it."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="passes")
        self.longest_ms = 0.0

    def __enter__(self) -> Passes:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(PROBE_SECONDS):
            row = self._connection.execute(LOCK, [NAME]).fetchone()
            assert row is not None
            self.longest_ms = max(self.longest_ms, row[0])


def part(bench: Bench) -> Part:
    count, job_count = bench.grown(TRIGGERS), bench.grown(JOBS)
    sizes = {JOB: 1, OF_GROUP: job_count}
    spreads, notes = in_rounds(
        bench.scale.size_rounds,
        {name: partial(held_up, bench, count, number) for name, number in sizes.items()},
    )
    result = Part(notes=notes, figures=as_figures(spreads))
    for name in sizes:
        values = spreads.get(name, {})
        for verb in (PAUSE, RESUME, DELETE, MISFIRE):
            what = f"{verb} of {name} with {count:,} triggers"
            result.rows += [
                Row(f"{what}: in all", median(values, f"{verb}, {_SECONDS}"), "s"),
                Row(
                    f"{what}: the longest that a pass of other jobs waits", median(values, f"{verb}, {_HELD}"), "ms",
                    figure_goal=MAX_MS, at_most=True,
                ),
                Row(f"{what}: lateness of other jobs, p99", median(values, f"{verb}, {_LATE}"), "ms"),
            ]  # fmt: skip
    return result


def held_up(bench: Bench, count: int, job_count: int) -> Values:
    """Return the seconds of each operation, and for how long it holds up a pass and the fires of other jobs."""
    return {**_commanded(bench, count, job_count), **_misfired(bench, count, job_count)}


def _commanded(bench: Bench, count: int, job_count: int) -> Values:
    """Return the figures of a pause, a resume and a deletion of triggers that are due much later."""
    url = bench.new_database()
    _store(url, count, job_count, datetime.now(UTC) + timedelta(days=1))
    bench.server.settle(url)
    values: Values = {}
    keys = [JobKey(f"{GROUP}-{number}", GROUP) for number in range(job_count)]
    commands: dict[str, Callable[[Scheduler], Any]] = {
        PAUSE: lambda scheduler: (
            scheduler.pause_trigger_group(GROUP) if job_count > 1 else scheduler.pause_job(keys[0])
        ),
        RESUME: lambda scheduler: (
            scheduler.resume_trigger_group(GROUP) if job_count > 1 else scheduler.resume_job(keys[0])
        ),
        DELETE: lambda scheduler: scheduler.delete_jobs(keys),
    }
    with nodes(url) as (node,), client(url) as scheduler:
        store_steady(url, RATE, datetime.now(UTC) + timedelta(seconds=1))
        node.start()
        time.sleep(1 + bench.scale.warm_up_seconds)
        for verb, command in commands.items():
            steady_lateness_ms(node)
            with _timed(bench, url, verb, values):
                command(scheduler)
            _note_lateness(values, verb, steady_lateness_ms(node))
    bench.server.drop(url)
    return values


def _misfired(bench: Bench, count: int, job_count: int) -> Values:
    """Return the figures of a node that works off misfires while other triggers become due."""
    url = bench.new_database()
    _store(url, count, job_count, datetime.now(UTC) - timedelta(hours=1))
    bench.server.settle(url)
    values: Values = {}
    with nodes(url, misfire_threshold=THRESHOLD) as (node,):
        store_steady(url, RATE, datetime.now(UTC) + timedelta(milliseconds=300))
        with _timed(bench, url, MISFIRE, values), bench.server.connect(url) as connection:
            node.start()
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while (row := connection.execute(LEFT.encode()).fetchone()) is not None and row[0]:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{row[0]} misfires were not handled within {TIMEOUT_SECONDS:g} s")
                # Counting costs the server time, so it is done rarely.
                time.sleep(0.25)
        _note_lateness(values, MISFIRE, steady_lateness_ms(node))
    bench.server.drop(url)
    return values


@contextmanager
def _timed(bench: Bench, url: str, verb: str, values: Values) -> Iterator[None]:
    with bench.server.connect(url) as connection, Passes(connection) as passes:
        began = time.perf_counter()
        yield
        seconds = time.perf_counter() - began
        # Other jobs fire for a moment longer, so that there is something to see where it was quick.
        time.sleep(0.5)
    values[f"{verb}, {_SECONDS}"] = seconds
    values[f"{verb}, {_HELD}"] = passes.longest_ms


def _note_lateness(values: Values, verb: str, late: list[float]) -> None:
    if late:
        values[f"{verb}, {_LATE}"] = percentile(late, 99)


def _store(url: str, count: int, job_count: int, start: datetime) -> None:
    triggers: list[list[SimpleTrigger]] = [[] for _ in range(job_count)]
    for number in range(count):
        triggers[number % job_count].append(
            SimpleTrigger(
                f"{GROUP}-{number}",
                GROUP,
                start_time=start + number * timedelta(microseconds=10),
                interval=timedelta(days=1),
                repeat_count=None,
                misfire="reschedule_next_with_remaining_count",
            )
        )
    details = [JobDetail(Nothing, f"{GROUP}-{number}", GROUP, durable=True) for number in range(job_count)]
    with client(url) as scheduler:
        scheduler.schedule_jobs(zip(details, triggers, strict=True))
