"""Limits, retries and cancelling, between processes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from quartzpy import JobDetail, RetryPolicy, SimpleTrigger
from quartzpy.states import Outcome
from tests.cluster.app import Brief, Endless, Failing
from tests.cluster.nodes import Cluster
from tests.protocol.options import is_long


@pytest.fixture
def executions(pytestconfig: pytest.Config) -> int:
    """The number of executions that contend for the slots of a limit."""
    return 5_000 if is_long(pytestconfig) else 1_500


def test_a_limit_of_three_over_four_nodes_is_never_exceeded(cluster: Cluster, executions: int) -> None:
    cluster.start("a", "b", "c", "d")
    often = [
        SimpleTrigger(f"t{n}", interval=timedelta(milliseconds=20), repeat_count=executions // 20 - 1, misfire="ignore")
        for n in range(20)
    ]
    cluster.client.schedule_job(JobDetail(Brief, "brief", max_concurrent=3), often)
    cluster.wait(lambda: not cluster.client.trigger_keys(), "all triggers to end")
    lines = sorted(cluster.journal.lines(), key=lambda line: line.at)
    assert len(lines) == 2 * executions
    running = most = 0
    for line in lines:
        running += 1 if line.event == "start" else -1
        most = max(most, running)
    assert most <= 3
    assert len({line.pid for line in lines}) > 1, "several nodes take part"


def test_retries_go_on_with_the_right_attempt_after_a_node_was_killed_between_them(cluster: Cluster) -> None:
    cluster.start("a")
    policy = RetryPolicy(attempts=4, delay=timedelta(seconds=1), factor=1)
    cluster.client.schedule_job(JobDetail(Failing, "failing", retry=policy), SimpleTrigger("t"))
    cluster.wait(lambda: cluster.client.executions().count() >= 2, "two attempts")
    # Nothing that the death would cost runs when it comes, however late that is.
    cluster.client.pause_all()
    cluster.wait(lambda: not cluster.client.running(), "the end of an attempt that has just begun")
    cluster.kill("a")
    cluster.start("b")
    cluster.client.resume_all()
    cluster.wait(lambda: cluster.client.executions().count() == 4, "all attempts")
    assert [line.attempt for line in cluster.journal.lines("start")] == [1, 2, 3, 4]
    assert len({line.pid for line in cluster.journal.lines("start")}) == 2
    assert {execution.outcome for execution in cluster.client.executions()} == {Outcome.FAILED}
    assert not cluster.client.trigger_keys()


def test_an_async_job_on_another_node_is_cancelled_at_once(cluster: Cluster) -> None:
    # Checking in is the net, and is too late here.
    cluster.start("b", checkin_interval="120s", failure_window="600s")
    cluster.client.schedule_job(JobDetail(Endless, "endless", retry=RetryPolicy()), SimpleTrigger("t"))
    cluster.journal.wait_for(lambda lines: len(lines) == 1, "the start")
    [running] = cluster.client.running()
    assert cluster.client.cancel(running.fire_id)
    cluster.journal.wait_for(lambda lines: len(lines) == 2, "the end")
    cluster.wait(cluster.client.executions, "the history")
    assert [execution.outcome for execution in cluster.client.executions()] == [Outcome.CANCELLED]
    assert not cluster.client.cancel(running.fire_id)
    assert not cluster.client.trigger_keys(), "it is not retried"
