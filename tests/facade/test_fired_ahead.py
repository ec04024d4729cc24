"""What becomes of a fire that waits for a worker of its node: it runs once, wherever and whatever happens meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from quartzpy import Job, JobDetail, JobExecutionContext, JobKey, Scheduler, SimpleTrigger
from quartzpy.node.reactions import Reactions
from quartzpy.node.workers.worker_pool import Pace
from tests.waiting import wait_until

MakeScheduler = Callable[..., Scheduler]
SOON = timedelta(seconds=20)

began = threading.Semaphore(0)
go_on = threading.Event()
ran: list[str] = []


class Long(Job):
    """A job that runs for long, after many that were short."""

    def execute(self, context: JobExecutionContext) -> None:
        began.release()
        go_on.wait(100)


class Short(Job):
    def execute(self, context: JobExecutionContext) -> None:
        ran.append(context.execution_key)


@pytest.fixture(autouse=True)
def _fresh(make_scheduler: MakeScheduler) -> Iterator[None]:
    """The jobs end before their schedulers, which would wait for them."""
    go_on.clear()
    ran.clear()
    while began.acquire(blocking=False):
        pass
    yield
    go_on.set()


@pytest.fixture(autouse=True)
def _all_jobs_seem_short(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Pace.__init__

    def seem_short(self: Pace, most: int) -> None:
        original(self, most)
        self.ended(0.0)

    monkeypatch.setattr(Pace, "__init__", seem_short)
    monkeypatch.setattr(Pace, "within", lambda self, seconds, now: 1_000)


def behind_a_long_job(scheduler: Scheduler, patience: float, monkeypatch: pytest.MonkeyPatch, **values: Any) -> None:
    """Three fires wait on this node behind a long job, on its only worker."""
    monkeypatch.setattr("quartzpy.node.scheduler_thread.PATIENCE", patience)
    scheduler.schedule_job(JobDetail(Long, "long"), SimpleTrigger("long"))
    assert began.acquire(timeout=60)
    triggers = [SimpleTrigger(f"t{number}") for number in range(3)]
    scheduler.schedule_job(JobDetail(Short, "short", durable=True, **values), triggers)
    wait_until(lambda: occupied(scheduler) == 4)


def occupied(scheduler: Scheduler) -> int:
    assert scheduler._node is not None
    return scheduler._node.parts.executors.occupied


def outcomes(scheduler: Scheduler) -> list[str]:
    return sorted(str(one.outcome) for one in scheduler.executions(job=JobKey("short")))


def test_it_runs_when_a_worker_is_free(make_scheduler: MakeScheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = make_scheduler(workers=1, batch_size=3)
    scheduler.start()
    behind_a_long_job(scheduler, 30.0, monkeypatch)
    go_on.set()
    assert scheduler.wait_until_recorded(4, SOON)
    assert (len(set(ran)), outcomes(scheduler)) == (3, ["SUCCEEDED"] * 3)


def test_it_is_left_to_another_node_when_the_workers_are_busy_for_long(
    make_scheduler: MakeScheduler, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if url == "memory://":
        pytest.skip("a store in memory has one node")
    busy, idle = (
        make_scheduler(workers=1, batch_size=3, instance_id="busy"),
        make_scheduler(workers=4, instance_id="idle"),
    )
    busy.start()
    behind_a_long_job(busy, 0.2, monkeypatch, retry=None)
    idle.start()
    wait_until(lambda: len(ran) == 3)
    wait_until(lambda: outcomes(busy) == ["SNOOZED"] * 3 + ["SUCCEEDED"] * 3)
    assert len(set(ran)) == 3, "the key and the nominal fire time are those of the fire"
    assert not busy.misfires(), "a fire that was handed back has not misfired"
    assert {one.attempt for one in busy.executions(job=JobKey("short"))} == {1}
    wait_until(lambda: occupied(busy) == 1)


def test_a_pause_or_the_end_of_its_trigger_does_not_undo_it(
    make_scheduler: MakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler(workers=1, batch_size=3)
    scheduler.start()
    behind_a_long_job(scheduler, 30.0, monkeypatch)
    scheduler.pause_job(JobKey("short"))
    scheduler.delete_job(JobKey("short"))
    go_on.set()
    assert scheduler.wait_until_recorded(4, SOON)
    assert outcomes(scheduler) == ["SUCCEEDED"] * 3


def test_a_shutdown_leaves_it_to_other_nodes(
    make_scheduler: MakeScheduler, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if url == "memory://":
        pytest.skip("a store in memory has one node")
    stopping, other = (
        make_scheduler(workers=1, batch_size=3, instance_id="stopping"),
        make_scheduler(instance_id="other"),
    )
    stopping.start()
    behind_a_long_job(stopping, 30.0, monkeypatch)
    threading.Thread(target=stopping.shutdown, daemon=True).start()
    other.start()
    wait_until(lambda: len(ran) == 3)
    assert len(set(ran)) == 3
    go_on.set()
    assert stopping.shutdown(timeout=SOON)


def test_in_standby_it_is_left_to_other_nodes(
    make_scheduler: MakeScheduler, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if url == "memory://":
        pytest.skip("a store in memory has one node")
    resting, other = make_scheduler(workers=1, batch_size=3, instance_id="resting"), make_scheduler(instance_id="other")
    resting.start()
    behind_a_long_job(resting, 30.0, monkeypatch)
    resting.standby()
    other.start()
    wait_until(lambda: len(ran) == 3)
    assert len(set(ran)) == 3


def test_a_node_that_lost_its_epoch_does_not_run_it(
    make_scheduler: MakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler(workers=1, batch_size=3)
    scheduler.start()
    behind_a_long_job(scheduler, 30.0, monkeypatch)
    assert scheduler._node is not None
    scheduler._node.parts.registration.present_epoch().lose()
    go_on.set()
    wait_until(lambda: occupied(scheduler) == 0)
    assert ran == []


def test_it_does_not_run_if_its_job_is_asked_to_stop(
    make_scheduler: MakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler(workers=1, batch_size=3)
    scheduler.start()
    behind_a_long_job(scheduler, 30.0, monkeypatch)
    scheduler.cancel_job("short")
    wait_until(lambda: occupied(scheduler) == 1)
    go_on.set()
    assert scheduler.wait_until_recorded(4, SOON)
    assert (ran, outcomes(scheduler)) == ([], ["CANCELLED"] * 3)


def test_a_request_to_stop_it_is_not_lost_when_it_is_handed_back(
    make_scheduler: MakeScheduler, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor if the notification of the request never came."""
    if url == "memory://":
        pytest.skip("a store in memory has one node")
    monkeypatch.setattr(Reactions, "apply_cancel_requests", lambda self: None)
    resting, other = make_scheduler(workers=1, batch_size=3, instance_id="resting"), make_scheduler(instance_id="other")
    resting.start()
    behind_a_long_job(resting, 30.0, monkeypatch)
    resting.cancel_job("short")
    resting.standby()
    other.start()
    wait_until(lambda: outcomes(resting) == ["CANCELLED"] * 3)
    wait_until(lambda: occupied(resting) == 1)
    assert ran == []
