"""The in-memory store alone: its fires per second and its memory with few and with many triggers.

Each trigger is fired, moved on and completed, which costs what it costs in production but for the job and the threads.
The cost of one may grow with the logarithm of the number of triggers, no more. Each number of triggers is measured in a
process of its own: `python -m benchmarks.scenarios.memory_store TRIGGERS FIRES ROUNDS`.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import time
from datetime import timedelta

from benchmarks.bench import Bench
from benchmarks.figures import Goal, Result, Table, rounded
from benchmarks.machine import ROOT
from benchmarks.peers.peer import result_of
from benchmarks.processes import resident_mebibytes
from quartzpy.jobs.job import JobDetail
from quartzpy.node.completer import refill_of
from quartzpy.states import Outcome
from quartzpy.store.memory.store import RamJobStore
from quartzpy.store.protocol import AvailableSlots, Completion, DispatchKey, JobEntry, Node
from quartzpy.testing import ManualClock
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import prepare

INTERVAL = timedelta(hours=1)
BATCH = 200
CHUNK = 10_000


def run(bench: Bench) -> Result:
    scale = bench.scale
    program = [sys.executable, "-m", "benchmarks.scenarios.memory_store"]
    measured = {
        count: result_of([*program, str(count), str(scale.memory_fires), str(scale.size_rounds)], cwd=str(ROOT))
        for count in (scale.stored[0], scale.stored[-1])
    }
    few, many = (statistics.median(found["per_second"]) for found in measured.values())
    rows = tuple(
        (
            f"{count:,}",
            rounded(statistics.median(found["per_second"])),
            f"{rounded(min(found['per_second']))} to {rounded(max(found['per_second']))}",
            rounded(found["stored_s"]),
            rounded(found["memory_mib"]),
        )
        for count, found in measured.items()
    )
    columns = ("triggers", "fires per second (median)", "range", "seconds to store", "MiB")
    return Result(
        "memory-store",
        goals=[Goal(f"fires with {scale.stored[-1]:,} triggers, of those with {scale.stored[0]:,}", 0.9, many / few)],
        tables=[Table("The in-memory store, without jobs and threads", columns, rows)],
        figures={f"{count:,} triggers": found for count, found in measured.items()},
    )


def filled(count: int) -> tuple[RamJobStore, ManualClock, Node]:
    """Return a store with so many recurring triggers, their fire times spread over the first hour."""
    clock = ManualClock()
    store = RamJobStore(clock)
    node = store.register("bench", host="bench", pid=0, checkin_interval=INTERVAL, window=10 * INTERVAL)
    store.decide(node, {DispatchKey("bench"): True})
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
    """Return the fires per second, the clock being moved on whenever nothing is due."""
    done = 0
    spent = 0.0
    while done < fires:
        began = time.perf_counter()
        took = store.acquire(
            node,
            [AvailableSlots()],
            limit=BATCH,
            look_ahead=timedelta(),
            misfire_threshold=timedelta(minutes=10),
        )
        now = clock.now()
        completions = [Completion(one, now, now, Outcome.SUCCEEDED, refill=refill_of(one)) for one in took.fired]
        store.complete(node, completions)
        spent += time.perf_counter() - began
        done += len(took.fired)
        if took.next_due is not None and took.next_due > now:
            clock.move_to(took.next_due)
    return done / spent


def main(count: int, fires: int, rounds: int) -> None:
    before = resident_mebibytes(os.getpid())
    began = time.perf_counter()
    store, clock, node = filled(count)
    stored = time.perf_counter() - began
    gc.collect()
    gc.freeze()
    grown = resident_mebibytes(os.getpid()) - before
    rates = [fires_per_second(store, clock, node, fires) for _ in range(rounds)]
    print(json.dumps({"per_second": rates, "stored_s": stored, "memory_mib": grown}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
