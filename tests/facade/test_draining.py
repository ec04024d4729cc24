"""Jobs use the scheduler until they have ended, also while their node drains."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quartzpy import (
    AsyncScheduler,
    CronTrigger,
    Job,
    JobDetail,
    JobExecutionContext,
    JobKey,
    Scheduler,
    SimpleTrigger,
    TriggerKey,
    events,
)
from quartzpy.errors import SchedulerStateError
from quartzpy.states import ExecutionState
from tests.facade import jobs, process_jobs
from tests.waiting import wait_until

SOON = 60.0
MakeScheduler = Callable[..., Scheduler]

NEXT = JobKey("next")
LATER = "0 0 0 1 1 ? 2090"


class Following(Job):
    """Uses many methods, once the test says so."""

    def execute(self, context: JobExecutionContext) -> None:
        jobs.ran.put(context)
        jobs.go_on.wait(60)
        scheduler = context.scheduler
        scheduler.trigger_job(NEXT)
        scheduler.schedule_job(JobDetail(jobs.Recorded, "follower"), CronTrigger(LATER, "follower", time_zone="UTC"))
        scheduler.pause_trigger(TriggerKey("follower"))
        scheduler.jobs().count()
        scheduler.check_exists(NEXT)
        scheduler.currently_executing_jobs()


class FollowingAsync(Job):
    """The same on the event loop, with awaited methods."""

    async def execute(self, context: JobExecutionContext) -> None:
        jobs.ran.put(context)
        while not jobs.go_on.is_set():
            await asyncio.sleep(0.01)
        scheduler = AsyncScheduler(context.scheduler)
        await scheduler.trigger_job(NEXT)
        await scheduler.schedule_job(
            JobDetail(jobs.Recorded, "follower"), CronTrigger(LATER, "follower", time_zone="UTC")
        )
        await scheduler.jobs().count()


class FollowingInTransaction(Job):
    """Triggers and schedules in its own transaction."""

    def execute(self, context: JobExecutionContext) -> None:
        jobs.ran.put(context)
        jobs.go_on.wait(60)
        with context.transaction() as connection:
            methods = context.scheduler.using(connection)
            methods.trigger_job(NEXT)
            methods.schedule_job(JobDetail(jobs.Recorded, "follower"), CronTrigger(LATER, "follower", time_zone="UTC"))


class WaitingForNext(Job):
    """Triggers a job and waits for it, once the test says so."""

    def execute(self, context: JobExecutionContext) -> None:
        jobs.ran.put(context)
        jobs.go_on.wait(60)
        try:
            record = context.scheduler.trigger_job(NEXT).wait()
        except SchedulerStateError as error:
            context.put("error", error)
            raise
        context.put("record", record)


class WaitingForAnother(Job):
    """Waits for an execution that runs already."""

    def execute(self, context: JobExecutionContext) -> None:
        jobs.ran.put(context)
        context.put("record", context.scheduler.job("waiting").wait())


def _begun(scheduler: Scheduler, job: type[Job]) -> JobExecutionContext:
    scheduler.add_job(JobDetail(jobs.Recorded, "next", durable=True))
    scheduler.schedule_job(JobDetail(job, "job"), SimpleTrigger("job"))
    return jobs.next_run()


def _drains(scheduler: Scheduler, **options: Any) -> threading.Event:
    """Begin a drain in the background, and wait until the node fires nothing more. The event is set when it is over."""
    over = threading.Event()
    scheduler.listeners.add_listener(lambda event: over.set(), events.SchedulerShutDown)
    node: Any = scheduler._node
    scheduler.shutdown(wait=False, **options)
    assert node is not None
    wait_until(lambda: not node.parts.scheduler_thread._thread.is_alive(), "the end of the scheduler thread")
    return over


def _states(scheduler: Scheduler, name: str) -> list[ExecutionState]:
    return [one.state for one in scheduler.executions(job=JobKey(name))]


@pytest.fixture
def observer(make_scheduler: MakeScheduler, url: str) -> Callable[[Scheduler], Scheduler]:
    """A scheduler that reads what the one under test has left."""

    def make(scheduler: Scheduler) -> Scheduler:
        return Scheduler(scheduler._store) if url == "memory://" else make_scheduler()

    return make


@pytest.mark.parametrize("job", [Following, FollowingAsync, FollowingInTransaction])
def test_a_job_uses_the_scheduler_until_it_has_ended(
    scheduler: Scheduler, observer: Callable[[Scheduler], Scheduler], job: type[Job], url: str
) -> None:
    if job is FollowingInTransaction and url == "memory://":
        pytest.skip("a memory store has no transactions of a database")
    reader = observer(scheduler)
    _begun(scheduler, job)
    over = _drains(scheduler)
    jobs.go_on.set()
    assert over.wait(SOON)
    assert scheduler.shutdown(), "drained"
    assert _states(reader, "job") == [ExecutionState.SUCCEEDED]
    assert reader.check_exists(JobKey("follower"))
    [triggered] = reader.triggers_of_job(NEXT)
    assert triggered.key.group == "MANUAL_TRIGGERS"
    with pytest.raises(SchedulerStateError, match="was shut down; create a new one"):
        scheduler.trigger_job(NEXT)


def test_a_job_in_a_process_ends_as_usual(make_scheduler: MakeScheduler, url: str, tmp_path: Path) -> None:
    if url == "memory://":
        pytest.skip("another process has no access to a memory store")
    running, reader = make_scheduler(executors={"cpu": "processes:1"}), make_scheduler()
    running.start()
    running.add_job(JobDetail(jobs.Recorded, "next", durable=True))
    data = {"url": url, "file": str(tmp_path / "go-on")}
    running.schedule_job(JobDetail(process_jobs.Following, "job", executor="cpu", data=data), SimpleTrigger("job"))
    wait_until(lambda: [row for row in reader.running() if row.state == "EXECUTING"])
    over = _drains(running)
    Path(data["file"]).touch()
    assert over.wait(SOON)
    assert _states(reader, "job") == [ExecutionState.SUCCEEDED]
    assert len(reader.triggers_of_job(NEXT)) == 1


def test_a_draining_scheduler_is_not_started_again(scheduler: Scheduler) -> None:
    _begun(scheduler, jobs.Waiting)
    _drains(scheduler)
    for refused in (scheduler.start, scheduler.standby, lambda: scheduler.start_delayed("1s")):
        with pytest.raises(SchedulerStateError, match="was shut down; create a new one"):
            refused()
    assert scheduler.check_exists(NEXT), "other callers read and write meanwhile"


def test_a_scheduler_that_never_ran_refuses_at_once(client: Scheduler) -> None:
    client.shutdown()
    with pytest.raises(SchedulerStateError, match="was shut down; create a new one"):
        client.check_exists(NEXT)


def test_after_the_time_limit_of_the_drain_a_job_is_told_why_it_is_refused(scheduler: Scheduler) -> None:
    context = _begun(scheduler, jobs.Deaf)
    assert not scheduler.shutdown(timeout="100ms")
    with pytest.raises(SchedulerStateError, match="time limit of its drain has passed"):
        context.scheduler.trigger_job(NEXT)


def test_a_job_that_waits_for_what_no_node_runs_waits_until_the_time_limit(scheduler: Scheduler) -> None:
    context = _begun(scheduler, WaitingForNext)
    over = _drains(scheduler, timeout="500ms")
    jobs.go_on.set()
    assert over.wait(SOON)
    wait_until(lambda: context.get("error"))
    assert "time limit of its drain has passed" in str(context.get("error"))


def test_a_drain_without_a_limit_ends_although_a_job_waits_for_what_no_node_runs(scheduler: Scheduler) -> None:
    context = _begun(scheduler, WaitingForNext)
    over = _drains(scheduler)
    jobs.go_on.set()
    assert over.wait(SOON)
    assert "has not begun, and no other node is alive" in str(context.get("error"))


def test_a_job_waits_for_what_another_node_runs(make_scheduler: MakeScheduler, url: str) -> None:
    if url == "memory://":
        pytest.skip("a memory store has one node")
    draining = make_scheduler(instance_id="a")
    draining.start()
    context = _begun(draining, WaitingForNext)
    make_scheduler(instance_id="b").start()
    over = _drains(draining)
    jobs.go_on.set()
    assert over.wait(SOON)
    assert context.get("record").state is ExecutionState.SUCCEEDED


def test_a_job_waits_for_what_runs_on_the_same_node(scheduler: Scheduler) -> None:
    scheduler.schedule_job(JobDetail(jobs.Waiting, "waiting"), SimpleTrigger("waiting"))
    jobs.next_run()
    context = _begun(scheduler, WaitingForAnother)
    over = _drains(scheduler)
    jobs.go_on.set()
    assert over.wait(SOON)
    assert context.get("record").state is ExecutionState.SUCCEEDED
