"""The demo: a real cluster, a node killed, and an audit that can fail."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from quartzpy import JobKey, Scheduler, SimpleTrigger
from quartzpy.demo import stage
from quartzpy.demo.audit import summarize
from quartzpy.demo.jobs import GROUP, SERIAL_REPORT
from quartzpy.demo.stage import is_idle
from quartzpy.keys import RECOVERING_JOBS, RETRYING_JOBS, TriggerKey
from quartzpy.states import ExecutionState, TriggerState
from quartzpy.store.records import ExecutionRecord, TriggerRecord
from quartzpy.triggers.trigger import TriggerProgress
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
START = datetime(2026, 1, 1, tzinfo=UTC)
RETRY = TriggerKey("retry", RETRYING_JOBS)
SECOND = timedelta(seconds=1)


@pytest.mark.cluster
def test_the_demo_kills_a_node_recovers_its_job_and_finds_every_promise_kept(postgres_dsn: str) -> None:
    command = [sys.executable, "-m", "quartzpy", "demo", "--json", "--duration", "14", "--dsn", postgres_dsn]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    [killed] = [event for event in events if event["event"] == "node_killed"]
    [again] = [event for event in events if event["event"] == "recovering"]
    assert again["job"] == killed["job"] == "long-export"
    assert again["node"] != killed["node"]
    summary = events[-1]
    assert summary["event"] == "summary"
    assert (summary["nodes"], summary["recovered"]) == (3, 1)
    assert (summary["overlaps"], summary["lost"], summary["duplicated"]) == (0, 0, 0)
    assert set(summary["fires_by_job"]) == {"heartbeat", "serial-report", "long-export", "flaky-import", "thumbnails"}
    assert summary["fires_by_job"]["thumbnails"] == 60
    assert summary["retried"] == summary["failed"] > 0, "each failure on purpose was followed by a retry that succeeded"
    [over] = [event for event in events if event["event"] == "burst_ended"]
    assert sum(over["nodes"].values()) == 60
    assert summary["fires"] == sum(summary["fires_by_job"].values()) == sum(e["event"] == "executed" for e in events)


HOLDER = """
import sys, tempfile
from pathlib import Path
from quartzpy.demo.cluster import DemoCluster
cluster = DemoCluster(sys.argv[1], Path(sys.argv[2]))
cluster.start_another()
print(cluster._processes["node-1"].pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.cluster
def test_the_nodes_of_a_demo_that_was_killed_end_with_it(postgres_dsn: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, postgres_dsn, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        node = int(demo.stdout.readline())
        client = Scheduler(postgres_dsn, name="demo")
        try:
            wait_until(lambda: any(record.pid == node for record in client.nodes().nodes))
        finally:
            demo.kill()
            client.shutdown()
    wait_until(lambda: not _is_alive(node))


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Ending:
    """A client of a cluster in which each read is followed by a step: an attempt fails, its retry runs, and ends."""

    STEPS: ClassVar = [(["attempt 1"], []), ([], [RETRY]), (["attempt 2"], [RETRY]), ([], [])]

    def __init__(self, quiet_reads: int) -> None:
        self.reads = -quiet_reads

    @property
    def now(self) -> tuple[list[str], list[TriggerKey]]:
        return self.STEPS[min(max(self.reads, 0), len(self.STEPS) - 1)]

    def running(self) -> list[str]:
        running, _ = self.now
        self.reads += 1
        return running

    def triggers(self) -> list[SimpleNamespace]:
        _, keys = self.now
        self.reads += 1
        return [SimpleNamespace(key=key) for key in keys]


@pytest.mark.parametrize("quiet_reads", range(3))
def test_the_audit_waits_for_the_retry_of_an_attempt_that_ends_between_two_reads(quiet_reads: int) -> None:
    client = Ending(quiet_reads)
    while not is_idle(cast("Scheduler", client)):
        pass
    assert client.now == ([], [])


TRIGGER = SimpleTrigger("t", GROUP, job_key=SERIAL_REPORT, start_time=START, interval=SECOND, repeat_count=None)
STORED = TriggerRecord(
    TRIGGER.key,
    SERIAL_REPORT,
    lambda: TRIGGER,
    "type",
    TriggerState.PAUSED,
    TriggerProgress(START + 3 * SECOND, START + 2 * SECOND, 3),
    generation=1,
)


def executed(second: int, *, lasts: float = 0.5, group: str = GROUP, fire_id: int = 0) -> ExecutionRecord:
    at = START + second * SECOND
    return ExecutionRecord(
        state=ExecutionState.SUCCEEDED,
        fire_id=fire_id or second,
        trigger_key=TriggerKey("t", group),
        job_key=SERIAL_REPORT,
        job_type="type",
        instance_id="n",
        scheduled_fire_time=at,
        fire_time=at,
        started_at=at,
        ended_at=at + lasts * SECOND,
        error=None,
        attempt=1,
    )


ALL_THREE = [executed(0), executed(1), executed(2)]


@pytest.mark.parametrize(
    ("executions", "lost", "duplicated", "overlaps"),
    [
        (ALL_THREE, 0, 0, 0),
        (ALL_THREE[:2], 1, 0, 0),
        ([], 3, 0, 0),
        ([*ALL_THREE, executed(1, lasts=0.1, fire_id=9)], 0, 1, 1),
        ([executed(0, lasts=1.5), executed(1), executed(2)], 0, 0, 1),
        ([executed(0), executed(1, group=RECOVERING_JOBS), executed(2)], 0, 0, 0),
    ],
)
def test_the_audit_finds_what_was_lost_doubled_or_overlapped(
    executions: list[ExecutionRecord], lost: int, duplicated: int, overlaps: int
) -> None:
    summary = summarize(3, executions, [STORED], [TRIGGER], SERIAL_REPORT, START + 3 * SECOND)
    assert (summary.lost, summary.duplicated, summary.overlaps) == (lost, duplicated, overlaps)
    assert summary.promises_kept == (lost == duplicated == overlaps == 0)


@pytest.mark.parametrize(("nodes_go_on", "looks"), [(True, 5), (False, 1)])
def test_the_demo_waits_for_late_fires_while_the_nodes_go_on(
    monkeypatch: pytest.MonkeyPatch, nodes_go_on: bool, looks: int
) -> None:
    late: list[TriggerRecord | None] = [*[STORED] * 5, None]
    client = SimpleNamespace(
        nodes=lambda: SimpleNamespace(now=START),
        triggers=lambda **_: SimpleNamespace(first=lambda: late.pop(0)),
    )
    demo = stage.Demo(cast(Any, None), cast(Any, client), cast(Any, SimpleNamespace(killed={})), 1.0)
    seconds = count(0, 20)
    demo._clock = cast(Any, SimpleNamespace(monotonic=lambda: next(seconds)))
    looked: list[None] = []

    def look() -> None:
        looked.append(None)
        if nodes_go_on:
            demo._scene.history.append(executed(len(looked)))

    monkeypatch.setattr(demo, "_look", look)
    monkeypatch.setattr(stage, "TICK", 0)
    demo.wait_until_caught_up()
    assert len(looked) == looks


def test_a_trigger_that_was_left_behind_counts_as_lost() -> None:
    summary = summarize(3, ALL_THREE, [STORED], [TRIGGER], SERIAL_REPORT, START + 60 * SECOND)
    assert summary.lost == 1
    other = replace(STORED, progress=TriggerProgress(None, None, 3))
    assert summarize(3, ALL_THREE, [other], [], JobKey("b", "a"), START).lost == 0
