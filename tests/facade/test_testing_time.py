"""The test scheduler: jobs that wait, sleep and take too long, by its clock; events; cancelling."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from quartzpy import Job, JobDetail, JobExecutionContext, RetryPolicy, SimpleTrigger
from quartzpy.errors import InvalidValueError
from quartzpy.events import events
from quartzpy.keys import JobKey
from quartzpy.testing import SchedulerHarness
from tests.facade import jobs

START = datetime(2026, 3, 2, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


@pytest.fixture
def harness() -> Iterator[SchedulerHarness]:
    jobs.reset()
    began = time.monotonic()
    yield SchedulerHarness(START)
    assert time.monotonic() - began < 20, "hours of its clock take no real time"


class Waits(Job):
    """Waits for an hour in pieces of a minute, unless it is asked to stop."""

    def execute(self, context: JobExecutionContext) -> None:
        for _ in range(60):
            context.wait_cancelled(60)
            context.raise_if_cancelled()


class Sleeps(Job):
    """Sleeps for an hour on the event loop."""

    async def execute(self, context: JobExecutionContext) -> str:
        await asyncio.sleep(3_600)
        return "slept"


class Stubborn(Job):
    """Takes an hour and never looks."""

    def execute(self, context: JobExecutionContext) -> None:
        context.scheduler.clock.advance(HOUR)


class Threaded(Job):
    """Waits for a thread, under a limit that real time is far from."""

    async def execute(self, context: JobExecutionContext) -> str:
        return await asyncio.wait_for(asyncio.to_thread(self.work), 30)

    @staticmethod
    def work() -> str:
        time.sleep(0.05)
        return "from a thread"


class Forever(Job):
    """Waits for what never comes."""

    async def execute(self, context: JobExecutionContext) -> None:
        await asyncio.Event().wait()


@pytest.mark.parametrize("job", [Waits, Sleeps, Stubborn])
def test_waiting_moves_the_clock(harness: SchedulerHarness, job: type[Job]) -> None:
    harness.schedule_job(JobDetail(job, "job"), SimpleTrigger("t", repeat_count=0))
    [execution] = harness.advance(SECOND)
    assert execution.outcome == "SUCCEEDED"
    assert execution.ended_at is not None
    assert execution.ended_at - START == HOUR == harness.now - START


@pytest.mark.parametrize(
    ("job", "ended"),
    [
        (Waits, timedelta(minutes=10)),
        (Sleeps, timedelta(minutes=10, seconds=0.2)),
        (Forever, timedelta(minutes=10, seconds=0.2)),
        (Stubborn, HOUR),
    ],
)
def test_a_timeout_strikes_by_the_clock(harness: SchedulerHarness, job: type[Job], ended: timedelta) -> None:
    detail = JobDetail(job, "job", timeout=timedelta(minutes=10))
    harness.schedule_job(detail, SimpleTrigger("t", repeat_count=0))
    [execution] = harness.advance(SECOND)
    assert execution.outcome == "FAILED"
    assert "JobTimeoutError: took longer than its timeout of 0:10:00" in (execution.error or "")
    assert execution.ended_at is not None
    assert abs(execution.ended_at - START - ended) < timedelta(milliseconds=1)


def test_what_timed_out_is_tried_again(harness: SchedulerHarness) -> None:
    policy = RetryPolicy(attempts=2, delay=MINUTE)
    detail = JobDetail(Sleeps, "job", timeout=MINUTE, retry=policy)
    harness.schedule_job(detail, SimpleTrigger("t", repeat_count=0))
    executions = harness.advance(HOUR)
    assert [(each.attempt, each.outcome) for each in executions] == [(1, "FAILED"), (2, "FAILED")]


@pytest.mark.parametrize("ends", ["at once", "slowly"])
def test_a_job_that_waits_for_a_thread_does_not_move_the_clock(
    harness: SchedulerHarness, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    shutdown = ThreadPoolExecutor.shutdown

    def slowly(executor: ThreadPoolExecutor, wait: bool = True, *, cancel_futures: bool = False) -> None:
        time.sleep(0.05)
        shutdown(executor, wait, cancel_futures=cancel_futures)

    if ends == "slowly":
        monkeypatch.setattr(ThreadPoolExecutor, "shutdown", slowly)
    harness.schedule_job(JobDetail(Threaded, "job"), SimpleTrigger("t", repeat_count=0))
    harness.schedule_job(JobDetail(Waits, "later"), SimpleTrigger("later", start_time=START + HOUR))
    [execution] = harness.run_pending()
    assert execution.result == "from a thread"
    assert harness.now == START


def test_an_asynchronous_test_can_use_it(harness: SchedulerHarness) -> None:
    async def test() -> None:
        harness.schedule_job(JobDetail(Sleeps, "job"), SimpleTrigger("t", repeat_count=0))
        [execution] = harness.run_pending()
        assert execution.result == "slept"

    asyncio.run(test())


@pytest.mark.parametrize("job", [Waits, Sleeps])
def test_an_execution_is_cancelled_at_an_instant(harness: SchedulerHarness, job: type[Job]) -> None:
    harness.schedule_job(JobDetail(job, "job"), SimpleTrigger("t", repeat_count=0))
    running: list[int] = []

    def cancel() -> None:
        [context] = harness.currently_executing_jobs()
        running.append(context.fire_id)
        assert harness.cancel(context.fire_id)

    harness.clock.call_at(START + 5 * MINUTE, cancel)
    [execution] = harness.advance(SECOND)
    assert (execution.outcome, execution.fire_id) == ("CANCELLED", running[0])
    assert harness.now - START < 6 * MINUTE
    assert not harness.cancel(running[0]), "it has ended"
    assert not harness.interrupt(JobKey("job"))
    with pytest.raises(InvalidValueError):
        harness.cancel("no id")


def test_others_are_late_while_a_job_takes_its_time_and_do_not_misfire(harness: SchedulerHarness) -> None:
    misfired: list[events.Event] = []
    harness.listeners.add_listener(misfired.append, events.TriggerMisfired)
    harness.schedule_job(JobDetail(Stubborn, "long"), SimpleTrigger("once", repeat_count=0))
    every = SimpleTrigger("every", interval=MINUTE, repeat_count=None, start_time=START + MINUTE)
    harness.schedule_job(JobDetail(jobs.Recorded, "quick"), every)
    executions = harness.advance(2 * HOUR)
    quick = [each for each in executions if each.job_key.name == "quick"]
    assert [each.scheduled_fire_time - START for each in quick] == [n * MINUTE for n in range(1, 121)]
    assert all(each.fire_time == max(each.scheduled_fire_time, START + HOUR) for each in quick)
    assert misfired == []


def test_misfires_and_triggers_that_end_by_them_are_reported(harness: SchedulerHarness) -> None:
    heard: list[events.Event] = []
    harness.listeners.add_listener(heard.append, events.TriggerMisfired, events.TriggerFinalized)
    trigger = SimpleTrigger(
        "t", interval=MINUTE, repeat_count=9, start_time=START + MINUTE, misfire="reschedule_next_with_remaining_count"
    )
    harness.schedule_job(JobDetail(jobs.Recorded, "job"), trigger)
    harness.advance(HOUR, running=False)
    assert harness.run_pending() == []
    misfired, finalized = heard
    assert isinstance(misfired, events.TriggerMisfired)
    assert len(misfired.missed) == 10
    assert finalized == events.TriggerFinalized(trigger.key)


def test_a_skipped_fire_is_reported_and_returned(harness: SchedulerHarness) -> None:
    heard: list[events.Event] = []
    harness.listeners.add_listener(heard.append, events.JobSkipped)
    detail = JobDetail(jobs.Recorded, "job", max_concurrent=1, overlap_policy="skip")
    harness.schedule_job(detail, [SimpleTrigger(name, repeat_count=0, start_time=START) for name in "ab"])
    executions = harness.advance(SECOND)
    assert sorted(str(each.outcome) for each in executions) == ["SKIPPED", "SUCCEEDED"]
    [told] = heard
    assert isinstance(told, events.JobSkipped)
    assert told.job_key == JobKey("job")


def test_a_call_at_an_instant_can_schedule_what_comes_next(harness: SchedulerHarness) -> None:
    def schedule() -> None:
        following = SimpleTrigger("t", repeat_count=0, start_time=harness.now + SECOND)
        harness.schedule_job(JobDetail(jobs.Recorded, "job"), following)

    harness.clock.call_at(START + MINUTE, schedule)
    called_off = harness.clock.call_at(START + MINUTE, lambda: pytest.fail("it was called off"))
    harness.clock.cancel(called_off)
    [execution] = harness.advance(HOUR)
    assert execution.fire_time == START + MINUTE + SECOND


def test_it_says_who_it_is(harness: SchedulerHarness) -> None:
    seen: list[object] = []
    harness.listeners.add_listener(lambda event: seen.append(harness.instance_id), events.JobWasExecuted)
    harness.schedule_job(JobDetail(jobs.Recorded, "job"), SimpleTrigger("t", repeat_count=0))
    [execution] = harness.run_pending()
    assert seen == [execution.instance_id] == ["testing"]
    assert (harness.is_started, harness.config.name, harness.name) == (True, "testing", "testing")


def test_it_can_be_waited_for_as_a_scheduler_can(harness: SchedulerHarness) -> None:
    every = SimpleTrigger("every", interval=MINUTE, repeat_count=None, start_time=START + MINUTE)
    harness.start()
    harness.schedule_job(JobDetail(jobs.Recorded, "job"), every)
    assert harness.wait_until_recorded(3, HOUR)
    assert harness.now == START + 3 * MINUTE
    assert harness.wait_until_recorded(3, HOUR), "they have ended already"
    assert not harness.wait_until_recorded(9, 2 * MINUTE)
    assert harness.now == START + 5 * MINUTE
    assert harness.shutdown()
