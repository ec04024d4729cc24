"""A job starts at its instant: its fire is committed just before, and the job never starts earlier."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger
from quartzpy.execution.attempt import LONGEST_LEAD
from quartzpy.runtime.scheduler_thread import SchedulerThread

COUNT = 40
SOON = timedelta(seconds=30)

started: list[tuple[datetime, JobExecutionContext]] = []


class Starts(Job):
    def execute(self, context: JobExecutionContext) -> None:
        # The clock of the store: that of this machine, for a store in memory and a server that runs here.
        started.append((datetime.now(UTC), context))


class StartsAsync(Job):
    async def execute(self, context: JobExecutionContext) -> None:
        started.append((datetime.now(UTC), context))


@pytest.mark.parametrize("kind", [Starts, StartsAsync])
def test_a_fire_is_committed_before_its_instant_and_the_job_starts_after_it(
    make_scheduler: Callable[..., Scheduler], monkeypatch: pytest.MonkeyPatch, kind: type[Job]
) -> None:
    def slow_flights(self: SchedulerThread, seconds: float) -> None:
        self._lead = LONGEST_LEAD / 2

    monkeypatch.setattr(SchedulerThread, "_learn_lead", slow_flights)
    started.clear()
    scheduler = make_scheduler(workers=10)
    scheduler.start()
    begin = datetime.now(UTC) + timedelta(seconds=0.5)
    triggers = [SimpleTrigger(f"t{n}", start_time=begin + n * timedelta(milliseconds=20)) for n in range(COUNT)]
    scheduler.schedule_job(JobDetail(kind, "job"), triggers)
    assert scheduler.wait_until_recorded(COUNT, SOON)
    assert len(started) == COUNT
    for instant, context in started:
        assert context.scheduled_fire_time <= context.fire_time
        assert context.scheduled_fire_time <= instant
    assert any(context.fire_time == context.scheduled_fire_time for _, context in started)
    assert all(one.started_at is not None and one.started_at >= one.fire_time for one in scheduler.executions())
