"""What a run by hand keeps of the fire that it runs once more: see `tests.contract.test_facts`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from quartzpy import JobDetail, JobExecutionContext, JobKey, Scheduler, SimpleTrigger, TriggerKey
from quartzpy.job_data import decode
from quartzpy.jobs.fired_trigger import FiredTrigger
from quartzpy.jobs.job import Job
from tests.contract.test_facts import Way, check
from tests.waiting import wait_until

seen: list[FiredTrigger] = []


class Observed(Job, type_name="facts-by-hand:observed"):
    def execute(self, context: JobExecutionContext) -> None:
        seen.append(context._fired)


@pytest.mark.parametrize("way", [Way.RUN_AGAIN, Way.BACKFILL])
def test_what_a_run_by_hand_keeps(scheduler: Scheduler, way: Way) -> None:
    seen.clear()
    start = datetime(2026, 3, 2, 12, tzinfo=UTC)
    job = JobDetail(
        Observed, "job", durable=True, timeout=timedelta(minutes=5), capture_logs="INFO", data={"of": "job"}
    )
    interval = timedelta(days=36_500)
    trigger = SimpleTrigger("t", start_time=start, interval=interval, misfire="ignore", priority=8, data={"day": 3})
    scheduler.schedule_job(job, trigger)
    wait_until(lambda: len(seen) == 1)
    assert scheduler.wait_until_recorded(1, timedelta(seconds=30))
    [record] = scheduler.executions(job=JobKey("job"))
    if way is Way.RUN_AGAIN:
        scheduler.run_again(record)
    else:
        scheduler.backfill(TriggerKey("t"), start, start + timedelta(seconds=1))
    wait_until(lambda: len(seen) == 2)
    fired, again = seen
    check(way, fired, again, fired)
    assert decode(again.trigger_data)["day"] == 3
