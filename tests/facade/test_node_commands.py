"""Commands of operators to nodes: standby, drain and resume, from another scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from quartzpy import Job, JobExecutionContext, JobExecutionError, Scheduler, SchedulerListener, every
from quartzpy.operations import Operations
from tests.database import connect_to
from tests.facade import jobs
from tests.waiting import wait_until


class Refiring(Job):
    """Asks for an immediate refire until the test says so."""

    def execute(self, context: JobExecutionContext) -> None:
        jobs.ran.put(context)
        if not jobs.go_on.wait(0.01):
            raise JobExecutionError("again", refire_immediately=True)


@pytest.fixture
def url(postgres_dsn: str) -> str:
    """Operators need a database."""
    return postgres_dsn


@pytest.fixture
def cluster(url: str) -> Iterator[Callable[..., Scheduler]]:
    """Schedulers on one store, which are shut down at the test's end."""
    jobs.reset()
    place = url
    made: list[Scheduler] = []

    def make(instance_id: str | None = None, **settings: Any) -> Scheduler:
        # With this interval a command arrives in time by its notification, and not by a check-in.
        arguments = jobs.arguments(checkin_interval="20s", failure_window="90s", idle_wait="200ms", **settings)
        if instance_id is not None:
            arguments["instance_id"] = instance_id
        made.append(Scheduler(place, **arguments))
        return made[-1]

    yield make
    jobs.go_on.set()
    for scheduler in made:
        scheduler.shutdown()


def modes(operations: Operations) -> dict[str, str]:
    return {node.node: node.mode for node in operations.cluster().nodes}


def test_a_node_that_is_told_to_stand_by_runs_nothing_until_it_is_resumed(cluster: Callable[..., Scheduler]) -> None:
    one, two, client = cluster("one"), cluster("two"), cluster()
    one.start()
    two.start()
    operations = Operations(client)
    for command, mode in (("standby", "STANDBY"), ("drain", "DRAINING")):
        getattr(operations.actions, command)("two", reason="maintenance")
        assert modes(operations) == {"one": "RUNNING", "two": mode}
        wait_until(lambda: two.is_in_standby)
        # A pass that had begun before the command may still claim something.
        assert two._node is not None
        assert two._node.parts.signals.scheduler.wait_until_resting(60)
        assert not one.is_in_standby
        client.schedule_job(jobs.Recorded, every("20ms", repeat_count=9), name="often")
        assert {jobs.ran.get(timeout=60).scheduler.instance_id for _ in range(10)} == {"one"}
        operations.actions.resume_node("two")
        wait_until(lambda: not two.is_in_standby)
    operations.actions.drain("one")
    wait_until(lambda: one.is_in_standby)
    assert one._node is not None
    assert one._node.parts.signals.scheduler.wait_until_resting(60)
    client.trigger_job(client.schedule_job(jobs.Recorded, name="durable").key)
    assert jobs.ran.get(timeout=60).scheduler.instance_id == "two"


def test_a_draining_node_lets_running_executions_end_and_hands_on_refires(cluster: Callable[..., Scheduler]) -> None:
    one, client = cluster("one"), cluster()
    one.start()
    operations = Operations(client)
    waiting = client.schedule_job(jobs.Waiting, name="waiting").trigger()
    refiring = client.schedule_job(Refiring, name="refiring").trigger()
    wait_until(lambda: len(one.currently_executing_jobs()) == 2)
    operations.actions.drain("one")
    wait_until(lambda: [one.job_detail.key.name for one in one.currently_executing_jobs()] == ["waiting"])
    two = cluster("two")
    two.start()
    wait_until(lambda: [one.job_detail.key.name for one in two.currently_executing_jobs()] == ["refiring"])
    jobs.go_on.set()
    assert waiting.wait("60s").instance_id == "one"
    assert refiring.record is not None
    wait_until(lambda: not one.currently_executing_jobs())
    assert modes(operations)["one"] == "DRAINING", "it is still in the cluster"


def test_the_program_and_operators_command_the_same_mode(cluster: Callable[..., Scheduler]) -> None:
    one, client = cluster("one"), cluster()
    one.start(standby=True)
    operations = Operations(client)
    wait_until(lambda: modes(operations) == {"one": "STANDBY"})
    operations.actions.resume_node("one")
    wait_until(lambda: not one.is_in_standby)
    one.standby()
    wait_until(lambda: modes(operations) == {"one": "STANDBY"})
    one.start()
    wait_until(lambda: modes(operations) == {"one": "RUNNING"})
    assert not one.is_in_standby


def test_listeners_of_the_node_learn_of_a_command(cluster: Callable[..., Scheduler]) -> None:
    one, client = cluster("one"), cluster()
    seen: list[str] = []

    class Listening(SchedulerListener):
        def scheduler_in_standby(self, event: object) -> None:
            seen.append("in standby")

        def scheduler_started(self, event: object) -> None:
            seen.append("started")

    one.listeners.add_scheduler_listener(Listening())
    one.start()
    wait_until(lambda: seen == ["started"])
    Operations(client).actions.drain("one")
    wait_until(lambda: seen == ["started", "in standby"])
    Operations(client).actions.resume_node("one")
    wait_until(lambda: seen == ["started", "in standby", "started"])


def test_a_node_that_restarts_starts_running(cluster: Callable[..., Scheduler]) -> None:
    one, client = cluster("one"), cluster()
    one.start()
    operations = Operations(client)
    operations.actions.drain("one")
    wait_until(lambda: one.is_in_standby)
    one.shutdown()
    again = cluster("one")
    again.start()
    assert modes(operations) == {"one": "RUNNING"}
    assert not again.is_in_standby


def test_a_node_that_lost_its_epoch_keeps_its_mode(postgres_dsn: str) -> None:
    jobs.reset()
    settings = jobs.arguments(instance_id="one")
    one, client = Scheduler(postgres_dsn, **settings), Scheduler(postgres_dsn, **jobs.arguments())
    try:
        one.start()
        operations = Operations(client)
        operations.actions.drain("one")
        wait_until(lambda: one.is_in_standby)
        [before] = operations.cluster().nodes
        with connect_to(postgres_dsn) as connection:
            connection.execute("DELETE FROM qrtz_scheduler_state")
        wait_until(lambda: [one.epoch > before.epoch for one in operations.cluster().nodes] == [True])
        wait_until(lambda: modes(operations) == {"one": "DRAINING"})
        assert one.is_in_standby
    finally:
        one.shutdown()
        client.shutdown()
