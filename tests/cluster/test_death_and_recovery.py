from __future__ import annotations

import signal
import time
from collections.abc import Callable
from datetime import timedelta

from quartzpy import JobDetail, SimpleTrigger
from quartzpy.states import Outcome
from quartzpy.store.records import NodeRecord
from tests.cluster.app import Long, Quick, Serial
from tests.cluster.nodes import Cluster

WINDOW = timedelta(seconds=5)
LEASE = {"checkin_interval": "1s", "failure_window": f"{WINDOW.total_seconds()}s"}
"""For tests that wait until the lease of a node is over by itself."""


def test_a_killed_node_is_recovered_after_its_lease_and_only_what_asked_for_it_runs_again(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster(**LEASE)
    cluster.start("a")
    for name, wants in (("wants", True), ("does-not", False)):
        job = JobDetail(Long, name, data={"seconds": 60}, requests_recovery=wants)
        cluster.client.schedule_job(job, SimpleTrigger(name, data={"tag": name}))
    cluster.journal.wait_for(lambda lines: len(lines) == 2, "both to start")
    started = {line.job: line for line in cluster.journal.lines("start")}
    cluster.start("b")

    cluster.kill("a")
    [killed] = [node for node in cluster.client.nodes().nodes if node.instance_id == "a"]
    cluster.journal.wait_for(lambda lines: len(lines) == 3, "the recovery")
    time.sleep(1.0)  # whatever else might wrongly start
    again = [line for line in cluster.journal.lines("start") if line.recovering]
    assert [line.job for line in again] == ["wants"]
    # How soon after that depends on how busy the machine is.
    [recovery] = cluster.client.running()
    assert recovery.fire_time - killed.last_checkin > WINDOW
    assert again[0].scheduled == started["wants"].scheduled
    assert again[0].fire_id > started["wants"].fire_id
    lost = [e for e in cluster.client.executions() if e.outcome is Outcome.TERMINATED]
    assert [e.job_key.name for e in lost] == ["does-not"]
    assert [node.instance_id for node in cluster.client.nodes().nodes] == ["b"]


def test_a_serial_job_of_a_killed_node_is_freed_for_the_others(cluster: Cluster) -> None:
    cluster.start("a")
    job = JobDetail(Serial, "serial", data={"seconds": 60})
    later = SimpleTrigger("later", interval=timedelta(seconds=1), repeat_count=None, data={"seconds": 0.01})
    cluster.client.schedule_job(job, [SimpleTrigger("first"), later])
    cluster.journal.wait_for(lambda lines: bool(lines), "the first")
    cluster.start("b")
    cluster.kill("a")
    cluster.expire("a")
    cluster.journal.wait_for(
        lambda lines: any(line.pid == cluster.pid("b") and line.event == "end" for line in lines),
        "the other trigger to fire on b",
    )


def test_a_node_that_was_frozen_past_its_lease_is_fenced_and_rejoins_as_another_epoch(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster(**LEASE)
    # Both before the job runs: on a busy machine a node may take longer to start than the job.
    cluster.start("a", "b")
    job = JobDetail(Long, "long", data={"seconds": 6}, requests_recovery=True)
    cluster.client.schedule_job(job, SimpleTrigger("once"))
    [first] = cluster.journal.wait_for(lambda lines: bool(lines), "the start")
    frozen = cluster.name_of(first.pid)
    epoch = next(n.epoch for n in cluster.client.nodes().nodes if n.instance_id == frozen)

    cluster.send(frozen, signal.SIGSTOP)
    cluster.journal.wait_for(lambda lines: any(line.recovering for line in lines), "the recovery on the other")
    cluster.send(frozen, signal.SIGCONT)

    cluster.wait(
        lambda: any(n.instance_id == frozen and n.epoch > epoch for n in cluster.client.nodes().nodes),
        "it to rejoin",
    )
    cluster.wait(lambda: cluster.client.executions().count() == 1, "the recovery to end")
    time.sleep(0.5)
    [recorded] = cluster.client.executions()
    assert {recorded.instance_id, frozen} == {"a", "b"}
    assert recorded.recovering
    assert recorded.outcome is Outcome.SUCCEEDED
    told = [line for line in cluster.journal.lines(fire_id=first.fire_id) if line.event != "start"]
    assert [line.event for line in told] in (["lost"], [])


def test_a_short_freeze_does_not_make_a_node_look_dead(make_cluster: Callable[..., Cluster]) -> None:
    window = 2.0
    cluster = make_cluster(failure_window=f"{window}s")
    cluster.start("a", "b")

    def row() -> NodeRecord:
        # Between a conviction and the new epoch there is none.
        cluster.wait(lambda: any(n.instance_id == "a" for n in cluster.client.nodes().nodes), "a's row")
        return next(n for n in cluster.client.nodes().nodes if n.instance_id == "a")

    survived = 0
    for _ in range(12):
        last = row()
        cluster.send("a", signal.SIGSTOP)
        time.sleep(window / 2)
        cluster.send("a", signal.SIGCONT)
        cluster.wait(lambda last=last: row().last_checkin > last.last_checkin, "a's next check-in")
        now = row()
        if now.epoch == last.epoch:
            survived += 1
            if survived == 3:
                return
        else:
            # The machine itself made the freeze a long one.
            silent = (now.started_at - last.last_checkin).total_seconds()
            assert silent > window, f"convicted after {silent} s\n{cluster.logs()}"
    raise AssertionError(f"only {survived} of 12 freezes were survived\n{cluster.logs()}")


def test_sigterm_lets_running_jobs_end_and_leaves_the_cluster(cluster: Cluster) -> None:
    cluster.start("a")
    job = JobDetail(Long, "long", data={"seconds": 2})
    cluster.client.schedule_job(job, SimpleTrigger("once"))
    cluster.journal.wait_for(lambda lines: bool(lines), "the start")
    assert cluster.terminate("a") == 0, cluster.logs()
    assert [line.event for line in cluster.journal.lines()] == ["start", "end"]
    assert [e.outcome for e in cluster.client.executions()] == [Outcome.SUCCEEDED]
    assert cluster.client.nodes().nodes == ()


def test_a_node_restarted_under_its_name_at_once_takes_over_its_own_work(cluster: Cluster) -> None:
    cluster.start("a")
    job = JobDetail(Long, "long", data={"seconds": 60}, requests_recovery=True)
    cluster.client.schedule_job(job, SimpleTrigger("once"))
    cluster.journal.wait_for(lambda lines: bool(lines), "the start")
    cluster.kill("a")
    cluster.processes.pop("a")
    cluster.start("a")
    again = cluster.journal.wait_for(lambda lines: len(lines) == 2, "the recovery")
    assert again[1].recovering


def test_a_shutdown_under_load_loses_no_fire(cluster: Cluster) -> None:
    cluster.start("a", "b")
    triggers = [
        SimpleTrigger(f"t{n}", interval=timedelta(milliseconds=200), repeat_count=39, misfire="ignore")
        for n in range(20)
    ]
    cluster.client.schedule_job(JobDetail(Quick, "quick"), triggers)
    for _ in range(2):
        time.sleep(1)
        assert cluster.terminate("a") == 0, cluster.logs()
        cluster.processes.pop("a")
        cluster.start("a")
    cluster.wait(lambda: not cluster.client.trigger_keys(), "all triggers to end")
    happened = cluster.journal.starts_by_instant()
    assert len(happened) == 20 * 40
    assert set(happened.values()) == {1}
