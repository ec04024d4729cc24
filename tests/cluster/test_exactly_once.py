from __future__ import annotations

from datetime import UTC, datetime, timedelta

from quartzpy import JobDetail, SimpleTrigger
from tests.cluster.app import Counting, Quick
from tests.cluster.nodes import Cluster
from tests.fire_times import first_fire_times


def test_each_fire_of_200_triggers_over_30_seconds_by_3_nodes_happens_exactly_once(cluster: Cluster) -> None:
    cluster.start("a", "b", "c")
    begin = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)
    second, apart = timedelta(seconds=1), timedelta(milliseconds=5)
    triggers = [
        SimpleTrigger(f"t{n}", start_time=begin + n * apart, interval=second, repeat_count=29, misfire="ignore")
        for n in range(200)
    ]
    cluster.client.schedule_job(JobDetail(Quick, "quick"), triggers)
    expected = {(t.name, instant) for t in triggers for instant in first_fire_times(t, 40)}
    assert len(expected) == 200 * 30

    cluster.wait(lambda: not cluster.client.trigger_keys(), "all triggers to end")

    happened = cluster.journal.starts_by_instant()
    assert set(happened) == expected
    assert max(happened.values()) == 1
    assert len({line.pid for line in cluster.journal.lines("start")}) == 3, "every node takes its part"
    assert cluster.client.job_keys() == set(), "the job was not durable"
    assert cluster.client.running() == []


def test_persisted_data_of_a_serial_job_counts_every_execution_across_nodes(cluster: Cluster) -> None:
    cluster.start("a", "b")
    job = JobDetail(Counting, "counting", durable=True, data={"count": 0})
    often = [
        SimpleTrigger(f"t{n}", interval=timedelta(milliseconds=100), repeat_count=24, misfire="ignore")
        for n in range(2)
    ]
    cluster.client.schedule_job(job, often)
    cluster.wait(lambda: not cluster.client.trigger_keys(), "all triggers to end")
    stored = cluster.client.get_job_detail(job.key)
    assert stored is not None
    assert stored.data == {"count": 50}
    assert len(cluster.journal.lines("start")) == 50


def test_what_a_client_schedules_wakes_a_sleeping_node_at_once(cluster: Cluster) -> None:
    # Neither the next look for due triggers nor the next check-in comes in time.
    cluster.start("a", idle_wait="300s", checkin_interval="120s", failure_window="600s")
    job = JobDetail(Quick, "quick", durable=True)
    cluster.client.add_job(job)
    for count in range(1, 8):
        cluster.client.trigger_job(job.key)
        cluster.wait(lambda count=count: cluster.client.executions().count() == count, "the run")  # type: ignore[misc]
