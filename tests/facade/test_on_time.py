"""A job starts at its instant: its fire is committed just before, and the job never starts earlier."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger
from quartzpy.node.lead import Lead
from quartzpy.node.workers.execution import MAX_LEAD
from tests.waiting import wait_until

COUNT = 40
started: list[tuple[datetime, JobExecutionContext]] = []


class Starts(Job):
    def execute(self, context: JobExecutionContext) -> None:
        # The clock of the store: that of this machine, for a store in memory and a server that runs here.
        started.append((datetime.now(UTC), context))


class StartsAsync(Job):
    async def execute(self, context: JobExecutionContext) -> None:
        started.append((datetime.now(UTC), context))


def is_in_time(context: JobExecutionContext) -> bool:
    """A fire that is committed too late has its real instant, so a busy machine has few of these."""
    return context.fire_time == context.scheduled_fire_time


@pytest.mark.parametrize("kind", [Starts, StartsAsync])
def test_a_fire_is_committed_before_its_instant_and_the_job_starts_after_it(
    make_scheduler: Callable[..., Scheduler], monkeypatch: pytest.MonkeyPatch, kind: type[Job]
) -> None:
    monkeypatch.setattr(Lead, "seconds", MAX_LEAD / 2)
    started.clear()
    scheduler = make_scheduler(workers=10)
    scheduler.start()
    begin, second = datetime.now(UTC) + timedelta(seconds=0.5), timedelta(seconds=1)
    triggers = [
        SimpleTrigger(f"t{n}", start_time=begin + n * second / COUNT, interval=second, repeat_count=None)
        for n in range(COUNT)
    ]
    scheduler.schedule_job(JobDetail(kind, "job"), triggers)
    wait_until(lambda: len(started) >= COUNT and any(is_in_time(context) for _, context in tuple(started)))
    scheduler.pause_all()
    for instant, context in tuple(started):
        assert context.scheduled_fire_time <= context.fire_time
        assert context.scheduled_fire_time <= instant
    assert all(one.started_at is not None and one.started_at >= one.fire_time for one in scheduler.executions())
