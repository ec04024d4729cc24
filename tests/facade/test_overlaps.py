"""A fire that finds its job full waits for all, or takes the place of what runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from quartzpy import Job, JobDetail, Scheduler, SimpleTrigger
from quartzpy.states import Outcome
from tests.facade import jobs

SOON = timedelta(seconds=30)
TENTH = timedelta(milliseconds=100)


def every_tenth(scheduler: Scheduler, overlap_policy: str, job: type[Job] = jobs.Waiting) -> datetime:
    start = datetime.now(UTC) + TENTH
    scheduler.schedule_job(
        JobDetail(job, "job", max_concurrent=1, overlap_policy=overlap_policy),
        SimpleTrigger("t", start_time=start, interval=TENTH, repeat_count=None),
    )
    return start


def test_one_run_coalesces_all_fires_that_came_due_meanwhile(scheduler: Scheduler) -> None:
    start = every_tenth(scheduler, "buffer_one")
    # On a busy machine, several fires may have come due before the first run already.
    first = jobs.next_run().coalesced_fire_times
    jobs.go_on.wait(0.45)
    jobs.go_on.set()
    second = jobs.next_run().coalesced_fire_times
    assert len(first) >= 1
    assert len(second) >= 4
    assert [*first, *second] == [start + n * TENTH for n in range(len(first) + len(second))]


@pytest.mark.parametrize("job", [jobs.Waiting, jobs.EndlessAsync])
def test_the_newest_takes_the_place_of_what_runs(make_scheduler: Callable[..., Scheduler], job: type[Job]) -> None:
    scheduler = make_scheduler(checkin_interval="60s", failure_window="300s")
    scheduler.start()
    start = every_tenth(scheduler, "cancel_other", job)
    first, second = jobs.next_run(), jobs.next_run()
    assert first.cancelled
    # On a busy machine, several fires may have come due meanwhile: the newest one runs. So an execution may also be
    # cancelled before it begins.
    late = [run.scheduled_fire_time - start for run in (first, second)]
    assert timedelta() <= late[0] < late[1]
    assert not any(each % TENTH for each in late)
    assert scheduler.wait_until_recorded(2, SOON)
    outcomes = {execution.outcome for execution in scheduler.executions()}
    assert outcomes == {Outcome.CANCELLED}
