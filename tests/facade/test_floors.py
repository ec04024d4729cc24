"""What the program stores below the floor of its own node fires at once, though no notification reaches the node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quartzpy import JobDetail, JobKey, Scheduler, SimpleTrigger, TriggerKey
from quartzpy.node import outlook
from tests.facade import jobs
from tests.facade.test_lost_answers import in_
from tests.waiting import wait_until

AGO = timedelta(seconds=10)
JOB = JobDetail(jobs.Recorded, "job", durable=True)
LATE = TriggerKey("late")
Way = Callable[[Scheduler], Iterator[None]]


@pytest.fixture
def scheduler(postgres_dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scheduler]:
    """A scheduler without notifications, each of whose reads is dear and followed by no other full one."""
    monkeypatch.setattr(outlook, "DEAR_READ", 0.0)
    monkeypatch.setattr(outlook, "SHORTEST_FLOOR", 3_600.0)
    monkeypatch.setattr(outlook, "MAX_FLOOR", 3_600.0)
    jobs.reset()
    one = Scheduler(postgres_dsn, **jobs.arguments(pooled=True))
    one.start()
    yield one
    one.shutdown(timeout=timedelta(seconds=60), interrupt=True)


def late() -> SimpleTrigger:
    return SimpleTrigger(LATE.name, start_time=datetime.now(UTC) - AGO)


def stored(scheduler: Scheduler) -> Iterator[None]:
    yield
    scheduler.schedule_job(JOB, late())


def replaced(scheduler: Scheduler) -> Iterator[None]:
    scheduler.schedule_job(JOB, SimpleTrigger(LATE.name, start_time=in_(3_600)))
    yield
    scheduler.schedule_job(JOB, late(), replace=True)


def rescheduled(scheduler: Scheduler) -> Iterator[None]:
    scheduler.schedule_job(JOB, SimpleTrigger(LATE.name, start_time=in_(3_600)))
    yield
    scheduler.reschedule_job(LATE, late())


def resumed(scheduler: Scheduler) -> Iterator[None]:
    scheduler.pause_trigger_group("paused")
    scheduler.schedule_job(JOB, SimpleTrigger(LATE.name, "paused", start_time=datetime.now(UTC) - AGO))
    yield
    scheduler.resume_trigger_group("paused")


def job_enabled(scheduler: Scheduler) -> Iterator[None]:
    scheduler.add_job(JOB)
    scheduler.set_mode(JOB.key, "DISABLED")
    scheduler.schedule_job(JOB, late(), replace=True)
    yield
    scheduler.set_mode(JOB.key, "ENABLED", missed="misfire")


def moved_to_another_slot_pool(scheduler: Scheduler) -> Iterator[None]:
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job", durable=True, requires=["absent"]), late())
    yield
    scheduler.add_job(JOB, replace=True)


def modified(scheduler: Scheduler) -> Iterator[None]:
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job", durable=True, requires=["absent"]), late())
    yield
    scheduler.modify_job(JobKey("job"), requires=[])


WAYS: list[Way] = [stored, replaced, rescheduled, resumed, job_enabled, moved_to_another_slot_pool, modified]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_what_the_program_stores_fires_at_once(scheduler: Scheduler, way: Way) -> None:
    steps = way(scheduler)
    next(steps)
    # Its fire lets the floor rise.
    scheduler.schedule_job(JobDetail(jobs.Recorded, "other"), SimpleTrigger("other", start_time=in_(0.2)))
    assert jobs.next_run().trigger_key.name == "other"

    def floor() -> Any:
        assert scheduler._node is not None
        return scheduler._node.parts.scheduler_thread._knowledge.outlook.floors.get("")

    wait_until(lambda: (one := floor()) and one.at > datetime.now(UTC) - AGO / 2, "the floor")
    for _ in steps:
        pass
    assert jobs.next_run().trigger_key.name == LATE.name
