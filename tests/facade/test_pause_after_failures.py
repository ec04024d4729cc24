"""`pause_after_failures` on a running node, and in the test scheduler."""

from __future__ import annotations

from datetime import timedelta

import pytest

from quartzpy import Job, JobDetail, JobExecutionContext, JobKey, PublicState, Scheduler, SimpleTrigger, TriggerKey
from quartzpy.errors import InvalidJobError
from quartzpy.events.events import JobPaused
from quartzpy.testing.scheduler import SchedulerHarness
from tests.waiting import wait_until


class Breaks(Job, type_name="pause-after-failures:breaks"):
    def execute(self, context: JobExecutionContext) -> None:
        raise ValueError("broken")


def test_a_node_tells_of_the_job_that_it_paused(scheduler: Scheduler) -> None:
    paused: list[JobPaused] = []
    scheduler.listeners.add_listener(paused.append, JobPaused)
    trigger = SimpleTrigger("t", interval=timedelta(milliseconds=20))
    scheduler.schedule_job(JobDetail(Breaks, "breaks", pause_after_failures=2), trigger)
    wait_until(lambda: paused)
    assert paused == [JobPaused(JobKey("breaks"))]
    assert scheduler.trigger_state(TriggerKey("t")) is PublicState.PAUSED
    assert "by pause_after_failures (" in scheduler.why(TriggerKey("t"))[0]
    assert scheduler.executions(state="FAILED").count() >= 2


def test_the_test_scheduler_pauses_it_too() -> None:
    scheduler = SchedulerHarness()
    paused: list[JobPaused] = []
    scheduler.listeners.add_listener(paused.append, JobPaused)
    trigger = SimpleTrigger("t", interval=timedelta(minutes=1))
    scheduler.schedule_job(JobDetail(Breaks, "breaks", pause_after_failures=3), trigger)
    assert len(scheduler.advance(timedelta(hours=1))) == 3
    assert paused == [JobPaused(JobKey("breaks"))]


@pytest.mark.parametrize("most", [0, -1, True, "3", 1.5, 1_000_001])
def test_what_is_no_number_of_failures_is_refused(most: object) -> None:
    with pytest.raises(InvalidJobError, match=r"pause_after_failures: a number from 1 to 1000000, or None"):
        JobDetail(Breaks, "breaks", pause_after_failures=most)  # type: ignore[arg-type]
