"""What a node may die of, and what must not be taken for a death."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from quartzpy import JobDetail, SimpleTrigger
from quartzpy.keys import RECOVERING_JOBS
from tests.cluster.app import Deadly, Long, Quick
from tests.cluster.nodes import ROOT, Cluster
from tests.database import connect_to
from tests.waiting import LIMIT

FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")


def node_deaths(cluster: Cluster) -> int:
    with connect_to(cluster.dsn, autocommit=False) as connection:
        found = connection.execute("SELECT max(node_deaths) FROM qrtz_job_details").fetchone()
        assert found is not None
        return int(found[0])


def test_a_job_that_kills_its_node_does_not_kill_one_after_the_other(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(max_node_deaths=2)
    cluster.start("a", "b", "c")
    cluster.client.schedule_job(JobDetail(Deadly, "deadly", requests_recovery=True), SimpleTrigger("once"))

    def two_deaths() -> bool:
        cluster.expire(*cluster.dead())
        return len(cluster.dead()) == 2

    cluster.wait(two_deaths, "two deaths")

    def quarantined() -> bool:
        cluster.expire(*cluster.dead())
        return any(
            record.trigger.key.group == RECOVERING_JOBS
            and record.state == "ERROR"
            and "2 nodes died" in (record.error or "")
            for record in cluster.client.triggers()
        )

    cluster.wait(quarantined, "the quarantine")
    cluster.client.schedule_job(JobDetail(Quick, "quick"), SimpleTrigger("afterwards"))
    cluster.wait(lambda: cluster.client.executions(), "the survivor to work on")
    assert len(cluster.dead()) == 2
    assert len(cluster.journal.lines("start")) == 3


def test_a_node_that_was_frozen_and_comes_back_did_not_die_of_its_job(cluster: Cluster) -> None:
    cluster.start("a")
    job = JobDetail(Long, "long", data={"seconds": 600}, requests_recovery=True)
    cluster.client.schedule_job(job, SimpleTrigger("once"))
    cluster.journal.wait_for(lambda lines: bool(lines), "the start")
    cluster.start("b")
    cluster.send("a", signal.SIGSTOP)
    cluster.expire("a")
    cluster.journal.wait_for(lambda lines: any(line.recovering for line in lines), "the recovery on b")
    assert node_deaths(cluster) == 1
    cluster.send("a", signal.SIGCONT)
    cluster.wait(lambda: node_deaths(cluster) == 0, "the death to be taken back")


SUICIDAL = """
import os
from quartzpy import Scheduler
from quartzpy.node.misfire_handler import MisfireHandler

def end(self):
    raise SystemExit(1)

MisfireHandler._guarded_pass = end
scheduler = Scheduler(os.environ["NODE_DSN"], name="cluster-test", instance_id="a")
"""


def test_a_node_whose_thread_cannot_be_kept_alive_ends_with_status_70(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "suicidal.py").write_text(SUICIDAL)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}", "NODE_DSN": cluster.dsn}
    done = subprocess.run(
        [sys.executable, "-m", "quartzpy", "node", "--app", "suicidal:scheduler"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 75, done.stderr
    assert "ended 6 times within 60 s: this node cannot continue" in done.stderr
    assert cluster.client.nodes().nodes == (), "it left the cluster"


@pytest.mark.skipif(not FAKETIME.exists(), reason="libfaketime is not installed (Debian: faketime)")
def test_nodes_an_hour_ahead_and_an_hour_behind_fire_at_the_right_instants_and_are_not_declared_dead(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, offset in (("ahead", "+1h"), ("behind", "-1h")):
        with monkeypatch.context() as faked:
            faked.setenv("LD_PRELOAD", str(FAKETIME))
            faked.setenv("FAKETIME", offset)
            faked.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            cluster.start(name)
    epochs = {node.instance_id: node.epoch for node in cluster.client.nodes().nodes}
    # In this order: a pause between the two makes no instant look early.
    began_at = time.clock_gettime(time.CLOCK_BOOTTIME) + 1
    begin = datetime.now(UTC) + timedelta(seconds=1)
    cluster.client.schedule_job(
        JobDetail(Quick, "quick"),
        SimpleTrigger("t", start_time=begin, interval=timedelta(milliseconds=200), repeat_count=29),
    )
    cluster.wait(lambda: cluster.client.executions().count() == 30, "all to run")
    assert set(cluster.journal.starts_by_instant().values()) == {1}
    for number, line in enumerate(sorted(cluster.journal.lines("start"), key=lambda line: line.scheduled)):
        assert line.at - (began_at + 0.2 * number) > -0.05, "not before its instant"
    assert not cluster.client.misfires()
    time.sleep(2)
    assert {node.instance_id: node.epoch for node in cluster.client.nodes().nodes} == epochs
