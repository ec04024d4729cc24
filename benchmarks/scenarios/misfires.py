"""Misfires: many are worked off while other triggers become due."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from benchmarks.bench import Bench
from benchmarks.drains import client
from benchmarks.figures import Goal, Result, Table, percentile, rounded
from benchmarks.jobs import Nothing
from benchmarks.nodes import nodes
from benchmarks.steady import PERCENTILE_COLUMNS, percentile_cells, steady_lateness_ms, store_steady
from quartzpy import JobDetail, SimpleTrigger

RATE = 100
THRESHOLD = "60s"
LEFT = (
    "SELECT count(*) FROM qrtz_triggers"
    " WHERE trigger_state = 'WAITING' AND next_fire_time < clock_timestamp() - interval '60 s'"
)
TIMEOUT_SECONDS = 300.0


def run(bench: Bench) -> Result:
    count = bench.scale.misfires
    url = bench.new_database()
    with nodes(url, misfire_threshold=THRESHOLD) as (node,):
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
        store_steady(url, RATE, datetime.now(UTC) + timedelta(milliseconds=300))
        began = time.monotonic()
        node.start()
        with bench.server.connect(url) as connection:
            while True:
                row = connection.execute(LEFT.encode()).fetchone()
                if row is None or row[0] == 0:
                    break
                if time.monotonic() - began > TIMEOUT_SECONDS:
                    raise TimeoutError(f"{row[0]} misfires were left after {TIMEOUT_SECONDS:g} s")
                # Counting costs the server time, so it is done rarely.
                time.sleep(0.25)
        seconds = time.monotonic() - began
        # If the misfires are few, they are worked off before enough other triggers were due.
        time.sleep(max(0.0, 1.5 - seconds))
        late = steady_lateness_ms(node)
    bench.server.drop(url)
    return Result(
        "misfires",
        goals=[
            Goal(f"{count:,} misfires worked off", 10.0 * count / 100_000, seconds, "s", at_most=True),
            Goal("p99 of lateness of what is due meanwhile", 50.0, percentile(late, 99), "ms", at_most=True),
        ],
        tables=[
            Table(
                f"Milliseconds late at {RATE} fires/s while {count:,} misfires are worked off",
                ("seconds", "jobs", *PERCENTILE_COLUMNS),
                ((rounded(seconds), f"{len(late):,}", *percentile_cells(late)),),
            )
        ],
        figures={"misfires, s": seconds, "late during misfires, ms": late},
    )
