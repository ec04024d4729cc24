"""Storing many triggers in one transaction: seconds, and triggers per second."""

from __future__ import annotations

import argparse
import time
from datetime import timedelta

from benchmarks.bench_drain import Nothing
from benchmarks.harness import database, machine, repeated, report, server_version
from quartzpy import CronTrigger, JobDetail, Scheduler, SimpleTrigger, Trigger


def triggers(kind: str, count: int) -> list[Trigger]:
    if kind == "cron":
        return [
            CronTrigger(f"{n % 60} {n % 59} 2 ? * MON-FRI", f"t{n}", time_zone="Europe/Berlin") for n in range(count)
        ]
    return [SimpleTrigger(f"t{n}", interval=timedelta(minutes=1 + n % 100), repeat_count=None) for n in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dsn")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with database(options.dsn) as dsn:
        client = Scheduler(dsn, name="bench")

        def store(kind: str) -> float:
            client.clear()
            many = triggers(kind, options.count)
            began = time.perf_counter()
            client.schedule_job(JobDetail(Nothing, "nothing"), many)
            return time.perf_counter() - began

        for kind in ("simple", "cron"):
            seconds = repeated(options.repeats, lambda kind=kind: store(kind))
            report(
                "store",
                triggers=kind,
                count=options.count,
                seconds={name: round(value, 2) for name, value in seconds.items()},
                per_second=round(options.count / seconds["median"]),
                postgresql=server_version(dsn),
                **machine(),
            )
        client.shutdown()


if __name__ == "__main__":
    main()
