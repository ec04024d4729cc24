"""Due triggers with a job that does nothing, drained by one node: triggers per second."""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

from benchmarks.harness import database, machine, repeated, report, server_version, vacuum
from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger
from tests.proxy import in_a_process

SETTLE_SECONDS = 120.0


class Nothing(Job, type_name="benchmark-nothing"):
    def execute(self, context: JobExecutionContext) -> None: ...


def drain(dsn: str, through: str, *, count: int, workers: int, recurring: bool) -> float:
    """Triggers per second from the node's first claim until the last execution is recorded."""
    settings = {"name": "bench", "workers": workers, "batch_size": workers, "misfire_threshold": "1d"}
    client = Scheduler(dsn, **settings)
    client.clear()
    due = datetime.now(UTC) - timedelta(minutes=10)
    interval = {"interval": timedelta(hours=12), "repeat_count": None} if recurring else {}
    client.schedule_job(
        JobDetail(Nothing, "nothing", durable=True),
        [SimpleTrigger(f"t{n}", start_time=due + n * timedelta(microseconds=10), **interval) for n in range(count)],
    )
    client.shutdown()
    vacuum(dsn)
    node = Scheduler(through, **settings)
    began = time.perf_counter()
    node.start()
    assert node.wait_until_recorded(count, timedelta(seconds=SETTLE_SECONDS)), "not drained in time"
    spent = time.perf_counter() - began
    node.shutdown()
    return count / spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dsn")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--delay", type=float, help="milliseconds added to a round trip")
    options = parser.parse_args()
    with ExitStack() as stack:
        dsn = stack.enter_context(database(options.dsn))
        through = dsn
        if options.delay is not None:
            through = stack.enter_context(in_a_process(dsn, options.delay / 1000))
        for recurring in (False, True):
            rate = repeated(
                options.repeats,
                lambda recurring=recurring: drain(
                    dsn, through, count=options.count, workers=options.workers, recurring=recurring
                ),
            )
            report(
                "drain",
                triggers="recurring" if recurring else "one-shot",
                count=options.count,
                workers=options.workers,
                delay_ms=options.delay,
                per_second={name: round(value) for name, value in rate.items()},
                postgresql=server_version(dsn),
                **machine(),
            )


if __name__ == "__main__":
    main()
