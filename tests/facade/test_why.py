"""`scheduler.why`: in words, why a trigger has not fired, or when it will."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quartzpy import CronTrigger, JobDetail, Scheduler, SimpleTrigger, TriggerKey, WeeklyCalendar
from quartzpy.errors import TriggerNotFoundError
from quartzpy.testing import SchedulerHarness
from tests.facade import jobs

HOUR = timedelta(hours=1)
KEY = TriggerKey("t", "DEFAULT")
SOON = timedelta(seconds=10)
SECOND = timedelta(seconds=1)


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
    assert said[2].startswith(f"Execution {context.fire_id} of its job runs on node {scheduler.instance_id} since")


def test_its_job_could_not_be_made(scheduler: Scheduler) -> None:
    often = SimpleTrigger("t", interval=HOUR, repeat_count=None)
    scheduler.schedule_job(JobDetail(jobs.CannotBeMade, "job"), often)
    assert scheduler.wait_until_recorded(1, SOON)
    said = scheduler.why(KEY)
    assert said[0].startswith("It is in ERROR (RuntimeError: no such luck)")
    assert "is FAILED: RuntimeError: no such luck." in said[-1]


FOREVER = {"repeat_count": None, "interval": HOUR}


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        ({"misfire": "fire_now"}, "1 instant was missed; one fire at once stands for it."),
        ({"misfire": "fire_all", "catch_up_within": SOON}, "1 instant was missed; it has no fire time left."),
        ({"repeat_count": 9, "interval": HOUR}, "2 instants were missed; one fire at once stands for them, and its"),
        (FOREVER, "2 instants were missed and let go."),
        ({**FOREVER, "misfire": "fire_all", "catch_up_max": 2}, "none is let go, 2 are made up for."),
        ({**FOREVER, "misfire": "fire_all", "catch_up_max": 1}, "1 instant was missed and let go, 1 is made up for."),
        ({**FOREVER, "interval": SECOND}, "more than 1000 instants were missed and let go."),
    ],
)
def test_it_misfired(schedule: dict[str, Any], said: str) -> None:
    start = datetime(2026, 3, 2, 12, tzinfo=UTC)
    harness = SchedulerHarness(start)
    harness.schedule_job(JobDetail(jobs.Recorded, "job"), SimpleTrigger("t", start_time=start, **schedule))
    harness.advance(1.5 * HOUR, running=False)
    harness._handle_misfires()
    at, since = harness.now.isoformat(), start.isoformat()
    [told] = [sentence for sentence in harness.why(KEY) if sentence.startswith("It misfired")]
    assert told.startswith(f"It misfired: at {at} node testing found it late since {since}; {said}")
    catches_up = f"It makes up for what it missed up to {at}; the next is that of "
    assert harness.why(KEY)[0].startswith(catches_up) == ("made up for" in said)


def test_a_misfire_of_long_ago_is_told_only_where_nothing_fired_since() -> None:
    harness = SchedulerHarness()
    trigger = CronTrigger("0 0 * * * ?", "t", misfire="do_nothing")
    harness.schedule_job(JobDetail(jobs.Recorded, "job"), trigger)
    harness.advance(1.5 * HOUR, running=False)
    harness.run_pending()
    harness.pause_trigger(trigger.key)
    harness.advance(48 * HOUR, running=False)
    assert any("misfired" in sentence for sentence in harness.why(KEY))
    harness.resume_trigger(trigger.key)
    harness.advance(HOUR)
    assert harness.misfires().count() == 2
    harness.advance(25 * HOUR)
    assert not any("misfired" in sentence for sentence in harness.why(KEY))


def test_one_that_is_gone_is_no_riddle(client: Scheduler) -> None:
    with pytest.raises(TriggerNotFoundError, match="was removed, or has ended"):
        client.why(KEY)
