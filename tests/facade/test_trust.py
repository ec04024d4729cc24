"""A job does not begin once its node may no longer act: whatever it waited for after its fire."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from multiprocessing.context import SpawnProcess
from pathlib import Path

import pytest

from quartzpy import JobDetail, Scheduler, SimpleTrigger
from quartzpy.events import events
from quartzpy.node.node import SchedulerNode
from tests.facade import jobs, poison

SOON = timedelta(seconds=30)


@pytest.fixture
def url() -> str:
    return "memory://"


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    poison.ran.clear()
    poison.go_on.clear()
    yield
    poison.go_on.set()


def node_of(scheduler: Scheduler) -> SchedulerNode:
    assert scheduler._node is not None
    return scheduler._node


def is_idle(scheduler: Scheduler) -> bool:
    return node_of(scheduler).parts.executors.wait_until_idle(lambda: 20.0)


def test_an_async_job_that_waited_too_long_for_the_loop_does_not_start(scheduler: Scheduler) -> None:
    scheduler.schedule_job(JobDetail(poison.BlocksTheLoop, "blocks"), SimpleTrigger("blocks"))
    assert poison.ran.wait(20)
    scheduler.schedule_job(JobDetail(jobs.RecordedAsync, "waits"), SimpleTrigger("waits"))
    while len(node_of(scheduler).running()) < 2 or node_of(scheduler).parts.executors.occupied < 2:
        poison.go_on.wait(0.01)
    node_of(scheduler).parts.registration.present_epoch().lose()
    poison.go_on.set()
    assert is_idle(scheduler)
    assert jobs.nothing_ran(0.0)


def test_a_job_whose_listener_took_longer_than_the_lease_does_not_start(scheduler: Scheduler) -> None:
    asked = threading.Event()

    def wait(event: events.Event) -> None:
        asked.set()
        poison.go_on.wait(20)

    scheduler.listeners.add_listener(wait, events.JobToBeExecuted)
    scheduler.schedule_job(JobDetail(jobs.Recorded, "waits"), SimpleTrigger("waits"))
    assert asked.wait(20)
    node_of(scheduler).parts.registration.present_epoch().lose()
    poison.go_on.set()
    assert is_idle(scheduler)
    assert jobs.nothing_ran(0.0)


def test_a_job_that_waited_too_long_for_its_process_does_not_start(
    make_scheduler: Callable[..., Scheduler], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scheduler = make_scheduler(executors={"cpu": "processes:1"})
    start = SpawnProcess.start
    lost = threading.Event()

    def start_slowly(process: SpawnProcess) -> None:
        start(process)
        node_of(scheduler).parts.registration.present_epoch().lose()
        lost.set()

    monkeypatch.setattr(SpawnProcess, "start", start_slowly)
    scheduler.start()
    written = tmp_path / "written"
    job = JobDetail(poison.Writes, "waits", executor="cpu", data={"file": str(written)})
    scheduler.schedule_job(job, SimpleTrigger("waits"))
    # The node may have another epoch soon after.
    assert lost.wait(60)
    assert is_idle(scheduler)
    assert not written.exists()
