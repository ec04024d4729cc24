"""The in-memory store with 1,000 and with 1,000,000 triggers: memory, and fires per second of the store alone.

Each fire is claimed, moved on and completed, and costs what it costs in production but for the job and the threads.
The cost of one may grow with the logarithm of the number of triggers, no more.
"""

from __future__ import annotations

import argparse
import gc
import resource
import statistics
import time
from datetime import timedelta

from benchmarks.harness import machine, report
from quartzpy.job import JobDetail
from quartzpy.runtime.fire_requests import fire_request_of, refill_of
from quartzpy.states import Outcome
from quartzpy.store.protocol import AvailableSlots, Completion, JobEntry, Node
from quartzpy.store.ram.store import RamJobStore
from quartzpy.testing import ManualClock
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import prepare

INTERVAL = timedelta(hours=1)
BATCH = 200
CHUNK = 10_000


def filled(count: int) -> tuple[RamJobStore, ManualClock, Node]:
    """A store with so many recurring triggers, their fire times spread over the first hour."""
    clock = ManualClock()
    store = RamJobStore(clock)
    node = store.register("bench", host="bench", pid=0, checkin_interval=INTERVAL, window=10 * INTERVAL)
    job = JobDetail("bench", "job", durable=True)
    store.store_jobs([JobEntry(job)], replace=False)
    for begin in range(0, count, CHUNK):
        triggers = [
            SimpleTrigger(
                f"t{number}",
                job_key=job.key,
                start_time=clock.now() + INTERVAL * number / count,
                interval=INTERVAL,
                repeat_count=None,
            )
            for number in range(begin, min(begin + CHUNK, count))
        ]
        store.store_jobs([JobEntry(None, [prepare(one, clock.now(), None) for one in triggers])], replace=False)
    return store, clock, node


def fires_per_second(store: RamJobStore, clock: ManualClock, node: Node, fires: int) -> float:
    done = 0
    spent = 0.0
    while done < fires:
        began = time.perf_counter()
        took = store.acquire(
            node,
            [AvailableSlots("bench")],
            limit=BATCH,
            look_ahead=timedelta(),
            misfire_threshold=timedelta(minutes=10),
        )
        moves = [fire_request_of(claim, clock.now()) for claim in took.acquired]
        fired = [*took.fired, *(store.fire(node, moves).fired if moves else ())]
        now = clock.now()
        completions = [Completion(one, now, now, Outcome.SUCCEEDED, refill=refill_of(one)) for one in fired]
        store.complete(node, completions)
        spent += time.perf_counter() - began
        done += len(fired)
        if took.next_due is not None and took.next_due > now:
            clock.move_to(took.next_due)
    return done / spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", type=int, nargs="+", default=[1_000, 1_000_000])
    parser.add_argument("--fires", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rates = {}
    for count in options.counts:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.perf_counter()
        store, clock, node = filled(count)
        stored = time.perf_counter() - began
        gc.collect()
        gc.freeze()
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        runs = [fires_per_second(store, clock, node, options.fires) for _ in range(options.repeats)]
        rates[count] = statistics.median(runs)
        report(
            "memory",
            triggers=count,
            stored_in_s=round(stored, 1),
            memory_mib=round(grown),
            fires_per_s=round(rates[count]),
            least=round(min(runs)),
            most=round(max(runs)),
            **machine(),
        )
    first, *_, last = rates.values()
    report("memory", times_slower=round(first / last, 2))


if __name__ == "__main__":
    main()
