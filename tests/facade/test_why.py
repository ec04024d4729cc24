"""`scheduler.why`: in words, why a trigger has not fired, or when it will."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quartzpy import CronTrigger, JobDetail, RetryPolicy, Scheduler, SimpleTrigger, TriggerKey, WeeklyCalendar
from quartzpy.config.pools import ExecutorConfig
from quartzpy.errors import TriggerNotFoundError
from quartzpy.testing import SchedulerHarness
from tests.facade import jobs
from tests.waiting import wait_until

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
    assert first.startswith("It will fire at ")
    assert " (calendar 'weekdays' includes that instant), in " in first
    assert last == "It has not fired yet."


def test_no_node_runs(client: Scheduler) -> None:
    client.schedule_job(JobDetail("unknown-type", "job"), SimpleTrigger("t"))
    said = client.why(KEY)
    assert said[0].startswith("It has been due for ")
    assert said[1] == "No node is running."


def test_no_node_takes_work(scheduler: Scheduler) -> None:
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job"), later())
    scheduler.standby()
    wait_until(lambda: "takes work now" in scheduler.why(KEY)[1], seen=lambda: scheduler.why(KEY))
    assert scheduler.why(KEY)[1] == (
        f"No node that can run it takes work now: {scheduler.instance_id} is in standby. It waits until one is resumed."
    )


def test_no_node_knows_the_type(scheduler: Scheduler) -> None:
    scheduler.schedule_job(JobDetail("unknown-type", "job"), SimpleTrigger("t"))
    assert scheduler.why(KEY)[1].startswith("No running node knows the job type 'unknown-type'")


@pytest.mark.parametrize(
    ("asks", "said"),
    [
        ({"executor": "cpu"}, "has no executor 'cpu'"),
        ({"requires": ["gpu", "eu"]}, "lacks the labels 'eu', 'gpu'"),
        ({"execution_group": "closed"}, "runs none of group 'closed'"),
    ],
)
def test_no_node_has_a_place_for_it(scheduler: Scheduler, asks: dict[str, Any], said: str) -> None:
    scheduler.node.set_execution_groups({"closed": 0, "reports": 2})
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job", **asks), SimpleTrigger("t"))
    assert scheduler.why(KEY)[1] == f"No node that knows the job type can run it: {scheduler.instance_id} {said}."


def test_its_group_is_limited(scheduler: Scheduler) -> None:
    scheduler.node.set_execution_groups({"reports": 2})
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job", execution_group="reports"), later())
    assert scheduler.why(KEY)[1] == f"Concurrency limit of group 'reports' per node: {scheduler.instance_id}=2."


def test_it_is_late_beyond_its_threshold(client: Scheduler) -> None:
    client.schedule_job(JobDetail(jobs.Recorded, "job"), SimpleTrigger("t", start_time=datetime.now(UTC) - HOUR))
    assert (
        "1 h late, which is a misfire (more than 1 min): its default rule for misfires fires it once"
        in client.why(KEY)[0]
    )


@pytest.mark.parametrize(
    ("pause", "said"),
    [
        (lambda s: s.pause_trigger(KEY), "It is paused. Once it is resumed"),
        (lambda s: s.pause_trigger_group("DEFAULT"), "It is paused, because its group 'DEFAULT' is paused. Once"),
        (
            lambda s: s.pause_job_group("DEFAULT"),
            "It is paused, because the group 'DEFAULT' of its job is paused. Once",
        ),
        (lambda s: s.pause_all(), "It is paused, because everything is paused and its group"),
    ],
)
def test_it_is_paused(client: Scheduler, pause: Callable[[Scheduler], object], said: str) -> None:
    client.schedule_job(JobDetail(jobs.Recorded, "job"), later())
    pause(client)
    assert re.sub("has been paused since [^ ,.]+", "is paused", client.why(KEY)[0]).startswith(said)


def test_its_job_runs(scheduler: Scheduler) -> None:
    job = JobDetail(jobs.SerialWaiting, "job", durable=True)
    scheduler.schedule_job(job, [SimpleTrigger("first"), later()])
    context = jobs.next_run()
    said = scheduler.why(KEY)
    assert said[0] == "Its job is at its concurrency limit; the trigger waits until an execution ends."
    assert said[1] == "Its job allows 1 concurrent execution."
    assert said[2].startswith(
        f"Execution {context.fire_id} of its job, fired by trigger DEFAULT.first, has been running on node"
    )


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_it_waits_for_a_worker_of_the_engine(make_scheduler: Callable[..., Scheduler]) -> None:
    pool = ExecutorConfig("futures", 1, address="tests.engines.pools:of_nobody", tickets=True)
    scheduler = make_scheduler(executors={"big": pool})
    scheduler.start()
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job", executor="big", durable=True), SimpleTrigger("t"))
    waits = f"has been waiting for a worker of the engine of node {scheduler.instance_id} for "
    wait_until(lambda: any(waits in said for said in scheduler.why(KEY)))


def test_its_job_could_not_be_made(scheduler: Scheduler) -> None:
    often = SimpleTrigger("t", interval=HOUR, repeat_count=None)
    scheduler.schedule_job(JobDetail(jobs.CannotBeMade, "job"), often)
    assert scheduler.wait_until_recorded(1, 6 * SOON)
    said = scheduler.why(KEY)
    assert said[0].startswith("It is in ERROR (RuntimeError: no such luck)")
    assert "ended as FAILED: RuntimeError: no such luck." in said[-1]


FOREVER = {"repeat_count": None, "interval": HOUR}


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        ({"misfire": "fire_now"}, "1 fire was missed, and one immediate fire replaced it."),
        ({"misfire": "fire_all", "catch_up_within": SOON}, "1 fire was missed, and no fire time is left."),
        ({"repeat_count": 9, "interval": HOUR}, "2 fires were missed, one immediate fire replaced them, and the"),
        (FOREVER, "2 fires were skipped."),
        ({**FOREVER, "misfire": "fire_all", "catch_up_max": 2}, "none was skipped, and 2 missed fires will still run."),
        (
            {**FOREVER, "misfire": "fire_all", "catch_up_max": 1},
            "1 fire was skipped, and 1 missed fire will still run.",
        ),
        ({**FOREVER, "interval": SECOND}, "more than 1,000 fires were skipped."),
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
    assert told.startswith(f"It misfired: at {at} node testing found that its fire of {since} was late; {said}")
    catches_up = f"It is catching up on missed fires until {at}; the next one is of "
    assert harness.why(KEY)[0].startswith(catches_up) == ("will still run" in said)


def test_an_old_misfire_is_mentioned_only_if_nothing_fired_since() -> None:
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
    with pytest.raises(TriggerNotFoundError, match=r"is not stored, and the history has no execution of it"):
        client.why(KEY)


def test_an_ended_trigger_is_explained_by_its_history(scheduler: Scheduler) -> None:
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job", durable=True), SimpleTrigger("t"))
    assert scheduler.wait_until_recorded(1, 6 * SOON)
    gone, last = scheduler.why(KEY)
    assert gone == "Trigger DEFAULT.t is not stored any more: it has ended, or was removed."
    assert last.startswith("Its last execution, of ")
    assert last.endswith(", ended as SUCCEEDED.")


def test_a_trigger_that_ended_in_a_misfire_is_explained_by_it() -> None:
    harness = SchedulerHarness()
    trigger = SimpleTrigger("t", misfire="fire_all", catch_up_within=SECOND)
    harness.schedule_job(JobDetail(jobs.Recorded, "job"), trigger)
    harness.advance(HOUR, running=False)
    harness._handle_misfires()
    harness.unschedule_job(KEY)
    assert harness.why(KEY)[1].endswith("1 fire was missed, and no fire time is left.")


def test_a_pending_retry_is_mentioned() -> None:
    harness = SchedulerHarness()
    retry = RetryPolicy(attempts=2, delay=HOUR)
    job = JobDetail(jobs.Raising, "job", retry=retry, durable=True)
    harness.schedule_job(job, SimpleTrigger("t", start_time=harness.now))
    harness.run_pending()
    at = harness.executions()[0].retry_at
    assert at == harness.now + HOUR
    assert harness.why(KEY)[-1].endswith(f" The next attempt is scheduled for {at.isoformat()}.")


@pytest.mark.parametrize("executor", ["", "slow"])
def test_all_workers_are_busy(make_scheduler: Callable[..., Scheduler], executor: str) -> None:
    scheduler = make_scheduler(workers=1, executors={"slow": ExecutorConfig("threads", 1)})
    scheduler.start()
    blocking = JobDetail(jobs.Waiting, "blocking", executor=executor or None, durable=True)
    scheduler.schedule_job(blocking, SimpleTrigger("first"))
    jobs.next_run()
    job = JobDetail(jobs.Recorded, "job", executor=executor or None, durable=True)
    scheduler.schedule_job(job, SimpleTrigger("t"))
    pool = "of executor 'slow' " if executor else ""
    busy = f"All workers {pool}that can run it are busy: {scheduler.instance_id} 1 of 1."
    assert busy in scheduler.why(KEY)
    other = JobDetail(jobs.Recorded, "other", executor=None if executor else "slow")
    scheduler.schedule_job(other, SimpleTrigger("free", start_time=datetime.now(UTC) + HOUR))
    assert not any("busy" in sentence for sentence in scheduler.why(TriggerKey("free")))
