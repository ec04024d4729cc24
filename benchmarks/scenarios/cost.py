"""Cost: of a pass that finds nothing, of an idle node, of memory, and of the write-ahead log."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from benchmarks.bench import Bench
from benchmarks.drains import client
from benchmarks.figures import Goal, Result, Table, rounded
from benchmarks.jobs import Nothing
from benchmarks.nodes import nodes, wait_for
from benchmarks.scenarios.misfires import LEFT, THRESHOLD, TIMEOUT_SECONDS
from benchmarks.scenarios.soak import store_endless
from quartzpy import JobDetail, SimpleTrigger

PASS_INTERVAL = "2ms"
IDLE_WORKERS = 10
"""The default."""


def run(bench: Bench) -> Result:
    empty_ms = _empty_pass(bench)
    idle_node, idle_server, idle_memory = _idle(bench)
    loaded_memory, wal_bytes = load(bench)
    after_storm = _after_storm(bench)
    goals = [
        Goal("a pass that finds nothing, of the server's processor time", 0.3, empty_ms, "ms", at_most=True),
        Goal("an idle node, of a core", 0.1, idle_node, "%", at_most=True),
        Goal("memory of an idle node", 60, idle_memory, "MiB", at_most=True),
        Goal("memory of a node under load", 110, loaded_memory, "MiB", at_most=True),
        Goal("memory of a node after a storm of misfires", 110, after_storm, "MiB", at_most=True),
        Goal("write-ahead log per fire", 1_200, wal_bytes, "bytes", at_most=True),
    ]
    figures = {
        "server's processor time of a pass that finds nothing, ms": empty_ms,
        "idle node, % of a core": idle_node,
        "server of one idle node, % of a core": idle_server,
        "idle node, MiB": idle_memory,
        "node under load, MiB": loaded_memory,
        "node after a storm, MiB": after_storm,
        "write-ahead log per fire, bytes": wal_bytes,
    }
    rows = tuple((name, "not measured" if value is None else rounded(value)) for name, value in figures.items())
    return Result("cost", goals=goals, tables=[Table("Cost", ("", "value"), rows)], figures=figures)


def _empty_pass(bench: Bench) -> float | None:
    """Return the milliseconds of the server's processor time for each pass of a node that looks for work all the time.

    A pass is one transaction. The node's other transactions, such as check-ins, are fewer than one in a hundred.
    """
    url = bench.new_database()
    bench.server.settle(url)
    with nodes(url, idle_wait=PASS_INTERVAL) as (node,):
        node.start()
        time.sleep(bench.scale.warm_up_seconds)
        before, earlier = bench.server.cpu_seconds, bench.server.transactions(url)
        time.sleep(bench.scale.idle_seconds)
        after, passes = bench.server.cpu_seconds, bench.server.transactions(url) - earlier
    bench.server.drop(url)
    return None if before is None or after is None or not passes else (after - before) * 1000 / passes


def _idle(bench: Bench) -> tuple[float, float | None, float]:
    """Return the share of a core, in per cent, of an idle node and of its server, and the node's memory."""
    url = bench.new_database()
    bench.server.settle(url)
    with nodes(url, workers=IDLE_WORKERS) as (node,):
        node.start()
        time.sleep(bench.scale.settling_seconds)
        server, ours, began = bench.server.cpu_seconds, node.cpu_seconds, time.monotonic()
        time.sleep(bench.scale.idle_seconds)
        spent = time.monotonic() - began
        ours = node.cpu_seconds - ours
        now = bench.server.cpu_seconds
        memory = node.resident_mebibytes
    bench.server.drop(url)
    of_server = None if server is None or now is None else (now - server) / spent * 100
    return ours / spent * 100, of_server, memory


def load(bench: Bench) -> tuple[float, float]:
    """Return the memory of a node at full rate, and the bytes of write-ahead log per fire.

    The log is measured after the warm-up, once the pages of all triggers were written since the last checkpoint.
    """
    url = bench.new_database()
    store_endless(url, bench.scale.soak_triggers)
    bench.server.settle(url)
    with nodes(url) as (node,):
        node.start()
        wait_for(lambda: node.runs >= bench.scale.soak_triggers, 60, "each trigger to fire once")
        time.sleep(bench.scale.warm_up_seconds)
        runs, written = node.runs, bench.server.wal_bytes(url)
        memory = 0.0
        end = time.monotonic() + bench.scale.load_seconds
        while time.monotonic() < end:
            time.sleep(0.25)
            memory = max(memory, node.resident_mebibytes)
        per_fire = (bench.server.wal_bytes(url) - written) / (node.runs - runs)
    bench.server.drop(url)
    return memory, per_fire


def _after_storm(bench: Bench) -> float:
    """Return the memory of a node after it has worked off many misfires, each of which then fires once."""
    url = bench.new_database()
    missed = datetime.now(UTC) - timedelta(hours=1)
    triggers = [
        SimpleTrigger(f"missed-{number}", start_time=missed, interval=timedelta(days=1), repeat_count=None,
                      misfire="reschedule_now_with_remaining_repeat_count")
        for number in range(bench.scale.misfires)
    ]  # fmt: skip
    with client(url) as scheduler:
        scheduler.schedule_job(JobDetail(Nothing, "missed", durable=True), triggers)
    del triggers
    bench.server.settle(url)
    with nodes(url, misfire_threshold=THRESHOLD) as (node,):
        node.start()
        wait_for(lambda: bench.server.one(url, LEFT) == 0, TIMEOUT_SECONDS, "the misfires", every=0.5)
        wait_for(lambda: node.runs >= bench.scale.misfires, TIMEOUT_SECONDS, "a run for each misfire", every=0.5)
        time.sleep(bench.scale.warm_up_seconds)
        memory = node.resident_mebibytes
    bench.server.drop(url)
    return memory
