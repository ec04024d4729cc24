"""`scheduler.why`: in words, why a trigger has not fired, or when it will."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quartzpy import CronTrigger, JobDetail, Scheduler, SimpleTrigger, TriggerKey, WeeklyCalendar
from quartzpy.errors import TriggerNotFoundError
from tests.facade import jobs

HOUR = timedelta(hours=1)
KEY = TriggerKey("DEFAULT", "t")
SOON = timedelta(seconds=10)


def later(**values: object) -> SimpleTrigger:
    return SimpleTrigger("t", start_time=datetime.now(UTC) + HOUR, **values)  # type: ignore[arg-type]


def test_it_waits_for_its_time(scheduler: Scheduler) -> None:
    scheduler.add_calendar("weekdays", WeeklyCalendar())
    trigger = CronTrigger("0 0 12 * * ?", "t", calendar="weekdays")
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job"), trigger)
    first, last = scheduler.why(KEY)
    assert first.startswith("It waits for its next fire time, ")
    assert "which calendar 'weekdays' includes: in " in first
    assert last == "It has not fired yet."


def test_no_node_runs(client: Scheduler) -> None:
    client.schedule_job(JobDetail("unknown-type", "job"), SimpleTrigger("t"))
    said = client.why(KEY)
    assert said[0].startswith("It is due since ")
    assert said[1] == "No node is running."


def test_no_node_knows_the_type(scheduler: Scheduler) -> None:
    scheduler.schedule_job(JobDetail("unknown-type", "job"), SimpleTrigger("t"))
    assert scheduler.why(KEY)[1].startswith("No node that runs knows the job type 'unknown-type'")


@pytest.mark.parametrize(
    ("asks", "said"),
    [
        ({"executor": "cpu"}, "has no executor 'cpu'"),
        ({"requires": ["gpu", "eu"]}, "lacks the label 'eu', 'gpu'"),
        ({"execution_group": "closed"}, "runs none of group 'closed'"),
    ],
)
def test_no_node_has_a_place_for_it(scheduler: Scheduler, asks: dict[str, Any], said: str) -> None:
    scheduler.set_execution_groups({"closed": 0, "reports": 2})
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job", **asks), SimpleTrigger("t"))
    assert scheduler.why(KEY)[1] == f"No node that knows the job type can take it: {scheduler.instance_id} {said}."


def test_its_group_is_limited(scheduler: Scheduler) -> None:
    scheduler.set_execution_groups({"reports": 2})
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job", execution_group="reports"), later())
    assert scheduler.why(KEY)[1] == f"So many of group 'reports' run at once on a node: {scheduler.instance_id} 2."


def test_it_is_late_beyond_its_threshold(client: Scheduler) -> None:
    client.schedule_job(JobDetail(jobs.Recorded, "job"), SimpleTrigger("t", start_time=datetime.now(UTC) - HOUR))
    assert "60 minutes late, which is a misfire (more than 60.0 s): its misfire instruction smart" in client.why(KEY)[0]


@pytest.mark.parametrize(
    ("pause", "said"),
    [
        (lambda s: s.pause_trigger(KEY), "It is paused. Once it is resumed"),
        (lambda s: s.pause_trigger_group("DEFAULT"), "It is paused, as its group 'DEFAULT' is. Once"),
        (lambda s: s.pause_job_group("DEFAULT"), "It is paused, as the group 'DEFAULT' of its job is. Once"),
        (lambda s: s.pause_all(), "It is paused, as everything is (pause_all)"),
    ],
)
def test_it_is_paused(client: Scheduler, pause: Callable[[Scheduler], object], said: str) -> None:
    client.schedule_job(JobDetail(jobs.Recorded, "job"), later())
    pause(client)
    assert client.why(KEY)[0].startswith(said)


def test_its_job_runs(scheduler: Scheduler) -> None:
    job = JobDetail(jobs.SerialWaiting, "job", durable=True)
    scheduler.schedule_job(job, [SimpleTrigger("first"), later()])
    context = jobs.next_run()
    said = scheduler.why(KEY)
    assert said[0] == "Its job runs as often at once as it allows; it waits until an execution ends."
    assert said[1] == "Its job allows 1 at once."
    assert said[2].startswith(
        f"Execution {context.fire_instance_id} of its job runs on node {scheduler.instance_id} since"
    )


def test_its_job_could_not_be_made(scheduler: Scheduler) -> None:
    often = SimpleTrigger("t", interval=HOUR, repeat_count=None)
    scheduler.schedule_job(JobDetail(jobs.CannotBeMade, "job"), often)
    assert scheduler.wait_until_recorded(1, SOON)
    said = scheduler.why(KEY)
    assert said[0].startswith("It is in ERROR (RuntimeError: no such luck)")
    assert "is FAILED: RuntimeError: no such luck." in said[-1]


def test_one_that_is_gone_is_no_riddle(client: Scheduler) -> None:
    with pytest.raises(TriggerNotFoundError, match="was removed, or has ended"):
        client.why(KEY)
