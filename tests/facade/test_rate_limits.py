"""`rate_limit`: the methods under a limit. The contract tests of the stores show the rules themselves."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from quartzpy import JobDetail, RateLimit, Scheduler, SimpleTrigger, TriggerKey, job
from quartzpy.errors import InvalidJobError
from quartzpy.testing import SchedulerHarness
from tests.facade import jobs
from tests.waiting import wait_until

SECOND = timedelta(seconds=1)
SIX = 6 * SECOND


@pytest.fixture
def harness() -> SchedulerHarness:
    made = SchedulerHarness()
    made.add_job(JobDetail(jobs.Recorded, "index", durable=True, rate_limit="10/minute"))
    jobs.reset()
    return made


def spacing(records: list[Any]) -> list[timedelta]:
    times = sorted(record.fire_time for record in records)
    return [later - earlier for earlier, later in pairwise(times)]


def test_what_is_triggered_by_hand_obeys_the_limit(harness: SchedulerHarness) -> None:
    handles = [harness.trigger_job("index", {"n": n}) for n in range(4)]
    assert spacing(harness.advance(20 * SECOND)) == [SIX] * 3
    assert [handle.wait(0).outcome for handle in handles] == ["SUCCEEDED"] * 4


def test_a_debounced_call_has_the_turn_of_its_own_fire_time(harness: SchedulerHarness) -> None:
    harness.trigger_job("index", {"n": 0})
    assert len(harness.advance(SECOND)) == 1
    harness.trigger_job("index", {"n": 1}, debounce_key="page-7")
    harness.advance(SECOND)
    harness.trigger_job("index", {"n": 2})
    harness.advance(SECOND)
    harness.trigger_job("index", {"n": 3}, debounce_key="page-7")
    assert len(harness.advance(10 * SECOND)) == 2
    assert [jobs.next_run().job_data["n"] for _ in range(3)] == [0, 2, 3]


def test_a_backfill_obeys_the_limit(harness: SchedulerHarness) -> None:
    start = harness.now
    index = JobDetail(jobs.Recorded, "index", durable=True, rate_limit="10/minute")
    harness.schedule_job(index, SimpleTrigger("hourly", start_time=start, interval="1h"))
    harness.advance(timedelta(hours=2, minutes=30))
    before = harness.now
    harness.backfill(TriggerKey("hourly"), start, start + timedelta(hours=3))
    ran = [record for record in harness.advance(20 * SECOND) if record.fire_time >= before]
    assert spacing(ran) == [SIX] * 2


@job(rate_limit="100/hour", durable=True)
def limited_function() -> None:
    """Do nothing."""


def test_a_function_can_have_a_limit() -> None:
    assert limited_function.detail("one").rate_limit == RateLimit(100, per="1h")
    with pytest.raises(InvalidJobError, match="rate_limit: a text such as"):
        limited_function.detail("one", rate_limit="often")


def test_it_is_told_when_a_held_back_trigger_fires(client: Scheduler) -> None:
    client.add_job(JobDetail(jobs.Recorded, "index", durable=True, rate_limit="1/day"))
    client.start()
    first = client.trigger_job("index").wait(20)
    assert first.fire_time is not None
    held = client.trigger_job("index")
    wait_until(lambda: "rate limit" in client.why(held.key)[0], "the trigger to be held back")
    [said, *_] = client.why(held.key)
    assert "the rate limit of its job (1 per day) holds it back. Rate limit: next at " in said
    assert (first.fire_time + timedelta(days=1)).strftime("%Y-%m-%dT") in said


def test_it_is_told_how_many_are_before_a_trigger_and_when_its_turn_is(harness: SchedulerHarness) -> None:
    handles = []
    for number in range(4):
        handles.append(harness.trigger_job("index", {"n": number}))
        harness.advance(timedelta(milliseconds=100))
    [first, *_] = harness.why(handles[1].key)
    assert "before it" not in first
    [last, *_] = harness.why(handles[3].key)
    fired = handles[0].wait(0).fire_time
    assert fired is not None
    turn = (fired + 18 * SECOND).isoformat(timespec="seconds")
    assert last.endswith(f"2 triggers that wait there fire before it; its turn is about at {turn}.")


def test_a_raised_limit_wakes_the_node_of_the_caller(make_scheduler: Callable[..., Scheduler]) -> None:
    client = make_scheduler(idle_wait="60s")
    index = JobDetail(jobs.Recorded, "index", durable=True, rate_limit="1/day")
    client.add_job(index)
    client.start()
    client.trigger_job("index").wait(20)
    held = client.trigger_job("index")
    wait_until(lambda: "rate limit" in client.why(held.key)[0], "the trigger to be held back")
    client.modify_job("index", rate_limit="10/s")
    assert held.wait(30).outcome == "SUCCEEDED"
