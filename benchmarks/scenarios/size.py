"""Size: many stored triggers, many stored at once, many misfires, and many due triggers that no node can take."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

from benchmarks.bench import Bench
from benchmarks.drains import client, drain, seconds_to_drain, store_due, warm_up
from benchmarks.figures import (
    Chart,
    Goal,
    Line,
    Result,
    Spread,
    Table,
    interleaved,
    percentile,
    rate_table,
    rounded,
)
from benchmarks.jobs import Nothing
from benchmarks.nodes import nodes
from benchmarks.steady import PERCENTILE_COLUMNS, lateness_ms, percentile_cells, steady_lateness_ms, store_steady
from quartzpy import CronTrigger, JobDetail, JobKey, SimpleTrigger, Trigger

RATE = 1_000
MISFIRE_RATE = 100
MISFIRE_THRESHOLD = "60s"
MISFIRES_LEFT = (
    "SELECT count(*) FROM qrtz_triggers"
    " WHERE trigger_state = 'WAITING' AND next_fire_time < clock_timestamp() - interval '60 s'"
)
STORM_TIMEOUT = 300.0


def run(bench: Bench) -> Result:
    result = Result("size")
    for part in (_stored, _misfires, _not_takeable):
        found = part(bench)
        result.goals += found.goals
        result.tables += found.tables
        result.charts += found.charts
        result.notes += found.notes
        result.figures |= found.figures
    return result


def _simple(count: int) -> list[Trigger]:
    start = datetime.now(UTC) + timedelta(days=1)
    return [
        SimpleTrigger(
            f"kept-{number}",
            start_time=start + timedelta(milliseconds=number % 3_600_000),
            interval=timedelta(minutes=1 + number % 100),
            repeat_count=None,
        )
        for number in range(count)
    ]


def _cron(count: int) -> list[Trigger]:
    return [
        CronTrigger(f"{number % 60} {number % 59} 2 ? * MON-FRI", f"kept-{number}", time_zone="Europe/Berlin")
        for number in range(count)
    ]


def _store(url: str, triggers: list[Trigger]) -> float:
    """Store triggers by one call; return the seconds of the call."""
    with client(url) as scheduler:
        began = time.perf_counter()
        scheduler.schedule_job(JobDetail(Nothing, "kept", durable=True), triggers)
        return time.perf_counter() - began


def _stored(bench: Bench) -> Result:
    """Compare throughput and latency with few and with many stored triggers, and measure the storing."""
    scale = bench.scale
    few, many = scale.stored[0], scale.stored[-1]
    labels = {count: f"{count:,} stored" for count in scale.stored}
    urls = {labels[count]: bench.new_database() for count in scale.stored}
    seconds = {count: _store(urls[label], _simple(count)) for count, label in labels.items()}
    cron_count = max(many // 10, 1)
    other = bench.new_database()
    cron_seconds = _store(other, _cron(cron_count))
    bench.server.drop(other)
    for url in urls.values():
        bench.server.settle(url)
    rates, notes = interleaved(
        scale.size_rounds, {label: partial(_drain_beside, bench, url) for label, url in urls.items()}
    )
    lateness = {labels[count]: _lateness(bench, urls[labels[count]]) for count in (few, many)}
    for url in urls.values():
        bench.server.drop(url)
    first, last = rates[labels[few]], rates[labels[many]]
    middle = {label: percentile(values, 50) for label, values in lateness.items()}
    points = tuple((float(count), rates[label].median) for count, label in labels.items())
    stored_rows = [
        (f"{count:,} simple triggers", rounded(spent), rounded(count / spent)) for count, spent in seconds.items()
    ]
    stored_rows.append((f"{cron_count:,} cron triggers", rounded(cron_seconds), rounded(cron_count / cron_seconds)))
    return Result(
        "size",
        goals=[
            Goal(f"throughput with {many:,} stored triggers, of that with {few:,}", 0.9, last.ratio(first)),
            Goal(
                f"p50 of latency with {few:,} stored triggers, of that with {many:,}",
                0.9,
                middle[labels[few]] / middle[labels[many]],
            ),
            Goal(f"{many:,} triggers stored by one call, per second", 10_000, many / seconds[many]),
        ],
        tables=[
            rate_table("Recurring triggers drained beside stored ones", rates, {}),
            Table(
                f"Milliseconds late at {RATE:,} fires/s beside stored triggers",
                ("", *PERCENTILE_COLUMNS),
                tuple((name, *percentile_cells(values)) for name, values in lateness.items()),
            ),
            Table("Triggers stored by one call", ("", "seconds", "per second"), tuple(stored_rows)),
        ],
        charts=[
            Chart(
                "size",
                "Throughput by stored triggers",
                "stored triggers",
                "fires per second",
                (Line("quartzpy", points),),
                log_x=True,
            )
        ],
        notes=notes,
        figures={
            "beside stored triggers": {name: list(spread.values) for name, spread in rates.items()},
            "late beside stored triggers, ms": lateness,
            "storing, s": {**{f"{count} simple": spent for count, spent in seconds.items()}, "cron": cron_seconds},
        },
    )


def _drain_beside(bench: Bench, url: str) -> float:
    """Return the fires per second of a node in a database that holds other triggers, which stay."""
    name = f"drained-{time.monotonic_ns()}"
    with nodes(url) as ready:
        warm_up(bench, url, ready)
        store_due(url, Nothing, bench.scale.drained, recurring=True, name=name)
        bench.server.settle(url)
        seconds = seconds_to_drain(bench.server, url, ready, bench.scale.drained, name)
    with client(url) as scheduler:
        scheduler.delete_job(JobKey(name))
        scheduler.delete_job(JobKey("warm-up"))
    return bench.scale.drained / seconds


def _lateness(bench: Bench, url: str) -> list[float]:
    scale = bench.scale
    with nodes(url) as (node,):
        return lateness_ms(bench.server, url, node, RATE, warm_up=scale.warm_up_seconds, seconds=scale.latency_seconds)


def _misfires(bench: Bench) -> Result:
    """Work off many misfires while other triggers become due."""
    count = bench.scale.misfires
    url = bench.new_database()
    with nodes(url, misfire_threshold=MISFIRE_THRESHOLD) as (node,):
        missed = datetime.now(UTC) - timedelta(hours=1)
        triggers = [
            SimpleTrigger(
                f"missed-{number}",
                start_time=missed + number * timedelta(microseconds=10),
                interval=timedelta(days=1),
                repeat_count=None,
                misfire="reschedule_next_with_remaining_count",
            )
            for number in range(count)
        ]
        with client(url) as scheduler:
            scheduler.schedule_job(JobDetail(Nothing, "missed", durable=True), triggers)
        bench.server.settle(url)
        # They are due for the first time soon after the node starts with the misfires before it.
        store_steady(url, MISFIRE_RATE, datetime.now(UTC) + timedelta(milliseconds=300))
        began = time.monotonic()
        node.start()
        with bench.server.connect(url) as connection:
            while True:
                row = connection.execute(MISFIRES_LEFT.encode()).fetchone()
                if row is None or row[0] == 0:
                    break
                if time.monotonic() - began > STORM_TIMEOUT:
                    raise TimeoutError(f"{row[0]} misfires were left after {STORM_TIMEOUT:g} s")
                # Counting costs the server time, so it is done rarely.
                time.sleep(0.25)
        seconds = time.monotonic() - began
        # If the misfires are few, they are worked off before enough other triggers were due.
        time.sleep(max(0.0, 1.5 - seconds))
        late = steady_lateness_ms(node)
    bench.server.drop(url)
    return Result(
        "size",
        goals=[
            Goal(f"{count:,} misfires worked off", 10.0 * count / 100_000, seconds, "s", at_most=True),
            Goal("p99 of lateness of what is due meanwhile", 50.0, percentile(late, 99), "ms", at_most=True),
        ],
        tables=[
            Table(
                f"Milliseconds late at {MISFIRE_RATE} fires/s while {count:,} misfires are worked off",
                ("seconds", "jobs", *PERCENTILE_COLUMNS),
                ((rounded(seconds), f"{len(late):,}", *percentile_cells(late)),),
            )
        ],
        figures={"misfires, s": seconds, "late during misfires, ms": late},
    )


def _not_takeable(bench: Bench) -> Result:
    """Compare throughput with and without due triggers at the front that need a label which the node does not have."""
    count = bench.scale.not_takeable
    with_them = f"{count:,} at the front"

    def blocked_drain() -> float:
        url = bench.new_database()
        with nodes(url) as ready:
            warm_up(bench, url, ready)
            # Stored first, so they have been due for longer than all others.
            store_due(url, Nothing, count, recurring=True, name="not-takeable", requires=["absent"])
            store_due(url, Nothing, bench.scale.drained, recurring=True)
            bench.server.settle(url)
            seconds = seconds_to_drain(bench.server, url, ready, bench.scale.drained)
        bench.server.drop(url)
        return bench.scale.drained / seconds

    contestants: dict[str, Callable[[], float]] = {"none at the front": lambda: drain(bench), with_them: blocked_drain}
    rates, notes = interleaved(bench.scale.size_rounds, contestants)
    without, blocked = (Spread(rates[name].values) for name in contestants)
    return Result(
        "size",
        goals=[Goal(f"throughput with {count:,} due triggers that the node can't take", 0.9, blocked.ratio(without))],
        tables=[rate_table("Recurring triggers behind others that need an absent label", rates, {})],
        notes=notes,
        figures={"behind others": {name: list(spread.values) for name, spread in rates.items()}},
    )
