"""`quartzpy.testing`: a scheduler whose time the test moves."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from quartzpy import CronTrigger, JobDetail, RetryPolicy, SimpleTrigger, WeeklyCalendar, events
from quartzpy.errors import InvalidTriggerError, InvalidValueError
from quartzpy.states import Outcome, PublicState
from quartzpy.testing import SchedulerHarness
from tests.facade import jobs
from tests.facade.functions import asynchronous, called

START = datetime(2026, 3, 2, 12, tzinfo=UTC)
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def harness() -> SchedulerHarness:
    jobs.reset()
    return SchedulerHarness(START)


def test_a_month_of_an_hourly_schedule_takes_milliseconds(harness: SchedulerHarness) -> None:
    harness.schedule_job(JobDetail(jobs.Recorded, "hourly"), CronTrigger("0 0 * * * ?", "hourly", time_zone="UTC"))
    # Time of the processor: others may keep the machine busy.
    began = time.process_time()
    executions = harness.advance(30 * DAY)
    assert time.process_time() - began < 2
    assert len(executions) == 30 * 24 + 1, "the last instant too"
    assert [execution.fire_time for execution in executions[:2]] == [START + timedelta(hours=n) for n in (0, 1)]
    assert all(execution.fire_time == execution.scheduled_fire_time for execution in executions)
    assert harness.now == START + 30 * DAY


def test_a_schedule_in_a_zone_is_seen_over_its_change_of_the_clock(harness: SchedulerHarness) -> None:
    trigger = CronTrigger("0 30 2 * * ?", "night", time_zone="Europe/Berlin")
    harness.schedule_job(JobDetail(jobs.Recorded, "night"), trigger)
    fired = [execution.fire_time for execution in harness.advance(30 * DAY)]
    local = [at.astimezone(ZoneInfo("Europe/Berlin")) for at in fired]
    assert [(at.hour, at.minute) for at in local if at.day == 29 and at.month == 3] == [(3, 0)]
    assert len({at.date() for at in local}) == len(fired) == 30


def test_what_is_scheduled_by_a_job_runs_too(harness: SchedulerHarness) -> None:
    seen = []

    def follow_up(event: events.Event) -> None:
        assert isinstance(event, events.JobWasExecuted)
        seen.append(event.context.job_key.name)
        if len(seen) < 3:
            following = SimpleTrigger(start_time=harness.now + MINUTE)
            harness.schedule_job(JobDetail(jobs.Recorded, f"job{len(seen)}"), following)

    harness.listeners.add_listener(follow_up, events.JobWasExecuted)
    harness.schedule_job(JobDetail(jobs.Recorded, "job0"), SimpleTrigger())
    assert len(harness.advance(DAY)) == 3
    assert seen == ["job0", "job1", "job2"]


def test_failures_are_retried_at_their_instants(harness: SchedulerHarness) -> None:
    policy = RetryPolicy(attempts=3, delay=MINUTE)
    harness.schedule_job(JobDetail(jobs.FailingUntil, "job", data={"attempt": 9}, retry=policy), SimpleTrigger("t"))
    executions = harness.advance(DAY)
    assert [execution.fire_time - START for execution in executions] == [0 * MINUTE, 1 * MINUTE, 3 * MINUTE]
    assert [(execution.attempt, execution.outcome) for execution in executions] == [
        (n, Outcome.FAILED) for n in (1, 2, 3)
    ]


def test_a_time_without_nodes_is_handled_as_the_misfire_instruction_says(harness: SchedulerHarness) -> None:
    for name in ("do_nothing", "fire_once_now", "ignore"):
        trigger = CronTrigger("0 0 * * * ?", name, time_zone="UTC", misfire=name)
        harness.schedule_job(JobDetail(jobs.Recorded, name), trigger)
    harness.run_pending()
    assert harness.advance(timedelta(hours=5, minutes=30), running=False) == []
    late = harness.run_pending()
    assert sorted(execution.job_key.name for execution in late) == ["fire_once_now", *["ignore"] * 5]


def test_catching_up_after_an_outage_of_two_hours_is_bounded(harness: SchedulerHarness) -> None:
    trigger = CronTrigger("0 * * * * ?", "minutely", misfire="fire_all", catch_up_max=10)
    harness.schedule_job(JobDetail(jobs.Recorded, "job"), trigger)
    harness.run_pending()
    harness.advance(120 * MINUTE, running=False)
    late = harness.run_pending()
    assert [one.scheduled_fire_time - START for one in late] == [n * MINUTE for n in range(111, 121)]
    assert {one.fire_time for one in late} == {START + 120 * MINUTE}
    [misfire] = harness.misfires(trigger=trigger.key)
    assert [at - START for at in misfire.missed] == [n * MINUTE for n in range(1, 111)]
    assert (misfire.caught_up, misfire.instance_id) == (10, "testing")
    assert any(
        "110 fires were skipped, and 10 missed fires will still run." in said for said in harness.why(trigger.key)
    )
    on_time = harness.advance(3 * MINUTE)
    assert [one.fire_time - START for one in on_time] == [n * MINUTE for n in (121, 122, 123)]
    harness.advance(120 * MINUTE, running=False)
    assert len(harness.run_pending()) == 10


def test_calendars_pauses_and_async_jobs_are_those_of_production(harness: SchedulerHarness) -> None:
    called.clear()
    harness.add_calendar("weekdays", WeeklyCalendar())
    daily = CronTrigger("0 0 0 * * ?", "daily", time_zone="UTC", calendar="weekdays")
    harness.schedule_job(asynchronous.detail("job", args=[7], durable=True), daily)
    assert len(harness.advance(7 * DAY)) == 5
    assert called == [7] * 5
    harness.pause_trigger(daily.key)
    assert harness.advance(7 * DAY) == []
    assert harness.trigger_state(daily.key) is PublicState.PAUSED


def test_time_does_not_go_back(harness: SchedulerHarness) -> None:
    with pytest.raises(InvalidValueError, match="span: must be zero or more"):
        harness.advance(-DAY)
    with pytest.raises(InvalidValueError, match="is before"):
        harness.advance_to(harness.now - DAY)
    with pytest.raises(InvalidTriggerError, match="start"):
        SchedulerHarness(datetime(2026, 1, 1))
